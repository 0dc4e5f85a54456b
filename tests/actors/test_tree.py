"""The tree as a whole on the in-memory queue: the table, the drain from every state, and what a dying actor costs."""

from __future__ import annotations

import ast
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from attrs import define, evolve, field

from actors.claimer import ClaimRule
from actors.heartbeat import BeatRule
from actors.jobs.base import Completion, Work
from actors.ports.database import Subscription
from actors.ports.lifecycle import Lifecycle
from actors.ports.memoryqueue import MemoryQueue
from actors.ports.meter import NoMeter
from actors.ports.slots import RoleSlots
from actors.reaper import ReaperRule
from actors.runner import RunRule
from protocols.messages import Phase
from schema.rows import Job, JobRequest, JobStatus, JobType
from supervisor import exitcodes
from supervisor.drain import Drain, DrainRule
from supervisor.restart import Policy
from supervisor.rules import Rules
from supervisor.tree import TREE, House, Row, Tree
from tests.kit.actorhouse import TIMEOUT_S, FunctionHandler
from tests.kit.faultyqueue import FaultyQueue

Body = Callable[[Work], Awaitable[Completion | None]]
SIGTERM = 15


@define
class Grown:
    """A whole tree that serves ``body``. ``bounds`` are the moments by which the process was told to end."""

    body: Body
    drain_s: float = 25
    slots: int = 2
    breaker_limit: int = 5
    memory: MemoryQueue = field(factory=MemoryQueue)
    bounds: list[float] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.queue = FaultyQueue(self.memory)
        self.lifecycle = Lifecycle()
        self.drain = Drain(self.lifecycle, DrainRule(self.drain_s), lambda seconds: self.bounds.append(seconds))
        self.notify, wakeups = trio.open_memory_channel[None](1)
        _, control = trio.open_memory_channel[str](1)
        rules = Rules(
            ClaimRule("test", {JobType.PROBE: TIMEOUT_S}), BeatRule(), ReaperRule(), RunRule(), self.breaker_limit
        )
        self.house = House(
            self.queue,
            {JobType.PROBE: FunctionHandler(self.body)},
            (RoleSlots("probe", (JobType.PROBE,), self.slots),),
            rules,
            self.lifecycle,
            NoMeter(),
            Subscription(wakeups, control),
        )
        self.tree = Tree(self.house, self.drain)

    queue: FaultyQueue = field(init=False)
    lifecycle: Lifecycle = field(init=False)
    drain: Drain = field(init=False)
    notify: trio.MemorySendChannel[None] = field(init=False)
    house: House = field(init=False)
    tree: Tree = field(init=False)

    def add(self, law_id: str, **values: object) -> Job:
        job = self.memory.add(JobRequest(JobType.PROBE, law_id, **values))  # type: ignore[arg-type]
        assert job is not None
        return job

    def replace(self, name: str, body: Callable[[], Awaitable[None]]) -> None:
        """Put a scripted actor on the place of ``name``."""
        from tests.actors.test_restart import Scripted

        rows = tuple(evolve(row, make=lambda _: Scripted(body)) if row.name == name else row for row in TREE)
        self.tree = Tree(self.house, self.drain, rows)


async def for_ever(work: Work) -> None:
    await trio.sleep_forever()


async def five_seconds(work: Work) -> None:
    await trio.sleep(5)


# --- the table --------------------------------------------------------------------------------------------------------

TESTS = Path(__file__).parent


def test_every_actor_of_the_tree_has_tests_of_its_own() -> None:
    files = {"jobs": "test_runner.py"}
    for row in TREE:
        path = TESTS / files.get(row.name, f"test_{row.name}.py")
        names = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.AsyncFunctionDef)}
        assert names, f"no tests of {row.name}"


def test_beats_start_first_and_claims_last() -> None:
    # SD-03: no claim without beats
    names = [row.name for row in TREE]
    assert (names[0], names[-1]) == ("heartbeat", "claimer")
    assert len(set(names)) == len(names)


def test_whoever_keeps_jobs_safe_is_fatal_and_everybody_else_is_restarted() -> None:
    # D17
    fatal = {row.name for row in TREE if row.policy is Policy.FATAL}
    assert fatal == {"heartbeat", "jobs"}
    assert {row.policy for row in TREE if row.name not in fatal} == {Policy.PERMANENT}


@pytest.mark.claim("C-015")
async def test_every_actor_has_run_once() -> None:
    grown = Grown(for_ever)
    for row in TREE:
        assert callable(row.make(grown.house).run_once), row.name  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", TREE, ids=[row.name for row in TREE])
async def test_every_actor_ends_within_the_drain(autojump_clock: trio.abc.Clock, row: Row) -> None:
    grown = Grown(five_seconds)
    grown.add("law 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(2)
        assert not grown.tree.keepers[row.name].done.is_set()
        grown.drain.on_signal(SIGTERM)
    assert grown.tree.keepers[row.name].done.is_set()
    assert trio.current_time() < 6


# --- the drain --------------------------------------------------------------------------------------------------------


async def test_an_idle_supervisor_ends_at_once(autojump_clock: trio.abc.Clock) -> None:
    grown = Grown(for_ever)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(100)
        grown.drain.on_signal(SIGTERM)
    assert trio.current_time() == pytest.approx(100, abs=0.1)
    assert grown.drain.exit_code == exitcodes.CLEAN
    assert grown.lifecycle.phase is Phase.CLOSING


async def test_running_jobs_may_finish_and_nothing_new_is_claimed(autojump_clock: trio.abc.Clock) -> None:
    grown = Grown(five_seconds, slots=1)
    first, second = grown.add("law 1", priority=90), grown.add("law 2")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(1)
        grown.drain.on_signal(SIGTERM)
    assert grown.memory.job(first.id).status is JobStatus.COMPLETED
    assert grown.memory.job(second.id).attempts == 0
    assert trio.current_time() == pytest.approx(5, abs=0.1)


async def test_beats_go_on_while_jobs_drain(autojump_clock: trio.abc.Clock) -> None:
    # SD-03
    async def a_minute(work: Work) -> None:
        await trio.sleep(80)

    grown = Grown(a_minute, drain_s=100)
    job = grown.add("law 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(1)
        grown.drain.on_signal(SIGTERM)
    assert grown.memory.job(job.id).status is JobStatus.COMPLETED
    assert [round(at) for at in grown.queue.times("beat")] == [30, 60]


async def test_after_the_grace_jobs_are_handed_back(autojump_clock: trio.abc.Clock) -> None:
    # D12
    grown = Grown(for_ever)
    jobs = [grown.add(f"law {n}") for n in range(2)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(10)
        grown.drain.on_signal(SIGTERM)
    assert trio.current_time() == pytest.approx(35, abs=0.1)
    assert [(grown.memory.job(job.id).status, grown.memory.job(job.id).deaths) for job in jobs] == [
        (JobStatus.PENDING, 0),
        (JobStatus.PENDING, 0),
    ]
    assert grown.drain.exit_code == exitcodes.CLEAN


async def test_a_second_signal_skips_the_grace(autojump_clock: trio.abc.Clock) -> None:
    grown = Grown(for_ever)
    job = grown.add("law 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(10)
        grown.drain.on_signal(SIGTERM)
        await trio.sleep(1)
        grown.drain.on_signal(SIGTERM)
    assert trio.current_time() == pytest.approx(11, abs=0.1)
    assert grown.memory.job(job.id).status is JobStatus.PENDING
    assert grown.bounds == [35, 10]


async def test_a_job_that_does_not_listen_does_not_hold_the_tree_beyond_its_bounds(
    autojump_clock: trio.abc.Clock,
) -> None:
    # SD-02: the tree goes on to close after 25 + 8 s; the forced end is the watchdog's
    async def deaf(work: Work) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(500)

    grown = Grown(deaf)
    grown.add("law 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(1)
        grown.drain.on_signal(SIGTERM)
        await grown.lifecycle.reached(Phase.CLOSING)
        assert trio.current_time() == pytest.approx(1 + 25 + 8, abs=0.1)
    assert grown.bounds == [35, 10]  # the second from when the jobs are given up


async def test_the_drain_ends_also_without_a_database(autojump_clock: trio.abc.Clock) -> None:
    grown = Grown(for_ever)
    job = grown.add("law 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(10)
        grown.queue.down = True
        grown.drain.on_signal(SIGTERM)
    assert trio.current_time() < 10 + 25 + 10
    assert grown.memory.job(job.id).status is JobStatus.PROCESSING  # the reaper's, in time


async def test_a_job_that_hangs_past_its_grace_ends_the_supervisor_with_1(autojump_clock: trio.abc.Clock) -> None:
    # D17
    async def deaf(work: Work) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(TIMEOUT_S + 640)

    grown = Grown(deaf)
    job = grown.add("law 1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
    assert grown.drain.exit_code == exitcodes.ESCALATED
    row = grown.memory.job(job.id)
    assert (row.status, row.releases) == (JobStatus.PROCESSING, 0)


async def test_an_exhausted_machine_drains_first_and_then_exits_1(autojump_clock: trio.abc.Clock) -> None:
    # D13: the job beside them is finished
    async def body(work: Work) -> None:
        if work.job.law_id == "healthy":
            await trio.sleep(20)
            return
        raise OSError(errno.EAGAIN, "cannot fork")

    grown = Grown(body, breaker_limit=3)
    healthy = grown.add("healthy", priority=90)
    for n in range(3):
        grown.add(f"law {n}", max_attempts=1)
    await grown.tree.run()
    assert grown.drain.exit_code == exitcodes.ESCALATED
    assert grown.memory.job(healthy.id).status is JobStatus.COMPLETED


# --- crashes ----------------------------------------------------------------------------------------------------------


async def test_a_supervisor_that_cannot_beat_hands_its_jobs_back_and_goes(autojump_clock: trio.abc.Clock) -> None:
    # D17
    async def die_later() -> None:
        await trio.sleep(50)
        raise ZeroDivisionError

    grown = Grown(for_ever)
    grown.replace("heartbeat", die_later)
    job = grown.add("law 1")
    await grown.tree.run()
    assert trio.current_time() == pytest.approx(50, abs=1)
    assert grown.drain.exit_code == exitcodes.ESCALATED
    assert (grown.memory.job(job.id).status, grown.memory.job(job.id).deaths) == (JobStatus.PENDING, 0)


@pytest.mark.claim("C-015")
@pytest.mark.parametrize("name", [row.name for row in TREE if row.policy is Policy.PERMANENT])
async def test_an_actor_that_crashes_for_ever_ends_the_supervisor_in_order(
    autojump_clock: trio.abc.Clock, name: str
) -> None:
    async def die() -> None:
        raise ZeroDivisionError

    grown = Grown(five_seconds)
    grown.replace(name, die)
    job = grown.add("law 1")
    await grown.tree.run()
    assert grown.drain.exit_code == exitcodes.ESCALATED
    expected = JobStatus.PENDING if name == "claimer" else JobStatus.COMPLETED
    assert grown.memory.job(job.id).status is expected


async def test_a_claimer_that_crashed_goes_on_where_it_was(autojump_clock: trio.abc.Clock) -> None:
    # the ledger of slots is not the claimer's, so a restart neither loses slots nor doubles them
    grown = Grown(five_seconds, slots=2)
    for n in range(6):
        grown.add(f"law {n}")
    crashes: list[float] = []

    def crash_now_and_then() -> None:
        if len(crashes) < 2 and trio.current_time() > 4:
            crashes.append(trio.current_time())
            raise ZeroDivisionError("after the claim")

    grown.queue.after["claim"] = crash_now_and_then
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grown.tree.run)
        await trio.sleep(60)
        grown.drain.on_signal(SIGTERM)
    assert len(crashes) == 2
    assert {job.status for job in grown.memory.jobs()} == {JobStatus.COMPLETED}
    assert grown.house.slots.busy == {"probe": 0}
