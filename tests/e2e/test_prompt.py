"""The debug prompt and SIGUSR1 on whole supervisors: who may ask, what they are told, and what it costs the work."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from supervisor import exitcodes
from tests.kit.processes import until
from tests.kit.supervisors import Fleet, SupervisorProcess


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A runtime folder with a short path, as a login session has one: socket addresses have little room."""
    folder = Path(tempfile.mkdtemp(prefix="rr-"))
    yield folder
    shutil.rmtree(folder)


async def prompt(
    pod: Fleet, runtime: Path, *args: str, stdin: str | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """``regelrecht-supervisor repl args`` as an operator runs it."""

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "supervisor", "repl", *args],
            env={**pod.environ(XDG_RUNTIME_DIR=str(runtime)), **environ},
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=25,
        )

    return await trio.to_thread.run_sync(run)


async def started(pod: Fleet, runtime: Path, **environ: str) -> SupervisorProcess:
    one = pod.start(**{"XDG_RUNTIME_DIR": str(runtime), **environ})  # type: ignore[arg-type]
    await one.ready()
    await until(lambda: one.said("debug prompt"))
    return one


@pytest.mark.claim("C-030")
async def test_the_tree_tells_what_a_supervisor_does_without_knowing_its_code(pod: Fleet, runtime: Path) -> None:
    await started(pod, runtime)
    await pod.add([{"seconds": 60}, {"seconds": 60, "child": True}])
    await until(lambda: len(pod.entries()) == 2)
    done = await prompt(pod, runtime, "-c", "tree")
    assert done.returncode == exitcodes.CLEAN, done.stderr
    text = done.stdout
    assert "running: it claims jobs" in text
    assert "probe 2 of 4 slots busy" in text
    assert re.search(r"database  answers, (no beat yet|last beat [0-9.]+s ago), last look for jobs", text)
    assert re.search(r"probe +probe 1 +running .* working$", text, re.MULTILINE)
    assert "channels  nothing waits in any of them" in text
    assert re.search(r"heartbeat: keeps the leases of running jobs alive", text)
    assert re.search(r"job:probe [0-9a-f-]{36}", text)
    assert max(map(len, text.partition("TASK")[2].splitlines())) <= 80
    told = re.sub(r"\n {18,}", " ", text)  # what was too long for a line goes on in the next
    (waiting,) = [line for line in told.splitlines() if "heartbeat:run" in line]
    assert "actors/heartbeat.py:" in waiting
    assert "deadline in" in waiting
    # every task says what it is there for, but an actor's own, which is told one line above, and a job's, told further up
    table = told.partition("TASK, ")[2].splitlines()[1:]
    names = [line[17:].partition(" · ")[0].strip() for line in table]
    assert len(names) > 30
    assert [name for name in names if ": " not in name and not re.match(r"\w+:run$|job:probe |repl:", name)] == []


async def test_every_command_answers_and_scripts_see_by_the_exit_code_what_failed(pod: Fleet, runtime: Path) -> None:
    one = await started(pod, runtime)
    await pod.add([{"seconds": 60}])
    await until(lambda: len(pod.entries()) == 1)
    names = ["help", "tree", "actors", "jobs", "channels", "budget", "leases", "leases pipelines", "runs"]
    names += ["drain", "loglevel", "dump"]
    done = await prompt(pod, runtime, stdin="\n".join(names))
    assert done.returncode == exitcodes.CLEAN, done.stdout
    for expected in (
        "COMMAND", "ACTOR", "claims -> jobs", "claude runs in the hour", "LAST CONFIRMED BEAT", "phase running",
        "log level info", "THREAD MainThread", "no pipeline or connector is leased", "no runs",
    ):  # fmt: skip
        assert expected in done.stdout
    (lease,) = await pod.sql("SELECT lease::text FROM jobs")
    assert lease["lease"] not in done.stdout
    wrong = await prompt(pod, runtime, "-c", "jbos", "-c", "1 + 1")
    assert wrong.returncode == exitcodes.ESCALATED
    assert "there is no command 'jbos'" in wrong.stdout
    commands = [line for line in one.lines() if line["event"] == "repl command"]
    assert [line["line"] for line in commands] == [*names, "jbos", "1 + 1"]
    assert {line["uid"] for line in commands} == {os.geteuid()}
    assert sum(line["event"] == "repl closed" for line in one.lines()) == 2


async def test_the_level_of_the_log_is_changed_and_the_drain_begun_from_the_prompt(pod: Fleet, runtime: Path) -> None:
    one = await started(pod, runtime)
    assert "log level debug" in (await prompt(pod, runtime, "-c", "loglevel debug")).stdout
    assert "draining" in (await prompt(pod, runtime, "-c", "drain begin")).stdout
    assert await one.exit_code() == exitcodes.CLEAN


async def test_the_socket_is_for_its_user_alone_and_goes_with_the_supervisor(pod: Fleet, runtime: Path) -> None:
    one = await started(pod, runtime)
    folder = runtime / "regelrecht-supervisor"
    (socket,) = folder.iterdir()
    assert (stat.S_IMODE(socket.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
    assert list(folder.iterdir()) == []
    gone = await prompt(pod, runtime, "-c", "tree")
    assert gone.returncode == exitcodes.DATABASE_UNREACHABLE
    assert "no supervisor of this user runs here" in gone.stderr
    assert "Traceback" not in gone.stderr


async def test_of_several_supervisors_one_is_chosen_and_the_socket_of_a_killed_one_is_cleared(
    pod: Fleet, runtime: Path
) -> None:
    one, other = await started(pod, runtime), await started(pod, runtime)
    which = await prompt(pod, runtime, "-c", "jobs")
    assert which.returncode == exitcodes.USAGE
    assert f"{one.pid}" in which.stderr
    assert (await prompt(pod, runtime, "--pid", str(one.pid), "-c", "jobs")).stdout == "no job runs here\n"
    other.process.kill()
    await other.exit_code()
    assert (await prompt(pod, runtime, "-c", "jobs")).returncode == exitcodes.CLEAN
    await started(pod, runtime)
    assert not (runtime / "regelrecht-supervisor" / f"repl-{other.pid}.sock").exists()


async def test_a_socket_of_a_fixed_name_replaces_a_stale_one(pod: Fleet, runtime: Path) -> None:
    path = runtime / "own" / "prompt.sock"
    first = await started(pod, runtime, SUPERVISOR_REPL_SOCKET=str(path))
    busy = pod.start(SUPERVISOR_REPL_SOCKET=str(path))
    await until(lambda: busy.said("no debug prompt here"))
    await busy.ready()
    first.process.kill()
    await first.exit_code()
    assert path.exists()
    await started(pod, runtime, SUPERVISOR_REPL_SOCKET=str(path))
    done = await prompt(pod, runtime, "-c", "actors", SUPERVISOR_REPL_SOCKET=str(path))
    assert "heartbeat" in done.stdout


@pytest.mark.claim("C-030")
async def test_python_works_only_where_it_is_switched_on_and_prints_no_secret(pod: Fleet, runtime: Path) -> None:
    secret = "planted-token-4711"
    one = await started(pod, runtime, SUPERVISOR_REPL_PYTHON="1", CORPUS_GIT_TOKEN=secret)
    lines = [
        "len(tree.keepers) > 5",
        "for n in range(2):",
        "    await trio.sleep(0)",
        "    print('n', n)",
        "",
        "import os; os.environ['CORPUS_GIT_TOKEN']",
        "1 / 0",
        "await trio.sleep_forever()",
        "loglevel",
    ]
    done = await prompt(pod, runtime, stdin="\n".join(lines))
    assert done.returncode == exitcodes.ESCALATED
    answers = done.stdout
    assert answers.startswith("True\nn 0\nn 1\n'***'\n")
    assert "ZeroDivisionError" in answers
    assert answers.endswith("stopped after 5 s\nlog level info\n")
    assert secret not in answers + one.log.read_text()
    assert not one.said("actor crashed")


async def test_a_command_that_runs_while_the_supervisor_ends_does_not_hold_it_up(pod: Fleet, runtime: Path) -> None:
    one = await started(pod, runtime, SUPERVISOR_REPL_PYTHON="1")
    answers: list[subprocess.CompletedProcess[str]] = []

    async def ask() -> None:
        answers.append(await prompt(pod, runtime, "-c", "await trio.sleep(4)"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until(lambda: one.said("repl command"))
        begin = trio.current_time()
        one.signal(signal.SIGTERM)
        assert await one.exit_code() == exitcodes.CLEAN
        assert trio.current_time() - begin < 3
    assert answers[0].returncode == exitcodes.ESCALATED
    assert "the supervisor went away" in answers[0].stderr


async def test_sigusr1_writes_the_picture_to_the_log_and_to_a_file_of_its_own(pod: Fleet, runtime: Path) -> None:
    one = await started(pod, runtime)
    await pod.add([{"seconds": 60}])
    await until(lambda: len(pod.entries()) == 1)
    one.signal(signal.SIGUSR1)
    await until(lambda: one.said("dump"))
    (line,) = [line for line in one.lines() if line["event"] == "dump"]
    file = Path(line["file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for text in (file.read_text(), line["text"]):
        assert "job:probe" in text
        assert "THREAD watchdog" in text
    one.signal(signal.SIGUSR1)  # and once more, instead of the first
    await until(lambda: sum(line["event"] == "dump" for line in one.lines()) == 2)
    assert [path.name for path in file.parent.glob("dump-*")] == [file.name]


async def test_sigusr1_is_answered_while_the_loop_stands_still(pod: Fleet, runtime: Path) -> None:
    one = await started(pod, runtime)
    await pod.add([{"seconds": 6, "block": True}])
    await until(lambda: len(pod.entries()) == 1)
    one.signal(signal.SIGUSR1)
    await until(lambda: one.said("dump"), limit_s=5)
    (line,) = [line for line in one.lines() if line["event"] == "dump"]
    assert "written from outside" in line["text"]
    assert "probe.py" in line["text"]
    assert re.search(r"probe job .* \(probe 1\)", line["text"])


async def test_sigusr1_before_the_loop_runs_ends_nothing(pod: Fleet, runtime: Path) -> None:
    one = pod.start(XDG_RUNTIME_DIR=str(runtime))
    await until(lambda: one.said("starting"))
    one.signal(signal.SIGUSR1)
    await one.ready()
    await until(lambda: one.said("dump"))
