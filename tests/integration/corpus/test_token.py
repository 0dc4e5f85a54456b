"""GT-09: the token reaches the server of the corpus, and nothing and nobody else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import evolve

from actors.ports.corpus import open_corpus
from actors.ports.git import Git, GitTimedOut
from protocols.corpus import CorpusDenied, CorpusSettings, CorpusUnavailable, FileChange, Publication
from tests.kit.githttp import GitServer, serving
from tests.kit.gitrepos import Remote, Rival, git

TOKEN = "s3cr3t-t0ken%with:odd"
LAW = Publication((FileChange("law.yaml", b"a: 1\n"),), "harvest: law")


async def yes() -> None:
    """The lease is ours."""


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    (tmp_path / "served").mkdir()
    remote = Remote.create(tmp_path / "served" / "corpus.git")
    git(remote.path, "config", "http.receivepack", "true")
    Rival.of(remote, tmp_path / "first").push({"README.md": "laws\n"}, "first")
    return remote


@pytest.fixture
def server(remote: Remote) -> Iterator[GitServer]:
    with serving(remote.path.parent, TOKEN) as server:
        yield server


@pytest.fixture
def settings(server: GitServer, tmp_path: Path) -> CorpusSettings:
    return CorpusSettings(
        repo_url=f"{server.url}/corpus.git",
        path=tmp_path / "work" / "corpus",
        token=TOKEN,
        min_free_bytes=0,
        retry_base_s=0.005,
        push_limit_s=20,
    )


@contextmanager
def watching_command_lines() -> Iterator[set[bytes]]:
    """All command lines on this machine while the block runs."""
    seen: set[bytes] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for name in os.listdir("/proc"):
                if name.isdigit():
                    try:
                        seen.add(Path(f"/proc/{name}/cmdline").read_bytes())
                    except OSError:
                        continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


async def test_the_token_opens_the_repository_and_is_left_nowhere(
    settings: CorpusSettings, server: GitServer, remote: Remote, tmp_path: Path
) -> None:
    with watching_command_lines() as command_lines:
        async with open_corpus(settings) as corpus:
            await corpus.publish(LAW, confirm=yes)
            home = corpus.checkout.git.home
            written = _content_below(tmp_path / "work") + _content_below(home)
            shown = repr(corpus) + repr(settings) + repr(corpus.checkout.git)
    assert remote.subjects() == ["first", "harvest: law"]
    assert f"token:{TOKEN}" in server.seen
    assert any(b"git\0push" in line for line in command_lines)
    assert not any(TOKEN.encode() in line for line in command_lines)
    assert TOKEN.encode() not in written
    assert TOKEN not in shown
    assert not home.exists()
    config = git(settings.path, "config", "--list", "--local")
    assert "@" not in config


def _content_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_the_askpass_script_is_private_and_new(settings: CorpusSettings) -> None:
    async with open_corpus(settings) as corpus:
        home = corpus.checkout.git.home
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / "askpass").stat().st_mode & 0o777 == 0o700
        with pytest.raises(FileExistsError):
            Git.for_corpus(settings, home)


async def test_a_wrong_token_fails_at_once_and_is_not_shown(settings: CorpusSettings, server: GitServer) -> None:
    wrong = "wr0ng-t0ken"
    async with open_corpus(evolve(settings, token=wrong)) as corpus:
        with pytest.raises(CorpusDenied, match="CORPUS_GIT_TOKEN") as caught:
            await corpus.publish(LAW, confirm=yes)
    assert wrong not in str(caught.value) + repr(caught.value.to_result())
    assert len(server.seen) <= 4


async def test_without_a_token_nothing_prompts_and_nothing_waits(settings: CorpusSettings) -> None:
    async with open_corpus(evolve(settings, token=None)) as corpus:
        with pytest.raises(CorpusDenied):
            await corpus.prepare()


async def test_a_user_in_the_address_is_kept_and_a_rejected_push_is_redacted(
    settings: CorpusSettings, server: GitServer, remote: Remote
) -> None:
    remote.hook("pre-receive", f"echo 'you sent {TOKEN} to https://me:{TOKEN}@example.org' >&2; exit 1")
    url = settings.repo_url.replace("http://", "http://somebody@")
    async with open_corpus(evolve(settings, repo_url=url)) as corpus:
        with pytest.raises(CorpusUnavailable) as caught:
            await corpus.publish(LAW, confirm=yes)
    assert f"somebody:{TOKEN}" in server.seen
    assert TOKEN not in str(caught.value)


async def test_a_redirect_to_another_host_does_not_get_the_token(
    settings: CorpusSettings, server: GitServer, tmp_path: Path
) -> None:
    with serving(tmp_path, TOKEN) as thief, serving(tmp_path, TOKEN, redirect_to=thief.url) as redirecting:
        redirected = evolve(settings, repo_url=f"{redirecting.url}/corpus.git")
        async with open_corpus(redirected) as corpus:
            with pytest.raises(CorpusUnavailable):
                await corpus.prepare()
    assert thief.seen
    assert set(thief.seen) == {None}


async def test_plain_http_to_another_machine_never_has_a_token(settings: CorpusSettings, tmp_path: Path) -> None:
    plain = Git.for_corpus(evolve(settings, repo_url="http://git.example.org/corpus.git"), tmp_path)
    assert "REGELRECHT_GIT_TOKEN" not in plain.environment
    assert "GIT_ASKPASS" not in plain.environment


async def test_git_sees_no_secret_of_ours_and_no_configuration_of_the_machine(
    settings: CorpusSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p@h/d")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = from home\n[alias]\n\tx = !env\n")
    home = tmp_path / "home"
    home.mkdir()
    calls = Git.for_corpus(settings, home)
    assert "DATABASE_URL" not in calls.environment
    shown = (await calls.run("config", "--list", "--show-origin")).stdout.decode()
    assert "from home" not in shown
    assert {line.split("\t")[0] for line in shown.splitlines()} == {"command line:"}


async def test_a_command_that_hangs_is_stopped_at_its_limit(settings: CorpusSettings, tmp_path: Path) -> None:
    calls = Git.for_corpus(evolve(settings, token=None), tmp_path)
    with pytest.raises(GitTimedOut, match=r"after 0\.3 s"):
        await calls.run("-c", "alias.hang=!sleep 60", "hang", limit_s=0.3)
