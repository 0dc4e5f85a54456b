"""The corpus as a plain folder: whole files, no links followed, the same gate as with git."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from actors.ports.agentfolders import delete_tree
from actors.ports.foldercorpus import FolderCorpus
from protocols.corpus import CorpusPort, CorpusUnavailable, FileChange, Publication, Published
from protocols.failures import InvalidInput, LeaseLost

LAW = "nl/wet/zorgwet/2025-01-01.yaml"
STATUS = "nl/wet/zorgwet/status.yaml"


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusPort:
    return FolderCorpus(tmp_path / "laws")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "laws"


async def yes() -> None:
    """The lease is ours."""


def law(text: str, status: str = "s", path: str = LAW) -> Publication:
    return Publication((FileChange(path, text.encode()),), "harvest", (FileChange(STATUS, status.encode()),))


def names_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.claim("S0-148")
async def test_files_are_written_whole_and_nothing_is_a_repository(corpus: CorpusPort, root: Path) -> None:
    assert await corpus.publish(law("a: 1\n"), confirm=yes) == Published(changed=True, commit=None)
    assert (root / LAW).read_text() == "a: 1\n"
    assert names_below(root) == ["2025-01-01.yaml", "status.yaml"]
    assert await corpus.tip() is None
    assert await corpus.find_commit({"Job-Id": "1"}) is None
    assert await corpus.read(LAW) == b"a: 1\n"
    assert await corpus.read("nl/none.yaml") is None
    assert await corpus.list_paths("nl") == (LAW, STATUS)
    assert await corpus.existing((STATUS, "nl/none.yaml", "nl/wet", LAW)) == (STATUS, LAW)


async def test_only_content_decides(corpus: CorpusPort, root: Path) -> None:
    # GT-04, and without git too: else two laws that cite each other would go on for ever.
    await corpus.publish(law("a", "at 1"), confirm=yes)
    assert not (await corpus.publish(law("a", "at 2"), confirm=yes)).changed
    assert (root / STATUS).read_text() == "at 1"
    assert (await corpus.publish(law("b", "at 3"), confirm=yes)).changed
    assert (root / STATUS).read_text() == "at 3"


async def test_a_lost_lease_writes_nothing(corpus: CorpusPort, root: Path) -> None:
    async def lost() -> None:
        raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        await corpus.publish(law("a"), confirm=lost)
    assert names_below(root) == []


async def test_a_law_can_move(corpus: CorpusPort) -> None:
    await corpus.publish(law("a"), confirm=yes)
    moved = Publication((FileChange(LAW, None), FileChange("nl/amvb/x.yaml", b"a")), "move")
    await corpus.publish(moved, confirm=yes)
    assert await corpus.list_paths("nl") == ("nl/amvb/x.yaml", STATUS)


async def test_links_lead_nowhere(corpus: CorpusPort, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for folder in (outside, root):
        os.mkdir(folder)
    (outside / "secret.yaml").write_text("secret")
    os.symlink(outside, root / "nl")
    os.symlink(outside / "secret.yaml", root / "file.yaml")
    for path in ("nl/law.yaml", "file.yaml"):
        with pytest.raises(CorpusUnavailable, match="symbolic link"):
            await corpus.publish(law("a", path=path), confirm=yes)
        with pytest.raises(CorpusUnavailable, match="symbolic link"):
            await corpus.read(path)
    assert names_below(outside) == ["secret.yaml"]
    assert (outside / "secret.yaml").read_text() == "secret"


async def test_paths_outside_are_refused(corpus: CorpusPort) -> None:
    for path in ("../x", "/etc/passwd"):
        with pytest.raises(InvalidInput):
            await corpus.read(path)


async def test_a_name_that_is_too_long_for_the_disk_leaves_no_half_file(corpus: CorpusPort, root: Path) -> None:
    with pytest.raises(CorpusUnavailable, match="too long"):
        await corpus.publish(law("a", path="nl/" + "x" * 250), confirm=yes)
    assert names_below(root) == []


async def test_a_huge_file_is_replaced_without_being_read(corpus: CorpusPort, root: Path) -> None:
    """A sparse file costs whoever makes it nothing, and whoever reads it all of its size."""
    await corpus.publish(law("a"), confirm=yes)
    os.truncate(root / LAW, 6 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorpusUnavailable, match="6442450944 bytes; at most"):
        await corpus.read(LAW)
    assert (await corpus.publish(law("a"), confirm=yes)).changed
    assert (root / LAW).read_bytes() == b"a"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


async def test_a_pipe_in_place_of_an_empty_file_is_another_file(corpus: CorpusPort, root: Path) -> None:
    await corpus.publish(law("a"), confirm=yes)
    (root / LAW).unlink()
    os.mkfifo(root / LAW)
    assert (await corpus.publish(law(""), confirm=yes)).changed
    assert (root / LAW).is_file()


async def test_folders_deeper_than_any_recursion_are_listed_as_far_as_paths_go(corpus: CorpusPort, root: Path) -> None:
    await corpus.publish(law("a"), confirm=yes)
    folder = os.open(root / "nl", os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert await corpus.list_paths("nl") == (LAW, STATUS)
    await delete_tree(root)


async def test_a_folder_in_place_of_a_file_is_told_and_leaves_no_descriptor_open(
    corpus: CorpusPort, root: Path
) -> None:
    (root / LAW).mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(CorpusUnavailable, match="directory"):
            await corpus.publish(law("a"), confirm=yes)
    assert len(os.listdir("/proc/self/fd")) == before
