"""Wallets under pressure: many runs at once, every interleaving of crash, reap and charge, and the sums always agree."""

from __future__ import annotations

import random
from uuid import uuid4

import pytest
import trio
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from actors.ports.database import Database, DatabaseSettings, open_database
from protocols.credits import InsufficientCredits, Pricing
from protocols.failures import InvalidInput
from protocols.runs import RunStatus
from schema.pipelines import asking, wallet
from schema.pipelines.rows import Run
from schema.pipelines.wallet import Usage
from schema.rows import JobType
from tests.kit.pipelines import BROKEN, ON, PRICE, HandWork, Shop
from tests.kit.postgres import PostgresServer


@pytest.mark.slow
@pytest.mark.time_limit(180)
async def test_fifty_runs_of_one_owner_at_once_with_credit_for_twenty_urls_never_go_below_zero(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(20 * PRICE)
    places = [shop, await shop.another(), await shop.another()]
    made: list[Run] = []
    for number in range(50):
        place = places[number % 3]
        made.append(
            await place.run_of(await place.pipeline(urls=place.urls(1 + number % 4), save_to_kb=number % 2 == 0))
        )
    least: list[int] = []

    async def look(_: str) -> None:
        found = await shop.wallet()
        least.append(found.spendable_micros)
        assert found.balance_micros >= 0
        await trio.sleep(random.random() / 200)

    shop.crawler.before = look
    claims = [HandWork(shop.rows, job) for job in (await shop.rows.claim(JobType.PIPELINE_RUN, slots=50)).jobs]
    assert len(claims) == 50
    async with trio.open_nursery() as nursery:
        for work in claims:
            nursery.start_soon(shop.work_off, work)
    done = [await shop.run(run.id) for run in made]
    succeeded = [run for run in done if run.status is RunStatus.SUCCEEDED]
    refused = [run for run in done if run.status is RunStatus.FAILED]
    assert len(succeeded) + len(refused) == 50
    assert {run.error["code"] for run in refused if run.error} == {"out_of_credit"}
    charged = sum(run.charged_micros or 0 for run in done)
    assert charged == sum((run.crawls_succeeded or 0) * PRICE for run in succeeded)
    found = await shop.wallet()
    assert (found.balance_micros, found.reserved_micros) == (20 * PRICE - charged, 0)
    assert 0 <= found.balance_micros < 20 * PRICE
    assert min(least) >= 0
    assert sum(line["cost_micros"] for line in await shop.usage()) == charged
    assert await shop.imbalances() == []
    assert await shop.leases() == 0


async def test_of_two_runs_at_once_with_credit_for_one_one_is_refused(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(3 * PRICE)
    first, second = [await shop.run_of(await shop.pipeline(urls=shop.urls(2))) for _ in range(2)]
    works = [await shop.claimed(), await shop.claimed()]
    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(shop.work_off, work)
    states = [(await shop.run(run.id)).status for run in (first, second)]
    assert sorted(states) == [RunStatus.FAILED, RunStatus.SUCCEEDED]
    assert (await shop.wallet()).balance_micros == PRICE
    assert await shop.imbalances() == []


async def test_twenty_charges_at_once_lose_no_micro(shop: Shop) -> None:
    await shop.credit(1_000_000)

    async def charge() -> None:
        usage = Usage(shop.workspace, shop.owner, 1234, {})
        assert await shop.database.transact(wallet.charge_credits, usage, ON, 1)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(charge)
    assert (await shop.wallet()).balance_micros == 1_000_000 - 20 * 1234
    assert await shop.imbalances() == []


# --- the services -------------------------------------------------------------------------------------------------------


async def test_a_question_holds_nothing_and_a_hold_is_had_at_once_or_not(shop: Shop) -> None:
    await shop.credit(5 * PRICE)
    await shop.database.run(wallet.check_credits, shop.owner, 5, ON)
    with pytest.raises(InsufficientCredits) as poor:
        await shop.database.run(wallet.check_credits, shop.owner, 6, ON)
    assert (poor.value.required_micros, poor.value.available_micros) == (6 * PRICE, 5 * PRICE)
    await shop.database.run(wallet.check_credits, shop.owner, 6, Pricing(False))
    assert (await shop.wallet()).reserved_micros == 0
    await shop.database.transact(wallet.reserve, shop.owner, 3 * PRICE)
    with pytest.raises(InsufficientCredits):
        await shop.database.transact(wallet.reserve, shop.owner, 2 * PRICE + 1)
    await shop.database.transact(wallet.give_back, shop.owner, 3 * PRICE)
    assert (await shop.wallet()).spendable_micros == 5 * PRICE


async def test_nothing_is_charged_while_billing_is_off_and_an_owner_without_a_wallet_has_nothing(shop: Shop) -> None:
    usage = Usage(shop.workspace, shop.owner, PRICE, {})
    assert not await shop.database.transact(wallet.charge_credits, usage, Pricing(False), 1)
    assert not await shop.database.transact(wallet.charge_credits, usage, ON, 0)
    with pytest.raises(InsufficientCredits):
        await shop.database.transact(wallet.reserve, shop.owner, 1)
    assert await shop.rows.value("SELECT count(*) FROM credit_wallets") == 0


async def test_a_run_is_charged_once_however_often_it_is_settled(shop: Shop) -> None:
    # WB-05
    await shop.credit(5 * PRICE)
    usage = Usage(shop.workspace, shop.owner, PRICE, {}, run_id=77)
    await shop.database.transact(wallet.reserve, shop.owner, 2 * PRICE)
    assert await shop.database.transact(wallet.settle, usage, held_micros=PRICE)
    assert not await shop.database.transact(wallet.settle, usage, held_micros=PRICE)
    found = await shop.wallet()
    assert (found.balance_micros, found.reserved_micros) == (4 * PRICE, 0)


async def test_a_hold_that_the_wallet_does_not_know_is_told_and_never_makes_it_negative(shop: Shop) -> None:
    await shop.credit(5 * PRICE)
    await shop.database.transact(wallet.reserve, shop.owner, PRICE)
    with capture_logs() as said:
        await shop.database.transact(wallet.give_back, shop.owner, PRICE)
        assert said == []
        await shop.database.transact(wallet.give_back, shop.owner, 300)
    [line] = said
    assert (line["log_level"], line["lacking_micros"]) == ("error", 300)
    assert (await shop.wallet()).reserved_micros == 0


async def test_every_credit_is_on_record_and_must_be_one(shop: Shop) -> None:
    await shop.database.transact(wallet.credit, shop.owner, 500, reason="factuur", entered_by="beheer")
    await shop.database.transact(wallet.credit, shop.owner, -200, reason="correctie", entered_by="beheer")
    rows = await shop.rows.sql("SELECT amount_micros, reason, entered_by FROM credit_entries ORDER BY id")
    assert [tuple(row.values()) for row in rows] == [(500, "factuur", "beheer"), (-200, "correctie", "beheer")]
    for amount, who in ((0, shop.owner), (5, uuid4())):
        with pytest.raises(InvalidInput):
            await shop.database.transact(wallet.credit, who, amount, reason="", entered_by="")
    assert await shop.imbalances() == []


async def test_an_imbalance_is_seen(shop: Shop) -> None:
    await shop.credit(1000)
    await shop.rows.sql("UPDATE credit_wallets SET balance_micros = 900, reserved_micros = 7")
    [off] = await shop.imbalances()
    assert (off.owner_id, off.balance_off_micros, off.reserved_off_micros) == (shop.owner, -100, 7)


# --- every interleaving -------------------------------------------------------------------------------------------------


@define
class World:
    """Runs at every stage of their life, moved on by chance. ``check`` is what holds after each move."""

    shop: Shop
    dice: random.Random
    held: list[HandWork] = field(factory=list)
    ended: list[tuple[HandWork, object]] = field(factory=list)

    async def ask(self) -> None:
        pages = self.dice.randint(1, 3)
        await self.shop.run_of(
            await self.shop.pipeline(urls=self.shop.urls(pages), save_to_kb=self.dice.random() < 0.5)
        )

    async def claim(self) -> None:
        for job in (await self.shop.rows.claim(JobType.PIPELINE_RUN)).jobs:
            self.held.append(HandWork(self.shop.rows, job))

    async def work(self) -> None:
        """To the end, or to a sudden death at one of its writes."""
        if not self.held:
            return
        work = self.held.pop(self.dice.randrange(len(self.held)))
        deadly = self.dice.randint(1, 12)
        with trio.CancelScope() as process:

            async def die(number: int) -> None:
                if number == deadly:
                    process.cancel()
                    await trio.lowlevel.checkpoint()

            work.before_write = die
            await self.shop.work_off(work)
        work.before_write = None
        if process.cancelled_caught:
            self.held.append(work)

    async def reap(self) -> None:
        if self.held:
            await self.shop.rows.age(self.dice.choice(self.held).job.id, 10_000)
            await self.shop.rows.reap_all()

    async def hand_back(self) -> None:
        if self.held:
            await self.shop.rows.queue.hand_back(self.dice.choice(self.held).lease, why="drain")

    async def cancel(self) -> None:
        rows = await self.shop.rows.sql("SELECT id FROM pipeline_runs WHERE status IN ('pending', 'running')")
        if rows:
            await self.shop.database.transact(asking.cancel_run, self.dice.choice(list(rows))["id"])

    async def delete(self) -> None:
        await self.shop.rows.sql("DELETE FROM pipelines WHERE id = (SELECT max(id) FROM pipelines)")

    async def credit(self) -> None:
        await self.shop.credit(self.dice.randint(1, 4) * PRICE)

    async def sweep(self) -> None:
        await self.shop.rows.queue.sweep()

    async def check(self) -> None:
        assert await self.shop.imbalances() == []
        assert (await self.shop.wallet()).balance_micros >= 0
        off = await self.shop.rows.sql(
            """
            SELECT r.id FROM pipeline_runs AS r
            WHERE COALESCE(r.charged_micros, 0) <> COALESCE(
                (SELECT sum(u.cost_micros) FROM token_usage AS u WHERE u.pipeline_run_id = r.id), 0)
               OR (r.status NOT IN ('pending', 'running') AND r.reserved_micros <> 0)
            """
        )
        assert list(off) == []


MOVES = (
    "ask",
    "ask",
    "claim",
    "claim",
    "work",
    "work",
    "work",
    "reap",
    "hand_back",
    "cancel",
    "delete",
    "credit",
    "sweep",
)


@pytest.mark.slow
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), moves=st.lists(st.sampled_from(MOVES), min_size=15, max_size=40))
def test_no_interleaving_of_claims_deaths_reaps_and_charges_breaks_the_sums(
    interleaving_server: PostgresServer, template: str, seed: int, moves: list[str]
) -> None:
    async def play(url: str) -> None:
        async with open_database(DatabaseSettings(url=url)) as database:
            await _play(database, seed, moves)

    with interleaving_server.fresh(template) as url:
        trio.run(play, url)


async def _play(database: Database, seed: int, moves: list[str]) -> None:
    shop = await Shop.open(database)
    shop.billing(ON)
    shop.crawler.pages = {"https://site.example/1": BROKEN}
    world = World(shop, random.Random(seed))
    await world.credit()
    for move in moves:
        await getattr(world, move)()
        await world.check()
    for work in world.held:
        await shop.rows.age(work.job.id, 10_000)
    await shop.rows.reap_all()
    await world.check()
    assert await shop.leases() == 0
    for job in (await shop.rows.claim(JobType.PIPELINE_RUN, slots=100)).jobs:
        await shop.work_off(HandWork(shop.rows, job))
    await shop.rows.sql("UPDATE jobs SET completed_at = completed_at - interval '1 hour' WHERE status <> 'pending'")
    await shop.rows.queue.sweep()
    await world.check()
    assert await shop.rows.value("SELECT count(*) FROM pipeline_runs WHERE status IN ('pending', 'running')") == 0
    assert (await shop.wallet()).reserved_micros == 0


@pytest.fixture(scope="session")
def interleaving_server(postgres_server: PostgresServer) -> PostgresServer:
    return postgres_server


@pytest.fixture(scope="session")
def template(_template: str) -> str:
    return _template
