"""Which calls share a session (``enrich.md`` 6.6)."""

from __future__ import annotations

from uuid import UUID

import pytest

from protocols.gates.table import GATES
from protocols.sessions import (
    TRANSLATE,
    Cold,
    Open,
    Plan,
    Resume,
    Session,
    SessionReuse,
    after,
    effective,
    parse_session_reuse,
    plan,
)

ONE, TWO = UUID(int=1), UUID(int=2)
STEPS = (TRANSLATE, *(gate.name for gate in GATES))


def run(mode: SessionReuse, *, fails: str = "") -> list[Plan]:
    """The plans of one window in which every step makes one call."""
    session, made = Session(ONE), []
    for step in STEPS:
        planned = plan(mode, step, session)
        made.append(planned)
        session = after(session, planned, succeeded=step != fails, fresh=TWO)
    return made


@pytest.mark.claim("S0-070", "S0-071")
def test_in_mode_window_all_calls_share_one_session() -> None:
    assert run(SessionReuse.WINDOW) == [Open(ONE), *[Resume(ONE)] * 6]


@pytest.mark.claim("S0-070")
def test_in_mode_repair_only_schema_repairs_go_on_in_it() -> None:
    cold = Cold()
    assert run(SessionReuse.REPAIR) == [Open(ONE), Resume(ONE), cold, cold, cold, cold, Resume(ONE)]


@pytest.mark.claim("S0-070")
def test_in_mode_off_every_call_is_cold() -> None:
    assert run(SessionReuse.OFF) == [Cold()] * 7


def test_a_failed_opening_leaves_the_session_unopened_and_takes_a_new_id() -> None:
    assert run(SessionReuse.WINDOW, fails=TRANSLATE)[:3] == [Open(ONE), Open(TWO), Resume(TWO)]


def test_a_failed_later_call_changes_nothing() -> None:
    assert run(SessionReuse.WINDOW, fails="schema") == [Open(ONE), *[Resume(ONE)] * 6]
    assert run(SessionReuse.REPAIR, fails="checks")[-1] == Resume(ONE)


# D40: after slices with sessions of their own, the first round opens one for all the others.
def test_rounds_can_open_the_session_that_no_translation_opened() -> None:
    session = Session(TWO)
    planned = plan(SessionReuse.WINDOW, "checks", session)
    assert planned == Open(TWO)
    assert plan(SessionReuse.WINDOW, "marking", after(session, planned, succeeded=True, fresh=ONE)) == Resume(TWO)
    assert plan(SessionReuse.REPAIR, "checks", session) == Cold()


@pytest.mark.claim("S0-072", "S0-147")
def test_a_cli_that_cannot_resume_is_recorded_as_off() -> None:
    assert effective(SessionReuse.WINDOW, can_resume=False) is SessionReuse.OFF
    assert effective(SessionReuse.REPAIR, can_resume=True) is SessionReuse.REPAIR


@pytest.mark.claim("S0-070")
@pytest.mark.parametrize(
    ("text", "mode"),
    [("", "window"), ("1", "window"), ("window", "window"), (" Repair ", "repair"), ("0", "off"), ("OFF", "off")],
)
def test_the_modes_and_their_other_names(text: str, mode: str) -> None:
    assert parse_session_reuse(text) == (SessionReuse(mode), None)


def test_an_unknown_mode_is_told_and_the_default_holds() -> None:
    mode, warning = parse_session_reuse("always")
    assert mode is SessionReuse.WINDOW
    assert warning == "ENRICH_SESSION_REUSE='always' is not used: choose window, repair or off"
