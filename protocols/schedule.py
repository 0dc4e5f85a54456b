"""When a cron schedule fires: validation, and the next instant in a time zone (D67, CR-01, CR-02).

Two kinds. A schedule whose hour field names all 24 hours follows elapsed time: it fires at every UTC minute whose local
wall time matches, so both halves of a doubled hour count. Any other has fixed hours and follows the calendar: in a gap it
fires at the first instant after the gap, in a fold the first time only, so that a daily pipeline never runs and bills twice.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from attrs import field, frozen
from croniter import CroniterError, croniter  # type: ignore[import-untyped]  # typed inside, but it does not say so

from protocols.failures import InvalidInput

ALIASES: Final = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
HORIZON_YEARS: Final = 5
"""A schedule without a match in so many years has none: ``0 0 30 2 *`` is well-formed and never happens."""

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORDS: Final = frozenset((*_MONTHS, "sun", "mon", "tue", "wed", "thu", "fri", "sat", "l"))
_FIELD: Final = re.compile(r"[0-9a-zA-Z*/,\-?#]+")
_NO_ZONES: Final = frozenset({"localtime", "posixrules", "Factory"})
_NO_ZONES_BELOW: Final = ("right/", "posix/")
_SECOND: Final = dt.timedelta(seconds=1)
_DAY: Final = dt.timedelta(days=1)


_LIBRARY_RAISES: Final = (CroniterError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Whatever a row in the table makes the library trip over is a fault of that row, and never of the tick that meets it."""


class InvalidSchedule(InvalidInput):
    """The expression or the zone cannot be used. The text is for the person who wrote it."""

    kind = "invalid_schedule"


@frozen
class Schedule:
    """A checked expression in a checked zone. Made by :func:`parse_schedule`."""

    cron: str
    timezone: str
    wildcard: bool
    """All 24 hours: follows elapsed time (see the module)."""
    _zone: ZoneInfo = field(repr=False)

    def next_after(self, after: dt.datetime) -> dt.datetime:
        """The first fire strictly after ``after``, in UTC. InvalidSchedule: there is none within the horizon."""
        if after.tzinfo is None:
            raise InvalidSchedule("a schedule is asked for the next fire after an aware time, not after a naive one")
        start = after.astimezone(dt.UTC)
        try:
            return self._next_wall_match(start) if self.wildcard else self._next_calendar_match(start)
        except _LIBRARY_RAISES as error:
            raise InvalidSchedule(f"{self.cron!r} has no match within {HORIZON_YEARS} years") from error

    def _next_calendar_match(self, after: dt.datetime) -> dt.datetime:
        """Walk naive local times; several may fall into one gap, hence onto one instant."""
        steps = self._steps(self._local(after))
        while True:
            instant = self._instant(steps.get_next(dt.datetime))
            if instant > after:
                return instant

    def _next_wall_match(self, after: dt.datetime) -> dt.datetime:
        """Walk under the offset in force; where it changes on the way, go on from the change under the new one."""
        moment, bound = after, self._local(after)
        while True:
            offset = self._offset(moment)
            naive: dt.datetime = self._steps(bound).get_next(dt.datetime)
            candidate = (naive - offset).replace(tzinfo=dt.UTC)
            change = self._first_change(moment, candidate)
            if change is None:
                return candidate
            moment = change
            bound = self._local(change) - _SECOND  # the instant of the change itself may match

    def _steps(self, naive: dt.datetime) -> croniter:
        return croniter(self.cron, naive, max_years_between_matches=HORIZON_YEARS)

    def _instant(self, naive: dt.datetime) -> dt.datetime:
        """The instant of a local time: the first of two, or the end of the gap that swallowed it."""
        instant = naive.replace(tzinfo=self._zone, fold=0).astimezone(dt.UTC)
        if self._local(instant) == naive:
            return instant
        # In a gap fold=0 counts with the offset before it, so lands after it, and fold=1 the other way round.
        before = naive.replace(tzinfo=self._zone, fold=1).astimezone(dt.UTC)
        return self._change_between(before, instant)

    def _first_change(self, start: dt.datetime, end: dt.datetime) -> dt.datetime | None:
        """The first instant in (start, end] with another offset than the one before it, looking day by day."""
        low = start
        while low < end:
            high = min(low + _DAY, end)
            if self._offset(high) != self._offset(low):
                return self._change_between(low, high)
            low = high
        return None

    def _change_between(self, low: dt.datetime, high: dt.datetime) -> dt.datetime:
        """By bisection, to the second: where the offset of ``low`` ends."""
        old = self._offset(low)
        low = low.replace(microsecond=0)
        while high - low > _SECOND:
            middle = low + (high - low) // 2
            middle = middle.replace(microsecond=0)
            if self._offset(middle) == old:
                low = middle
            else:
                high = middle
        return high.replace(microsecond=0)

    def _offset(self, instant: dt.datetime) -> dt.timedelta:
        offset = instant.astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset

    def _local(self, instant: dt.datetime) -> dt.datetime:
        return instant.astimezone(self._zone).replace(tzinfo=None, fold=0)


def validate_cron(cron: str, timezone: str, *, now: dt.datetime) -> Schedule:
    """The schedule, with one match after ``now`` proven (CR-02). InvalidSchedule says what is wrong."""
    schedule = parse_schedule(cron, timezone)
    schedule.next_after(now)
    return schedule


def compute_next_fire_at(cron: str, timezone: str, *, after: dt.datetime) -> dt.datetime:
    """The first fire strictly after ``after``, in UTC. InvalidSchedule for whatever cannot be used."""
    return parse_schedule(cron, timezone).next_after(after)


@lru_cache(maxsize=1024)
def parse_schedule(cron: str, timezone: str) -> Schedule:
    """Check form and zone; whether there is a match at all is seen when one is asked for. InvalidSchedule."""
    zone = zone_of(timezone)
    _check_form(cron)
    try:
        hours = croniter.expand(cron)[0][1]
    except _LIBRARY_RAISES as error:
        raise InvalidSchedule(f"{cron!r} is no cron expression: {error}") from error
    wildcard = "*" in hours or {hour for hour in hours if isinstance(hour, int)} >= set(range(24))
    return Schedule(cron, timezone, wildcard, zone)


def _check_form(cron: str) -> None:
    """Five fields or an alias. The library would also take seconds, random and hashed fields."""
    if not isinstance(cron, str):
        raise InvalidSchedule(f"a cron expression is a text, not {type(cron).__name__}")
    if cron in ALIASES:
        return
    fields = cron.split()
    if len(fields) != 5 or len(cron) > 120:
        raise InvalidSchedule(
            f"{cron[:120]!r} has {len(fields)} fields: a schedule has five (minute hour day month weekday), "
            f"or is one of {' '.join(ALIASES)}"
        )
    for part in fields:
        words = {word.lower() for word in re.findall("[a-zA-Z]+", part)}
        if not _FIELD.fullmatch(part) or not words <= _WORDS:
            raise InvalidSchedule(
                f"{part!r} in {cron!r} is neither a number, a range, a list nor the name of a day or month"
            )


def zone_of(name: str) -> ZoneInfo:
    """Whatever the name is made of, the answer is a zone or InvalidSchedule: ``Europe`` is a folder, ``../x`` an escape.

    A file of the zone database that no zone is named after (``localtime``, ``right/UTC``) is another on another machine.
    """
    try:
        if name in _NO_ZONES or name.startswith(_NO_ZONES_BELOW):
            raise ValueError(name)
        return ZoneInfo(name)
    except (AttributeError, KeyError, ValueError, OSError, TypeError) as error:
        raise InvalidSchedule(f"{name!r} is no time zone: use an IANA name such as Europe/Amsterdam or UTC") from error
