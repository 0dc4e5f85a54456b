"""``status.yaml`` beside a law: what the last harvest of it was."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

import attrs

from protocols.law import Law
from protocols.lawyaml.scalars import scalar

HARVESTED: Final = "harvested"


@attrs.frozen
class LawStatus:
    """``last_harvested`` is an instant, ``harvest_date`` the first day that the harvested text applies."""

    law_id: str
    law_name: str
    slug: str
    last_harvested: datetime
    harvest_date: date
    article_count: int
    warnings: tuple[str, ...] = ()
    status: str = HARVESTED

    @classmethod
    def of(cls, law: Law, harvested_at: datetime) -> "LawStatus":
        """The status of a law that was harvested at ``harvested_at``, which must know its zone."""
        return cls(
            law_id=law.law_id,
            law_name=law.title,
            slug=law.slug,
            last_harvested=harvested_at,
            harvest_date=law.valid_from,
            article_count=len(law.articles),
            warnings=law.warnings,
        )


def dump_status(status: LawStatus) -> str:
    """The file. Dates stand unquoted and warnings at the indent of their key, as in the files of the older writer."""
    warnings = "".join(f"\n- {scalar(warning)}" for warning in status.warnings) or " []"
    return (
        "---\n"
        f"law_id: {scalar(status.law_id)}\n"
        f"law_name: {scalar(status.law_name)}\n"
        f"slug: {scalar(status.slug)}\n"
        f"status: {scalar(status.status)}\n"
        f"last_harvested: {_instant(status.last_harvested)}\n"
        f"harvest_date: {status.harvest_date.isoformat()}\n"
        f"article_count: {status.article_count}\n"
        f"warning_count: {len(status.warnings)}\n"
        f"warnings:{warnings}\n"
    )


def law_id_of(status: Mapping[str, Any]) -> str | None:
    """The law id of a status file that was read; old files call it ``bwb_id``."""
    found = status.get("law_id", status.get("bwb_id"))
    return found if isinstance(found, str) else None


def _instant(moment: datetime) -> str:
    """RFC 3339 in UTC with nanoseconds, the last three of which a datetime does not know."""
    if moment.tzinfo is None:
        raise ValueError("last_harvested must know its zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000+00:00")
