"""The traps of git that lost work or wedged workers in the field, each set up for real (corpus traps 13.5-13.16)."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
import trio
from attrs import evolve

from actors.ports.corpus import GitCorpus, open_corpus
from protocols.corpus import CorpusBusy, CorpusSettings, CorpusUnavailable, FileChange, Publication
from protocols.failures import PushConflict, ResourceExhausted
from tests.kit.gitrepos import Remote, Rival, git
from tests.kit.processes import until

LAW = "regulation/nl/wet/zorgwet/2025-01-01.yaml"
STATUS = "regulation/nl/wet/zorgwet/status.yaml"
README = "README.md"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote.create(tmp_path / "remote.git")


@pytest.fixture
def rival(remote: Remote, tmp_path: Path) -> Rival:
    rival = Rival.of(remote, tmp_path / "rival")
    rival.push({README: "laws\n"}, "first")
    return rival


@pytest.fixture
def settings(remote: Remote, rival: Rival, tmp_path: Path) -> CorpusSettings:
    return CorpusSettings(
        repo_url=str(remote.path), path=tmp_path / "corpus", min_free_bytes=0, retry_base_s=0.005, push_limit_s=20
    )


async def yes() -> None:
    """The lease is ours."""


def law(text: str, path: str = LAW) -> Publication:
    return Publication((FileChange(path, text.encode()),), f"harvest: {text}", (FileChange(STATUS, text.encode()),))


def is_clean(checkout: Path, remote: Remote, branch: str = "development") -> bool:
    return (
        git(checkout, "status", "--porcelain", "--ignored") == ""
        and git(checkout, "symbolic-ref", "HEAD").strip() == f"refs/heads/{branch}"
        and git(checkout, "rev-parse", "HEAD").strip() == remote.tip(branch)
    )


# -- 13.16: what a killed process leaves in the checkout ------------------------------------------------------------------


def stale_index_lock(checkout: Path, rival: Rival) -> None:
    (checkout / ".git" / "index.lock").touch()


def stale_locks_everywhere(checkout: Path, rival: Rival) -> None:
    for name in (
        "HEAD",
        "config",
        "packed-refs",
        "shallow",
        "refs/heads/development",
        "refs/remotes/origin/development",
    ):
        (checkout / ".git" / f"{name}.lock").touch()


def edited_file(checkout: Path, rival: Rival) -> None:
    (checkout / README).write_text("edited\n")


def stray_files(checkout: Path, rival: Rival) -> None:
    (checkout / ".claude" / "skills").mkdir(parents=True)
    (checkout / ".claude" / "skills" / "x.md").touch()
    (checkout / LAW).parent.mkdir(parents=True)
    (checkout / LAW).write_text("half written")
    (checkout / STATUS).write_text("half written")


def staged_files_of_another_job(checkout: Path, rival: Rival) -> None:
    (checkout / "other.yaml").write_text("of an interrupted job")
    (checkout / README).write_text("edited and staged\n")
    git(checkout, "add", "--all")


def stranded_commit(checkout: Path, rival: Rival) -> None:
    (checkout / "stranded.yaml").write_text("committed, never pushed")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "-m", "stranded")


def detached_head(checkout: Path, rival: Rival) -> None:
    # Here `push origin development` says "up to date" with exit code 0 and pushes nothing: a silent loss.
    git(checkout, "checkout", "--quiet", "--detach")


def detached_head_behind(checkout: Path, rival: Rival) -> None:
    git(checkout, "checkout", "--quiet", "--detach")
    rival.push({"more.md": "x"}, "rival")


def killed_in_a_conflicted_rebase(checkout: Path, rival: Rival) -> None:
    (checkout / README).write_text("ours\n")
    git(checkout, "commit", "--quiet", "--all", "-m", "ours")
    rival.push({README: "theirs\n"}, "rival")
    git(checkout, "fetch", "--quiet", "origin", "+refs/heads/development:refs/remotes/origin/development")
    git(checkout, "rebase", "origin/development", check=False)
    assert git(checkout, "diff", "--name-only", "--diff-filter=U").strip() == README


def killed_in_a_rebase_with_a_clean_index(checkout: Path, rival: Rival) -> None:
    killed_in_a_conflicted_rebase(checkout, rival)
    (checkout / README).write_text("theirs\n")
    git(checkout, "add", README)
    assert (checkout / ".git" / "rebase-merge").exists()


def killed_in_a_merge(checkout: Path, rival: Rival) -> None:
    (checkout / ".git" / "MERGE_HEAD").write_text(git(checkout, "rev-parse", "HEAD"))


def broken_index(checkout: Path, rival: Rival) -> None:
    (checkout / ".git" / "index").write_bytes(b"DIRC half of it")


def local_branch_elsewhere(checkout: Path, rival: Rival) -> None:
    git(checkout, "checkout", "--quiet", "-b", "experiment")
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "experiment")


def no_repository(checkout: Path, rival: Rival) -> None:
    shutil.rmtree(checkout / ".git")
    (checkout / ".git").mkdir()


def half_clone(checkout: Path, rival: Rival) -> None:
    shutil.rmtree(checkout / ".git" / "refs")
    (checkout / ".git" / "HEAD").unlink()


def lost_objects(checkout: Path, rival: Rival) -> None:
    # The refs are there, what they point to is not.
    shutil.rmtree(checkout / ".git" / "objects")
    (checkout / ".git" / "objects").mkdir()


def broken_ref(checkout: Path, rival: Rival) -> None:
    (checkout / ".git" / "refs" / "remotes" / "origin" / "development").write_bytes(b"\0" * 41)


def everything_gone(checkout: Path, rival: Rival) -> None:
    shutil.rmtree(checkout)


def hook_in_the_checkout(checkout: Path, rival: Rival) -> None:
    for name in ("pre-push", "post-checkout", "reference-transaction", "pre-commit"):
        hook = checkout / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)


TRAPS = [
    stale_index_lock,
    stale_locks_everywhere,
    edited_file,
    stray_files,
    staged_files_of_another_job,
    stranded_commit,
    detached_head,
    detached_head_behind,
    killed_in_a_conflicted_rebase,
    killed_in_a_rebase_with_a_clean_index,
    killed_in_a_merge,
    broken_index,
    local_branch_elsewhere,
    no_repository,
    half_clone,
    lost_objects,
    broken_ref,
    everything_gone,
    hook_in_the_checkout,
]


@pytest.fixture(params=["same process", "new process"])
def fresh(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "new process")


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
async def test_whatever_a_killed_process_left_the_next_publication_is_whole_and_only_itself(
    trap: Callable[[Path, Rival], None], fresh: bool, settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        if not fresh:
            await _survives(trap, corpus, settings, remote, rival)
    if fresh:  # a restart with a kept volume
        async with open_corpus(settings) as corpus:
            await _survives(trap, corpus, settings, remote, rival)


async def _survives(
    trap: Callable[[Path, Rival], None], corpus: GitCorpus, settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    trap(settings.path, rival)
    before = remote.files() if remote.tip() else {}
    published = await corpus.publish(law("ours"), confirm=yes)
    assert published.changed
    assert published.commit == remote.tip()
    assert remote.files() == {**before, LAW: "ours", STATUS: "ours"}
    assert remote.subjects()[-1] == "harvest: ours"
    assert remote.is_linear()
    await corpus.prepare()
    assert is_clean(settings.path, remote)
    assert not (await corpus.publish(law("ours"), confirm=yes)).changed


async def test_a_removed_lock_is_logged(settings: CorpusSettings, rival: Rival) -> None:
    # GT-05
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        stale_index_lock(settings.path, rival)
        with structlog.testing.capture_logs() as logs:
            await corpus.publish(law("ours"), confirm=yes)
    assert [entry["path"] for entry in logs if entry["event"] == "corpus_stale_lock_removed"] == [
        str(settings.path / ".git" / "index.lock")
    ]


async def test_a_lock_that_another_process_holds_is_waited_for(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    # GT-05: while it is held, git's own lock files belong to somebody alive.
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        index_lock = settings.path / ".git" / "index.lock"
        index_lock.touch()
        with _held_elsewhere(settings) as release:
            async with trio.open_nursery() as nursery:

                async def publish() -> None:
                    await corpus.publish(law("ours"), confirm=yes)

                nursery.start_soon(publish)
                with trio.move_on_after(0.4):
                    await until(lambda: remote.subjects() != ["first"])
                assert remote.subjects() == ["first"]
                assert index_lock.exists()
                release()
        assert remote.subjects() == ["first", "harvest: ours"]


async def test_a_lock_that_is_held_for_too_long_is_a_retryable_failure(settings: CorpusSettings) -> None:
    settings = evolve(settings, lock_limit_s=0.2)
    with _held_elsewhere(settings):
        async with open_corpus(settings) as corpus:
            with pytest.raises(CorpusBusy, match=r"0\.2 s"):
                await corpus.publish(law("ours"), confirm=yes)


class _held_elsewhere:  # noqa: N801 - reads as a statement
    """Another process holds the lock of the checkout until released."""

    def __init__(self, settings: CorpusSettings) -> None:
        self.path = f"{settings.path}.lock"

    def __enter__(self) -> Callable[[], None]:
        script = (
            "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.flock(f,fcntl.LOCK_EX); print('held',flush=True); input()"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"held\n"
        return self.release

    def release(self) -> None:
        if self.process.poll() is None:
            self.process.communicate(b"\n")

    def __exit__(self, *_: object) -> None:
        self.release()


async def test_two_processes_on_one_checkout_take_turns(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(settings) as one, open_corpus(settings) as two, trio.open_nursery() as nursery:

        async def publish(corpus: GitCorpus, name: str) -> None:
            for number in range(3):
                await corpus.publish(law(f"{name}{number}", f"laws/{name}{number}.yaml"), confirm=yes)

        nursery.start_soon(publish, one, "one")
        nursery.start_soon(publish, two, "two")
    assert len(remote.subjects()) == 7
    assert remote.is_linear()
    fd = os.open(f"{settings.path}.lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody kept it
    os.close(fd)


# -- GT-03: killed between commit and push --------------------------------------------------------------------------------

KILLED = """
import os, sys, trio
from pathlib import Path
from actors.ports.corpus import open_corpus
from protocols.corpus import CorpusSettings, FileChange, Publication

async def die() -> None:
    os.kill(os.getpid(), 9)

async def main() -> None:
    settings = CorpusSettings(repo_url=sys.argv[1], path=Path(sys.argv[2]), min_free_bytes=0)
    async with open_corpus(settings) as corpus:
        await corpus.publish(Publication((FileChange(sys.argv[3], b"ours"),), "killed"), confirm=die)

trio.run(main)
"""


async def test_a_commit_that_was_never_pushed_is_made_again_and_counts_as_changed(
    settings: CorpusSettings, remote: Remote
) -> None:
    # GT-03: what counts is the remote branch, not what a killed process had committed.
    ended = await trio.run_process(
        [sys.executable, "-c", KILLED, settings.repo_url, str(settings.path), LAW],
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert ended.returncode == -9
    made = git(settings.path, "rev-parse", "refs/regelrecht/made").strip()
    assert git(settings.path, "log", "-1", "--format=%s", made) == "killed\n"
    async with open_corpus(settings) as corpus:
        assert (await corpus.publish(law("ours"), confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: ours"]


# -- 13.6: the branch that is not there yet -------------------------------------------------------------------------------


async def test_a_missing_branch_starts_from_the_base_branch(settings: CorpusSettings, remote: Remote) -> None:
    preview = evolve(settings, branch="pr12")
    async with open_corpus(preview) as corpus:
        assert await corpus.tip() == remote.tip("development")
        await corpus.publish(law("ours"), confirm=yes)
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
        await corpus.publish(law("ours"), confirm=yes)
        assert not (await corpus.publish(law("ours"), confirm=yes)).changed
    async with open_corpus(preview) as corpus:
        assert await corpus.prepare() == remote.tip("enrich/claude")
        assert not (await corpus.publish(law("ours"), confirm=yes)).changed
        assert (await corpus.publish(law("more"), confirm=yes)).changed
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
        await corpus.publish(law("ours"), confirm=rival_first)
    assert remote.subjects("pr12") == ["first", "rival made the branch", "harvest: ours"]


async def test_a_branch_that_was_deleted_is_made_again(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(evolve(settings, branch="pr12")) as corpus:
        await corpus.publish(law("ours"), confirm=yes)
        git(remote.path, "update-ref", "-d", "refs/heads/pr12")
        assert (await corpus.publish(law("again"), confirm=yes)).changed
    assert remote.subjects("pr12") == ["first", "harvest: again"]


async def test_a_branch_in_the_way_of_a_folder_of_branches_can_go(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(evolve(settings, branch="enrich")) as corpus:
        await corpus.publish(law("ours"), confirm=yes)
    git(remote.path, "update-ref", "-d", "refs/heads/enrich")
    async with open_corpus(evolve(settings, branch="enrich/claude")) as corpus:
        await corpus.publish(law("ours"), confirm=yes)
    assert remote.subjects("enrich/claude") == ["first", "harvest: ours"]


async def test_neither_branch_nor_base_is_a_failure_that_says_what_to_do(
    settings: CorpusSettings, remote: Remote
) -> None:
    async with open_corpus(evolve(settings, branch="pr12", base_branch="trunk")) as corpus:
        with pytest.raises(CorpusUnavailable, match="neither the branch pr12 nor trunk"):
            await corpus.publish(law("ours"), confirm=yes)


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
            await corpus.publish(law("ours", "out/law.yaml"), confirm=yes)
    assert list(secret.iterdir()) == [secret / "passwd"]


async def test_a_file_where_a_folder_is_needed_is_a_conflict_not_a_loss(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    rival.push({"regulation": "a file", "folder.yaml/x.yaml": "x"})
    async with open_corpus(settings) as corpus:
        for path in ("regulation/nl/law.yaml", "folder.yaml"):
            with pytest.raises(PushConflict, match="a file and a folder"):
                await corpus.publish(law("ours", path), confirm=yes)
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
        await corpus.publish(law("ours"), confirm=yes)
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
            await corpus.publish(law("ours" * 2000), confirm=yes)
        assert remote.subjects() == ["first"]
        filler.unlink()
        assert (await corpus.publish(law("ours"), confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: ours"]
