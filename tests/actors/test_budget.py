"""The budget: one word to people an hour, a closed gate when nobody watches it, and a wake-up when the hour turns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from attrs import define, evolve, field
from structlog.typing import EventDict

from actors.ports.budgetgate import BudgetGate
from actors.ports.memoryqueue import MemoryQueue
from actors.ports.queue import BudgetRule, BudgetView, ClaimAnswer, ClaimRequest
from protocols.messages import BudgetCounted, Escalation, Wake
from schema.rows import JobStatus
from supervisor.restart import Keeper, Policy
from tests.kit.actorhouse import ActorHouse

QUARTER_S = 900.0


def count(used: int, cap: int = 10, *, taken: int = 0, left_s: float | None = QUARTER_S) -> BudgetCounted:
    view = BudgetView(used, cap, 14, blocked=used >= cap, left_s=left_s)
    return BudgetCounted(view, taken, trio.current_time())


def words(said: Sequence[EventDict], level: str) -> list[str]:
    return [entry["event"] for entry in said if entry["log_level"] == level]


async def started(house: ActorHouse, nursery: trio.Nursery) -> None:
    await nursery.start(house.budget().run)


@define
class CountingQueue(MemoryQueue):
    """Claims as if each job ran on claude, and says what the budget was before."""

    used: int = 0
    cap: int = 10
    requests: list[ClaimRequest] = field(factory=list)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        self.requests.append(request)
        answer = await super().claim(request)
        view = BudgetView(self.used, self.cap, 14, blocked=self.used >= self.cap, left_s=QUARTER_S)
        return evolve(answer, jobs=tuple(evolve(job, run_provider="claude") for job in answer.jobs), budget=view)


@pytest.mark.claim("C-019")
async def test_a_used_up_hour_is_told_once_and_again_in_the_next(
    autojump_clock: trio.abc.Clock, said: list[EventDict]
) -> None:
    house = ActorHouse()
    async with trio.open_nursery() as nursery:
        await started(house, nursery)
        house.to_budget.send_nowait(count(3))
        await trio.testing.wait_all_tasks_blocked()
        assert said == []
        for _ in range(3):
            house.to_budget.send_nowait(count(10))
        await trio.testing.wait_all_tasks_blocked()
        assert (len(words(said, "info")), len(words(said, "debug"))) == (1, 2)
        assert (said[0]["used"], said[0]["cap"]) == (10, 10)
        await trio.sleep(QUARTER_S + 1)
        house.to_budget.send_nowait(count(10, left_s=3600))
        await trio.testing.wait_all_tasks_blocked()
        assert len(words(said, "info")) == 2
        nursery.cancel_scope.cancel()


async def test_a_count_below_the_cap_arms_the_word_again(autojump_clock: trio.abc.Clock, said: list[EventDict]) -> None:
    # a run that never began gives its place back, and the cap of the night is another one
    house = ActorHouse()
    async with trio.open_nursery() as nursery:
        await started(house, nursery)
        for used in (10, 9, 10):
            house.to_budget.send_nowait(count(used))
        await trio.testing.wait_all_tasks_blocked()
        assert len(words(said, "info")) == 2
        nursery.cancel_scope.cancel()


async def test_the_runs_of_the_claim_itself_belong_to_what_people_see(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    async with trio.open_nursery() as nursery:
        await started(house, nursery)
        assert (house.gate.used, house.gate.cap, house.gate.blocked) == (0, 10, False)
        house.to_budget.send_nowait(count(7, taken=2))
        await trio.testing.wait_all_tasks_blocked()
        assert (house.gate.used, house.gate.cap, house.gate.blocked) == (9, 10, False)
        house.to_budget.send_nowait(count(9, taken=1))
        await trio.testing.wait_all_tasks_blocked()
        assert (house.gate.used, house.gate.blocked) == (10, True)
        nursery.cancel_scope.cancel()


@pytest.mark.claim("S0-052")
async def test_when_the_hour_turns_the_claimer_is_woken_if_jobs_waited(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    async with trio.open_nursery() as nursery:
        await started(house, nursery)
        house.to_budget.send_nowait(count(10))
        await trio.sleep(QUARTER_S - 1)
        with pytest.raises(trio.WouldBlock):
            house.claimer_inbox.receive_nowait()
        await trio.sleep(2)
        assert isinstance(house.claimer_inbox.receive_nowait(), Wake)
        assert (house.gate.counted, house.gate.blocked) == (None, False)
        house.to_budget.send_nowait(count(1))
        await trio.sleep(QUARTER_S + 1)
        with pytest.raises(trio.WouldBlock):
            house.claimer_inbox.receive_nowait()  # nothing waited
        nursery.cancel_scope.cancel()


async def test_with_a_limit_of_0_it_says_so_once_and_no_hour_changes_that(
    autojump_clock: trio.abc.Clock, said: list[EventDict]
) -> None:
    house = ActorHouse(gate=BudgetGate(BudgetRule(hourly_limit=0)))
    async with trio.open_nursery() as nursery:
        await started(house, nursery)
        for _ in range(3):
            house.to_budget.send_nowait(count(0, 0, left_s=None))
        await trio.sleep(7200)
        assert len(words(said, "info")) == 1
        assert "ENRICH_HOURLY_LIMIT" in words(said, "info")[0]
        assert (house.gate.cap, house.gate.blocked) == (0, True)
        nursery.cancel_scope.cancel()


async def test_what_was_counted_before_it_started_is_not_read(
    autojump_clock: trio.abc.Clock, said: list[EventDict]
) -> None:
    house = ActorHouse()
    house.to_budget.send_nowait(count(0, 0, left_s=None))
    async with trio.open_nursery() as nursery:
        await started(house, nursery)
        assert (house.gate.blocked, said) == (False, [])
        nursery.cancel_scope.cancel()


# --- fail closed ------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-054", "C-019")
async def test_a_budget_that_crashed_closes_the_gate_for_claude_until_it_runs_again(
    autojump_clock: trio.abc.Clock,
) -> None:
    house = ActorHouse()
    alarm, alarms = trio.open_memory_channel[Escalation](1)
    keeper = Keeper("budget", Policy.PERMANENT, house.budget, alarm, house.lifecycle)
    assert house.gate.rule.hourly_limit == 0  # not started yet
    async with trio.open_nursery() as nursery:
        await nursery.start(keeper.run)
        assert house.gate.rule == BudgetRule(hourly_limit=10)
        house.to_budget.send_nowait("no count")  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()
        assert keeper.state == "restarting"
        assert house.gate.rule == BudgetRule(hourly_limit=0)
        await trio.sleep(1.5)
        assert (keeper.restarts, house.gate.rule.hourly_limit) == (1, 10)
        nursery.cancel_scope.cancel()
    assert not house.gate.is_open
    with pytest.raises(trio.WouldBlock):
        alarms.receive_nowait()


@pytest.mark.claim("S0-054")
async def test_the_claimer_asks_for_no_claude_while_the_gate_is_closed_and_goes_on_with_the_rest(
    autojump_clock: trio.abc.Clock,
) -> None:
    memory = CountingQueue()
    house = ActorHouse(memory=memory)
    first = house.add("law 1")
    async with house.running():  # no budget actor
        assert (await house.ended(first.id)).status is JobStatus.COMPLETED
        assert {request.budget.hourly_limit for request in memory.requests} == {0}
        async with trio.open_nursery() as nursery:
            await started(house, nursery)
            second = house.add("law 2")
            await house.ended(second.id)
            assert memory.requests[-1].budget.hourly_limit == 10
            nursery.cancel_scope.cancel()


async def test_the_claimer_reports_what_was_counted_and_what_it_took(autojump_clock: trio.abc.Clock) -> None:
    memory = CountingQueue(used=4)
    house = ActorHouse(memory=memory, slots_of_role=2)
    for number in range(3):
        house.add(f"law {number}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.claimer().run)
        await house.claims.receive()
        reported = house.budget_inbox.receive_nowait()
        assert (reported.view.used, reported.view.cap, reported.taken) == (4, 10, 2)
        nursery.cancel_scope.cancel()
