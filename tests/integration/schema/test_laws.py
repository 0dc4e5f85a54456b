"""The status register of laws (queue.md 8.2, 10.2)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from protocols.failures import (
    InvalidInput,
    Transient,
)
from schema import laws
from schema.connection import Connection
from schema.errors import LawNotFound
from schema.laws import FailKind
from schema.queue import create_job
from schema.rows import JobRequest, JobType, LawStatus
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

# --- The register (queue.md 10.2) -------------------------------------------------------------------------------------


@pytest.mark.claim("S1-018", "S1-032")
async def test_a_new_law_is_unknown_and_a_second_upsert_replaces_name_and_slug_unless_they_are_absent(
    rows: Rows,
) -> None:
    law = await rows.database.run(laws.upsert_law, LAW, "Zorgtoeslag")
    assert (law.status, law.coverage_score, law.law_name, law.slug) == (LawStatus.UNKNOWN, None, "Zorgtoeslag", None)
    law = await rows.database.run(laws.upsert_law, LAW, "Wet op de zorgtoeslag", "wet_op_de_zorgtoeslag")
    assert (law.law_name, law.slug) == ("Wet op de zorgtoeslag", "wet_op_de_zorgtoeslag")
    law = await rows.database.run(laws.upsert_law, LAW)
    assert (law.law_name, law.slug) == ("Wet op de zorgtoeslag", "wet_op_de_zorgtoeslag")
    assert await rows.database.run(laws.find_law, "wet_op_de_zorgtoeslag") == law


@pytest.mark.claim("S0-019", "S1-033", "S1-037", "S1-041")
@pytest.mark.parametrize("status", list(LawStatus))
async def test_every_status_is_stored(rows: Rows, status: LawStatus) -> None:
    await rows.set_law(status)
    assert (await rows.law()).status is status


async def test_whatever_is_asked_of_an_unknown_law_is_a_typed_error(rows: Rows) -> None:
    job = await rows.add()
    run = rows.database.run
    for ask in (
        lambda: run(laws.get_law, LAW),
        lambda: run(laws.find_law, "some_slug"),
        lambda: run(laws.update_status, LAW, LawStatus.QUEUED),
        lambda: run(laws.set_harvest_job, LAW, job.id),
        lambda: run(laws.set_enrich_job, LAW, job.id),
        lambda: run(laws.set_coverage_score, LAW, 0.5),
        lambda: run(laws.increment_fail_count, LAW, FailKind.HARVEST),
    ):
        with pytest.raises(LawNotFound):
            await ask()


@pytest.mark.claim("S1-034", "S1-035", "S1-062", "S0-159")
async def test_jobs_are_linked_and_a_deleted_job_leaves_the_law(rows: Rows) -> None:
    await rows.set_law(LawStatus.QUEUED)
    one, two = await rows.add(), await rows.enrich()
    await rows.database.run(laws.set_harvest_job, LAW, one.id)
    await rows.database.run(laws.set_enrich_job, LAW, two.id)
    law = await rows.law()
    assert (law.harvest_job_id, law.enrich_job_id) == (one.id, two.id)
    await rows.sql("DELETE FROM jobs")
    law = await rows.law()
    assert (law.harvest_job_id, law.enrich_job_id) == (None, None)


@pytest.mark.claim("S1-036", "S0-159")
async def test_a_coverage_score_is_a_share(rows: Rows) -> None:
    await rows.set_law(LawStatus.ENRICHED)
    for score in (0.0, 0.85, 1.0):
        assert (await rows.database.run(laws.set_coverage_score, LAW, score)).coverage_score == score
    for score in (1.5, -0.1, math.nan, math.inf):
        with pytest.raises(InvalidInput):
            await rows.database.run(laws.set_coverage_score, LAW, score)
    assert (await rows.law()).coverage_score == 1.0


@pytest.mark.claim("S1-038")
async def test_laws_are_listed_by_id_and_by_status(rows: Rows) -> None:
    await rows.set_law(LawStatus.QUEUED, OTHER_LAW)
    await rows.set_law(LawStatus.HARVESTED, LAW)
    assert [law.law_id for law in await rows.database.run(laws.list_laws)] == [LAW, OTHER_LAW]
    assert [law.law_id for law in await rows.database.run(laws.list_laws, LawStatus.QUEUED)] == [OTHER_LAW]


@pytest.mark.claim("S1-006", "S1-025")
@pytest.mark.parametrize("breaks_after", [None, 1, 2, 3, 4])
async def test_a_group_of_operations_is_kept_as_a_whole_or_not_at_all(rows: Rows, breaks_after: int | None) -> None:
    async def unit(connection: Connection) -> None:
        job = await create_job(connection, JobRequest(JobType.HARVEST, LAW))
        steps: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: laws.upsert_law(connection, LAW, "Naam"),
            lambda: laws.set_harvest_job(connection, LAW, job.id),
            lambda: laws.update_status(connection, LAW, LawStatus.QUEUED),
        )
        for number, step in enumerate(steps, start=1):
            if number == breaks_after:
                raise Transient("broken off")
            await step()
        if breaks_after == 4:
            raise Transient("broken off")

    if breaks_after is None:
        await rows.database.transact(unit)
        law = await rows.law()
        assert (law.status, law.law_name) == (LawStatus.QUEUED, "Naam")
        assert law.harvest_job_id == (await rows.jobs_of(LAW))[0].id
        return
    with pytest.raises(Transient):
        await rows.database.transact(unit)
    assert await rows.sql("SELECT id FROM jobs") == await rows.sql("SELECT law_id FROM law_entries") == []


async def test_compare_and_set_and_protected_statuses(rows: Rows) -> None:
    protected = (LawStatus.HARVESTING, LawStatus.ENRICHING, LawStatus.HARVEST_EXHAUSTED)
    for status in protected:
        await rows.set_law(status)
        changed = await rows.database.run(laws.update_status_unless_any, LAW, protected, LawStatus.QUEUED)
        assert (changed, (await rows.law()).status) == (None, status)
    await rows.set_law(LawStatus.HARVEST_FAILED)
    assert await rows.database.run(laws.update_status_unless_any, LAW, protected, LawStatus.QUEUED) is not None
    assert await rows.database.run(laws.update_status_if, LAW, LawStatus.HARVESTED, LawStatus.ENRICHING) is None
    changed = await rows.database.run(laws.update_status_if, LAW, LawStatus.QUEUED, LawStatus.HARVESTING)
    assert changed is not None
    assert changed.status is LawStatus.HARVESTING


@pytest.mark.parametrize(
    ("status", "changed"), [(LawStatus.ENRICHING, 1), (LawStatus.ENRICHED, 0), (LawStatus.ENRICH_EXHAUSTED, 0)]
)
async def test_a_failed_enrichment_does_not_overwrite_a_success_or_an_exhaustion(
    rows: Rows, status: LawStatus, changed: int
) -> None:
    await rows.set_law(status)
    assert await rows.database.run(laws.mark_enrich_failed, LAW) == changed
    assert (await rows.law()).status is (LawStatus.ENRICH_FAILED if changed else status)


async def test_a_slug_that_another_law_has_costs_neither_the_name_nor_the_transaction(rows: Rows) -> None:
    await rows.database.run(laws.upsert_law, LAW, "Besluit", "besluit")
    await rows.database.run(laws.upsert_law, OTHER_LAW)

    async def unit(connection: Connection) -> list[bool]:
        return [
            await laws.rename_law(connection, OTHER_LAW, "Besluit", "besluit"),
            await laws.rename_law(connection, LAW, "Besluit", "besluit"),
            await laws.rename_law(connection, OTHER_LAW, None, None),
        ]

    assert await rows.database.transact(unit) == [False, True, True]
    law = await rows.law(OTHER_LAW)
    assert (law.law_name, law.slug) == ("Besluit", None)


async def test_a_slug_that_a_rival_takes_meanwhile_does_not_abort_the_transaction(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look finds it free, the unique index does not."""
    await rows.database.run(laws.upsert_law, LAW, "Besluit", "besluit")
    await rows.database.run(laws.upsert_law, OTHER_LAW)

    class Blind:
        def __init__(self, real: Connection) -> None:
            self._real = real

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

        async def fetchval(self, query: str, *args: object) -> None:
            assert "slug" in query

    async def unit(connection: Connection) -> tuple[bool, object]:
        blind = Blind(connection)
        taken = await laws.rename_law(blind, OTHER_LAW, "Besluit", "besluit")  # type: ignore[arg-type]
        return taken, await connection.fetchval("SELECT 1")

    assert await rows.database.transact(unit) == (False, 1)
    with pytest.raises(asyncpg.UniqueViolationError):
        await rows.database.run(laws.upsert_law, OTHER_LAW, "Besluit", "besluit")


@pytest.mark.claim("S1-061")
async def test_a_change_moves_updated_at(rows: Rows) -> None:
    await rows.set_law(LawStatus.QUEUED)
    before = (await rows.law()).updated_at
    await rows.set_law(LawStatus.HARVESTING)
    assert (await rows.law()).updated_at > before
