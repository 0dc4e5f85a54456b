"""Reading an agent's output, and its limits in bytes, memory and time (D46, D47)."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from actors.ports.agentprocess import MemoryWatch, ProcessRunner, Stop, Stopped, tree_memory_bytes
from actors.ports.spool import Spool
from tests.kit.agentcalls import call, command, drain, lines
from tests.kit.processes import alive, pids_in, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "attempt"
    path.mkdir()
    return path


def numbered(size: int) -> bytes:
    """What ``--big`` writes."""
    return b"".join(b"%015d\n" % number for number in range(size // 16 + 1))[:size]


# --- The spool -------------------------------------------------------------------------------------------------------


async def test_bytes_come_out_in_order_over_memory_and_disk_and_memory_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, memory_limit_bytes=100)
    sent = [bytes([65 + number]) * 40 for number in range(10)]
    for chunk in sent:
        spool.put(chunk)
    assert spool.spilled_bytes == 320  # two chunks fit; from the first that does not, all go to disk, or order is lost
    received = b""
    while len(received) < 400:
        received += await spool.receive()
    assert received == b"".join(sent)
    spool.put(b"again")
    assert await spool.receive() == b"again"
    assert spool.spilled_bytes == 320
    spool.close()
    assert await spool.receive() == b""


async def test_the_spill_file_has_no_name_and_is_freed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    spool = Spool(tmp_path, memory_limit_bytes=0)
    spool.put(b"x" * 100_000)
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before + 1
    spool.discard()
    assert len(os.listdir("/proc/self/fd")) == before
    spool.close()
    assert await spool.receive() == b""


async def test_a_waiting_reader_is_woken_by_bytes_and_by_the_end(tmp_path: Path, autojump_clock: object) -> None:
    spool = Spool(tmp_path)
    received: list[bytes] = []

    async def read() -> None:
        while chunk := await spool.receive():
            received.append(chunk)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.sleep(1)
        spool.put(b"a")
        await trio.sleep(1)
        assert received == [b"a"]
        spool.close()


# --- Reading ---------------------------------------------------------------------------------------------------------


async def test_a_parser_that_sleeps_until_the_end_loses_nothing(folder: Path) -> None:
    size = 30_000_000
    spool = Spool(folder)
    ended = await ProcessRunner(None)(command(folder, "--big", str(size)), spool=spool, stop=Stop(), limit_s=20)
    assert (ended.code, ended.output_bytes) == (0, size)
    assert spool.spilled_bytes > 20_000_000
    assert await drain(spool) == numbered(size)


async def test_an_agent_that_drops_what_does_not_fit_in_its_pipe_loses_nothing_below_a_mebibyte(folder: Path) -> None:
    # Both CLIs exit 0 and drop the end of their output when the pipe is full; with 64 KiB this would be cut.
    ended, output = await call(command(folder, "--big", "900000", "--drop"))
    assert ended.code == 0
    assert output == numbered(900_000)


FLAT = """
import resource, sys, trio
from pathlib import Path
from actors.ports.agentprocess import Stop, ProcessRunner
from actors.ports.spool import Spool
from protocols.lines import LineSplitter
from tests.kit.agentcalls import command

folder, size = Path(sys.argv[1]), sys.argv[2]
spool, splitter, lines = Spool(folder), LineSplitter(), 0

async def parse():
    global lines
    while chunk := await spool.receive():
        lines += len(splitter.feed(chunk))

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(parse)
        await ProcessRunner(None)(command(folder, "--big", size), spool=spool, stop=Stop(), limit_s=60)

trio.run(main)
print(lines, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _lines_and_peak_kib(folder: Path, size: int) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", FLAT, str(folder), str(size)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, peak = done.stdout.split()[-2:]  # the log comes before
    return int(count), int(peak)


@pytest.mark.slow
def test_two_hundred_megabytes_pass_through_in_flat_memory(folder: Path) -> None:
    _, small = _lines_and_peak_kib(folder, 1_000_000)
    count, large = _lines_and_peak_kib(folder, 200_000_000)
    assert count == 12_500_000
    assert large - small < 24 * 1024, (small, large)


async def test_more_output_than_allowed_stops_the_call(folder: Path) -> None:
    spool = Spool(folder)
    runner = ProcessRunner(None, max_output_bytes=1_000_000)
    ended = await runner(command(folder, "--big", "50000000", "--hang"), spool=spool, stop=Stop(), limit_s=20)
    assert ended.stopped is Stopped.OUTPUT
    assert len(await drain(spool)) == 1_000_000


async def test_a_full_disk_is_raised_plainly_and_the_agent_is_gone(folder: Path) -> None:
    class Full(Spool):
        def put(self, chunk: bytes) -> None:
            raise OSError(28, "No space left on device")

    given = command(folder, "--big", "1000", "--hang", "--pids", str(folder))
    with pytest.raises(OSError, match="No space left"):
        await ProcessRunner(None, grace_s=1)(given, spool=Full(folder), stop=Stop(), limit_s=20)
    assert not alive(pids_in(folder))


# --- Standard input --------------------------------------------------------------------------------------------------


async def test_stdin_is_the_null_device_or_the_prompt_to_its_end(folder: Path) -> None:
    # AG-11
    _, output = await call(command(folder, "--stdin"))
    assert lines(output) == [{"type": "stdin", "bytes": 0}]
    _, output = await call(command(folder, "--stdin", stdin=b"p" * 300_000))
    assert lines(output) == [{"type": "stdin", "bytes": 300_000}]


async def test_an_agent_that_does_not_read_its_prompt_does_not_hold_the_call_up(folder: Path) -> None:
    ended, _ = await call(command(folder, "--exit", "4", stdin=b"p" * 3_000_000))
    assert ended.code == 4


READS_STDIN = """
import sys, trio
from pathlib import Path
from tests.kit.agentcalls import call, command

async def main():
    ended, output = await call(command(Path(sys.argv[1]), "--stdin"), limit_s=10)
    Path(sys.argv[1], "answer").write_text(f"{ended.code} {ended.stopped} {output.decode()}")

trio.run(main)
"""


@pytest.fixture(params=["terminal", "closed", "pipe that never closes"])
def stdin_of_supervisor(request: pytest.FixtureRequest) -> Iterator[int | None]:
    if request.param == "closed":
        yield None
        return
    near, far = pty.openpty() if request.param == "terminal" else os.pipe()[::-1]
    yield far
    os.close(near)
    os.close(far)


def test_an_agent_that_reads_stdin_first_starts_whatever_stdin_the_supervisor_has(
    folder: Path, stdin_of_supervisor: int | None
) -> None:
    # AG-11, OC: `opencode run` waits for the end of an inherited stdin for ever.
    shell = ["sh", "-c", 'exec "$@" <&-', "sh"] if stdin_of_supervisor is None else []
    done = subprocess.run(
        [*shell, sys.executable, "-c", READS_STDIN, str(folder)],
        cwd=ROOT,
        stdin=stdin_of_supervisor,
        check=True,
        timeout=20,
    )
    assert done.returncode == 0
    assert (folder / "answer").read_text() == '0 None {"type": "stdin", "bytes": 0}\n'


# --- Memory ----------------------------------------------------------------------------------------------------------


async def test_memory_that_a_child_of_the_agent_allocates_counts_and_ends_the_call(folder: Path) -> None:
    # PR-04: 300 MB in a child, limit 200.
    memory = MemoryWatch(limit_bytes=200_000_000)
    runner = ProcessRunner(None, memory=memory, grace_s=0.5, memory_check_s=0.2)
    given = command(folder, "--allocate", "300", "--hang", "--pids", str(folder))
    ended = await runner(given, spool=Spool(folder), stop=Stop(), limit_s=20)
    assert ended.stopped is Stopped.MEMORY
    assert ended.memory_peak_bytes > 200_000_000
    assert ended.duration_s < 10
    assert memory.total_bytes == 0
    assert not alive(pids_in(folder))


def test_the_limit_is_that_of_the_job_and_not_of_one_call() -> None:
    memory = MemoryWatch(limit_bytes=100)
    assert not memory.read(1, 60)
    assert memory.read(2, 60)
    memory.forget(1)
    assert not memory.read(2, 100)
    assert not MemoryWatch().read(1, 1 << 60)


async def test_memory_is_summed_over_the_whole_tree(folder: Path) -> None:
    stop = Stop()
    given = command(folder, "--allocate", "50", "--hang", "--pids", str(folder))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: call(given, stop=stop))
        await until(lambda: len(pids_in(folder)) == 1)
        (cli,) = pids_in(folder)
        await until(lambda: tree_memory_bytes(cli) > 50_000_000)
        stop.request(Stopped.SIBLING)


# --- Time ------------------------------------------------------------------------------------------------------------


async def test_a_call_that_never_ends_is_ended_at_its_cap_and_that_is_no_stall(folder: Path) -> None:
    # OC-05: the wall-clock cap is what ends an opencode call that waits for a permission.
    ended, _ = await call(command(folder, "--hang"), limit_s=0.5)
    assert ended.stopped is Stopped.LIMIT
    assert ended.duration_s < 3


@pytest.mark.time_limit(40)
async def test_four_calls_with_data_folders_of_their_own_run_side_by_side(tmp_path: Path) -> None:
    # OC-07: one SQLite file in a shared folder makes parallel runs fail with "database is locked".
    codes: list[int | None] = []

    async def one(folder: Path) -> None:
        lock = str(folder / "home/.local/share/opencode/lock")
        codes.append((await call(command(folder, "--lock", lock, "--lock-s", "1")))[0].code)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(4):
            folder = tmp_path / f"slice-{number}"
            folder.mkdir()
            nursery.start_soon(one, folder)
    assert codes == [0, 0, 0, 0]
    assert trio.current_time() - began < 4
