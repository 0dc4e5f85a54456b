"""The agent CLIs that the supervisor knows, by the name in payloads and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from protocols.dialects.base import Dialect
from protocols.dialects.claude import Claude
from protocols.dialects.opencode import Opencode

DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in (Opencode(), Claude())}
"""In the order in which jobs are made for them."""
