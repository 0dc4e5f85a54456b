"""The prompt's server over real sockets: hostile, clumsy and vanishing clients, and commands that misbehave."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from attrs import define, evolve
from structlog.testing import LogCapture
from structlog.typing import EventDict

from actors.ports.child import run_child
from supervisor.logs import Redactor
from supervisor.metrics import Metrics
from supervisor.repl.pipelines import PipelineDesk
from supervisor.repl.scene import Scene
from supervisor.repl.server import ReplServer
from supervisor.repl.session import SessionRule
from supervisor.repl.wire import MOST_ANSWER_BYTES
from supervisor.taskview import TaskClock
from supervisor.watchdog import Watchdog
from tests.actors.test_tree import Grown, for_ever
from tests.kit.processes import until

SECRET = "planted-secret-0815"
QUICK = SessionRule(command_s=0.3, send_s=0.3, idle_s=20, python=True)


@pytest.fixture
def said() -> Iterator[list[EventDict]]:
    before = structlog.get_config()
    capture = LogCapture()
    structlog.configure(processors=[capture])
    yield capture.entries
    structlog.configure(**before)


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="rr-"))
    yield made / "own"
    shutil.rmtree(made)


@define
class Caller:
    """A client that can do everything wrong."""

    stream: trio.SocketStream
    buffer: bytes = b""

    async def answer(self) -> tuple[str, str]:
        """Text and mark of the next answer."""
        while b"\x04" not in self.buffer or b"\n" not in self.buffer[self.buffer.index(b"\x04") :]:
            block = await self.stream.receive_some(65536)
            assert block, f"closed after {self.buffer!r}"
            self.buffer += block
        text, _, rest = self.buffer.partition(b"\x04")
        mark, _, self.buffer = rest.partition(b"\n")
        return text.decode(), mark.decode()

    async def ask(self, line: str) -> tuple[str, str]:
        await self.stream.send_all(line.encode() + b"\n")
        return await self.answer()

    async def ended(self) -> bool:
        try:
            return await self.stream.receive_some(1) == b""
        except trio.BrokenResourceError:  # closed over something that was not read any more
            return True


@define
class Stage:
    server: ReplServer

    async def call(self) -> Caller:
        assert self.server.path is not None
        return Caller(await trio.open_unix_socket(str(self.server.path)))

    @asynccontextmanager
    async def caller(self) -> AsyncIterator[Caller]:
        """After the greeting."""
        one = await self.call()
        async with one.stream:
            text, mark = await one.answer()
            assert ("`help` lists them" in text, mark) == (True, ">")
            yield one


@asynccontextmanager
async def staged(
    path: Path, rule: SessionRule = QUICK, *, pipelines: PipelineDesk | None = None, **more: Any
) -> AsyncIterator[Stage]:
    """A server of a supervisor that stands but does nothing."""
    grown = Grown(for_ever)

    async def runs() -> tuple[int, int, int]:
        return 3, 3, 23

    scene = Scene(
        grown.tree, grown.drain, TaskClock(), Watchdog(), Metrics(), runs, lambda level: None, pipelines=pipelines
    )
    server = ReplServer(scene, [path], Redactor([SECRET]).text, rule, **more)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield Stage(server)
        nursery.cancel_scope.cancel()


async def test_lines_arrive_in_pieces_and_several_at_once(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        for piece in (b"loglev", b"el", b"\r\nlog", b"level\nloglevel\n"):
            await one.stream.send_all(piece)
            await trio.testing.wait_all_tasks_blocked()
        assert [await one.answer() for _ in range(3)] == [("log level info\n", ">")] * 3


async def test_binary_noise_is_no_command_and_hurts_nobody(folder: Path) -> None:
    async with staged(folder / "s", evolve(QUICK, python=False)) as stage, stage.caller() as one:
        for noise in (b"\x00\xff\xfe\x04>\n", bytes(range(256)).replace(b"\n", b"") + b"\n", b"\x1b[2J tree\n"):
            await one.stream.send_all(noise)
            text, mark = await one.answer()
            assert ("there is no command" in text, mark) == (True, "!")
        assert await one.ask("loglevel") == ("log level info\n", ">")


async def test_python_noise_is_a_syntax_error(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        for noise in ("\x00", "\udce4\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "(" * 3000 + ")"):
            text, mark = await one.ask(noise)
            assert mark == "!", text
        assert await one.ask("1") == ("1\n", ">")


async def test_a_line_without_an_end_is_cut_off(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        await one.stream.send_all(b"x" * 70_000)
        assert await one.answer() == ("closed: a line has at most 65536 bytes\n", "x")
        assert await one.ended()


async def test_a_caller_of_another_user_is_refused(folder: Path, said: list[EventDict]) -> None:
    async with staged(folder / "s", uid=os.geteuid() + 1) as stage:
        one = await stage.call()
        async with one.stream:
            text, mark = await one.answer()
            assert ("refused" in text, mark) == (True, "x")
            assert await one.ended()
    (line,) = [line for line in said if line["event"] == "repl refused"]
    assert (line["uid"], line["pid"]) == (os.geteuid(), os.getpid())
    assert not [line for line in said if line["event"] == "repl opened"]


CALLER = """
import socket, subprocess, sys
if len(sys.argv) > 2:
    own = [sys.executable, "-I", "-S", "-c", sys.argv[2], sys.argv[1]]
    sys.exit(subprocess.run(own, env={}, start_new_session=True).returncode)
with socket.socket(socket.AF_UNIX) as one:
    one.connect(sys.argv[1])
    print(one.recv(1000).decode())
"""


@pytest.mark.parametrize("escape", [(), (CALLER,)], ids=["child", "own_session_no_environment"])
async def test_what_a_supervisor_has_started_is_refused(
    folder: Path, said: list[EventDict], escape: tuple[str, ...]
) -> None:
    argv = (sys.executable, "-I", "-S", "-c", CALLER, str(folder / "s"), *escape)
    async with staged(folder / "s"):
        ended = await run_child(argv, env={}, cwd=Path("/"), limit_s=20)
    assert b"refused: this prompt is not for what a supervisor has started" in ended.stdout
    (line,) = [line for line in said if line["event"] == "repl refused"]
    assert line["uid"] == os.geteuid()
    assert not [line for line in said if line["event"] == "repl opened"]


async def test_one_conversation_at_a_time_and_the_next_when_it_is_over(folder: Path) -> None:
    async with staged(folder / "s") as stage:
        async with stage.caller() as one:
            second = await stage.call()
            async with second.stream:
                assert await second.answer() == (f"busy: process {os.getpid()} has the prompt\n", "x")
            assert await one.ask("loglevel") == ("log level info\n", ">")
            assert await one.ask("quit") == ("", "x")
            assert await one.ended()
        async with stage.caller() as third:
            assert (await third.ask("actors"))[1] == ">"


async def test_a_client_that_vanishes_in_the_middle_of_a_command_ends_it(folder: Path, said: list[EventDict]) -> None:
    async with staged(folder / "s", evolve(QUICK, command_s=60)) as stage:
        async with stage.caller() as one:
            await one.stream.send_all(b"await trio.sleep(50)\n")
            await until(lambda: any(line["event"] == "repl command" for line in said))
        with trio.fail_after(2):
            await until(lambda: any(line["event"] == "repl closed" for line in said))
            async with stage.caller() as next_:
                assert await next_.ask("2") == ("2\n", ">")


async def test_a_client_that_is_done_with_asking_still_gets_its_answers(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        await one.stream.send_all(b"await trio.sleep(0.1)\nloglevel\n")
        await one.stream.send_eof()
        assert [await one.answer(), await one.answer()] == [("", ">"), ("log level info\n", ">")]
        assert await one.ended()


async def test_a_client_that_does_not_read_is_dropped(folder: Path, said: list[EventDict]) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        one.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with pytest.raises(trio.BrokenResourceError):
            await one.stream.send_all(b"print('x' * 60000)\n" * 100_000)  # answers pile up until the server gives up
        assert not [line for line in said if line["event"] == "repl failed"]


async def test_silence_ends_a_conversation(folder: Path) -> None:
    async with staged(folder / "s", evolve(QUICK, idle_s=0.05)) as stage, stage.caller() as one:
        assert await one.answer() == ("closed: nothing was asked for 0.05 s\n", "x")
        assert await one.ended()


async def test_a_command_that_waits_for_ever_is_stopped_with_all_it_started(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        text, mark = await one.ask("nursery.start_soon(trio.sleep_forever); await trio.sleep_forever()")
        assert (text, mark) == ("stopped after 0.3 s\n", "!")
        assert await one.ask("nursery.child_tasks") == ("frozenset()\n", ">")


async def test_what_a_command_raises_is_text_be_it_a_group_or_an_exit(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        text, mark = await one.ask("raise ExceptionGroup('two', [ValueError(1), KeyError('k')])")
        assert mark == "!"
        assert all(word in text for word in ("ExceptionGroup: two", "ValueError: 1", "KeyError: 'k'"))
        for line in (
            "raise SystemExit(3)",
            "raise KeyboardInterrupt",
            "raise BaseException('own')",
            "import sys; sys.exit()",
        ):
            text, mark = await one.ask(line)
            assert mark == "!", text
        text, mark = await one.ask("nursery.start_soon(lambda: 1/0)")
        assert ("ZeroDivisionError" in text, mark) == (True, "!")
        text, mark = await one.ask("nursery.cancel_scope.cancel(); await trio.sleep(1)")
        assert mark == ">"
        assert await one.ask("'still ' + 'here'") == ("'still here'\n", ">")


async def test_python_is_incremental_and_keeps_its_names(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        assert await one.ask("async def double(n):") == ("", ".")
        assert await one.ask("    await trio.sleep(0)") == ("", ".")
        assert await one.ask("    return 2 * n") == ("", ".")
        assert await one.ask("") == ("", ">")
        assert await one.ask("x = await double(21); x") == ("42\n", ">")
        assert await one.ask("_ + 1") == ("43\n", ">")
        assert await one.ask("jobs = [1]; None") == ("", ">")
        assert await one.ask("print('a', 'b', sep='-', end='!')") == ("a-b!\n", ">")
        assert (await one.ask("def ("))[1] == "!"
        assert (await one.ask("jobs")) == ("no job runs here\n", ">")  # a command is a command


async def test_a_coroutine_that_stands_alone_is_awaited_within_the_limit(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        for line in ("async def double(n):", "    await trio.sleep(0)", "    return 2 * n", ""):
            await one.ask(line)
        assert await one.ask("double(21)") == ("42\n", ">")
        assert await one.ask("_ + 1; await double(4)") == ("43\n8\n", ">")
        assert await one.ask("trio.sleep_forever()") == ("stopped after 0.3 s\n", "!")


async def test_without_a_database_pipelines_cannot_be_asked_for(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        for line in ("runs", "leases pipelines"):
            assert await one.ask(line) == ("this supervisor has no database to ask\n", "!")
        assert "NameError" in (await one.ask("wallet('x')"))[0]


async def test_an_answer_has_an_end_and_no_secret_in_it(folder: Path, said: list[EventDict]) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        text, _ = await one.ask("print('é' * 200_000)")
        assert len(text.encode()) <= MOST_ANSWER_BYTES + 1
        assert text.endswith("... cut at 64 kB\n")
        text, _ = await one.ask(f"'{SECRET[:7]}' + '{SECRET[7:]}'")
        assert text == "'***'\n"
        text, _ = await one.ask(f"raise ValueError('{SECRET[:7]}' + '{SECRET[7:]}')")
        assert "ValueError: ***" in text
        assert await one.ask("print('\\x04x')") == ("?x\n", ">")


async def test_what_others_wrote_does_not_command_the_terminal_of_who_asks(folder: Path) -> None:
    async with staged(folder / "s") as stage, stage.caller() as one:
        assert await one.ask("print('\\x1b]0;owned\\x07', 'tab\\tand line\\n')") == (
            "\ufffd]0;owned\ufffd tab\tand line\n\n",
            ">",
        )


async def test_without_python_only_commands_are_done_and_their_words_are_checked(folder: Path) -> None:
    async with staged(folder / "s", evolve(QUICK, python=False)) as stage, stage.caller() as one:
        assert (await one.ask("1 + 1"))[1] == "!"
        assert await one.ask("loglevel loud") == (
            "`loglevel` is followed by one of debug, info, warning, error, or nothing\n",
            "!",
        )
        assert await one.ask("tree please") == ("`tree` is followed by nothing\n", "!")
        text, mark = await one.ask("budget")
        assert ("3 of 3, used up: claude jobs wait for 00:00" in text, mark) == (True, ">")
        assert await one.ask("   ") == ("", ">")


# --- the socket -------------------------------------------------------------------------------------------------------


async def test_the_folder_is_made_for_us_alone_and_the_socket_in_it(folder: Path) -> None:
    before = os.umask(0)
    try:
        async with staged(folder / "s"):
            assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o600
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert os.umask(0) == 0
        assert not (folder / "s").exists()
    finally:
        os.umask(before)


async def test_a_folder_that_others_may_enter_a_file_in_the_way_and_a_long_path_mean_no_prompt_and_no_crash(
    folder: Path, said: list[EventDict]
) -> None:
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    async with staged(folder / "s") as stage:
        assert stage.server.path is None
    folder.chmod(0o700)
    (folder / "s").write_text("mine")
    async with staged(folder / "s") as stage:
        assert stage.server.path is None
    assert (folder / "s").read_text() == "mine"
    async with staged(folder / ("x" * 120)) as stage:
        assert stage.server.path is None
    whys = [line["why"] for line in said if line["event"] == "no debug prompt here"]
    assert [word in why for word, why in zip(("0700", "no socket", "too long"), whys, strict=True)] == [True] * 3


async def test_a_stale_socket_is_replaced_and_a_living_one_is_left_alone(folder: Path, said: list[EventDict]) -> None:
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "s"))
    assert (folder / "s").exists()
    async with staged(folder / "s") as stage:
        async with staged(folder / "s") as second:
            assert second.server.path is None
        async with stage.caller() as one:
            assert (await one.ask("1"))[1] == ">"
    (line,) = [line for line in said if line["event"] == "no debug prompt here"]
    assert "another process answers" in line["why"]
