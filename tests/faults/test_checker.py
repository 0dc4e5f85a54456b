"""The checker is believed only because it finds what is put there for it to find."""

from __future__ import annotations

import signal
from typing import Any
from uuid import UUID, uuid4

import pytest
from attrs import define, evolve, field

from supervisor import exitcodes
from tests.faults.checker import Verdict, judge
from tests.faults.evidence import Change, Evidence, Landing, Life, Pause, Row
from tests.kit.probe import Entry

ONE, OTHER = 101, 102
"""Two supervisors."""


@define
class Story:
    """A job that one supervisor had first and another finished; told so that each test can spoil one thing."""

    job: UUID = field(factory=uuid4)
    first: UUID = field(factory=uuid4)
    second: UUID = field(factory=uuid4)
    end_of_first: float = 5

    def evidence(self) -> Evidence:
        """At 1 the first begins, at 5 it stops (it was cut off), at 10 the second begins, at 11 it is done."""
        return Evidence(
            rows=[Row(self.job, "probe", "law", "completed", None, 2, {"settle": True})],
            changes=[
                Change(self.job, "pending", "processing", 1, None, self.first, None),
                Change(self.job, "processing", "pending", 1, self.first, None, None),
                Change(self.job, "pending", "processing", 2, None, self.second, None),
                Change(self.job, "processing", "completed", 2, self.second, None, self.second),
            ],
            entries=[
                self.entry("start", 1, 1),
                self.entry("cancelled", 1, self.end_of_first),
                self.entry("start", 2, 10),
                self.entry("done", 2, 11),
            ],
            lives=[Life(ONE, 0, 20, 0, ("TERM",)), Life(OTHER, 0, 20, 0, ("TERM",))],
            settled={self.job: 1},
        )

    def entry(self, event: str, attempt: int, at: float) -> Entry:
        lease, pid = (self.first, ONE) if attempt == 1 else (self.second, OTHER)
        return Entry(event, self.job, lease, attempt, pid, at)


def verdict(evidence: Evidence, **changes: Any) -> Verdict:
    return judge(evolve(evidence, **changes), grace_s=3)


def test_a_job_that_was_taken_over_in_order_is_all_well() -> None:
    found = verdict(Story().evidence())
    assert found.problems == ()
    assert (found.jobs, found.executions, found.taken) == (1, 2, 1)


def test_a_job_without_an_end_is_lost() -> None:
    good = Story().evidence()
    for status in ("pending", "processing"):
        rows = [evolve(good.rows[0], status=status)]
        assert len(verdict(good, rows=rows, changes=good.changes[:-1], settled={}).lost) == 1


def test_a_job_that_ends_twice_is_doubled() -> None:
    story = Story()
    good = story.evidence()
    again = [*good.changes, Change(story.job, "completed", "failed", 2, None, None, None)]
    assert len(verdict(good, changes=again).doubled) == 1


@pytest.mark.parametrize("marks", [0, 2])
def test_a_completion_whose_effect_is_missing_or_twice_there_is_doubled(marks: int) -> None:
    story = Story()
    assert len(verdict(story.evidence(), settled={story.job: marks}).doubled) == 1


def test_a_law_that_was_committed_twice_is_doubled_and_one_that_never_was_is_lost() -> None:
    found = verdict(Story().evidence(), commits={"a": 1, "b": 2, "c": 0})
    assert (len(found.doubled), len(found.lost)) == (1, 1)


def test_two_executions_at_once_overlap() -> None:
    assert len(verdict(Story(end_of_first=10.5).evidence()).overlapping) == 1


def test_an_execution_without_an_end_lasts_as_long_as_its_process() -> None:
    story = Story()
    good = story.evidence()
    entries = [entry for entry in good.entries if entry.event != "cancelled"]
    assert len(verdict(good, entries=entries).overlapping) == 1
    dead = [Life(ONE, 0, 5, -signal.SIGKILL, ("KILL",)), good.lives[1]]
    assert verdict(good, entries=entries, lives=dead).problems == ()


def test_a_paused_process_is_excused_if_it_stops_soon_after_it_wakes() -> None:
    late, later = Story(end_of_first=14.5), Story(end_of_first=17.5)
    assert verdict(late.evidence(), pauses=[Pause(ONE, 4, 14)]).problems == ()
    assert len(verdict(later.evidence(), pauses=[Pause(ONE, 4, 14)]).overlapping) == 1
    assert len(verdict(late.evidence(), pauses=[Pause(OTHER, 4, 14)]).overlapping) == 1
    assert len(verdict(late.evidence(), pauses=[Pause(ONE, 12, 14)]).overlapping) == 1  # lost before it was paused


def test_a_push_of_a_claim_that_had_a_successor_overlaps() -> None:
    story = Story()
    good = story.evidence()
    assert (
        verdict(good, landings=[Landing(story.job, story.first, 4), Landing(story.job, story.second, 11)]).problems
        == ()
    )
    assert len(verdict(good, landings=[Landing(story.job, story.first, 10.5)]).overlapping) == 1
    assert len(verdict(good, landings=[Landing(story.job, uuid4(), 4)]).overlapping) == 1


def test_attempts_that_do_not_add_up_are_told() -> None:
    story = Story()
    good = story.evidence()
    assert len(verdict(good, rows=[evolve(good.rows[0], attempts=3)]).other) == 1
    assert len(verdict(good, entries=[*good.entries, story.entry("start", 2, 10.1)]).other) == 1
    assert len(verdict(good, entries=[entry for entry in good.entries if entry.attempt == 1]).other) == 1
    stranger = evolve(story.entry("start", 1, 1), lease=uuid4())
    assert len(verdict(good, entries=[*good.entries, stranger]).other) == 1


def test_a_claim_that_came_back_before_it_began_is_well() -> None:
    good = Story().evidence()
    assert verdict(good, entries=[entry for entry in good.entries if entry.attempt == 2]).problems == ()


def test_an_end_that_another_claim_wrote_is_forged() -> None:
    story = Story()
    good = story.evidence()
    forged = [*good.changes[:-1], evolve(good.changes[-1], signed=story.first)]
    assert len(verdict(good, changes=forged).other) == 1


def test_a_claim_of_a_held_row_is_told() -> None:
    story = Story()
    good = story.evidence()
    stolen = [good.changes[0], evolve(good.changes[2], old="processing", old_lease=story.first), good.changes[3]]
    assert any("claimed while it was processing" in text for text in verdict(good, changes=stolen).other)


def test_a_job_must_end_as_it_was_made_to() -> None:
    good = Story().evidence()
    row = evolve(good.rows[0], status="failed", kind="transient", payload={"fail": "transient"})
    changes = [*good.changes[:-1], evolve(good.changes[-1], new="failed")]
    assert verdict(good, rows=[row], changes=changes).problems == ()
    assert len(verdict(good, rows=[evolve(row, kind="permanent")], changes=changes).other) == 1
    cancelled = evolve(row, kind="cancelled", payload={})
    assert len(verdict(good, rows=[cancelled], changes=changes).other) == 1
    assert verdict(good, rows=[evolve(cancelled, cancel_asked=True)], changes=changes).problems == ()
    reaped = evolve(row, kind="reaped")
    assert verdict(good, rows=[reaped], changes=changes).problems == ()
    assert len(verdict(good, rows=[evolve(reaped, tries=100)], changes=changes).other) == 1


def test_a_law_must_say_what_its_job_says() -> None:
    good = Story().evidence()
    row = evolve(good.rows[0], job_type="harvest", payload={})
    assert verdict(good, rows=[row], laws={"law": "harvested"}).problems == ()
    assert len(verdict(good, rows=[row], laws={"law": "harvest_failed"}).other) == 1
    assert len(verdict(good, rows=[row], laws={"law": "harvested", "left": "harvesting"}).other) == 1


@pytest.mark.parametrize(
    ("code", "planned", "well"),
    [
        (exitcodes.CLEAN, ("TERM",), True),
        (exitcodes.CLEAN, (), False),
        (exitcodes.ESCALATED, (), False),
        (exitcodes.ESCALATED, ("disk full",), True),
        (-signal.SIGKILL, ("KILL",), True),
        (-signal.SIGKILL, ("TERM",), False),
        (-signal.SIGSEGV, ("KILL",), False),
        (exitcodes.DATABASE_UNREACHABLE, ("database away",), True),
        (exitcodes.DATABASE_UNREACHABLE, ("TERM",), False),
    ],
)
def test_a_supervisor_may_only_end_for_a_reason(code: int, planned: tuple[str, ...], well: bool) -> None:
    good = Story().evidence()
    lives = [*good.lives, Life(103, 0, 20, code, planned)]
    assert (verdict(good, lives=lives).problems == ()) is well


def test_what_is_left_over_is_told() -> None:
    found = verdict(Story().evidence(), running=["7 sleep 300"], idle_in_transaction=2, complaints=["a traceback"])
    assert len(found.other) == 3
