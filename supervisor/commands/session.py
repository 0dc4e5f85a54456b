"""What commands share: a database for the time of a command, quiet logs, and how results are printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from supervisor.terminaltext import say, say_json

if TYPE_CHECKING:
    from actors.ports.database import Database, DatabaseSettings

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

SESSION = "regelrecht-supervisor command"
"""What the database server calls our sessions: not the name that says that somebody runs jobs."""

embedded_option = click.option(
    "--embedded", is_flag=True, help="Use the embedded PostgreSQL of this machine instead of DATABASE_URL."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def on_database(work: Callable[[Database], Awaitable[T]], *, embedded: bool, migrated: bool = True) -> T:
    """Open the database, run ``work`` on it, close it. The schema is checked first, unless ``migrated`` is False.

    SettingsFault, DatabaseUnavailable, InvalidInput when the schema is not there or a value cannot be stored. An embedded
    server that is not migrated is brought up to date, since it is ours alone. KeyboardInterrupt once Ctrl-C has ended ``work`` in order.
    """
    import trio

    from actors.ports.database import in_words, is_unfit_value, open_database
    from protocols.failures import InvalidInput

    quiet_logs()

    async def main(settings: DatabaseSettings, *, ours: bool) -> T:
        async with open_database(settings) as database:
            if migrated:
                await _expect_schema(database, migrate=ours)
            try:
                return await work(database)
            except Exception as error:
                if is_unfit_value(error):
                    raise InvalidInput(
                        f"the database cannot hold what this would come to: {in_words(error)}"
                    ) from error
                raise

    with _database_settings(embedded) as (settings, ours):

        async def run() -> T:
            return await main(settings, ours=ours)

        return trio.run(_interruptible, run)


async def _interruptible(run: Callable[[], Awaitable[T]]) -> T:
    """Ctrl-C cancels ``run``, then KeyboardInterrupt is raised. Raised anywhere in the middle, as Python does by itself, it
    can be lost in the loop of the driver, which then waits for ever. A second Ctrl-C is Python's again."""
    import signal

    import trio

    results: list[T] = []
    failures: list[Exception] = []

    async def hear(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT) as signals:
            task_status.started()
            await anext(signals)
        scope.cancel(reason="Ctrl-C")

    async with trio.open_nursery() as nursery:
        await nursery.start(hear, nursery.cancel_scope)
        try:
            results.append(await run())
        except Exception as error:  # noqa: BLE001 - raised below, without the group that the nursery would put around it
            failures.append(error)
        nursery.cancel_scope.cancel(reason="done")
    for failure in failures:
        raise failure
    if not results:
        raise KeyboardInterrupt
    return results[0]


@contextmanager
def _database_settings(flag: bool) -> Iterator[tuple[DatabaseSettings, bool]]:
    """The database that is meant, and whether it is the embedded one, which runs at least as long as the block."""
    from supervisor.settings import load_database
    from supervisor.settings.ports import database_settings, embedded_settings

    area, embedded = load_database(os.environ, embedded=flag)
    if area.url is not None and not flag:
        yield database_settings(area, area.url, session=SESSION), False
        return
    from supervisor.embedded import embedded_server

    with embedded_server(embedded_settings(embedded)) as server:
        yield database_settings(area, server.url, session=SESSION), True


async def _expect_schema(database: Database, *, migrate: bool) -> None:
    from protocols.failures import InvalidInput
    from schema import migrate as migrations

    missing = await database.run(migrations.missing)
    if not missing:
        return
    if not migrate:
        raise InvalidInput(
            f"the database lacks {len(missing)} migrations of this version: run `regelrecht-supervisor migrate` first"
        )
    await database.direct(migrations.migrate)


def quiet_logs() -> None:
    """Logs of a command: warnings on stderr, unless SUPERVISOR_LOG asks for more. Results are on stdout alone."""
    from attrs import evolve

    from supervisor import logs
    from supervisor.settings import areas, load_area, secrets_of

    logging = load_area(areas.Logging, os.environ)
    if not (os.environ.get("SUPERVISOR_LOG") or os.environ.get("RUST_LOG")):
        logging = evolve(logging, level="warning")
    secrets = secrets_of(load_area(areas.Database, os.environ), load_area(areas.Corpus, os.environ))
    logs.configure(evolve(logging, format=logging.format or "plain"), secrets=secrets)


def this_user() -> str:
    """Who gives the command, for the notes of who did what. Inside a container the user may have no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def print_json(value: Any) -> None:
    """``value`` as indented JSON on stdout; times in ISO 8601, ids as text."""
    import msgspec

    say_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_fields(fields: Mapping[str, Any]) -> None:
    """A line for each field that has a value, the values below each other; what has parts as indented JSON."""
    import json

    shown = {name: value for name, value in fields.items() if value is not None}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        text = json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
        first, *rest = text.split("\n")
        say("\n".join([f"{name:{width}} {first}", *(f"{'':{width}} {line}" for line in rest)]))


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, flexible: Sequence[str] | None = None
) -> None:
    """Columns that fit the terminal: ``flexible`` ones lose their end; None: the last one. Uncut where stdout is no
    terminal, so that they can be searched.
    """
    from rich.console import Console

    from supervisor.tables import FittedTable

    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False)
    console.print(FittedTable(headings, tuple(rows), flexible), crop=False)
