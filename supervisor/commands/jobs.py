"""``jobs``: look at the queue, end a job, try one again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schema.rows import JobStatus, JobType
from supervisor.commands.numbers import MOST_ROWS
from supervisor.commands.session import embedded_option, json_option, on_database, print_fields, print_json, print_table
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from actors.ports.database import Database
    from schema.rows import Job
    from supervisor.commands.holdups import HoldUps


@click.group(
    epilog="""\b
Examples:
  regelrecht-supervisor jobs list --status failed
  regelrecht-supervisor jobs show 3f2a
  regelrecht-supervisor jobs cancel 3f2a
  regelrecht-supervisor jobs retry 3f2a
"""
)
def command() -> None:
    """List, show, cancel or retry jobs.

    A job is named by its id, or by enough of its beginning to be the only one.
    """


@command.command(
    "list",
    epilog="""\b
Examples:
  regelrecht-supervisor jobs list --law BWBR0018451
  regelrecht-supervisor jobs list --status pending --limit 0 --json
""",
)
@click.option("--status", type=click.Choice([status.value for status in JobStatus]), help="Only jobs in this status.")
@click.option(
    "--type",
    "job_type",
    type=click.Choice([job_type.value for job_type in JobType]),
    metavar="TYPE",
    help=f"Only jobs of this type: {', '.join(JobType)}.",
)
@click.option("--law", metavar="ID", help="Only jobs of laws whose id contains this.")
@click.option(
    "--limit", type=click.IntRange(0, MOST_ROWS), default=50, show_default=True, help="Most jobs to list; 0 lists all."
)
@json_option
@embedded_option
def list_(status: str | None, job_type: str | None, law: str | None, limit: int, as_json: bool, embedded: bool) -> None:
    """List jobs, the newest first."""

    async def work(database: Database) -> tuple[Sequence[Job], HoldUps]:
        from schema.queue import views
        from supervisor.commands.holdups import hold_ups

        wanted = views.JobFilter(
            status=None if status is None else JobStatus(status),
            job_type=None if job_type is None else JobType(job_type),
            law_id=law,
            limit=limit or None,
        )
        return await database.run(views.find_jobs, wanted), await hold_ups(database)

    found, held_up = on_database(work, embedded=embedded)
    if as_json:
        waits = [{"waits_for": why} if (why := held_up.why(job)) else {} for job in found]
        print_json([{**document_of(job), **more} for job, more in zip(found, waits, strict=True)])
        return
    if not found:
        say("no jobs", err=True)
        return
    headings = ("ID", "TYPE", "LAW", "STATUS", "PRIO", "TRIES", "CREATED UTC", "NOTE")
    print_table(headings, [_row(job, held_up) for job in found], flexible=("NOTE", "LAW"))
    if limit and len(found) == limit:
        say(f"the newest {limit}; --limit 0 lists all", err=True)


@command.command(epilog="\b\nExample:\n  regelrecht-supervisor jobs show 3f2a --json\n")
@click.argument("job_id", metavar="JOB")
@json_option
@embedded_option
def show(job_id: str, as_json: bool, embedded: bool) -> None:
    """Show all that is known of one job."""

    async def work(database: Database) -> Job:
        from schema.queue import views

        return await database.run(views.get_job, await _the_one(database, job_id))

    _print_job(on_database(work, embedded=embedded), as_json)


@command.command(epilog="\b\nExample:\n  regelrecht-supervisor jobs cancel 3f2a\n")
@click.argument("job_id", metavar="JOB")
@json_option
@embedded_option
def cancel(job_id: str, as_json: bool, embedded: bool) -> None:
    """End a job for good. A running one ends within seconds, with everything it started; its law stays as it was."""

    async def work(database: Database) -> Job:
        from schema import requests

        return await database.transact(requests.cancel, await _the_one(database, job_id))

    job = on_database(work, embedded=embedded)
    if as_json:
        _print_job(job, as_json)
    elif job.status is JobStatus.PROCESSING:
        say(f"{job.id}: its supervisor was told to end it")
    else:
        say(f"{job.id}: cancelled")


@command.command(epilog="\b\nExample:\n  regelrecht-supervisor jobs retry 3f2a\n")
@click.argument("job_id", metavar="JOB")
@json_option
@embedded_option
def retry(job_id: str, as_json: bool, embedded: bool) -> None:
    """Try again: a failed job as a new one, a waiting one at once."""

    async def work(database: Database) -> tuple[UUID, Job]:
        from schema import requests

        found = await _the_one(database, job_id)
        return found, await database.transact(requests.retry, found)

    asked, job = on_database(work, embedded=embedded)
    if as_json:
        _print_job(job, as_json)
    elif job.id == asked:
        say(f"{job.id}: due now")
    else:
        say(f"{job.id}: queued, a new job with the work of {asked}")


async def _the_one(database: Database, text: str) -> UUID:
    """The id that ``text`` is or begins. InvalidInput when it is none, or the beginning of several."""
    import re
    from uuid import UUID

    from protocols.failures import InvalidInput
    from schema.queue import views

    try:
        return UUID(text)
    except ValueError:
        pass
    if not re.fullmatch(r"[0-9A-Fa-f-]{2,36}", text):
        raise InvalidInput(f"{text[:60]!r} is no job id: see `jobs list`")
    found = await database.run(views.find_job_ids, text)
    if not found:
        raise InvalidInput(f"there is no job {text}: see `jobs list`")
    if len(found) > 1:
        raise InvalidInput(f"{text} begins the ids of several jobs: {', '.join(str(id_)[:13] for id_ in found)}")
    return found[0]


def document_of(job: Job) -> dict[str, Any]:
    """The columns of the row, by name. Without the lease: whoever knows it may write."""
    import attrs

    return attrs.asdict(job, filter=lambda attribute, _: attribute.name != "lease")


def note_of(job: Job, waits_for: str = "") -> str:
    """What a line has room for: why it failed, who runs it, what it waits for and how its last attempt ended.

    ``waits_for``: what holds it up, where somebody has looked; without, when it is due.
    """
    result = job.result if isinstance(job.result, dict) else {}
    if job.status is JobStatus.PROCESSING:
        return f"by {job.claimed_by}" if job.claimed_by else ""
    if job.status is JobStatus.PENDING:
        due = "" if job.scheduled_at is None else f"due {job.scheduled_at:%Y-%m-%d %H:%M:%S} UTC"
        why = " ".join(str(result.get("error") or "").split())
        failed = f"attempt {job.deaths} failed: {why}" if why and job.deaths else ""
        return "; ".join(filter(None, (waits_for or due, failed)))
    if "skipped" in result:
        skipped = result["skipped"] if isinstance(result["skipped"], dict) else {}
        words = [str(skipped[key]).replace("_", " ") for key in ("kind", "date") if skipped.get(key)]
        return f"no text: {' '.join(words)}" if words else "no text"
    return str(result.get("error") or result.get("law_name") or "").replace("\n", " ")


def _row(job: Job, held_up: HoldUps) -> tuple[str, ...]:
    return (
        str(job.id)[:8],
        job.job_type.value,
        job.law_id,
        job.status.value,
        str(job.priority),
        f"{job.deaths}/{job.max_attempts - job.releases}",
        f"{job.created_at:%Y-%m-%d %H:%M}",
        note_of(job, held_up.why(job)),
    )


def _print_job(job: Job, as_json: bool) -> None:
    document = document_of(job)
    if as_json:
        print_json(document)
    else:
        print_fields(document)
