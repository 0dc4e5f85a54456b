"""Review tasks, blobs, uploads, flags, untranslatables (corpus-and-tasks.md 2-5, queue.md 8.3)."""

from __future__ import annotations

from uuid import UUID, uuid4

import asyncpg
import pytest

from protocols.failures import InvalidInput, Permanent, SupervisorError, Transient
from schema import flags, tasks, untranslatables
from schema.connection import Connection
from schema.rows import JobStatus, JobType
from schema.tasks import Blob, BlobKind, NewTask, Task, TaskStatus, TaskType
from schema.untranslatables import Untranslatable
from tests.kit.jobrows import LAW, Rows


@pytest.fixture
async def account(rows: Rows) -> UUID:
    return await new_account(rows, "a")


async def new_account(rows: Rows, name: str) -> UUID:
    account: UUID = await rows.value(
        "INSERT INTO accounts (person_sub, email, name) VALUES ($1, $1 || '@example.org', $1) RETURNING id", name
    )
    return account


async def new_task(rows: Rows, account: UUID, job_id: UUID | None = None, title: str = "Beoordelen") -> Task:
    return await rows.database.run(
        tasks.create_task,
        NewTask(TaskType.JOB_REVIEW, title, job_id=job_id, assignee_account_id=account, payload={"article": "1"}),
    )


async def test_open_tasks_of_an_account_are_listed_newest_first_and_counted(rows: Rows, account: UUID) -> None:
    other = await new_account(rows, "b")
    made = [await new_task(rows, account, title=f"taak {number}") for number in range(102)]
    await new_task(rows, other)
    listed = await rows.database.run(tasks.list_open_tasks_for_account, account)
    assert [task.id for task in listed] == [task.id for task in reversed(made)][:100]
    assert await rows.database.run(tasks.count_open_tasks_for_account, account) == 102
    assert (listed[0].payload, listed[0].status) == ({"article": "1"}, TaskStatus.OPEN)


async def test_a_task_is_resolved_once_and_only_by_its_assignee(rows: Rows, account: UUID) -> None:
    stranger = await new_account(rows, "b")
    task = await new_task(rows, account)
    resolve = tasks.resolve_task
    assert await rows.database.run(resolve, task.id, account, TaskStatus.OPEN) is None
    assert await rows.database.run(resolve, task.id, stranger, TaskStatus.APPROVED) is None
    assert await rows.database.run(resolve, uuid4(), account, TaskStatus.APPROVED) is None
    done = await rows.database.run(resolve, task.id, account, TaskStatus.REJECTED)
    assert done is not None
    assert (done.status, done.resolved_by, done.resolved_at is None) == (TaskStatus.REJECTED, account, False)
    assert await rows.database.run(resolve, task.id, account, TaskStatus.APPROVED) is None
    assert await rows.database.run(tasks.count_open_tasks_for_account, account) == 0


async def test_a_task_shows_the_result_blobs_of_its_job_to_its_assignee(rows: Rows, account: UUID) -> None:
    job = await rows.enrich()
    task = await new_task(rows, account, job.id)
    for kind, path in (
        (BlobKind.RESULT, "laws/b.yaml"),
        (BlobKind.RESULT, "laws/a.yaml"),
        (BlobKind.INPUT, "laws/a.yaml"),
    ):
        await rows.database.run(tasks.insert_blob, job.id, kind, path, f"{path}\x00")
    found = await rows.database.run(tasks.get_task_for_account, task.id, account)
    assert found is not None
    assert found[1] == [Blob("laws/a.yaml", "laws/a.yaml\ufffd"), Blob("laws/b.yaml", "laws/b.yaml\ufffd")]
    assert await rows.database.run(tasks.get_task_for_account, task.id, uuid4()) is None


async def test_a_second_blob_at_one_path_and_a_path_out_of_the_repository_fail_loudly(rows: Rows) -> None:
    job = await rows.enrich()
    await rows.database.run(tasks.insert_blob, job.id, BlobKind.INPUT, "a.yaml", "1")
    with pytest.raises(asyncpg.UniqueViolationError):
        await rows.database.run(tasks.insert_blob, job.id, BlobKind.INPUT, "a.yaml", "2")
    for path in ("", "/etc/passwd", "../a", "a/../../b"):
        with pytest.raises(InvalidInput, match="relative"):
            await rows.database.run(tasks.insert_blob, job.id, BlobKind.INPUT, path, "x")


async def test_blobs_live_until_the_last_task_of_their_job_is_resolved(rows: Rows, account: UUID) -> None:
    job = await rows.enrich()
    await rows.database.run(tasks.insert_blob, job.id, BlobKind.RESULT, "a.yaml", "1")
    first, second = await new_task(rows, account, job.id), await new_task(rows, account, job.id)
    await rows.database.run(tasks.resolve_task, first.id, account, TaskStatus.APPROVED)
    assert await rows.database.run(tasks.delete_blobs_for_finished_job, job.id) == 0
    await rows.database.run(tasks.resolve_task, second.id, account, TaskStatus.APPROVED)
    assert await rows.database.run(tasks.delete_blobs_for_finished_job, job.id) == 1
    assert await rows.value("SELECT count(*) FROM tasks") == 2  # the audit trail


async def test_running_task_jobs_of_an_account_are_listed(rows: Rows, account: UUID) -> None:
    flow = {"deliver": "task", "requested_by": str(account), "provider": "claude", "target_path": "a.md"}
    document = await rows.add(JobType.DOCUMENT_CONVERT, "doc:t/a.md", flow)
    enrich = await rows.add(JobType.ENRICH, "wet_a", flow)
    await rows.add(JobType.ENRICH, "wet_b", {**flow, "requested_by": str(uuid4())})
    await rows.add(JobType.ENRICH, "wet_c", {"provider": "claude"})
    failed = await rows.add(JobType.ENRICH, "wet_d", flow)
    await rows.sql("UPDATE jobs SET status = 'failed' WHERE id = $1", failed.id)
    listed = await rows.database.run(tasks.list_running_task_jobs_for_account, account)
    assert [job.id for job in listed] == [enrich.id, document.id]


async def test_names_of_documents_under_way_are_reserved_until_their_task_is_resolved(
    rows: Rows, account: UUID
) -> None:
    ref = "zorg-12345678"
    for path, status in (("a.md", "failed"), ("b.md", "completed"), ("c.md", "pending")):
        job = await rows.add(JobType.DOCUMENT_CONVERT, f"doc:{path}", {"target_path": path}, traject_ref=ref)
        await rows.sql("UPDATE jobs SET status = $2::text::job_status WHERE id = $1", job.id, status)
    payload = {"kind": "document", "traject_ref": ref, "target_path": "d.md"}
    task = await rows.database.run(
        tasks.create_task, NewTask(TaskType.JOB_REVIEW, "x", assignee_account_id=account, payload=payload)
    )
    reserved = tasks.open_document_task_target_paths
    assert await rows.database.run(reserved, ref) == {"a.md", "c.md", "d.md"}
    await rows.database.run(tasks.resolve_task, task.id, account, TaskStatus.APPROVED)
    assert await rows.database.run(reserved, ref) == {"a.md", "c.md"}


# --- The failure path (corpus-and-tasks.md 5) -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job_type", "payload", "title"),
    [
        (JobType.ENRICH, {"provider": "claude"}, "Verrijking mislukt: it"),
        (JobType.ENRICH, {"provider": "claude", "new_law": True}, "Wet aanmaken mislukt: it"),
        (JobType.DOCUMENT_CONVERT, {"target_path": "a.md"}, "Conversie mislukt: a.md"),
        (JobType.LAW_CONVERT, {"filename": "w.pdf"}, "Conversie naar wet mislukt: w.pdf"),
        (JobType.TRAJECT_HARVEST, {"bwb_id": LAW}, f"Wet ophalen mislukt: {LAW}"),
        (JobType.TRAJECT_HARVEST, {"bwb_id": LAW, "law_name": "Zorg"}, "Wet ophalen mislukt: Zorg"),
    ],
)
async def test_a_final_failure_is_told_in_dutch_and_takes_the_blobs_along(
    rows: Rows, account: UUID, job_type: JobType, payload: dict[str, object], title: str
) -> None:
    traject = await rows.value("INSERT INTO trajects (name, created_by) VALUES ('t', $1) RETURNING id", account)
    flow = {
        **payload,
        "deliver": "task",
        "requested_by": str(account),
        "traject_id": str(traject),
        "traject_ref": "t-1",
    }
    made = await rows.add(job_type, "it", flow)
    await rows.database.run(tasks.insert_blob, made.id, BlobKind.INPUT, "a.yaml", "1")
    job = await rows.claimed(job_type, count_budget=False)
    await rows.queue.fail(job.lease_held, Permanent("het document is leeg"))
    [row] = await rows.sql("SELECT id FROM tasks")
    found = await rows.database.run(tasks.get_task_for_account, row["id"], account)
    assert found is not None
    task, blobs = found
    assert (task.task_type, task.title, task.job_id, task.traject_id) == (TaskType.JOB_FAILED, title, job.id, traject)
    assert task.payload["error"] == "het document is leeg"
    assert task.payload["traject_ref"] == "t-1"
    assert blobs == []
    assert await rows.value("SELECT count(*) FROM job_blobs") == 0
    assert await rows.sql("SELECT * FROM law_entries") == []


@pytest.mark.parametrize(("failure", "told"), [(Transient("timeout"), False), (Permanent("no"), True)])
async def test_a_retry_tells_nobody_and_keeps_the_input(
    rows: Rows, account: UUID, failure: SupervisorError, told: bool
) -> None:
    made = await rows.add(JobType.TRAJECT_HARVEST, LAW, {"deliver": "task", "requested_by": str(account)})
    await rows.database.run(tasks.insert_blob, made.id, BlobKind.INPUT, "a.yaml", "1")
    job = await rows.claimed(JobType.TRAJECT_HARVEST)
    await rows.queue.fail(job.lease_held, failure)
    assert await rows.value("SELECT count(*) FROM tasks") == int(told)
    assert await rows.value("SELECT count(*) FROM job_blobs") == int(not told)


@pytest.mark.parametrize("requester", [None, "nobody", "00000000-0000-0000-0000-000000000001"])
async def test_a_failure_that_nobody_can_be_told_of_still_ends_the_job(rows: Rows, requester: str | None) -> None:
    await rows.add(JobType.LAW_CONVERT, "lawdoc:x", {"deliver": "task", "requested_by": requester})
    job = await rows.claimed(JobType.LAW_CONVERT)
    assert await rows.queue.fail(job.lease_held, Permanent("no")) is JobStatus.FAILED
    assert await rows.value("SELECT count(*) FROM tasks") == 0


# --- Garbage collection -----------------------------------------------------------------------------------------------


async def test_old_blobs_go_unless_a_task_is_open_or_their_job_still_waits(rows: Rows, account: UUID) -> None:  # Q9
    jobs = {name: await rows.enrich("opencode", law_id=name) for name in ("done", "young", "reviewed", "waits")}
    await rows.sql("UPDATE jobs SET status = 'completed' WHERE law_id <> 'waits'")
    await new_task(rows, account, jobs["reviewed"].id)
    for name, job in jobs.items():
        await rows.database.run(tasks.insert_blob, job.id, BlobKind.INPUT, f"{name}.yaml", "x")
    await rows.database.run(tasks.insert_blob, uuid4(), BlobKind.INPUT, "orphan.yaml", "x")
    await rows.sql("UPDATE job_blobs SET created_at = now() - interval '8 days' WHERE path <> 'young.yaml'")
    assert dict(await rows.queue.sweep()) == {"job_blobs": 2, "document_uploads": 0, "pipeline_runs": 0}
    left = await rows.sql("SELECT path FROM job_blobs ORDER BY path")
    assert [row["path"] for row in left] == ["reviewed.yaml", "waits.yaml", "young.yaml"]


async def test_old_uploads_go_unless_a_conversion_still_needs_them(rows: Rows) -> None:
    async def upload(name: str) -> UUID:
        made: UUID = await rows.value(
            """
            INSERT INTO document_uploads (traject_ref, filename, content_type, bytes, created_at)
            VALUES ('t', $1, 'text/plain', 'x', now() - interval '16 minutes') RETURNING id
            """,
            name,
        )
        return made

    needed, law, over = await upload("needed"), await upload("law"), await upload("over")
    young = await upload("young")
    await rows.sql("UPDATE document_uploads SET created_at = now() WHERE id = $1", young)
    await rows.add(JobType.DOCUMENT_CONVERT, "doc:1", {"upload_id": str(needed)})
    await rows.add(JobType.LAW_CONVERT, "lawdoc:1", {"upload_id": str(law)})
    ended = await rows.add(JobType.DOCUMENT_CONVERT, "doc:2", {"upload_id": str(over)})
    await rows.sql("UPDATE jobs SET status = 'failed' WHERE id = $1", ended.id)
    assert dict(await rows.queue.sweep())["document_uploads"] == 1
    left = await rows.sql("SELECT filename FROM document_uploads ORDER BY filename")
    assert [row["filename"] for row in left] == ["law", "needed", "young"]


# --- Flags and untranslatables ----------------------------------------------------------------------------------------


async def test_flags_are_listed_by_key_and_keep_their_description(rows: Rows) -> None:
    listed = await rows.database.run(flags.list_flags)
    assert [flag.key for flag in listed] == sorted(flag.key for flag in listed)
    assert len(listed) == 5
    assert await rows.database.run(flags.get_flag, "panel.unknown") is None
    changed = await rows.database.run(flags.upsert_flag, "panel.yaml_editor", False)
    assert (changed.enabled, changed.description) == (False, "YAML editor (midden paneel)")
    new = await rows.database.run(flags.upsert_flag, "x", True, "Nieuw")
    assert await rows.database.run(flags.get_flag, "x") == new


async def test_untranslatables_are_replaced_per_law_and_provider(rows: Rows) -> None:
    job = await rows.enrich()

    async def replace(provider: str, *constructs: str) -> None:
        found = [Untranslatable("1", construct, "why\x00", suggestion="s") for construct in constructs]

        async def unit(connection: Connection) -> None:
            await untranslatables.replace_untranslatables(connection, LAW, provider, job.id, found)

        await rows.database.transact(unit)

    async def current(provider: str) -> list[str]:
        return [row.construct for row in await rows.database.run(untranslatables.list_untranslatables, LAW, provider)]

    await replace("claude", "a", "b")
    await replace("opencode", "c")
    await replace("claude", "d")
    assert (await current("claude"), await current("opencode")) == (["d"], ["c"])
    await replace("claude")
    assert await current("claude") == []
    await rows.sql("DELETE FROM jobs")
    assert await current("opencode") == []
