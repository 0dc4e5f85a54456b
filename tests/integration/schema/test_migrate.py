"""Migrations: fresh, twice, two at once, and on a database that the existing platform made (D2, DB-08)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from attrs import evolve

from schema import platform
from schema.errors import MigrationRefused
from schema.migrate import (
    LOCK_KEY,
    Migration,
    MigrationReport,
    add_job_types,
    is_adopted,
    migrate,
    packaged_migrations,
)
from tests.kit.postgres import run_on

NAMES = tuple(migration.name for migration in packaged_migrations())
Connection = Any  # the published types of asyncpg do not say that a Record is a Mapping


def on(url: str, query: str, *args: Any) -> list[dict[str, Any]]:
    """The rows of one query."""

    async def fetch(connection: Connection) -> list[dict[str, Any]]:
        return [dict(row) for row in await connection.fetch(query, *args)]

    rows: list[dict[str, Any]] = run_on(url, fetch)
    return rows


def migrated(url: str, **options: Any) -> MigrationReport:
    async def go(connection: Connection) -> MigrationReport:
        return await migrate(connection, **options)

    report: MigrationReport = run_on(url, go)
    return report


@pytest.fixture
def url(empty_database_url: str) -> str:
    return empty_database_url


@pytest.fixture
def platform_url(url: str) -> str:
    """A database as the existing services leave it: their names, their indexes, their bookkeeping."""

    async def build(connection: Connection) -> None:
        await connection.execute(packaged_migrations()[0].sql)
        await connection.execute(
            """
            CREATE INDEX idx_jobs_queue ON jobs (priority DESC, created_at ASC, scheduled_at) WHERE status = 'pending';
            CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, description text NOT NULL);
            INSERT INTO _sqlx_migrations SELECT n, 'migration ' || n FROM generate_series(1, 33) AS n;
            INSERT INTO jobs (job_type, law_id, status) VALUES ('harvest', 'BWBR0000001', 'processing');
            INSERT INTO law_entries (law_id, status) VALUES ('BWBR0000002', 'enrich_exhausted');
            """
        )

    run_on(url, build)
    return url


def everything(url: str) -> dict[str, set[str]]:
    """Names of tables with their columns, of indexes, triggers and enum labels."""
    return {
        "columns": {
            f"{row['table_name']}.{row['column_name']}"
            for row in on(
                url, "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            )
        },
        "indexes": {
            row["indexname"] for row in on(url, "SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")
        },
        "triggers": {row["tgname"] for row in on(url, "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal")},
        "labels": {
            f"{row['typname']}.{row['enumlabel']}"
            for row in on(url, "SELECT typname, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid")
        },
    }


@pytest.mark.claim("S1-058", "S1-063", "S0-019", "S1-039", "S1-040", "S0-156", "S0-157")
def test_an_empty_database_gets_the_whole_platform_schema_and_a_second_run_does_nothing(url: str) -> None:
    report = migrated(url)
    assert (report.applied, report.already, report.adopted) == (NAMES, 0, False)
    again = migrated(url)
    assert (again.applied, again.already) == ((), len(NAMES))
    found = everything(url)
    for table, columns in platform.COLUMNS.items():
        assert {f"{table}.{column}" for column in columns.split()} <= found["columns"]
    for name, labels in platform.ENUMS.items():
        in_order = on(
            url, "SELECT enumlabel FROM pg_enum WHERE enumtypid = $1::text::regtype ORDER BY enumsortorder", name
        )
        assert tuple(row["enumlabel"] for row in in_order) == labels
    assert "trg_jobs_updated_at" in found["triggers"]
    assert "trg_tasks_updated_at" not in found["triggers"]
    flags = on(url, "SELECT key, enabled FROM feature_flags ORDER BY key")
    assert [(row["key"], row["enabled"]) for row in flags] == [
        ("panel.article_text", True),
        ("panel.execution_trace", True),
        ("panel.machine_readable", False),
        ("panel.scenario_form", True),
        ("panel.yaml_editor", True),
    ]


def test_no_extension_is_needed_and_foreign_bookkeeping_is_never_made(url: str) -> None:
    migrated(url)
    assert [row["extname"] for row in on(url, "SELECT extname FROM pg_extension")] == ["plpgsql"]
    assert on(url, "SELECT to_regclass('_sqlx_migrations') AS it") == [{"it": None}]


def test_no_index_mentions_what_a_beat_or_a_progress_report_writes(url: str) -> None:  # D4
    migrated(url)
    definitions = " ".join(
        row["indexdef"] for row in on(url, "SELECT indexdef FROM pg_indexes WHERE tablename = 'jobs'")
    )
    for column in ("heartbeat_at", "progress", "updated_at"):
        assert column not in definitions


def test_the_claim_index_holds_what_is_due_now_in_claim_order(url: str) -> None:  # D4
    migrated(url)
    [row] = on(url, "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_jobs_claim'")
    assert (
        "(job_type, COALESCE((payload ->> 'provider'::text), ''::text), priority DESC, created_at, id)"
        in row["indexdef"]
    )
    assert "(scheduled_at IS NULL)" in row["indexdef"]


# --- Several at once (DB-08) ------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-162")
def test_eight_that_start_together_on_an_empty_database_apply_each_step_once(url: str) -> None:
    async def all_at_once() -> list[MigrationReport]:
        connections: list[Connection] = [await asyncpg.connect(url) for _ in range(8)]
        try:
            return await asyncio.wait_for(asyncio.gather(*(migrate(c, lock_poll_s=0.05) for c in connections)), 25)
        finally:
            for connection in connections:
                await connection.close()

    reports = asyncio.run(all_at_once())
    assert sorted(len(report.applied) for report in reports) == [0] * 7 + [len(NAMES)]
    assert [row["name"] for row in on(url, "SELECT name FROM supervisor_migrations ORDER BY version")] == list(NAMES)
    assert on(url, "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid") == []


def test_an_index_that_an_interrupted_build_left_invalid_is_built_again(url: str) -> None:
    migrated(url)

    async def interrupt(connection: Connection) -> None:
        await connection.execute("DELETE FROM supervisor_migrations WHERE version = 3")
        await connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_jobs_claim'::regclass")

    run_on(url, interrupt)
    assert migrated(url).applied == ("0003_queue_indexes",)
    assert on(url, "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid") == []


def test_who_waits_too_long_for_another_s_migration_says_where_to_look(url: str) -> None:
    async def go() -> None:
        holder: Connection = await asyncpg.connect(url)
        late: Connection = await asyncpg.connect(url)
        heard: list[float] = []
        try:
            await holder.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
            with pytest.raises(MigrationRefused, match="pg_locks"):
                await migrate(late, lock_wait_s=0.1, lock_poll_s=0.05, on_wait=heard.append)
            assert len(heard) >= 2
            await holder.execute("SELECT pg_advisory_unlock($1)", LOCK_KEY)
            assert (await migrate(late)).applied == NAMES
            assert await holder.fetchval("SELECT pg_try_advisory_lock($1)", LOCK_KEY)  # given back
        finally:
            await holder.close()
            await late.close()

    asyncio.run(go())


def test_a_failing_migration_gives_the_lock_and_the_settings_back_and_keeps_nothing(url: str) -> None:
    bad = Migration(1, "0001_bad", "CREATE TABLE half (id int); SELECT 1/0;")

    async def go(connection: Connection) -> tuple[str, str, bool]:
        before = await connection.fetchval("SHOW statement_timeout")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(connection, migrations=[bad])
        held = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        return before, await connection.fetchval("SHOW statement_timeout"), bool(held)

    before, after, held = run_on(url, go)
    assert (before, held) == (after, False)
    assert on(url, "SELECT to_regclass('half') AS it") == [{"it": None}]


# --- What must not change ---------------------------------------------------------------------------------------------


def test_a_migration_that_was_changed_after_its_release_is_refused(url: str) -> None:
    migrated(url)
    changed = [evolve(m, sql=m.sql + "\n-- edited") if m.version == 2 else m for m in packaged_migrations()]
    with pytest.raises(MigrationRefused, match="0002_supervisor"):
        migrated(url, migrations=changed)


def test_a_database_of_a_newer_release_is_used_as_it_is(url: str) -> None:
    newer = Migration(9999, "9999_later", "CREATE TABLE later (id int)")
    migrated(url, migrations=[*packaged_migrations(), newer])
    assert migrated(url).newer == (9999,)


@pytest.mark.claim("S1-056")
def test_a_server_that_is_too_old_is_refused_by_name() -> None:
    class Old:
        async def fetchval(self, query: str, *_: object) -> str:
            return "120022" if "num" in query else "12.22"

    with pytest.raises(MigrationRefused, match=r"PostgreSQL 12\.22 is too old: 13 or newer"):
        asyncio.run(migrate(Old()))  # type: ignore[arg-type]


# --- Adoption (D2) ----------------------------------------------------------------------------------------------------


def test_a_database_of_the_platform_is_only_added_to(platform_url: str) -> None:
    before = everything(platform_url)
    rows_before = on(platform_url, "SELECT version, description FROM _sqlx_migrations ORDER BY version")
    report = migrated(platform_url)
    after = everything(platform_url)
    assert (report.adopted, report.added_anyway) == (True, ())
    for kind, names in before.items():
        assert names <= after[kind], kind
    assert "idx_jobs_queue" in after["indexes"]
    # D23: strict readers of the platform's enums must not meet a label they do not know
    assert {label for label in after["labels"] if label.partition(".")[0] in platform.ENUMS} == before["labels"]
    assert on(platform_url, "SELECT version, description FROM _sqlx_migrations ORDER BY version") == rows_before
    assert on(platform_url, "SELECT status::text, lease, releases FROM jobs") == [
        {"status": "processing", "lease": None, "releases": 0}
    ]
    assert on(platform_url, "SELECT enrich_exhausted_at IS NOT NULL AS kept FROM law_entries") == [{"kept": True}]
    assert migrated(platform_url).applied == ()
    assert run_on(platform_url, is_adopted)


def test_our_own_database_is_not_an_adopted_one(url: str) -> None:
    assert not run_on(url, is_adopted)
    migrated(url)
    assert not run_on(url, is_adopted)


def test_a_platform_that_lacks_what_its_next_release_adds_is_left_alone_unless_told_otherwise(
    platform_url: str,
) -> None:
    def strip(connection: Connection) -> Any:
        return connection.execute("ALTER TABLE jobs DROP COLUMN heartbeat_at; DROP TABLE markings")

    run_on(platform_url, strip)
    before = everything(platform_url)
    with pytest.raises(MigrationRefused, match=r"jobs\.heartbeat_at, markings.*--add-anyway"):
        migrated(platform_url)
    assert everything(platform_url) == before
    report = migrated(platform_url, add_anyway=True)
    assert report.added_anyway == ("jobs.heartbeat_at", "markings")
    assert {"jobs.heartbeat_at", "markings.law_id"} <= everything(platform_url)["columns"]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("ALTER TABLE jobs DROP COLUMN scheduled_at", r"jobs\.scheduled_at"),
        ("DROP TABLE tasks", "tasks"),
        ("DROP INDEX idx_unique_active_harvest_job", "idx_unique_active_harvest_job"),
        ("ALTER TABLE law_entries RENAME COLUMN coverage_score TO quality_score", r"law_entries\.coverage_score"),
        ("DROP TABLE job_blobs; DROP TABLE document_uploads", "job_blobs, document_uploads"),
    ],
)
def test_a_platform_of_an_older_release_must_be_upgraded_by_its_own_services(
    platform_url: str, damage: str, named: str
) -> None:
    def hurt(connection: Connection) -> Any:
        return connection.execute(damage)

    run_on(platform_url, hurt)
    with pytest.raises(MigrationRefused, match=f"lacks {named}.*Upgrade"):
        migrated(platform_url, add_anyway=True)
    assert on(platform_url, "SELECT to_regclass('supervisor_migrations') AS it") == [{"it": None}]


def test_an_older_enum_of_the_platform_is_named_by_its_missing_label(url: str) -> None:
    def build(connection: Connection) -> Any:
        sql = packaged_migrations()[0].sql.replace(", 'traject_harvest')", ")")
        return connection.execute(sql + "; CREATE TABLE _sqlx_migrations (version bigint)")

    run_on(url, build)
    with pytest.raises(MigrationRefused, match="job_type 'traject_harvest'"):
        migrated(url)


# --- Job types (D23, D27) ---------------------------------------------------------------------------------------------


def test_a_job_type_is_added_once_and_only_by_a_plain_name(url: str) -> None:
    migrated(url)

    def add(*labels: str) -> Callable[[Connection], Awaitable[None]]:
        return lambda connection: add_job_types(connection, labels)

    run_on(url, add("probe"))
    run_on(url, add("probe", "pipeline_run"))
    labels = {row["l"] for row in on(url, "SELECT unnest(enum_range(NULL::job_type))::text AS l")}
    assert {"probe", "pipeline_run"} <= labels
    with pytest.raises(MigrationRefused):
        run_on(url, add("x'; DROP TABLE jobs; --"))


def test_the_packaged_files_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in packaged_migrations()] == list(range(1, len(NAMES) + 1))
