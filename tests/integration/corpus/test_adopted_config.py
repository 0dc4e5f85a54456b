"""The configuration of a checkout that is taken over decides nothing: it runs no program and names no other place."""

from __future__ import annotations

from pathlib import Path
from string import Template

import pytest

from actors.ports.corpus import open_corpus
from actors.ports.gitconfig import text_for
from protocols.corpus import CorpusSettings, CorpusUnavailable
from tests.kit.gitrepos import Remote, Rival, git
from tests.kit.publications import LAW, is_clean, law_and_status, yes


@pytest.fixture
def elsewhere(tmp_path: Path) -> Remote:
    other = Remote.create(tmp_path / "elsewhere.git")
    Rival.of(other, tmp_path / "other").push({"README.md": "not ours\n"}, "elsewhere")
    return other


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    return folder


# What somebody adds to the file; $run is a command that leaves a mark, $elsewhere another repository, $remote ours.
HOSTILE = {
    "a program to fetch with": [("remote.origin.uploadpack", "$run git-upload-pack")],
    "a program to push with": [("remote.origin.receivepack", "$run git-receive-pack")],
    "a place to push to": [("remote.origin.pushurl", "$elsewhere")],
    "another address instead": [("url.$elsewhere.insteadOf", "$remote")],
    "another address to push to": [("url.$elsewhere.pushInsteadOf", "$remote")],
    "another transport": [("remote.origin.vcs", "ext")],
    "another file": [("include.path", "$included")],
    "another working tree": [("core.worktree", "$outside")],
    "filters": [("filter.x.smudge", "$run cat"), ("filter.x.clean", "$run cat"), ("filter.x.process", "$run cat")],
    "programs beside git": [
        ("core.fsmonitor", "$run true"),
        ("core.sshCommand", "$run true"),
        ("diff.external", "$run"),
    ],
    "mirroring": [("remote.origin.mirror", "true")],
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("when", ["before the first fetch", "between two fetches"])
async def test_nothing_in_the_configuration_runs_a_program_or_leads_elsewhere(
    settings: CorpusSettings, remote: Remote, elsewhere: Remote, outside: Path, tmp_path: Path, kind: str, when: str
) -> None:
    touched, included = tmp_path / "touched", tmp_path / "included"
    run = f"touch {touched};"
    included.write_text(f'[remote "origin"]\n\tuploadpack = "{run} git-upload-pack"\n\tpushurl = {elsewhere.path}\n')
    words = {"run": run, "elsewhere": elsewhere.path, "remote": remote.path, "included": included, "outside": outside}
    before = elsewhere.subjects()
    git(tmp_path, "clone", "--quiet", f"file://{remote.path}", str(settings.path))
    git(settings.path, "remote", "set-url", "origin", str(remote.path))
    (settings.path / ".git" / "info" / "attributes").write_text("* filter=x\n")

    def add() -> None:
        for key, value in HOSTILE[kind]:
            config = str(settings.path / ".git" / "config")
            git(
                tmp_path, "config", "--file", config, Template(key).substitute(words), Template(value).substitute(words)
            )

    if when == "before the first fetch":
        add()
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        if when == "between two fetches":
            add()
        await corpus.publish(law_and_status("ours"), confirm=yes)
        await corpus.prepare()
        assert await corpus.read(LAW) == b"ours"
    assert not touched.exists()
    assert elsewhere.subjects() == before
    assert remote.subjects() == ["first", "harvest: ours"]
    assert is_clean(settings.path, remote)
    assert [path.name for path in outside.iterdir()] == ["thesis.txt"]


async def test_a_link_in_place_of_the_configuration_is_replaced_and_not_written_through(
    settings: CorpusSettings, remote: Remote, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", str(remote.path), str(settings.path))
    config, theirs = settings.path / ".git" / "config", tmp_path / "theirs"
    config.rename(theirs)
    config.symlink_to(theirs)
    text = theirs.read_text()
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
    assert theirs.read_text() == text
    assert not config.is_symlink()


async def test_a_repository_that_is_kept_elsewhere_is_refused_and_left_alone(
    settings: CorpusSettings, remote: Remote, tmp_path: Path
) -> None:
    main = tmp_path / "main"
    git(tmp_path, "clone", "--quiet", str(remote.path), str(main))
    git(main, "worktree", "add", "--quiet", "-b", "side", str(settings.path))
    (settings.path / "thesis.txt").write_text("mine")
    text = (main / ".git" / "config").read_text()
    async with open_corpus(settings) as corpus:
        with pytest.raises(CorpusUnavailable, match="a folder of its own"):
            await corpus.prepare()
    assert (main / ".git" / "config").read_text() == text
    assert (settings.path / "thesis.txt").read_text() == "mine"


async def test_a_checkout_without_all_its_objects_is_cloned_anew(settings: CorpusSettings, remote: Remote) -> None:
    git(remote.path, "config", "uploadpack.allowFilter", "true")
    git(settings.path.parent, "clone", "--quiet", "--filter=blob:none", f"file://{remote.path}", str(settings.path))
    git(settings.path, "remote", "set-url", "origin", str(remote.path))
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        assert await corpus.read("README.md") == b"laws\n"
    assert not list((settings.path / ".git" / "objects").rglob("*.promisor"))


def test_what_git_reads_back_is_the_address_that_was_written(tmp_path: Path) -> None:
    for number, url in enumerate(("/a b/c", 'https://x/"quoted"', "back\\slash", "https://x/#y;z")):
        file = tmp_path / str(number)
        file.write_text(text_for(url, {"extensions.objectformat": "SHA256", "extensions.worktreeconfig": "true"}))
        assert git(tmp_path, "config", "--file", str(file), "remote.origin.url") == f"{url}\n"
        assert "worktree" not in file.read_text()
        assert git(tmp_path, "config", "--file", str(file), "extensions.objectformat") == "sha256\n"
