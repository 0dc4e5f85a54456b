"""Starting the fake agent the way the product starts a real one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from actors.ports.agentprocess import AgentEnd, ProcessRunner, Stop
from actors.ports.guardian import Guardian
from actors.ports.launcher import AgentCommand
from actors.ports.spool import Spool
from tests.kit import fake_agent as program

READABLE = (Path(program.__file__).parent, Path(sys.base_prefix))
"""What a fake agent needs to run: its own file and the interpreter."""

ENV = {"PATH": "/usr/bin:/bin"}


def command(folder: Path, *options: str, env: dict[str, str] | None = None, stdin: bytes | None = None) -> AgentCommand:
    """A fake agent in ``folder``, the only place where it may write."""
    return AgentCommand(
        program.fake_agent(*options),
        env={**ENV, **(env or {})},
        cwd=folder,
        writable=(folder,),
        readable=READABLE,
        stdin=stdin,
    )


async def call(
    given: AgentCommand,
    *,
    guardian: Guardian | None = None,
    stop: Stop | None = None,
    limit_s: float = 20.0,
    grace_s: float = 2.0,
) -> tuple[AgentEnd, bytes]:
    """Run it to its end; how it ended, and all it wrote."""
    spool = Spool(given.cwd)
    runner = ProcessRunner(guardian, grace_s=grace_s)
    ended = await runner(given, spool=spool, stop=stop or Stop(), limit_s=limit_s)
    return ended, await drain(spool)


async def drain(spool: Spool) -> bytes:
    output = bytearray()
    while chunk := await spool.receive():
        output += chunk
    return bytes(output)


def lines(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.split(b"\n")[:-1]]
