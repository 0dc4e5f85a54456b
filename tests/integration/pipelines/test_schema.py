"""The tables: what they refuse, what goes with what, and that they join a database that was there before."""

from __future__ import annotations

from typing import Any

import pytest

from schema import migrate
from schema.pipelines import tombstones
from tests.kit.pipelines import LABELS, ON, PRICE, Shop
from tests.kit.postgres import run_on


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE pipeline_runs SET status = 'failed', finished_at = now()",
        "UPDATE pipeline_runs SET status = 'succeeded'",
        "UPDATE pipeline_runs SET finished_at = now()",
        "UPDATE pipeline_runs SET crawls_attempted = 1, crawls_succeeded = 2",
        "UPDATE pipeline_runs SET status = 'cancelled', finished_at = now(), reserved_micros = 1",
        "UPDATE pipeline_runs SET charged_micros = -1",
        "UPDATE credit_wallets SET reserved_micros = -1",
        "UPDATE connectors SET periodic_saved = NULL",
        "UPDATE connectors SET periodic_indexing_enabled = true",
        "UPDATE connectors SET config = '[]'",
        "UPDATE pipelines SET name = '  '",
        "INSERT INTO leases VALUES ('law', 1, 'x', now(), now(), '1 minute')",
    ],
)
@pytest.mark.claim("S3-108")
async def test_a_row_that_contradicts_itself_is_refused(shop: Shop, statement: str) -> None:
    await shop.credit(5)
    await shop.run_of(await shop.pipeline())
    with pytest.raises(Exception, match=r"violates check constraint"):
        await shop.rows.sql(statement)


@pytest.mark.parametrize("what", ["pipelines", "connectors", "workspaces"])
async def test_whatever_deletes_a_run_leaves_neither_its_blob_nor_its_hold_behind(shop: Shop, what: str) -> None:
    shop.billing(ON)
    await shop.credit(10 * PRICE)
    pipeline = await shop.pipeline(urls=shop.urls(2))
    done = await shop.perform(pipeline)
    await shop.run_of(pipeline)
    await shop.rows.sql(
        "UPDATE pipeline_runs SET reserved_micros = 700, reserved_owner_id = $1 WHERE status = 'pending'", shop.owner
    )
    await shop.rows.sql("UPDATE credit_wallets SET reserved_micros = 900")
    await shop.rows.sql(f"DELETE FROM {what}")
    assert await shop.rows.value("SELECT reserved_micros FROM credit_wallets") == 200
    [stone] = await shop.database.run(tombstones.removable, backend="local")
    assert stone.key == done.result_blob_key
    kept = await shop.rows.value("SELECT count(*) FROM token_usage")
    assert kept == (0 if what == "workspaces" else 1)


async def test_an_owner_of_a_workspace_cannot_be_deleted_under_it(shop: Shop) -> None:
    with pytest.raises(Exception, match="workspaces"):
        await shop.rows.sql("DELETE FROM accounts WHERE id = $1", shop.owner)


async def test_a_result_past_its_time_is_forgotten_by_its_run_and_left_to_the_janitor(shop: Shop) -> None:
    old, fresh = await shop.perform(await shop.pipeline()), await shop.perform(await shop.pipeline())
    await shop.rows.sql("UPDATE pipeline_runs SET result_expires_at = now() WHERE id = $1", old.id)
    assert await shop.database.transact(tombstones.expire_results) == 1
    assert (await shop.run(old.id)).has_result is False
    assert (await shop.run(fresh.id)).has_result is True
    [stone] = await shop.database.run(tombstones.removable, backend="local")
    assert stone.key == old.result_blob_key
    assert await shop.database.run(tombstones.removable, backend="s3") == []
    await shop.database.run(tombstones.not_removed, stone.id)
    assert (await shop.database.run(tombstones.removable, backend="local"))[0].attempts == 1
    await shop.database.run(tombstones.removed, stone.id)
    assert await shop.database.run(tombstones.removable, backend="local") == []


@pytest.mark.claim("S3-112")
def test_the_tables_join_a_database_that_was_there_before_and_the_labels_do_not(empty_database_url: str) -> None:
    async def before(connection: Any) -> None:
        await migrate.migrate(connection, migrations=migrate.packaged_migrations()[:5])
        await connection.execute("INSERT INTO jobs (job_type, law_id) VALUES ('harvest', 'BWBR0000001')")

    async def after(connection: Any) -> tuple[Any, ...]:
        report = await migrate.migrate(connection)
        again = await migrate.migrate(connection)
        labels = await migrate.missing_job_types(connection, LABELS)
        await migrate.add_job_types(connection, labels)
        await migrate.add_job_types(connection, labels)
        return report.applied, again.applied, labels, await migrate.missing_job_types(connection, LABELS)

    run_on(empty_database_url, before)
    applied, again, missing, left = run_on(empty_database_url, after)
    assert any("pipelines" in name for name in applied)
    assert (again, missing, left) == ((), LABELS, ())
    assert run_on(empty_database_url, _nullable) is False


async def _nullable(connection: Any) -> bool:
    # D73
    return bool(
        await connection.fetchval(
            "SELECT is_nullable = 'YES' FROM information_schema.columns WHERE table_name = 'jobs' AND column_name = 'law_id'"
        )
    )
