"""Branches that are not there yet, links and paths in the way, folders of others, a full disk (corpus traps 13.6-13.10)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from attrs import evolve

from actors.ports.corpus import open_corpus
from protocols.corpus import CorpusSettings, CorpusUnavailable
from protocols.failures import PushConflict, ResourceExhausted
from tests.kit.gitrepos import Remote, Rival, git
from tests.kit.publications import README, is_clean, law_and_status, yes

# -- 13.6: the branch that is not there yet -------------------------------------------------------------------------------


async def test_a_missing_branch_starts_from_the_base_branch(settings: CorpusSettings, remote: Remote) -> None:
    preview = evolve(settings, branch="pr12")
    async with open_corpus(preview) as corpus:
        assert await corpus.tip() == remote.tip("development")
        await corpus.publish(law_and_status("ours"), confirm=yes)
        await corpus.prepare()
    assert remote.subjects("pr12") == ["first", "harvest: ours"]
    assert remote.subjects("development") == ["first"]
    assert is_clean(settings.path, remote, "pr12")


async def test_a_branch_that_we_made_works_after_a_restart_and_for_unchanged_content(
    settings: CorpusSettings, remote: Remote
) -> None:
    # A clone of the base branch never tracks the new one: `reset --hard origin/B` and `origin/B..HEAD` failed for good.
    preview = evolve(settings, branch="enrich/claude")
    async with open_corpus(preview) as corpus:
        await corpus.publish(law_and_status("ours"), confirm=yes)
        assert not (await corpus.publish(law_and_status("ours"), confirm=yes)).changed
    async with open_corpus(preview) as corpus:
        assert await corpus.prepare() == remote.tip("enrich/claude")
        assert not (await corpus.publish(law_and_status("ours"), confirm=yes)).changed
        assert (await corpus.publish(law_and_status("more"), confirm=yes)).changed
    assert remote.subjects("enrich/claude") == ["first", "harvest: ours", "harvest: more"]


async def test_two_that_make_the_branch_at_once_both_get_through(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    calls = 0

    async def rival_first() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            rival.push({"rival.md": "x"}, "rival made the branch", "pr12")

    async with open_corpus(evolve(settings, branch="pr12")) as corpus:
        await corpus.publish(law_and_status("ours"), confirm=rival_first)
    assert remote.subjects("pr12") == ["first", "rival made the branch", "harvest: ours"]


async def test_a_branch_that_was_deleted_is_made_again(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(evolve(settings, branch="pr12")) as corpus:
        await corpus.publish(law_and_status("ours"), confirm=yes)
        git(remote.path, "update-ref", "-d", "refs/heads/pr12")
        assert (await corpus.publish(law_and_status("again"), confirm=yes)).changed
    assert remote.subjects("pr12") == ["first", "harvest: again"]


async def test_a_branch_in_the_way_of_a_folder_of_branches_can_go(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(evolve(settings, branch="enrich")) as corpus:
        await corpus.publish(law_and_status("ours"), confirm=yes)
    git(remote.path, "update-ref", "-d", "refs/heads/enrich")
    async with open_corpus(evolve(settings, branch="enrich/claude")) as corpus:
        await corpus.publish(law_and_status("ours"), confirm=yes)
    assert remote.subjects("enrich/claude") == ["first", "harvest: ours"]


async def test_neither_branch_nor_base_is_a_failure_that_says_what_to_do(
    settings: CorpusSettings, remote: Remote
) -> None:
    async with open_corpus(evolve(settings, branch="pr12", base_branch="trunk")) as corpus:
        with pytest.raises(CorpusUnavailable, match="neither the branch pr12 nor trunk"):
            await corpus.publish(law_and_status("ours"), confirm=yes)


# -- 13.9, 13.10: links and paths -----------------------------------------------------------------------------------------


async def test_a_committed_link_is_never_followed(
    settings: CorpusSettings, remote: Remote, rival: Rival, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "passwd").write_text("root")
    os.symlink(secret, rival.clone / "out")
    os.symlink(secret / "passwd", rival.clone / "file.yaml")
    rival.push({}, "links")
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        assert await corpus.read("out/passwd") is None
        assert await corpus.read("file.yaml") == str(secret / "passwd").encode()
        assert not (settings.path / "out").is_symlink()
        assert not (settings.path / "file.yaml").is_symlink()
        with pytest.raises(PushConflict, match="a file and a folder of one name"):
            await corpus.publish(law_and_status("ours", "out/law.yaml"), confirm=yes)
    assert list(secret.iterdir()) == [secret / "passwd"]


async def test_a_file_where_a_folder_is_needed_is_a_conflict_not_a_loss(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    rival.push({"regulation": "a file", "folder.yaml/x.yaml": "x"})
    async with open_corpus(settings) as corpus:
        for path in ("regulation/nl/law.yaml", "folder.yaml"):
            with pytest.raises(PushConflict, match="a file and a folder"):
                await corpus.publish(law_and_status("ours", path), confirm=yes)
    assert remote.files() == {README: "laws\n", "regulation": "a file", "folder.yaml/x.yaml": "x"}


# -- whose folder is it? --------------------------------------------------------------------------------------------------


async def test_a_folder_with_files_is_refused_and_kept(settings: CorpusSettings) -> None:
    settings.path.mkdir()
    (settings.path / "thesis.txt").write_text("mine")
    async with open_corpus(settings) as corpus:
        with pytest.raises(CorpusUnavailable, match="CORPUS_REPO_PATH a folder of its own"):
            await corpus.prepare()
    assert (settings.path / "thesis.txt").read_text() == "mine"


async def test_a_checkout_of_another_repository_is_refused_and_kept(settings: CorpusSettings, tmp_path: Path) -> None:
    elsewhere = Remote.create(tmp_path / "elsewhere.git")
    Rival.of(elsewhere, settings.path).push({"thesis.txt": "mine"})
    (settings.path / "thesis.txt").write_text("mine, edited")
    async with open_corpus(settings) as corpus:
        with pytest.raises(CorpusUnavailable, match="another folder"):
            await corpus.prepare()
    assert (settings.path / "thesis.txt").read_text() == "mine, edited"


async def test_a_checkout_of_an_existing_worker_is_taken_over(settings: CorpusSettings, remote: Remote) -> None:
    git(settings.path.parent, "clone", "--quiet", "--depth=1", f"file://{remote.path}", str(settings.path))
    git(settings.path, "remote", "set-url", "origin", f"{remote.path}/")
    async with open_corpus(settings) as corpus:
        await corpus.publish(law_and_status("ours"), confirm=yes)
        await corpus.prepare()
    assert is_clean(settings.path, remote)
    assert git(settings.path, "config", "remote.origin.url").strip() == settings.repo_url


# -- the disk ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mount.returncode != 0:
        pytest.skip(f"cannot mount a small tmpfs: {mount.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(os.urandom(4096))


async def test_a_full_disk_is_a_typed_failure_and_room_heals_it(
    settings: CorpusSettings, remote: Remote, small_disk: Path
) -> None:
    settings = evolve(settings, path=small_disk / "corpus")
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        filler = small_disk / "filler"
        _fill(filler)
        with pytest.raises(ResourceExhausted):
            await corpus.publish(law_and_status("ours" * 2000), confirm=yes)
        assert remote.subjects() == ["first"]
        filler.unlink()
        assert (await corpus.publish(law_and_status("ours"), confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: ours"]
