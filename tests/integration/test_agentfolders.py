"""Private folders of agents (D48) and what is read and removed of what they leave (D50)."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from actors.ports.agentfolders import (
    AgentFileRefused,
    SliceFolder,
    WorkRoot,
    copy_checkout,
    delete_tree,
    prepare_copy,
    read_agent_file,
)
from protocols.failures import ResourceExhausted
from tests.kit.agentcalls import call, command


@pytest.fixture
def work(tmp_path: Path) -> WorkRoot:
    return WorkRoot(tmp_path / "work", least_free_bytes=0)


def modes(*paths: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# --- One folder an attempt -------------------------------------------------------------------------------------------


async def test_an_attempt_has_a_private_folder_that_is_gone_afterwards(work: WorkRoot) -> None:
    async with work.attempt("job", 2) as folder:
        assert folder.path == work.path / "job-2"
        assert names(folder.path) == {"checkout", "home", "tmp"}
        assert modes(folder.path, folder.checkout, folder.home, folder.tmp) == {0o700}
        one = folder.slice(1)
        assert names(one.path) == {"checkout", "home", "tmp"}
        assert one.home != folder.home
        assert one.folders.variables()["XDG_DATA_HOME"] == str(one.home / ".local/share")
    assert names(work.path) == set()


async def test_the_folder_is_gone_after_a_failure_and_a_cancellation(work: WorkRoot) -> None:
    with pytest.raises(ZeroDivisionError):
        async with work.attempt("job", 1):
            raise ZeroDivisionError
    with trio.move_on_after(0.01):
        async with work.attempt("job", 1):
            await trio.sleep_forever()
    assert names(work.path) == set()


async def test_what_an_agent_closed_or_nested_deeply_is_deleted_too(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "closed").mkdir(parents=True)
    (tree / "closed" / "file").touch()
    (tree / "closed").chmod(0)
    outside = tmp_path / "outside"
    outside.mkdir()
    (tree / "link").symlink_to(outside)
    _nest(tree, 2100)
    await delete_tree(tree)
    assert names(tmp_path) == {"outside"}


def _nest(folder: Path, depth: int) -> None:
    """Deeper than Python's recursion and longer than the longest path."""
    script = (
        "import os, sys\nos.chdir(sys.argv[1])\nfor _ in range(int(sys.argv[2])):\n    os.mkdir('d'); os.chdir('d')"
    )
    subprocess.run([sys.executable, "-c", script, str(folder), str(depth)], check=True)


async def test_each_call_of_a_cli_without_sessions_gets_a_home_of_its_own_that_is_deleted(work: WorkRoot) -> None:
    # OC-07: one database in a shared folder makes parallel runs fail.
    async with work.attempt("job", 1) as folder:
        async with folder.call_home() as first, folder.call_home() as second:
            assert first.home != second.home
            assert first.checkout == second.checkout == folder.checkout
            assert modes(first.path, first.home, first.tmp) == {0o700}
            (first.home / "opencode.db").touch()
        assert names(folder.path) == {"checkout", "home", "tmp"}


async def test_the_home_of_a_call_is_deleted_when_the_call_is_cancelled(work: WorkRoot) -> None:
    async with work.attempt("job", 1) as folder:
        with trio.move_on_after(0.3):
            async with folder.call_home() as own:
                await call(command(own.home, "--lock", str(own.home / "data/db"), "--hang"))
        assert names(folder.path) == {"checkout", "home", "tmp"}


# --- Sweeping --------------------------------------------------------------------------------------------------------


async def test_a_sweep_deletes_what_no_living_process_uses(work: WorkRoot) -> None:
    dead = work.path / "dead-1"
    (dead / "checkout").mkdir(parents=True)
    (work.path / "stray").touch()
    async with work.attempt("alive", 1) as folder:
        assert await work.sweep() == [dead, work.path / "stray"]
        assert names(work.path) == {"alive-1", "alive-1/checkout", "alive-1/home", "alive-1/tmp"}
        assert folder.checkout.is_dir()


async def test_a_folder_in_use_by_another_process_stays(work: WorkRoot) -> None:
    folder = work.path / "other-1"
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert await work.sweep() == []
    with pytest.raises(ResourceExhausted, match="in use"):
        async with work.attempt("other", 1):
            pass
    os.close(descriptor)
    async with work.attempt("other", 1) as taken:  # left by a killed process: swept on the way
        assert taken.path == folder


async def test_a_work_root_sweeps_at_its_start(work: WorkRoot) -> None:
    (work.path / "dead-1").mkdir(parents=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(work.run)
        assert names(work.path) == set()
        nursery.cancel_scope.cancel()


async def test_no_folder_is_made_when_the_disk_is_nearly_full(tmp_path: Path) -> None:
    work = WorkRoot(tmp_path, least_free_bytes=1 << 60)
    with pytest.raises(ResourceExhausted, match="free some space"):
        async with work.attempt("job", 1):
            pass
    assert names(tmp_path) == set()


# --- The agent's copy ------------------------------------------------------------------------------------------------


async def test_project_configuration_of_every_cli_is_removed_at_every_depth_and_nothing_else(tmp_path: Path) -> None:
    kept = ["laws/wet/law.yaml", "laws/CLAUDE.txt", "opencode.yaml", ".git/hooks/CLAUDE.md", "README.md"]
    hostile = [
        ".claude/settings.json",
        ".claude/skills/law-generate/SKILL.md",
        ".claude/hooks/start.sh",
        "laws/.claude/settings.local.json",
        "laws/wet/CLAUDE.md",
        "CLAUDE.local.md",
        "AGENTS.md",
        "laws/AGENTS.md/file",
        ".mcp.json",
        "laws/.mcp.json",
        "opencode.json",
        "laws/opencode.jsonc",
        ".opencode/plugin/evil.ts",
    ]
    for name in (*kept, *hostile):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    target = tmp_path.parent / "target"
    target.mkdir()
    (target / "precious").touch()
    (tmp_path / "laws" / "wet" / ".opencode").symlink_to(target)
    await prepare_copy(tmp_path)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert files == set(kept)
    assert (target / "precious").exists()


async def test_a_link_is_removed_whatever_it_is_called(tmp_path: Path) -> None:
    # D50: opencode would read /proc/self/environ through it
    (tmp_path / "laws").mkdir()
    (tmp_path / "laws" / "law.yaml").touch()
    for name, target in {"environ": "/proc/self/environ", "laws/up": "../..", "laws/near": "law.yaml"}.items():
        (tmp_path / name).symlink_to(target)
    await prepare_copy(tmp_path)
    assert names(tmp_path) == {"laws", "laws/law.yaml"}


async def test_our_skills_replace_those_of_the_corpus_before_every_call(tmp_path: Path) -> None:
    skills, checkout = tmp_path / "skills", tmp_path / "checkout"
    (skills / "law-generate").mkdir(parents=True)
    (skills / "law-generate" / "SKILL.md").write_text("ours")
    (checkout / ".claude/skills/law-generate").mkdir(parents=True)
    (checkout / ".claude/skills/law-generate/SKILL.md").write_text("theirs")
    (checkout / ".claude/settings.json").write_text("{}")
    await prepare_copy(checkout, skills)
    assert names(checkout / ".claude") == {"skills", "skills/law-generate", "skills/law-generate/SKILL.md"}
    skill = checkout / ".claude/skills/law-generate/SKILL.md"
    assert skill.read_text() == "ours"
    skill.write_text("changed by the agent of the first call")
    await prepare_copy(checkout, skills)
    assert skill.read_text() == "ours"


async def test_folders_that_an_agent_closed_or_nested_deeply_do_not_keep_its_orders(tmp_path: Path) -> None:
    _nest(tmp_path, 1100)
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "CLAUDE.md").touch()
    (tmp_path / "closed").chmod(0)
    await prepare_copy(tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert os.listdir(tmp_path / "closed") == []
    await delete_tree(tmp_path / "d")


async def test_a_slice_gets_a_copy_without_git_and_with_links_as_links(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "slice"
    (source / ".git").mkdir(parents=True)
    (source / "law.yaml").write_text("law")
    (source / "link").symlink_to("/etc/hostname")
    slice_folder = SliceFolder(target).make()
    copy_checkout(source, slice_folder.checkout)
    assert names(slice_folder.checkout) == {"law.yaml", "link"}
    assert (slice_folder.checkout / "link").is_symlink()


# --- Reading ---------------------------------------------------------------------------------------------------------


def test_a_plain_file_is_read_and_a_missing_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "laws").mkdir()
    (tmp_path / "laws" / "law.yaml").write_bytes(b"law")
    assert read_agent_file(tmp_path, "laws/law.yaml", most_bytes=3) == b"law"
    assert read_agent_file(tmp_path, "laws/other.yaml", most_bytes=3) is None
    assert read_agent_file(tmp_path, "none/law.yaml", most_bytes=3) is None


def test_hostile_files_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "symlink").symlink_to(secret)
    (root / "hardlink").hardlink_to(secret)
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    (root / "linked").symlink_to(tmp_path)
    (root / "huge").touch()
    os.truncate(root / "huge", 1 << 40)
    (root / "device").symlink_to("/dev/zero")
    for name in ("symlink", "hardlink", "fifo", "folder", "linked/secret", "huge", "device"):
        with pytest.raises(AgentFileRefused) as refused:
            read_agent_file(root, name, most_bytes=1000)
        assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../b", ""])
def test_a_name_that_leaves_the_folder_is_a_mistake_of_ours(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no relative path"):
        read_agent_file(tmp_path, name, most_bytes=10)
