"""``laws``: the status of every law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schema.rows import LawStatus
from supervisor.commands.jobs import note_of
from supervisor.commands.session import embedded_option, json_option, on_database, print_fields, print_json, print_table
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.ports.database import Database
    from schema.rows import Job, LawEntry


@click.group(
    epilog="""\b
Examples:
  regelrecht-supervisor laws list
  regelrecht-supervisor laws list --status harvest_failed --json
  regelrecht-supervisor laws show BWBR0018451
  regelrecht-supervisor laws reset BWBR0018451
"""
)
def command() -> None:
    """List or show laws and their status, or reset one that failed too often."""


@command.command(
    "list",
    epilog="""\b
Example:
  regelrecht-supervisor laws list --status harvested
""",
)
@click.option(
    "--status",
    type=click.Choice([status.value for status in LawStatus]),
    metavar="STATUS",
    help=f"Only laws with this status: {', '.join(LawStatus)}.",
)
@json_option
@embedded_option
def list_(status: str | None, as_json: bool, embedded: bool) -> None:
    """List laws by id."""

    async def work(database: Database) -> Sequence[LawEntry]:
        from schema import laws

        return await database.run(laws.list_laws, None if status is None else LawStatus(status))

    found = on_database(work, embedded=embedded)
    if as_json:
        print_json([_document(law) for law in found])
        return
    if not found:
        say("no laws", err=True)
        return
    print_table(
        ("ID", "STATUS", "CHANGED UTC", "NAME"),
        [(law.law_id, law.status.value, f"{law.updated_at:%Y-%m-%d %H:%M}", law.law_name or "") for law in found],
    )


@command.command(
    epilog="""\b
Example:
  regelrecht-supervisor laws show wet_op_de_zorgtoeslag --json
"""
)
@click.argument("law", metavar="LAW")
@json_option
@embedded_option
def show(law: str, as_json: bool, embedded: bool) -> None:
    """Show one law, by its id or the name of its folder in the corpus, and what became of its last jobs."""

    async def work(database: Database) -> tuple[LawEntry, list[Job]]:
        from schema import laws
        from schema.queue import views

        found = await database.run(laws.find_law, law)
        linked = [job_id for job_id in (found.harvest_job_id, found.enrich_job_id) if job_id is not None]
        return found, [await database.run(views.get_job, job_id) for job_id in linked]

    found, jobs = on_database(work, embedded=embedded)
    document = _document(found)
    if as_json:
        print_json(document)
        return
    told = {f"last {job.job_type.value}": f"{job.status.value}: {note_of(job)}".rstrip(": ") for job in jobs}
    print_fields({name: value for name, value in {**document, **told}.items() if value not in (None, 0)})


@command.command(
    epilog="""\b
Example:
  regelrecht-supervisor laws reset BWBR0018451
"""
)
@click.argument("law", metavar="LAW")
@embedded_option
def reset(law: str, embedded: bool) -> None:
    """Let a law be tried again that failed so often that nothing is queued for it any more."""

    async def work(database: Database) -> list[str]:
        from schema import laws

        law_id = (await database.run(laws.find_law, law)).law_id
        kinds = [kind for kind in laws.FailKind if await database.transact(laws.reset_exhausted, law_id, kind)]
        return [kind.value for kind in kinds]

    done = on_database(work, embedded=embedded)
    say(f"{law}: {' and '.join(done)} may be asked for again" if done else f"{law} is not exhausted")


def _document(law: LawEntry) -> dict[str, Any]:
    """The columns of the row, by name."""
    import attrs

    return attrs.asdict(law)
