"""``repl``: look into a running supervisor on this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from supervisor import exitcodes
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from supervisor.repl.client import Client


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor repl
  regelrecht-supervisor repl -c tree
  regelrecht-supervisor repl -c jobs -c leases

\b
In a pod:
  kubectl exec POD -- regelrecht-supervisor repl -c tree
"""
)
@click.option("-c", "lines", metavar="LINE", multiple=True, help="Ask this and end; may be given several times.")
@click.option(
    "--pid", type=click.IntRange(1, 2**22), help="The supervisor with this process id, when several run here."
)
def command(lines: tuple[str, ...], pid: int | None) -> None:
    """Look into a running supervisor: what it does, what it waits for, which jobs it holds.

    Only its own user may, on its own machine; one at a time. `help` lists what can be asked. With
    SUPERVISOR_REPL_PYTHON=1 in the supervisor's environment, Python with await works too.
    """
    from supervisor.repl.client import Client, NobodyThere

    try:
        with Client(_socket(pid)) as client:
            if lines:
                sys.exit(_ask(client, lines))
            if not sys.stdin.isatty():
                sys.exit(_ask(client, (line.rstrip("\n") for line in sys.stdin)))
            say(client.greeting.rstrip())
            _ask(client, _typed(client))
    except NobodyThere as nobody:
        say(f"Error: {nobody.message}", err=True)
        sys.exit(exitcodes.DATABASE_UNREACHABLE)


def _socket(pid: int | None) -> Path:
    """The one supervisor that is meant. NobodyThere: there is none. InvalidInput: there are several."""
    from protocols.failures import InvalidInput
    from supervisor.repl import places
    from supervisor.repl.client import NobodyThere
    from supervisor.settings import areas, load_area
    from supervisor.settings.operations import Repl

    repl, embedded = load_area(Repl, os.environ), load_area(areas.Embedded, os.environ)
    if repl.socket is not None:
        return repl.socket
    found = [one for one in places.running(repl, embedded) if pid in (None, one.pid)]
    if not found:
        looked = ", ".join(str(folder) for folder in places.folders(repl, embedded))
        which = (
            "no supervisor of this user runs here" if pid is None else f"process {pid} is no supervisor of this user"
        )
        raise NobodyThere(f"{which} (looked in {looked}); SUPERVISOR_REPL_SOCKET names a socket elsewhere")
    if len(found) > 1:
        pids = ", ".join(str(one.pid) for one in found)
        raise InvalidInput(f"several supervisors run here: choose one with --pid ({pids})")
    return found[0].path


def _ask(client: Client, lines: Iterable[str]) -> int:
    """Ask one after the other; the exit code: 1 when one of them failed."""
    from supervisor.repl.wire import Mark

    code = exitcodes.CLEAN
    for line in lines:
        answer = client.ask(line)
        if answer.text:
            say(answer.text.rstrip("\n"))
        if answer.mark is Mark.FAILED:
            code = exitcodes.ESCALATED
        elif answer.mark is Mark.CLOSED:
            return exitcodes.ESCALATED if answer.text else code
    return code


def _typed(client: Client) -> Iterator[str]:
    """Lines from the terminal, with editing and a history that is forgotten at the end."""
    import readline  # noqa: F401 - its import is what gives input() its line editing

    while True:
        try:
            yield input("... " if client.incomplete else "> ")
        except EOFError:
            say("")
            return
        except KeyboardInterrupt:
            say("")
