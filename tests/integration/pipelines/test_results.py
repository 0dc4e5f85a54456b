"""Stored results go when nobody wants them any more, on a real database with a real store (``pipelines.md`` 7, D65)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import define, field
from structlog.testing import capture_logs

from actors.janitor import JanitorRule, ResultJanitor
from actors.ports.blobs import BlobFailed, Blobs, BlobSettings, open_blobs
from protocols.runs import RunStatus
from schema.pipelines import manage, tombstones
from schema.pipelines.rows import Run
from tests.kit.blobstores import FakeS3, fake_s3
from tests.kit.pipelines import Shop


@pytest.fixture(scope="module")
def s3() -> Iterator[FakeS3]:
    with fake_s3() as server:
        yield server


@define
class Place:
    """A shop whose runs store into a real store, and the janitor of that store."""

    shop: Shop
    blobs: Blobs
    janitor: ResultJanitor

    async def stored(self, *, expired: bool = False) -> Run:
        """A run with a result."""
        run = await self.shop.perform(await self.shop.pipeline())
        assert run.status is RunStatus.SUCCEEDED
        if expired:
            await self.shop.rows.sql("UPDATE pipeline_runs SET result_expires_at = now() WHERE id = $1", run.id)
        return run

    async def there(self, run: Run) -> bool:
        """Whether the object is in the store, whatever the run says."""
        assert run.result_blob_key is not None
        return await self.blobs.stat(run.result_blob_key) is not None

    async def stones(self) -> int:
        return int(await self.shop.rows.value("SELECT count(*) FROM blob_tombstones"))

    async def clean(self) -> None:
        await self.janitor.run_once(self.blobs)


async def place(shop: Shop, settings: BlobSettings) -> Place:
    blobs = await open_blobs(settings)
    shop.blobs = blobs  # type: ignore[assignment]  # the shop is written for the store in memory, and uses it as any other
    janitor = ResultJanitor(shop.database, partial(open_blobs, settings), JanitorRule(batch_s=0), batch=2)
    return Place(shop, blobs, janitor)


@pytest.fixture(params=["local", "s3"])
async def stocked(shop: Shop, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "s3":
        server: FakeS3 = request.getfixturevalue("s3")
        return await place(shop, server.settings())
    return await place(shop, BlobSettings(local_root=tmp_path / "results"))


@pytest.fixture
async def disk(shop: Shop, tmp_path: Path) -> Place:
    return await place(shop, BlobSettings(local_root=tmp_path / "results"))


@pytest.mark.claim("S3-131")
async def test_the_result_of_a_deleted_pipeline_is_removed_from_the_store_and_others_stay(stocked: Place) -> None:
    gone, kept = await stocked.stored(), await stocked.stored()
    assert (gone.result_blob_backend, await stocked.there(gone)) == (stocked.blobs.backend_name, True)
    await stocked.shop.database.transact(manage.delete_pipeline, gone.pipeline_id)
    assert await stocked.there(gone)
    await stocked.clean()
    assert (await stocked.there(gone), await stocked.there(kept)) == (False, True)
    assert (await stocked.stones(), stocked.janitor.removed) == (0, 1)


async def test_results_past_their_time_go_with_their_keys_in_as_many_batches_as_it_takes(stocked: Place) -> None:
    old = [await stocked.stored(expired=True) for _ in range(5)]
    fresh = await stocked.stored()
    await stocked.clean()
    assert [await stocked.there(run) for run in (*old, fresh)] == [False] * 5 + [True]
    assert [(await stocked.shop.run(run.id)).has_result for run in (*old, fresh)] == [False] * 5 + [True]
    assert (stocked.janitor.expired, stocked.janitor.removed, await stocked.stones()) == (5, 5, 0)
    await stocked.clean()
    assert (stocked.janitor.expired, stocked.janitor.removed) == (5, 5)


async def test_what_a_dead_claim_stored_goes_and_what_a_living_one_stores_stays(disk: Place) -> None:
    shop = disk.shop
    await shop.run_of(await shop.pipeline())
    work = await shop.claimed()
    key = f"pipeline_runs/{shop.workspace}/1/result-1.json"

    async def announce(connection: object, job: object) -> None:
        await tombstones.announce(connection, job, backend="local", key=key)  # type: ignore[arg-type]

    await work.write(announce)
    await disk.blobs.put(key, b"{}")
    await disk.clean()
    assert await disk.blobs.stat(key) == 2
    await shop.lose_worker(work)
    await disk.clean()
    assert (await disk.blobs.stat(key), await disk.stones()) == (None, 0)


async def test_what_killed_uploads_left_behind_is_swept(disk: Place, tmp_path: Path) -> None:
    run = await disk.stored()
    [result] = (tmp_path / "results").rglob("result-*.json")
    part = result.with_name(f"{result.name}#1")
    part.write_bytes(b"half")
    os.utime(part, (time.time() - 90_000,) * 2)
    await disk.clean()
    assert (part.exists(), await disk.there(run), disk.janitor.swept) == (False, True, 1)


@define
class Moody:
    """The store, which refuses some keys."""

    blobs: Blobs
    refused: set[str] = field(factory=set)
    asked: list[str] = field(factory=list)

    @property
    def backend_name(self) -> str:
        return self.blobs.backend_name

    async def delete(self, key: str) -> None:
        self.asked.append(key)
        if key in self.refused:
            raise BlobFailed("the store says no")
        await self.blobs.delete(key)

    async def sweep_parts(self) -> int:
        return await self.blobs.sweep_parts()


async def test_a_key_that_the_store_refuses_is_tried_last_the_next_time_and_keeps_no_other(disk: Place) -> None:
    runs = [await disk.stored(expired=True) for _ in range(3)]
    keys = [run.result_blob_key or "" for run in runs]
    store = Moody(disk.blobs, {keys[0]})
    await disk.janitor.run_once(store)
    assert store.asked == keys[:1]
    await disk.janitor.run_once(store)
    assert store.asked == [keys[0], keys[1], keys[2], keys[0]]
    assert [await disk.there(run) for run in runs] == [True, False, False]
    assert (disk.janitor.failed, await disk.stones()) == (2, 1)
    store.refused.clear()
    await disk.janitor.run_once(store)
    assert (await disk.there(runs[0]), await disk.stones()) == (False, 0)


async def test_two_janitors_at_once_remove_everything_and_fail_at_nothing(disk: Place) -> None:
    runs = [await disk.stored(expired=True) for _ in range(6)]
    other = ResultJanitor(disk.shop.database, partial(open_blobs, disk.blobs.settings), JanitorRule(batch_s=0))
    with capture_logs() as said:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.clean)
            nursery.start_soon(other.run_once, disk.blobs)
    assert [await disk.there(run) for run in runs] == [False] * 6
    assert (await disk.stones(), [line for line in said if line["log_level"] in ("error", "warning")]) == (0, [])


async def test_a_schedule_that_does_not_agree_with_the_pipelines_is_repaired_and_told(disk: Place) -> None:
    shop = disk.shop
    connector = await shop.connector(is_indexable=True, periodic_indexing_enabled=True, indexing_frequency_minutes=60)
    pipeline = await shop.pipeline(connector)
    await shop.rows.sql("DELETE FROM pipelines WHERE id = $1", pipeline.id)
    with capture_logs() as said:
        await disk.clean()
    assert await shop.rows.value("SELECT periodic_indexing_enabled FROM connectors WHERE id = $1", connector.id)
    assert [line["connector_id"] for line in said if line["event"].endswith("repaired")] == [connector.id]
