"""The filter below the launcher: a hostile agent gets no unix socket, and ordinary programs do not notice (D50)."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog
import trio
from structlog.testing import LogCapture, capture_logs

from actors.ports import prctl, seccomp
from actors.ports.launcher import AgentCommand, log_confinement
from supervisor.embedded import EmbeddedSettings, embedded_server
from tests.integration.test_repl import staged
from tests.kit.agentcalls import ENV, READABLE, call, lines
from tests.kit.postgres import temporary_folder

pytestmark = pytest.mark.skipif(not seccomp.offered(), reason="this kernel filters no system calls")

TRIES = r"""
import ctypes, json, mmap, os, socket, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)

def attempt(act):
    try:
        return act() or "done"
    except OSError as error:
        return type(error).__name__

def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))

def reach(address):
    with socket.socket() as one:
        one.connect(address)
        return one.recv(100).decode()

def unix(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)

def send_from_pair(path):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", path)

def pair():
    one, other = socket.socketpair()
    one.sendall(b"heard")
    return other.recv(100).decode()

def by_the_old_entrance():
    # i386: socket(AF_UNIX, SOCK_STREAM, 0) by number 359 and int 0x80.
    code = bytes.fromhex("53 b867010000 bb01000000 b901000000 31d2 cd80 5b c3".replace(" ", ""))
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))

ACTS = {
    "unix": lambda: unix(sys.argv[2]),
    "dgram pair": lambda: send_from_pair(sys.argv[2]),
    "pair": pair,
    "tcp": lambda: reach(tuple(json.loads(sys.argv[2]))),
    "io_uring": lambda: call(425, 8, 0),
    "x32": lambda: call(0x40000000 | 41, 1, 1, 0),
    "i386": by_the_old_entrance,
}

if sys.argv[1] == "child":
    done = subprocess.run([sys.executable, "-I", "-S", __file__, "unix", sys.argv[2]], env={}, start_new_session=True)
    sys.exit(done.returncode)
print(json.dumps({"answer": attempt(ACTS[sys.argv[1]])}), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the agent may write; its program lies there."""
    path = tmp_path / "attempt"
    path.mkdir()
    (path / "tries.py").write_text(TRIES)
    return path


@pytest.fixture
def own() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="rr-"))
    yield made / "own"
    shutil.rmtree(made)


def argv(folder: Path, act: str, target: object = "") -> tuple[str, ...]:
    told = target if isinstance(target, str) else json.dumps(target)
    return (os.path.realpath(sys.executable), "-I", "-S", str(folder / "tries.py"), act, told)


async def confined(folder: Path, act: str, target: object = "") -> str:
    """What becomes of ``act`` below the launcher."""
    ended, output = await call(program(folder, *argv(folder, act, target)))
    assert ended.exit_code == 0, ended.stderr
    return str(lines(output)[0]["answer"])


async def free(folder: Path, act: str, target: object = "") -> str:
    """What becomes of it without one."""
    done = await trio.run_process(argv(folder, act, target), capture_stdout=True, capture_stderr=True, check=False)
    if done.returncode < 0:
        pytest.skip(f"this kernel kills who tries: signal {-done.returncode}")
    return str(json.loads(done.stdout)["answer"])


def program(folder: Path, *words: str) -> AgentCommand:
    return AgentCommand(
        words, env={**ENV, **NO_OWN_SETTINGS, "HOME": str(folder)}, cwd=folder, writable=(folder,), readable=READABLE
    )


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["unix", "child"])
async def test_an_agent_and_its_children_reach_no_unix_socket_that_is_a_path(folder: Path, own: Path, act: str) -> None:
    own.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own / "s"))
        listener.listen()
        assert await free(folder, act, str(own / "s")) == "done"
        assert await confined(folder, act, str(own / "s")) == "PermissionError"


async def test_the_end_of_a_pair_sends_nothing_elsewhere(folder: Path, own: Path) -> None:
    own.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(own / "s"))
        listener.setblocking(False)
        assert await free(folder, "dgram pair", str(own / "s")) == "done"
        assert listener.recv(10) == b"x"
        assert await confined(folder, "dgram pair", str(own / "s")) == "PermissionError"
        with pytest.raises(BlockingIOError):
            listener.recv(10)


async def test_io_uring_is_refused(folder: Path) -> None:
    assert await confined(folder, "io_uring") == "PermissionError"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the other entrances of x86_64")
@pytest.mark.parametrize("act", ["x32", "i386"])
async def test_no_call_comes_by_another_entrance(folder: Path, act: str) -> None:
    assert await free(folder, act) in {"done", "OSError"}  # OSError: this kernel has no such entrance
    assert await confined(folder, act) == "PermissionError"


async def test_the_debug_prompt_is_out_of_reach(folder: Path, own: Path) -> None:
    before, said = structlog.get_config(), LogCapture()
    structlog.configure(processors=[said])
    try:
        async with staged(own / "s") as stage:
            async with stage.caller() as one:
                assert await one.ask("1") == ("1\n", ">")
            assert await confined(folder, "unix", str(own / "s")) == "PermissionError"
            assert await confined(folder, "child", str(own / "s")) == "PermissionError"
    finally:
        structlog.configure(**before)
    callers = [line["pid"] for line in said.entries if str(line["event"]).startswith("repl ") and "pid" in line]
    assert set(callers) == {os.getpid()}


async def test_the_embedded_database_is_out_of_reach(folder: Path) -> None:
    with (
        temporary_folder() as base,
        embedded_server(EmbeddedSettings(base=base / "base", durable=False, leave_wait_s=0)) as server,
    ):
        (sockets,) = parse_qs(urlsplit(server.url).query)["host"]
        path = f"{sockets}/.s.PGSQL.5432"
        assert await free(folder, "unix", path) == "done"
        assert await confined(folder, "unix", path) == "PermissionError"
        assert await confined(folder, "child", path) == "PermissionError"


# --- What goes on ----------------------------------------------------------------------------------------------------


async def test_a_pair_of_streams_works(folder: Path) -> None:
    assert await confined(folder, "pair") == "heard"


async def test_tcp_works(folder: Path) -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, _greet, 0, host="127.0.0.1"))
        assert await confined(folder, "tcp", list(listener.socket.getsockname())) == "welcome"
        nursery.cancel_scope.cancel()


async def _greet(stream: trio.SocketStream) -> None:
    await stream.send_all(b"welcome")


GIT = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m through && git log"
PYTHON = """
import asyncio
async def go():
    child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    print((await child.communicate(b"through"))[0])
asyncio.run(go())
"""
NODE = """
const child = require("child_process").spawn("cat");
child.stdout.on("data", (data) => console.log(`${data}`));
require("fs").promises.readFile("/etc/passwd").then(() => child.stdin.end("through"));
"""
PROGRAMS = {
    "git": ("sh", "-c", GIT),
    "python": (os.path.realpath(sys.executable), "-c", PYTHON),
    "node": ("node", "-e", NODE),
}
NO_OWN_SETTINGS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_ordinary_programs_run(folder: Path, name: str) -> None:
    if name != "python" and shutil.which(name, path=ENV["PATH"]) is None:
        pytest.skip(f"no {name} here")
    ended, output = await call(program(folder, *PROGRAMS[name]))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert b"through" in output


# --- Where it is missing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("filtered", "level"), [(True, "info"), (False, "warning")])
def test_the_log_says_whether_agents_are_kept_from_unix_sockets(filtered: bool, level: str) -> None:
    with capture_logs() as logs:
        log_confinement(filtered=filtered)
    (line,) = [line for line in logs if "seccomp" in line["event"]]
    assert line["log_level"] == level
    assert ("SUPERVISOR_REPL=0" in line["event"]) is not filtered


def test_a_machine_whose_numbers_are_unknown_gets_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*real[:4], "riscv64")))
    assert not seccomp.offered()


def test_a_kernel_without_filters_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_none(program: int) -> None:
        raise OSError(errno.EINVAL, "PR_SET_SECCOMP")

    monkeypatch.setattr(prctl, "filter_calls", has_none)
    assert not seccomp.offered()
