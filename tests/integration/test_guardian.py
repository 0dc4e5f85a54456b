"""The guardian (D17): children die with the supervisor, however it ends, and live as long as it lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from actors.ports import proctable
from actors.ports.child import run_child
from actors.ports.guardian import FAMILY, Guardian
from tests.kit.processes import alive, pids_in, until

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C"}

SUPERVISOR = """
import os, sys, trio
from pathlib import Path
from actors.ports.child import run_child
from actors.ports.guardian import Guardian

pids, script = Path(sys.argv[1]), sys.argv[2]
env = {"PATH": os.environ["PATH"], "PIDS": str(pids)}

async def main(guardian):
    await run_child(["sh", "-c", script], env=env, cwd=pids, grace_s=30, guardian=guardian)

with Guardian() as guardian:
    (pids / "guardian").write_text(str(guardian.pid))
    trio.run(main, guardian)
"""


class Supervised:
    """A process that runs one child under a guardian."""

    def __init__(self, pids: Path, script: str) -> None:
        self.pids = pids
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, str(pids), script],
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )

    async def ready(self, children: int) -> None:
        await until(lambda: len(pids_in(self.pids)) == children)
        self.children = pids_in(self.pids)
        self.guardian = int((self.pids / "guardian").read_text())

    async def nothing_is_left(self) -> None:
        await until(lambda: not alive(self.children | {self.guardian}))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path


def supervised(pids: Path, script: str) -> Iterator[Supervised]:
    started = Supervised(pids, script)
    yield started
    started.end()


CHILDREN = {
    "a plain group": (': > "$PIDS/$$"; sleep 60 & : > "$PIDS/$!"; wait', 2),
    "a deaf child": ("trap '' TERM INT HUP; : > \"$PIDS/$$\"; while :; do sleep 1; done", 1),
    "a grandchild in a session of its own": (
        ': > "$PIDS/$$"; setsid sh -c \': > "$PIDS/$$"; exec sleep 60\' & wait',
        2,
    ),
    "a leader that cleared its environment": ("exec env -i sh -c ': > \"'$PIDS'/$$\"; exec sleep 60'", 1),
}


@pytest.fixture(params=CHILDREN, ids=lambda name: str(name).replace(" ", "_"))
def running(request: pytest.FixtureRequest, pids: Path) -> Iterator[tuple[Supervised, int]]:
    script, count = CHILDREN[request.param]
    for started in supervised(pids, script):
        yield started, count


async def test_a_killed_supervisor_leaves_nobody_behind(running: tuple[Supervised, int]) -> None:
    supervisor, count = running
    await supervisor.ready(count)
    assert len(alive(supervisor.children)) == count
    supervisor.process.kill()
    await supervisor.nothing_is_left()


@pytest.fixture
def one_child(pids: Path) -> Iterator[Supervised]:
    yield from supervised(pids, ': > "$PIDS/$$"; exec sleep 60')


async def test_the_guardian_survives_signals_to_itself_and_to_the_group_of_its_supervisor(
    one_child: Supervised,
) -> None:
    await one_child.ready(1)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(one_child.guardian, signum)
    os.killpg(one_child.process.pid, signal.SIGKILL)
    await one_child.nothing_is_left()


async def test_a_killed_guardian_does_not_end_the_supervisor(one_child: Supervised) -> None:
    await one_child.ready(1)
    os.kill(one_child.guardian, signal.SIGKILL)
    await until(lambda: not alive({one_child.guardian}))
    assert alive({one_child.process.pid})
    assert alive(one_child.children)
    os.killpg(next(iter(one_child.children)), signal.SIGKILL)


def sleeper_with(env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], start_new_session=True, env=env)


async def test_a_child_that_ended_is_not_registered_any_more(tmp_path: Path) -> None:
    with Guardian() as guardian:
        assert (await run_child(["true"], env=ENV, cwd=tmp_path, guardian=guardian)).ok
        assert guardian.groups == frozenset()


def test_the_guardian_ends_when_it_is_closed() -> None:
    with Guardian() as guardian:
        assert guardian.pid is not None
        pid = guardian.pid
        assert alive({pid})
    assert not alive({pid})
    guardian.close()  # twice is fine


async def test_it_starts_again_when_it_was_killed_and_knows_all_groups(tmp_path: Path) -> None:
    with Guardian() as guardian, sleeper_with({}) as sleeper:
        guardian.register(sleeper.pid)
        first = guardian.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: not alive({first}))
        ended = await run_child(["true"], env=ENV, cwd=tmp_path, guardian=guardian)
        assert ended.ok
        assert guardian.pid != first
        guardian.close()
        assert sleeper.wait() == -signal.SIGKILL


def test_closing_kills_what_bears_the_mark_though_it_was_never_registered() -> None:
    # The moment between the start of a child and its registration is covered by the mark alone.
    marked = {proctable.MARK_VARIABLE: f"{FAMILY}.x"}
    stranger = {proctable.MARK_VARIABLE: "another-supervisor.x"}
    with sleeper_with(marked) as ours, sleeper_with(stranger) as theirs:
        guardian = Guardian()
        guardian.start()
        guardian.close()
        assert ours.wait() == -signal.SIGKILL
        assert theirs.poll() is None
        theirs.kill()


def test_a_guardian_that_reads_nothing_blocks_nobody() -> None:
    with Guardian() as guardian:
        assert guardian.pid is not None
        os.kill(guardian.pid, signal.SIGSTOP)
        for group in range(1_000_000, 1_020_000):
            guardian.register(group)
            guardian.unregister(group)
        os.kill(guardian.pid, signal.SIGCONT)


def _descriptors(guardian: Guardian) -> set[str]:
    """What kinds it holds: ``pipe``, ``/dev/null``, ``pidfd`` and what the interpreter reads just now."""
    found = set()
    for fd in os.listdir(f"/proc/{guardian.pid}/fd"):
        with suppress(FileNotFoundError):
            link = os.readlink(f"/proc/{guardian.pid}/fd/{fd}")
            found.add("pidfd" if "pidfd" in link else link.split(":")[0])
    return found


async def test_the_guardian_is_small_and_inherits_nothing() -> None:
    with Guardian() as guardian:
        await until(lambda: "pidfd" in _descriptors(guardian))  # it has come up
        assert _descriptors(guardian) - {"anon_inode"} == {"pipe", "/dev/null", "pidfd"}
        assert _file(guardian, "environ") == ""
        assert int(_file(guardian, "status").split("VmRSS:")[1].split()[0]) < 20_000  # KiB


def _file(guardian: Guardian, name: str) -> str:
    return Path(f"/proc/{guardian.pid}/{name}").read_text()
