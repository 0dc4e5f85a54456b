"""When a schedule fires: what is accepted, the nights when the clock changes, and a whole year against another way (D67)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from croniter import croniter  # type: ignore[import-untyped]

from protocols.schedule import ALIASES, InvalidSchedule, compute_next_fire_at, parse_schedule, validate_cron, zone_of

AMSTERDAM = "Europe/Amsterdam"
ZONES = (AMSTERDAM, "America/Santiago", "Africa/Cairo", "Australia/Lord_Howe", "Europe/Dublin")
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def fires(cron: str, zone: str, start: dt.datetime, end: dt.datetime) -> Iterator[dt.datetime]:
    """The chain of next fires in (start, end]."""
    at = start
    while (at := compute_next_fire_at(cron, zone, after=at)) <= end:
        yield at


# --- what is accepted -------------------------------------------------------------------------------------------------


# CR-02
@pytest.mark.claim("S3-034")
@pytest.mark.parametrize(
    "cron",
    [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "R R * * *",
        "R(0-10) * * * *",
        "H * * * *",
        "* * * * * *",
        "* * * * * * *",
        "* * * *",
        "",
        " ",
        "60 * * * *",
        "0 24 * * *",
        "@reboot",
        "@every 5m",
        "a b c d e",
        "0 0 * * foo",
        "* * * * *" + "0" * 200,
        "0;0 * * * *",
    ],
)
def test_what_is_no_schedule_or_never_happens_is_refused_when_it_is_saved(cron: str) -> None:
    with pytest.raises(InvalidSchedule):
        validate_cron(cron, AMSTERDAM, now=NOW)


@pytest.mark.parametrize(
    "zone", ["localtime", "posixrules", "Factory", "right/UTC", "right/Europe/Amsterdam", "posix/UTC", "leapseconds"]
)
def test_a_file_of_this_machine_is_no_zone_though_it_can_be_read(zone: str) -> None:
    with pytest.raises(InvalidSchedule, match="time zone"):
        validate_cron("0 0 * * *", zone, now=NOW)


def test_every_zone_of_the_database_can_be_used() -> None:
    zones = available_timezones() - {"localtime", "Factory"}
    assert len(zones) > 400
    for zone in zones:
        assert zone_of(zone).key == zone


@pytest.mark.parametrize("zone", ["Europe/Amsterdm", "Europe", "", "../x", "/etc/passwd", "a\x00b", "UTC+1", "x" * 300])
def test_what_is_no_zone_is_refused_whatever_it_is_made_of(zone: str) -> None:
    with pytest.raises(InvalidSchedule, match="time zone"):
        validate_cron("0 0 * * *", zone, now=NOW)


@pytest.mark.parametrize("cron", [*ALIASES, "0 0 L * *", "*/15 8-17 * * mon-fri", "0 9 * JAN 1#2", "0 0 1,15 * ?"])
def test_five_fields_and_the_aliases_are_accepted(cron: str) -> None:
    assert validate_cron(cron, "UTC", now=NOW).next_after(NOW) > NOW


def test_a_leap_day_is_waited_for() -> None:
    assert validate_cron("0 0 29 2 *", "UTC", now=NOW).next_after(NOW) == utc("2028-02-29T00:00")


def test_both_day_fields_together_mean_either() -> None:
    found = list(fires("0 0 13 * fri", "UTC", utc("2026-01-01T00:00"), utc("2026-01-16T12:00")))
    assert found == [utc(f"2026-01-{day:02}T00:00") for day in (2, 9, 13, 16)]


@pytest.mark.claim("S3-021")
def test_the_zone_moves_the_fire_and_utc_does_not() -> None:
    assert compute_next_fire_at("0 9 * * *", "UTC", after=NOW) == utc("2026-01-01T09:00")
    assert compute_next_fire_at("0 9 * * *", AMSTERDAM, after=NOW) == utc("2026-01-01T08:00")


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="aware"):
        parse_schedule("@daily", "UTC").next_after(NOW.replace(tzinfo=None))


def test_the_next_fire_is_strictly_after_the_moment_and_in_utc() -> None:
    at = compute_next_fire_at("0 * * * *", AMSTERDAM, after=utc("2026-05-05T10:00"))
    assert at == utc("2026-05-05T11:00")
    assert at.tzinfo is dt.UTC


@pytest.mark.parametrize(
    ("cron", "wildcard"),
    [("* * * * *", True), ("5 */1 * * *", True), ("5 0-23 * * *", True), ("@hourly", True), ("0 */2 * * *", False),
     ("0 1-23 * * *", False), ("0 0-11,12-23 * * *", True), ("@daily", False)],
)  # fmt: skip
def test_a_schedule_is_a_wildcard_when_its_hours_are_all_24(cron: str, wildcard: bool) -> None:
    assert parse_schedule(cron, "UTC").wildcard is wildcard


# --- the two nights ---------------------------------------------------------------------------------------------------


# CR-01
@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        # the spring gap of 29 March 2026, 02:00 to 03:00
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        ("15,45 2 * * *", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:15"]),
        ("0 2 * * *", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:00"]),
        ("15 3 * * *", "2026-03-28T12:00", ["2026-03-29T01:15", "2026-03-30T01:15"]),
        ("*/30 * * * *", "2026-03-29T00:30", ["2026-03-29T01:00", "2026-03-29T01:30"]),
        ("30 * * * *", "2026-03-29T00:00", ["2026-03-29T00:30", "2026-03-29T01:30"]),
        ("0 */2 * * *", "2026-03-28T23:30", ["2026-03-29T01:00", "2026-03-29T02:00"]),
        # the autumn fold of 25 October 2026, 02:00 to 03:00 twice
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        ("0 2 * * *", "2026-10-24T12:00", ["2026-10-25T00:00", "2026-10-26T01:00"]),
        ("*/30 * * * *", "2026-10-24T23:30", ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30"]),
        ("0 * * * *", "2026-10-24T23:30", ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"]),
        ("0 */2 * * *", "2026-10-24T22:30", ["2026-10-25T00:00", "2026-10-25T03:00"]),
        # in between two clock changes, the evening job keeps its local hour
        ("0 20 * * *", "2026-10-24T21:00", ["2026-10-25T19:00", "2026-10-26T19:00", "2026-10-27T19:00"]),
        # asked from inside the second half of the fold, the first half is over
        ("30 2 * * *", "2026-10-25T01:10", ["2026-10-26T01:30"]),
    ],
)  # fmt: skip
def test_the_nights_when_the_clock_changes_in_amsterdam(cron: str, after: str, expected: list[str]) -> None:
    at, found = utc(after), []
    for _ in expected:
        at = compute_next_fire_at(cron, AMSTERDAM, after=at)
        found.append(at)
    assert found == [utc(text) for text in expected]


def test_a_midnight_that_does_not_exist_is_the_first_instant_of_its_day() -> None:
    # Santiago goes from 24:00 on 5 September 2026 straight to 01:00
    assert compute_next_fire_at("0 0 6 9 *", "America/Santiago", after=utc("2026-09-01T00:00")) == utc(
        "2026-09-06T04:00"
    )


@pytest.mark.parametrize(
    "error", [TypeError("x"), IndexError("x"), KeyError("x"), AttributeError("x"), OverflowError()]
)
def test_whatever_the_library_trips_over_is_a_fault_of_the_row(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def trip(*_: object) -> None:
        raise error

    monkeypatch.setattr(croniter, "get_next", trip)
    for cron in ("30 2 * * *", "* * * * *"):
        with pytest.raises(InvalidSchedule):
            compute_next_fire_at(cron, AMSTERDAM, after=NOW)


# --- a year of minutes, calculated another way ------------------------------------------------------------------------


@cache
def _parsed(text: str, least: int, most: int) -> frozenset[int]:
    """One cron field as plain numbers, by other code than the library's."""
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low, high = (least, most) if first == "*" else (int(first), int(last or first))
        values |= set(range(low, high + 1, int(step or 1)))
    return frozenset(values)


def _matches(cron: str, wall: dt.datetime) -> bool:
    minute, hour, day, month, weekday = cron.split()
    if wall.minute not in _parsed(minute, 0, 59) or wall.hour not in _parsed(hour, 0, 23):
        return False
    if wall.month not in _parsed(month, 1, 12):
        return False
    of_month = wall.day in _parsed(day, 1, 31)
    of_week = wall.isoweekday() % 7 in _parsed(weekday, 0, 6)
    if day != "*" and weekday != "*":
        return of_month or of_week
    return of_month and of_week


@cache
def walls_of(zone: str) -> list[tuple[dt.datetime, dt.datetime]]:
    """Every UTC minute from the last days of 2025 to the first of 2027, with the local wall time it shows."""
    place, at = ZoneInfo(zone), utc("2025-12-30T00:00")
    found = []
    while at < utc("2027-01-03T00:00"):
        found.append((at, at.astimezone(place).replace(tzinfo=None, fold=0)))
        at += MINUTE
    return found


def by_wall_clock(cron: str, walls: Iterable[tuple[dt.datetime, dt.datetime]]) -> list[dt.datetime]:
    """A wildcard schedule: whenever the clock on the wall shows a match."""
    return [at for at, wall in walls if _matches(cron, wall)]


def by_calendar(cron: str, walls: list[tuple[dt.datetime, dt.datetime]]) -> list[dt.datetime]:
    """Fixed hours: each matching minute of the calendar once, when the wall clock first shows it or a later one."""
    found, day = set(), walls[0][1]
    shown = iter(walls)
    at, wall = next(shown)
    latest = wall
    while day <= walls[-1][1]:
        if _matches(cron, day):
            while latest < day:
                at, wall = next(shown)
                latest = max(latest, wall)
            found.add(at)
        day += MINUTE
    return sorted(found)


@pytest.mark.slow
@pytest.mark.claim("S3-083")
@pytest.mark.parametrize("zone", ZONES)
def test_a_year_of_minutes_fires_as_another_calculation_says(zone: str) -> None:
    walls = walls_of(zone)
    start, end = utc("2025-12-31T00:00"), utc("2027-01-01T12:00")
    for cron in ("15 3 * * *", "30 2 * * *", "0 0 * * *", "5,35 1-3 * * *", "0 */2 * * 1-5", "45 23 1 * 0"):
        expected = [at for at in by_calendar(cron, walls) if start < at <= end]
        assert list(fires(cron, zone, start, end)) == expected, cron
    assert list(fires("7 * * * *", zone, start, end)) == [
        at for at in by_wall_clock("7 * * * *", walls) if start < at <= end
    ]


@pytest.mark.parametrize("zone", ZONES)
def test_every_ten_minutes_over_each_change_of_the_clock_of_the_year(zone: str) -> None:
    walls = walls_of(zone)
    shifts = [(at, wall - at.replace(tzinfo=None)) for at, wall in walls]
    changes = [at for (at, now), (_, before) in zip(shifts[1:], shifts, strict=False) if now != before]
    assert len(changes) == 2
    for change in changes:
        start, end = change - dt.timedelta(hours=12), change + dt.timedelta(hours=12)
        for cron in ("*/10 * * * *", "3-59/20 0-23 * * *"):
            expected = [at for at in by_wall_clock(cron, walls) if start < at <= end]
            assert list(fires(cron, zone, start, end)) == expected, (cron, change)
