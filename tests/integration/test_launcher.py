"""The launcher (D47): what it confines, what it passes on, and that nothing of a call survives it or the supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from actors.ports import landlock, proctable
from actors.ports.agentprocess import AgentEnd, Stop, Stopped
from actors.ports.guardian import Guardian
from actors.ports.launcher import AgentCommand
from protocols.failures import Permanent
from protocols.skillset import NotConfigured
from tests.kit.agentcalls import ENV, call, command, lines
from tests.kit.fake_agent import fake_agent
from tests.kit.processes import alive, pids_in, until

KIT = Path(__file__).parents[1] / "kit"

needs_landlock = pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")


@pytest.fixture
def guardian() -> Iterator[Guardian]:
    with Guardian() as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The only place where the agent may write."""
    path = tmp_path / "attempt"
    path.mkdir()
    return path


async def test_the_code_of_the_cli_comes_back_not_that_of_the_launcher(folder: Path, guardian: Guardian) -> None:
    ended, output = await call(command(folder, "--exit", "3", "--stderr", "\x1b[31mno\x1b[0m way\n"), guardian=guardian)
    assert (ended.code, ended.signal, ended.stopped) == (3, None, None)
    assert ended.stderr == "no way"
    assert output == b""
    assert ended.survivors == ()
    assert guardian.groups == frozenset()


async def test_a_cli_that_died_by_a_signal_has_no_code(folder: Path) -> None:
    given = AgentCommand(("sh", "-c", "kill -9 $$"), env=ENV, cwd=folder, writable=(folder,))
    ended, _ = await call(given)
    assert (ended.code, ended.signal, ended.exit_code) == (None, signal.SIGKILL, -9)


async def test_a_missing_program_or_folder_is_named(folder: Path) -> None:
    with pytest.raises(NotConfigured, match="no-such-cli"):
        await call(AgentCommand(("no-such-cli",), env=ENV, cwd=folder, writable=()))
    with pytest.raises(Permanent, match="gone"):
        await call(AgentCommand(("true",), env=ENV, cwd=folder / "gone", writable=()))


async def test_a_file_that_is_no_program_is_told_from_one_that_failed(folder: Path) -> None:
    program = folder / "broken"
    program.write_bytes(b"\x00\x01\x02")
    program.chmod(0o755)
    with pytest.raises(NotConfigured, match="broken"):
        await call(AgentCommand((str(program),), env=ENV, cwd=folder, writable=(folder,)))


async def test_environment_arguments_and_folder_are_exactly_the_given_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:canary-database@h/d")
    monkeypatch.setenv("VLAM_API_KEY", "canary-vlam")
    _, output = await call(command(folder, "--show", "--", "-p", "één prompt\udcff", env={"A": "b"}))
    (shown,) = lines(output)
    assert set(shown["env"]) - {"LC_CTYPE"} == {"PATH", "A", proctable.MARK_VARIABLE}
    assert shown["argv"][-2:] == ["-p", "één prompt\udcff"]
    assert shown["cwd"] == str(folder)
    assert b"canary" not in output


async def test_the_launcher_itself_shows_no_secret_to_the_process_list(folder: Path) -> None:
    stop = Stop()
    given = command(folder, "--hang", "--pids", str(folder), env={"CLAUDE_CODE_OAUTH_TOKEN": "canary-token"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: call(given, stop=stop))
        await until(lambda: len(pids_in(folder)) == 1)
        (cli,) = pids_in(folder)
        row = proctable.row_of(cli)
        assert row is not None
        launcher = Path(f"/proc/{row.parent}")
        assert b"launcher_process" in (launcher / "cmdline").read_bytes()
        assert b"canary" not in (launcher / "cmdline").read_bytes()
        assert b"canary" not in (launcher / "environ").read_bytes()
        # Not even another process of the same user can look into its memory: these files are root's.
        assert (launcher / "environ").stat().st_uid == 0
        stop.request(Stopped.STALLED)


async def test_the_cli_leads_a_group_of_its_own_in_the_session_of_the_launcher(folder: Path) -> None:
    stop = Stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: call(command(folder, "--hang", "--pids", str(folder)), stop=stop))
        await until(lambda: len(pids_in(folder)) == 1)
        (cli,) = pids_in(folder)
        row = proctable.row_of(cli)
        assert row is not None
        assert (row.group, row.session) == (cli, row.parent)
        stop.request(Stopped.STALLED)


# --- Ending ----------------------------------------------------------------------------------------------------------


async def test_sigterm_reaches_the_cli_and_its_last_words_are_kept(folder: Path) -> None:
    stop = Stop()
    given = command(folder, "--hang", "--last-words", '{"type":"bye"}', "--pids", str(folder))
    result: list[tuple[AgentEnd, bytes]] = []

    async def run() -> None:
        result.append(await call(given, stop=stop))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await until(lambda: len(pids_in(folder)) == 1)
        stop.request(Stopped.STALLED)
        stop.request(Stopped.LIMIT)  # the first reason counts
    ((ended, output),) = result
    assert (ended.code, ended.stopped) == (143, Stopped.STALLED)
    assert lines(output) == [{"type": "bye"}]


async def test_a_deaf_cli_is_killed_after_the_grace(folder: Path) -> None:
    ended, _ = await call(command(folder, "--deaf", "--hang", "--pids", str(folder)), limit_s=0.5, grace_s=0.3)
    assert ended.stopped is Stopped.LIMIT
    assert ended.signal == signal.SIGKILL
    assert 0.8 <= ended.duration_s < 4
    assert pids_in(folder)
    assert not alive(pids_in(folder))


@pytest.mark.parametrize("escape", [(), ("--escape",)], ids=["same_session", "own_session_no_environment"])
async def test_children_of_a_cli_that_ended_well_are_gone_when_the_call_returns(
    folder: Path, escape: tuple[str, ...]
) -> None:
    # AG-07, PR-01: `--fork 3 --deaf`, exit 0 at once.
    ended, _ = await call(command(folder, "--fork", "3", "--deaf", "--pids", str(folder), *escape))
    assert (ended.code, ended.survivors) == (0, ())
    assert ended.duration_s < 5
    assert len(pids_in(folder)) >= 1  # a child may be killed before it has left its pid
    assert not alive(pids_in(folder))


@pytest.mark.parametrize("escape", [(), ("--escape",)], ids=["same_session", "own_session_no_environment"])
async def test_a_cancelled_call_leaves_nothing_of_a_whole_tree(
    folder: Path, guardian: Guardian, escape: tuple[str, ...]
) -> None:
    given = command(folder, "--fork", "5", "--deaf", "--hang", "--pids", str(folder), *escape)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: call(given, guardian=guardian, grace_s=0.2))
        await until(lambda: len(pids_in(folder)) == 6)
        nursery.cancel_scope.cancel()
    assert not alive(pids_in(folder))
    assert guardian.groups == frozenset()


async def test_a_call_that_is_cancelled_at_its_very_start_ends_at_once(folder: Path) -> None:
    began = trio.current_time()
    with trio.move_on_after(0.005):
        await call(command(folder, "--hang"), grace_s=5)
    assert trio.current_time() - began < 4


async def test_a_killed_launcher_takes_the_cli_and_its_children_along(folder: Path) -> None:
    given = command(folder, "--fork", "2", "--deaf", "--hang", "--pids", str(folder))
    result: list[AgentEnd] = []

    async def run() -> None:
        result.append((await call(given, grace_s=0.3))[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await until(lambda: len(pids_in(folder)) == 3)
        session = {row.session for row in proctable.rows() if row.pid in pids_in(folder)}
        os.kill(session.pop(), signal.SIGKILL)
    assert result[0].signal == signal.SIGKILL
    assert not alive(pids_in(folder))


SUPERVISOR = """
import os, sys, trio
from pathlib import Path
from actors.ports.agentprocess import ProcessRunner, Stop
from actors.ports.launcher import AgentCommand
from actors.ports.guardian import Guardian
from actors.ports.spool import Spool

folder, kit, with_guardian, argv = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "guarded", sys.argv[4:]
readable = (kit, Path(sys.base_prefix))

async def main(guardian):
    command = AgentCommand(tuple(argv), env={"PATH": "/usr/bin:/bin"}, cwd=folder, writable=(folder,), readable=readable)
    await ProcessRunner(guardian, grace_s=30)(command, spool=Spool(folder), stop=Stop())

if with_guardian:
    with Guardian() as guardian:
        trio.run(main, guardian)
else:
    trio.run(main, None)
"""


@pytest.fixture(params=["guarded", "unguarded"])
def supervised(
    request: pytest.FixtureRequest, folder: Path, escape: tuple[str, ...]
) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor in a process of its own that runs a deaf agent with three deaf children."""
    agent = fake_agent("--fork", "3", "--deaf", "--hang", "--pids", str(folder), *escape)
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(folder), str(KIT), request.param, *agent],
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("escape", [(), ("--escape",)], ids=["same_session", "own_session_no_environment"])
async def test_sigkill_of_the_supervisor_leaves_nothing_running(
    folder: Path, supervised: subprocess.Popen[bytes], escape: tuple[str, ...]
) -> None:
    await until(lambda: len(pids_in(folder)) == 4)
    agents = pids_in(folder)
    (cli,) = (row for row in proctable.rows() if row.pid in agents and row.group == row.pid and not _escaped(row))
    everyone = agents | {cli.parent}
    assert len(alive(everyone)) == 5
    supervised.kill()
    await until(lambda: not alive(everyone))


def _escaped(row: proctable.Row) -> bool:
    return row.session == row.pid


# --- Confinement -----------------------------------------------------------------------------------------------------


@needs_landlock
async def test_the_agent_writes_below_its_folder_only(folder: Path, tmp_path: Path) -> None:
    # D50
    inside, outside = folder / "law.yaml", tmp_path / "outside"
    outside.write_text("before")
    _, output = await call(command(folder, "--try-write", str(inside), "--try-write", str(outside)))
    assert [line["answer"] for line in lines(output)] == ["done", "PermissionError"]
    assert outside.read_text() == "before"


@needs_landlock
async def test_the_agent_reads_no_file_of_others(folder: Path, tmp_path: Path) -> None:
    # D50: auth.json of another call, environment and memory of other processes
    other = tmp_path / "other" / "auth.json"
    other.parent.mkdir()
    other.write_text("canary-key")
    mine = folder / "auth.json"
    mine.write_text("{}")
    link = folder / "link"
    link.symlink_to(other)
    paths = [str(mine), "/etc/ssl/openssl.cnf", str(other), str(link), f"/proc/{os.getpid()}/environ", "/etc/shadow"]
    _, output = await call(command(folder, *(word for path in paths for word in ("--try-read", path))))
    answers = [line["answer"] for line in lines(output)]
    assert answers[0] == "done"
    assert answers[1] in {"done", "FileNotFoundError"}
    assert answers[2:] == ["PermissionError"] * 4


@pytest.mark.skipif(landlock.version() < 6, reason="signals are scoped from kernel 6.12 on")
async def test_the_agent_cannot_signal_anybody_outside_its_call(folder: Path) -> None:
    _, output = await call(command(folder, "--try-kill", str(os.getpid()), "--try-kill", str(os.getppid())))
    assert [line["answer"] for line in lines(output)] == ["PermissionError"] * 2


async def test_the_agent_can_gain_no_privilege(folder: Path) -> None:
    given = AgentCommand(("grep", "NoNewPrivs", "/proc/self/status"), env=ENV, cwd=folder, writable=(folder,))
    _, output = await call(given)
    assert output.split() == [b"NoNewPrivs:", b"1"]


UNDUMPABLE = """
import ctypes, os
from actors.ports.prctl import make_undumpable
if os.geteuid() == 0:
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # the change of user has made it undumpable
print(os.stat("/proc/self/environ").st_uid == os.geteuid())
make_undumpable()
print(os.stat("/proc/self/environ").st_uid, len(os.listdir("/proc/self/fd")) > 2)
"""


def test_a_process_that_made_itself_undumpable_keeps_its_environment_to_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNDUMPABLE], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "0", "True"]
