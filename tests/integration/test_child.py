"""Running children: what comes back, what ends them, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from actors.ports import adopted, proctable
from actors.ports.child import Exit, KilledBy, run_child
from protocols.failures import Permanent
from tests.kit.processes import alive, pids_in, until, zombies_of

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C"}


async def sh(script: str, cwd: Path, *, stdin: bytes | None = None, limit_s: float = 20, grace_s: float = 2) -> Exit:
    return await run_child(
        ["sh", "-c", script], env={**ENV, "PIDS": str(cwd)}, cwd=cwd, stdin=stdin, limit_s=limit_s, grace_s=grace_s
    )


@pytest.fixture
def subreaper() -> Iterator[None]:
    adopted.become_subreaper()
    yield
    adopted.become_subreaper(enable=False)


async def test_output_error_tail_and_code_come_back(tmp_path: Path) -> None:
    ended = await sh("echo out; echo err >&2; exit 3", tmp_path)
    assert (ended.code, ended.signal, ended.killed_by, ended.ok) == (3, None, None, False)
    assert ended.stdout == b"out\n"
    assert ended.stderr_tail == b"err\n"
    assert 0 < ended.duration_s < 5


async def test_a_child_that_died_by_a_signal_has_no_code(tmp_path: Path) -> None:
    ended = await sh("kill -9 $$", tmp_path)
    assert (ended.code, ended.signal, ended.killed_by) == (None, signal.SIGKILL, None)


async def test_stdin_is_empty_unless_given(tmp_path: Path) -> None:
    assert (await sh("cat; echo end", tmp_path)).stdout == b"end\n"
    content = b"x" * 3_000_000
    assert (await sh("cat", tmp_path, stdin=content)).stdout == content


async def test_a_child_may_close_its_stdin_without_reading(tmp_path: Path) -> None:
    ended = await sh("exec <&-; echo done", tmp_path, stdin=b"x" * 1_000_000)
    assert ended.ok
    assert ended.stdout == b"done\n"


async def test_the_environment_is_exactly_the_given_one_and_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    ended = await run_child(["env"], env={"PATH": ENV["PATH"], "A": "b"}, cwd=tmp_path)
    names = {line.split("=")[0] for line in ended.stdout.decode().splitlines()}
    assert names == {"PATH", "A", "SUPERVISOR_CHILD"}


async def test_only_the_last_bytes_of_stderr_are_kept(tmp_path: Path) -> None:
    ended = await run_child(
        ["sh", "-c", "yes error | head -c 200000 >&2; echo last >&2"], env=ENV, cwd=tmp_path, stderr_tail_bytes=100
    )
    assert len(ended.stderr_tail) == 100
    assert ended.stderr_tail.endswith(b"last\n")


async def test_a_child_that_writes_too_much_is_stopped_at_the_limit(tmp_path: Path) -> None:
    ended = await run_child(["sh", "-c", "yes"], env=ENV, cwd=tmp_path, stdout_limit_bytes=100_000)
    assert ended.killed_by is KilledBy.OUTPUT
    assert len(ended.stdout) == 100_000


async def test_chunks_come_while_the_child_runs(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    seen = bytearray()

    def answer(chunk: bytes) -> None:
        seen.extend(chunk)
        if seen == b"ready\n":  # only now may it go on, so this was called before it ended
            with open(os.open(fifo, os.O_WRONLY), "wb") as answers:
                answers.write(b"go\n")

    ended = await run_child(
        ["sh", "-c", "echo ready; read line < fifo; echo $line"], env=ENV, cwd=tmp_path, on_chunk=answer
    )
    assert bytes(seen) == b"ready\ngo\n"
    assert ended.stdout == b""


async def test_an_exception_in_the_callback_stops_the_child_and_is_raised_plainly(tmp_path: Path) -> None:
    def refuse(chunk: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_child(
            ["sh", "-c", ': > "$PIDS/$$"; echo x; sleep 60'],
            env={**ENV, "PIDS": str(tmp_path)},
            cwd=tmp_path,
            on_chunk=refuse,
        )
    assert pids_in(tmp_path)
    assert not alive(pids_in(tmp_path))


async def test_a_missing_program_or_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="no-such-program"):
        await run_child(["no-such-program"], env=ENV, cwd=tmp_path)
    with pytest.raises(Permanent, match="gone"):
        await run_child(["true"], env=ENV, cwd=tmp_path / "gone")


async def test_the_limit_ends_the_whole_group(tmp_path: Path) -> None:
    ended = await sh(': > "$PIDS/$$"; sleep 77 & : > "$PIDS/$!"; sleep 78', tmp_path, limit_s=0.3)
    assert ended.killed_by is KilledBy.LIMIT
    assert ended.signal == signal.SIGTERM
    assert len(pids_in(tmp_path)) == 2
    assert not alive(pids_in(tmp_path))


async def test_a_deaf_child_is_killed_after_the_grace(tmp_path: Path) -> None:
    ended = await sh("trap '' TERM; : > \"$PIDS/$$\"; while :; do sleep 1; done", tmp_path, limit_s=0.3, grace_s=0.3)
    assert ended.killed_by is KilledBy.LIMIT
    assert ended.signal == signal.SIGKILL
    assert 0.6 <= ended.duration_s < 3
    assert not alive(pids_in(tmp_path))


async def test_what_a_child_writes_while_it_winds_down_is_kept(tmp_path: Path) -> None:
    ended = await sh("trap 'echo bye; exit 0' TERM; echo hi; sleep 60 & wait", tmp_path, limit_s=0.3)
    assert ended.stdout == b"hi\nbye\n"
    assert ended.code == 0
    assert ended.killed_by is KilledBy.LIMIT
    assert not ended.ok


async def test_cancellation_leaves_nothing_running(tmp_path: Path) -> None:
    # PR-01: `sh -c "sleep 77 & sleep 78"` cancelled; plain trio leaves both sleeps alive.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sh, ': > "$PIDS/$$"; sleep 77 & : > "$PIDS/$!"; sleep 78 & : > "$PIDS/$!"; wait', tmp_path)
        await until(lambda: len(pids_in(tmp_path)) == 3)
        nursery.cancel_scope.cancel()
    assert not alive(pids_in(tmp_path))


async def test_output_of_the_last_moments_reaches_the_callback_of_a_cancelled_call(tmp_path: Path) -> None:
    seen = bytearray()
    script = "trap 'yes last | head -c 300000; exit 0' TERM; echo ready; sleep 60 & wait"
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await run_child(["sh", "-c", script], env=ENV, cwd=tmp_path, on_chunk=seen.extend)

        nursery.start_soon(run)
        await until(lambda: bytes(seen) == b"ready\n")
        nursery.cancel_scope.cancel()
    assert len(seen) == 300_000 + len(b"ready\n")


async def test_a_call_that_is_cancelled_before_it_starts_starts_nothing(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await sh(': > "$PIDS/$$"', tmp_path)
    assert scope.cancelled_caught
    assert not pids_in(tmp_path)


async def test_a_grandchild_that_holds_the_pipe_delays_nothing_and_dies(tmp_path: Path) -> None:
    # PR-01: the leader exits at once, a grandchild keeps stdout open.
    ended = await sh('echo hi; sleep 60 & : > "$PIDS/$!"', tmp_path)
    assert ended.ok
    assert ended.stdout == b"hi\n"
    assert ended.duration_s < 5
    assert not alive(pids_in(tmp_path))


async def test_bytes_that_a_grandchild_writes_right_after_the_leader_are_kept(tmp_path: Path) -> None:
    ended = await sh("(echo late) & exit 0", tmp_path)
    assert ended.stdout == b"late\n"


@pytest.mark.parametrize("numbers", ["go on", "began again"])
async def test_a_grandchild_in_its_own_session_is_found_by_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: str
) -> None:
    looked_from: list[int] = []
    rows = proctable.rows

    def watched(first: int = 0) -> Iterator[proctable.Row]:
        looked_from.append(first)
        return rows(first)

    monkeypatch.setattr(proctable, "rows", watched)
    if numbers == "began again":
        monkeypatch.setattr(proctable, "last_number", lambda: 1)
    script = f"""setsid sh -c ': > "{tmp_path}/$$"; sleep 60 & : > "{tmp_path}/$!"; wait' </dev/null >/dev/null 2>&1 &
    while [ -z "$(ls {tmp_path})" ]; do sleep 0.01; done"""
    await sh(script, tmp_path)
    assert pids_in(tmp_path)
    assert not alive(pids_in(tmp_path))
    # a look at every process of the machine takes long, and is only needed when a low number may be a young process
    assert set(looked_from) == {0} if numbers == "began again" else len(set(looked_from) - {0}) <= 1


async def test_a_descendant_without_mark_and_session_is_found_below_the_leader(tmp_path: Path) -> None:
    script = f"""env -i setsid sh -c ': > "{tmp_path}/$$"; exec sleep 60' </dev/null >/dev/null 2>&1 & sleep 60"""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sh, script, tmp_path)
        await until(lambda: len(pids_in(tmp_path)) == 1)
        nursery.cancel_scope.cancel()
    assert not alive(pids_in(tmp_path))


async def test_adopted_zombies_of_a_family_are_reaped_with_it(tmp_path: Path, subreaper: None) -> None:
    # PR-03: twenty grandchildren come to us when their parent dies.
    before = zombies_of(os.getpid())
    script = (
        'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (sleep 60 & : > "$PIDS/$!"); done; sleep 60'
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sh, script, tmp_path)
        await until(lambda: len(pids_in(tmp_path)) == 20)
        nursery.cancel_scope.cancel()
    assert not alive(pids_in(tmp_path))
    assert zombies_of(os.getpid()) == before


async def test_a_zombie_that_no_sweep_knew_is_reaped_at_the_second_tick(tmp_path: Path, subreaper: None) -> None:
    # PR-03: new session, no mark, and its parents are gone before anybody looks.
    script = f"""(env -i setsid sh -c ': > "{tmp_path}/$$"; read x < {tmp_path}/fifo' </dev/null >/dev/null 2>&1 &)
    while [ -z "$(ls {tmp_path} | grep -v fifo)" ]; do sleep 0.01; done"""
    os.mkfifo(tmp_path / "fifo")
    await sh(script, tmp_path)
    (orphan,) = pids_in(tmp_path)
    assert alive({orphan})
    await trio.to_thread.run_sync((tmp_path / "fifo").write_text, "end\n")
    await until(lambda: orphan in zombies_of(os.getpid()))
    reaper = adopted.AdoptedReaper()
    assert orphan not in reaper.tick()
    assert orphan in reaper.tick()
    assert orphan not in zombies_of(os.getpid())


async def test_a_tick_takes_no_exit_status_that_somebody_waits_for(tmp_path: Path) -> None:
    # D17: a status that is stolen cannot be given back.
    reaper = adopted.AdoptedReaper()
    process = await trio.lowlevel.open_process(["sh", "-c", "exit 7"])
    adopted.own(process.pid)
    await until(lambda: process.pid in zombies_of(os.getpid()))
    reaper.tick()
    assert reaper.tick() == []
    assert await process.wait() == 7
    adopted.disown(process.pid)


async def test_many_children_at_once_leave_no_descriptor_and_no_zombie(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    await sh("true", tmp_path)
    before = descriptors()
    codes: list[int | None] = []

    async def one(number: int) -> None:
        codes.append((await sh(f"exit {number}", tmp_path)).code)

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(one, number)
    assert sorted(codes, key=lambda code: code or 0) == list(range(30))
    assert descriptors() == before
    assert not zombies_of(os.getpid())


async def test_a_process_that_closed_its_output_still_runs_to_its_end(tmp_path: Path) -> None:
    ended = await sh("exec >&- 2>&-; sleep 0.2; exit 5", tmp_path)
    assert ended.code == 5


async def test_twenty_megabytes_come_through_unharmed(tmp_path: Path) -> None:
    script = "import os\nfor i in range(400): os.write(1, b'%05d' % i * 10_000)"
    ended = await run_child([sys.executable, "-c", script], env=ENV, cwd=tmp_path)
    assert ended.stdout == b"".join(b"%05d" % i * 10_000 for i in range(400))


async def test_who_was_started_here_is_told_from_a_stranger(tmp_path: Path) -> None:
    ended = await sh("echo $$", tmp_path)
    assert adopted.started_here(int(ended.stdout))  # has ended: it may have been one of ours
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sh, "env -i setsid sh -c ': > $0/$$; sleep 300' $PIDS & wait", tmp_path)
        await until(lambda: len(pids_in(tmp_path)) == 1)
        (below,) = pids_in(tmp_path)
        assert adopted.started_here(below)
        nursery.cancel_scope.cancel()
    strangers = (0, 1, os.getpid(), os.getppid())
    assert [adopted.started_here(pid) for pid in strangers] == [False] * 4
