"""Which kinds of connector exist, and which of them a pipeline may stand on (``pipelines.md`` 1.2).

The type of a connector is plain text in its row, so that a type which is retired never makes a row unreadable. Whether it
is eligible is asked at creation and again at every run: a release may retire a type in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from attrs import field, frozen

WEB_CRAWLER: Final = "WEBCRAWLER_CONNECTOR"
BWB_LAWS: Final = "BWB_LAWS_CONNECTOR"


class Category(StrEnum):
    DATA_SOURCE = "DATA_SOURCE"
    MCP_TOOL = "MCP_TOOL"


class Availability(StrEnum):
    AVAILABLE = "AVAILABLE"
    MIGRATING = "MIGRATING"
    DISABLED = "DISABLED"
    HIDDEN = "HIDDEN"


@frozen
class ConnectorKind:
    category: Category = Category.DATA_SOURCE
    availability: Availability = Availability.AVAILABLE


@frozen
class ConnectorRegistry:
    """All known types. Handed to whoever asks, so that a test can retire one between creation and run."""

    kinds: Mapping[str, ConnectorKind] = field()

    def is_pipeline_eligible(self, connector_type: str) -> bool:
        """Data sources that are available. An unknown type is not eligible, and no error either."""
        kind = self.kinds.get(connector_type)
        return (
            kind is not None and kind.category is Category.DATA_SOURCE and kind.availability is Availability.AVAILABLE
        )

    def with_availability(self, connector_type: str, availability: Availability) -> ConnectorRegistry:
        """The same registry with one type changed. KeyError for an unknown type."""
        changed = ConnectorKind(self.kinds[connector_type].category, availability)
        return ConnectorRegistry({**self.kinds, connector_type: changed})


CONNECTORS: Final = ConnectorRegistry(
    {
        WEB_CRAWLER: ConnectorKind(),
        "GOOGLE_DRIVE_CONNECTOR": ConnectorKind(),
        "COMPOSIO_GOOGLE_DRIVE_CONNECTOR": ConnectorKind(),
        "ONEDRIVE_CONNECTOR": ConnectorKind(),
        "DROPBOX_CONNECTOR": ConnectorKind(),
        "MCP_CONNECTOR": ConnectorKind(Category.MCP_TOOL),
        "NOTION_CONNECTOR": ConnectorKind(availability=Availability.MIGRATING),
        "OBSIDIAN_CONNECTOR": ConnectorKind(availability=Availability.DISABLED),
        BWB_LAWS: ConnectorKind(),
    }
)
"""The types of this version. Eligible is not executable: what runs them is the table of executors."""
