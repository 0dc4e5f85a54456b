"""Which laws a pipeline over laws harvests again, and how (``pipelines.md`` 11)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from attrs import frozen

from protocols.crawl import Target
from protocols.law_ids import InvalidDate, InvalidLawId, law_source, parse_date
from protocols.runs import RunError, RunFailed, shown


class Select(StrEnum):
    LISTED = "listed"
    ALL_HARVESTED = "all_harvested"
    STALE = "stale"
    FAILED = "failed"


@frozen
class LawSelection:
    """Below what people and references ask for (priority 20), a few seconds apart, and never walking the references.

    ``max_laws``: the rest is for the next fire, oldest harvest first. ``date`` is YYYY-MM-DD; None: the text in force.
    """

    select: Select = Select.LISTED
    law_ids: tuple[str, ...] = ()
    max_age_days: int = 30
    include_not_harvestable: bool = False
    priority: int = 20
    max_laws: int = 500
    stagger_s: float = 2.0
    date: str | None = None
    follow_references: bool = False


DAILY_REHARVEST_NAME: Final = "Dagelijkse herharvest"
DAILY_REHARVEST_CRON: Final = "15 3 * * *"
"""Clear of the hour that the spring night does not have."""
DAILY_REHARVEST_ZONE: Final = "Europe/Amsterdam"
DAILY_REHARVEST_CONFIG: Final[Mapping[str, Any]] = {"SELECT": Select.ALL_HARVESTED.value}


def read_law_selection(pipeline: Mapping[str, Any], connector: Mapping[str, Any], *, today: dt.date) -> LawSelection:
    """The connector's configuration, overridden key by key by what the pipeline sets (what is empty sets nothing).

    RunFailed names what cannot be used.
    """
    config = {**connector, **{key: value for key, value in pipeline.items() if value}}
    try:
        return LawSelection(
            select=Select(config.get("SELECT") or Select.LISTED),
            law_ids=tuple(_ids(config.get("LAW_IDS"))),
            max_age_days=_number(config, "MAX_AGE_DAYS", 30, least=0, most=36_500),
            include_not_harvestable=_flag(config, "INCLUDE_NOT_HARVESTABLE"),
            priority=_number(config, "PRIORITY", 20, least=0, most=100),
            max_laws=_number(config, "MAX_LAWS_PER_FIRE", 500, least=1, most=100_000),
            stagger_s=float(_number(config, "STAGGER_SECS", 2, least=0, most=3600)),
            date=_date(config.get("DATE"), today),
            follow_references=_flag(config, "FOLLOW_REFERENCES"),
        )
    except (ValueError, InvalidDate) as error:
        raise RunFailed(RunError("invalid_config", f"configuration of the law pipeline: {error}")) from error


def law_targets(law_ids: Iterable[str]) -> tuple[Target, ...]:
    """Each law once, in order. What is no law id keeps its place, with the reason."""
    found: dict[str, Target] = {}
    for law_id in law_ids:
        try:
            law_source(law_id)
            target = Target(law_id)
        except InvalidLawId as error:
            target = Target(shown(law_id, 100), str(error))
        found.setdefault(target.text, target)
    return tuple(found.values())


def _ids(value: object) -> list[str]:
    lines: Iterable[object] = value.splitlines() if isinstance(value, str) else value if isinstance(value, list) else ()
    return [stripped for line in lines if isinstance(line, str) and (stripped := line.strip())]


def _number(config: Mapping[str, Any], key: str, default: int, *, least: int, most: int) -> int:
    value = config.get(key)
    if value is None:
        return default
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} is a whole number from {least} to {most}")
    return value


def _flag(config: Mapping[str, Any], key: str) -> bool:
    value = config.get(key, False)
    if type(value) is not bool:
        raise ValueError(f"{key} is true or false")
    return value


def _date(value: object, today: dt.date) -> str | None:
    if not value:
        return None
    if type(value) is not str:
        raise ValueError("DATE is a text such as 2026-01-01")
    return parse_date(value, today=today).isoformat()
