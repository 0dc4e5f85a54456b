"""``pipelines``: look at pipelines, run one, and keep schedules in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.numbers import ID
from supervisor.commands.session import embedded_option, json_option, on_database, print_json, print_table
from supervisor.terminaltext import say

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from actors.ports.database import Database
    from schema.pipelines.periodic import PeriodicChange
    from schema.pipelines.rows import Pipeline, Run


@click.group(
    epilog="""\b
Examples:
  regelrecht-supervisor pipelines daily-reharvest 1
  regelrecht-supervisor pipelines list
  regelrecht-supervisor pipelines run 3
  regelrecht-supervisor pipelines history 1
  regelrecht-supervisor pipelines repair-suppression
"""
)
def command() -> None:
    """List or run pipelines, add the one that harvests every law again each night, repair their schedules."""


@command.command("list", epilog="\b\nExample:\n  regelrecht-supervisor pipelines list --json\n")
@json_option
@embedded_option
def list_(as_json: bool, embedded: bool) -> None:
    """List pipelines by id."""

    async def work(database: Database) -> Sequence[Pipeline]:
        from schema.pipelines import manage

        return await database.run(manage.list_pipelines)

    found = on_database(work, embedded=embedded)
    if as_json:
        import attrs

        print_json([attrs.asdict(one) for one in found])
        return
    if not found:
        say("no pipelines", err=True)
        return
    headings = ("ID", "WORKSPACE", "NAME", "SCHEDULE", "NEXT", "NOTE")
    print_table(headings, map(_row, found), flexible=("NOTE", "NAME"))


@command.command(epilog="\b\nExample:\n  regelrecht-supervisor pipelines run 3\n")
@click.argument("pipeline", type=ID)
@embedded_option
def run(pipeline: int, embedded: bool) -> None:
    """Queue a run of a pipeline. A supervisor with the role `pipelines` takes it."""

    async def work(database: Database) -> Run:
        from protocols.failures import InvalidInput
        from schema import migrate
        from schema.pipelines import asking

        if await database.run(migrate.missing_job_types, ("pipeline_run",)):
            raise InvalidInput("no supervisor with the role `pipelines` ever ran on this database: start one first")
        return await database.transact(asking.request_run, pipeline)

    made = on_database(work, embedded=embedded)
    say(f"run {made.id}, job {made.job_id}")


@command.command(epilog="\b\nExample:\n  regelrecht-supervisor pipelines history 1 --pipeline 3 --limit 5\n")
@click.argument("workspace", type=ID)
@click.option("--pipeline", type=ID, help="Only runs of this pipeline.")
@click.option(
    "--limit", type=click.IntRange(1, 100, clamp=True), default=20, show_default=True, help="Most runs to show."
)
@embedded_option
def history(workspace: int, pipeline: int | None, limit: int, embedded: bool) -> None:
    """Show the newest runs of a workspace, as a chat agent sees them."""

    async def work(database: Database) -> str:
        from actors.http.history import make_get_pipeline_runs
        from schema.pipelines import manage, workspaces
        from schema.pipelines.asking import PipelineNotFound

        await database.run(workspaces.get_workspace, workspace)
        if pipeline is not None and (await database.run(manage.get_pipeline, pipeline)).workspace_id != workspace:
            raise PipelineNotFound(f"there is no pipeline {pipeline} in workspace {workspace}")
        return await make_get_pipeline_runs(database, workspace)(pipeline, limit)

    say(on_database(work, embedded=embedded))


@command.command(
    "daily-reharvest",
    epilog="\b\nExample:\n  regelrecht-supervisor pipelines daily-reharvest 1\n",
)
@click.argument("workspace", type=ID)
@embedded_option
def daily_reharvest(workspace: int, embedded: bool) -> None:
    """Add the pipeline "Dagelijkse herharvest": every harvested law again, each night at 03:15 in Amsterdam.

    At most 500 a night, those that were not harvested for the longest first.
    """

    async def work(database: Database) -> Pipeline:
        from schema.pipelines import lawruns, workspaces

        owner = (await database.run(workspaces.get_workspace, workspace)).owner_id
        return await database.transact(lawruns.create_daily_reharvest, workspace, owner)

    made = on_database(work, embedded=embedded)
    say(f"pipeline {made.id}: {made.name}; supervisors with the roles scheduler, pipelines and harvest do the rest")


@command.command("repair-suppression", epilog="\b\nExample:\n  regelrecht-supervisor pipelines repair-suppression\n")
@embedded_option
def repair_suppression(embedded: bool) -> None:
    """Make the schedules of connectors agree with the pipelines there are. Safe to repeat."""

    async def work(database: Database) -> Sequence[tuple[int, PeriodicChange]]:
        from schema.pipelines import periodic

        return await database.transact(periodic.repair)

    changed = on_database(work, embedded=embedded)
    for connector_id, change in changed:
        say(f"connector {connector_id}: {'suppressed' if change.suppressed else 'restored'}")
    say(f"{len(changed)} connectors changed")


def _row(one: Pipeline) -> tuple[str, ...]:
    schedule = "manual" if one.schedule_cron is None else f"{one.schedule_cron} {one.schedule_timezone}"
    due = "" if one.next_scheduled_at is None else _local(one.next_scheduled_at, one.schedule_timezone)
    note = one.schedule_error or ("" if one.enabled else "off")
    return str(one.id), str(one.workspace_id), one.name, schedule, due, note


def _local(moment: dt.datetime, zone: str) -> str:
    """As clocks show it in the zone of the schedule; in UTC where that is none, which its note tells."""
    from protocols.failures import InvalidInput
    from protocols.schedule import zone_of

    try:
        return f"{moment.astimezone(zone_of(zone)):%Y-%m-%d %H:%M %Z}"
    except InvalidInput:
        return f"{moment:%Y-%m-%d %H:%M} UTC"
