"""What a killed process leaves in a checkout, each set up for real (corpus traps 13.16, GT-03, GT-05)."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import trio
from attrs import evolve

from actors.ports.corpus import GitCorpus, open_corpus
from protocols.corpus import CorpusBusy, CorpusSettings
from tests.kit.gitrepos import Remote, Rival, git
from tests.kit.processes import until
from tests.kit.publications import LAW, README, STATUS, is_clean, law_and_status, yes

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
    published = await corpus.publish(law_and_status("ours"), confirm=yes)
    assert published.changed
    assert published.commit == remote.tip()
    assert remote.files() == {**before, LAW: "ours", STATUS: "ours"}
    assert remote.subjects()[-1] == "harvest: ours"
    assert remote.is_linear()
    await corpus.prepare()
    assert is_clean(settings.path, remote)
    assert not (await corpus.publish(law_and_status("ours"), confirm=yes)).changed


async def test_a_removed_lock_is_logged(settings: CorpusSettings, rival: Rival) -> None:
    # GT-05
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        stale_index_lock(settings.path, rival)
        with structlog.testing.capture_logs() as logs:
            await corpus.publish(law_and_status("ours"), confirm=yes)
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
                    await corpus.publish(law_and_status("ours"), confirm=yes)

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
                await corpus.publish(law_and_status("ours"), confirm=yes)


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
                await corpus.publish(law_and_status(f"{name}{number}", f"laws/{name}{number}.yaml"), confirm=yes)

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
        assert (await corpus.publish(law_and_status("ours"), confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: ours"]
