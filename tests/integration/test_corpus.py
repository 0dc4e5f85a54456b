"""Publishing to a git corpus: what gets there, what does not, and who is in the way."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from attrs import evolve

from actors.ports.corpus import GitCorpus, open_corpus
from protocols.corpus import (
    Confirm,
    CorpusPort,
    CorpusSettings,
    CorpusUnavailable,
    FileChange,
    Publication,
    Published,
    PushRejected,
    PushTimedOut,
)
from protocols.failures import InvalidInput, LeaseLost, PushConflict, ResourceExhausted, Transient
from tests.kit.gitrepos import Remote, Rival, git
from tests.kit.processes import alive, marked, until

LAW = "regulation/nl/wet/zorgwet/2025-01-01.yaml"
STATUS = "regulation/nl/wet/zorgwet/status.yaml"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    remote = Remote.create(tmp_path / "remote.git")
    Rival.of(remote, tmp_path / "first").push({"README.md": "laws\n"}, "first")
    return remote


@pytest.fixture
def rival(remote: Remote, tmp_path: Path) -> Rival:
    return Rival.of(remote, tmp_path / "rival")


@pytest.fixture
def settings(remote: Remote, tmp_path: Path) -> CorpusSettings:
    return CorpusSettings(
        repo_url=str(remote.path), path=tmp_path / "corpus", min_free_bytes=0, retry_base_s=0.005, push_limit_s=60
    )


async def yes() -> None:
    """The lease is ours."""


def law(text: str, path: str = LAW, *, status: str | None = None, base: str | None = None) -> Publication:
    bookkeeping = (FileChange(STATUS, status.encode()),) if status is not None else ()
    return Publication((FileChange(path, text.encode()),), f"harvest: {text}", bookkeeping, base=base)


def other(number: int) -> Publication:
    return law(f"law {number}", f"regulation/nl/wet/law-{number}/2025-01-01.yaml")


def at_most(times: int, act: Callable[[int], object]) -> Confirm:
    """A confirmation during which something else happens, the first ``times`` times."""
    calls = 0

    async def confirm() -> None:
        nonlocal calls
        calls += 1
        if calls <= times:
            act(calls)

    return confirm


@pytest.mark.claim("S0-031")
async def test_a_published_law_is_on_the_remote_branch(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(settings) as corpus:
        published = await corpus.publish(law("a: 1\n", status="status: harvested\n"), confirm=yes)
    assert published == Published(changed=True, commit=remote.tip())
    assert remote.files() == {"README.md": "laws\n", LAW: "a: 1\n", STATUS: "status: harvested\n"}
    assert remote.subjects() == ["first", "harvest: a: 1"]


async def test_the_working_tree_shows_what_was_pushed(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a: 1\n"), confirm=yes)
        await corpus.prepare()
    assert (settings.path / LAW).read_text() == "a: 1\n"
    assert git(settings.path, "status", "--porcelain") == ""
    assert git(settings.path, "rev-parse", "HEAD").strip() == remote.tip()
    assert git(settings.path, "symbolic-ref", "HEAD").strip() == "refs/heads/development"


async def test_commits_bear_the_author_and_the_trailers_of_the_job(settings: CorpusSettings, remote: Remote) -> None:
    settings = evolve(settings, author_name="Harvester", author_email="harvester@example.org")
    publication = evolve(law("a"), subject="harvest: Wet \x1b[31mop\nJob-Id: forged", trailers=(("Job-Id", "17"),))
    async with open_corpus(settings) as corpus:
        published = await corpus.publish(publication, confirm=yes)
        assert await corpus.find_commit({"Job-Id": "17"}) == published.commit
        assert await corpus.find_commit({"Job-Id": "forged"}) is None
    shown = git(remote.path, "log", "-1", "--format=%an <%ae>|%cn <%ce>|%B", "development")
    who = "Harvester <harvester@example.org>"
    assert shown.strip() == f"{who}|{who}|harvest: Wet [31mop Job-Id: forged\n\nJob-Id: 17"


async def test_only_content_decides(settings: CorpusSettings, remote: Remote) -> None:
    # GT-04: the timestamp in status.yaml changes with every harvest.
    async with open_corpus(settings) as corpus:
        first = await corpus.publish(law("a: 1\n", status="at: 1\n"), confirm=yes)
        second = await corpus.publish(law("a: 1\n", status="at: 2\n"), confirm=yes)
        await corpus.prepare()
    assert second == Published(changed=False, commit=first.commit)
    assert remote.subjects() == ["first", "harvest: a: 1"]
    assert remote.files()[STATUS] == "at: 1\n"
    assert git(settings.path, "status", "--porcelain") == ""


async def test_unchanged_content_asks_for_no_confirmation_and_no_push(settings: CorpusSettings, remote: Remote) -> None:
    async def never() -> None:
        raise AssertionError

    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a: 1\n"), confirm=yes)
        assert not (await corpus.publish(law("a: 1\n"), confirm=never)).changed


async def test_a_law_moves_in_one_commit(settings: CorpusSettings, remote: Remote) -> None:
    # D33: the same law and date stood under another path.
    new = LAW.replace("wet/", "amvb/")
    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a"), confirm=yes)
        moved = Publication((FileChange(LAW, None), FileChange(new, b"a")), "move")
        await corpus.publish(moved, confirm=yes)
        assert await corpus.list_paths("regulation") == (new,)
        assert await corpus.existing((LAW, "regulation", new)) == (new,)
        assert not (await corpus.publish(moved, confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: a", "move"]


async def test_files_are_read_as_of_any_commit(settings: CorpusSettings, remote: Remote, rival: Rival) -> None:
    async with open_corpus(settings) as corpus:
        before = await corpus.tip()
        assert before == remote.tip()
        await corpus.publish(law("a: 1\n"), confirm=yes)
        rival.push({LAW: "a: 2\n"})
        now = await corpus.tip()
        assert await corpus.read(LAW, at=before) is None
        assert await corpus.read(LAW) == b"a: 2\n"
        assert await corpus.read(LAW, at=now) == b"a: 2\n"
        assert await corpus.read("regulation/nl", at=now) is None


async def test_a_commit_from_before_the_clone_can_be_read(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    # D15: a later attempt, on another pod, compares with the file as of the first attempt.
    old = rival.push({LAW: "old\n"})
    rival.push({LAW: "new\n"})
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        assert (settings.path / ".git" / "shallow").exists()
        assert await corpus.read(LAW, at=old) == b"old\n"
        with pytest.raises(CorpusUnavailable, match="not in the corpus any more"):
            await corpus.read(LAW, at="0" * 39 + "1")
        with pytest.raises(InvalidInput, match="no id of a commit"):
            await corpus.read(LAW, at="HEAD")


async def test_a_tip_that_is_young_enough_is_not_asked_for_again(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    async with open_corpus(settings) as corpus:
        first = await corpus.tip()
        second = rival.push({LAW: "a"})
        assert await corpus.tip(max_age_s=math.inf) == first
        assert await corpus.tip() == second


async def test_a_rival_between_commit_and_push_costs_nothing(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    # GT-01: four times in a row; the fifth push succeeds, both histories stay, in one line.
    confirm = at_most(4, lambda n: rival.push({f"rival-{n}.md": "x"}, f"rival {n}"))
    async with open_corpus(settings) as corpus:
        published = await corpus.publish(law("a: 1\n"), confirm=confirm)
    assert published.changed
    assert remote.subjects() == ["first", "rival 1", "rival 2", "rival 3", "rival 4", "harvest: a: 1"]
    assert remote.is_linear()


async def test_a_rival_on_our_file_is_a_typed_conflict(settings: CorpusSettings, remote: Remote, rival: Rival) -> None:
    confirm = at_most(1, lambda n: rival.push({LAW: "theirs"}, "rival"))
    async with open_corpus(settings) as corpus:
        with pytest.raises(PushConflict, match=LAW) as caught:
            await corpus.publish(law("ours"), confirm=confirm)
        assert caught.value.details["paths"] == [LAW]
        assert remote.files()[LAW] == "theirs"
        # Nothing of the work is lost: the same publication goes through from the new base.
        await corpus.publish(law("ours"), confirm=yes)
    assert remote.subjects() == ["first", "rival", "harvest: ours"]


async def test_a_base_that_is_older_than_a_change_of_our_file_conflicts(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    base = remote.tip()
    rival.push({LAW: "theirs"})
    async with open_corpus(settings) as corpus:
        with pytest.raises(PushConflict):
            await corpus.publish(law("ours", base=base), confirm=yes)
        assert not (await corpus.publish(law("theirs", base=base), confirm=yes)).changed


async def test_a_base_that_is_older_than_other_changes_does_not(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    base = remote.tip()
    rival.push({STATUS: "theirs", "other.md": "x"})
    async with open_corpus(settings) as corpus:
        assert (await corpus.publish(law("ours", status="ours", base=base), confirm=yes)).changed
    assert remote.files()[STATUS] == "ours"
    assert remote.files()["other.md"] == "x"


async def test_a_base_that_the_remote_has_lost_conflicts(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    async with open_corpus(settings) as corpus:
        with pytest.raises(PushConflict, match="gone"):
            await corpus.publish(law("ours", base="1" * 40), confirm=yes)


async def test_history_that_was_rewritten_is_followed(settings: CorpusSettings, remote: Remote, rival: Rival) -> None:
    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a"), confirm=yes)
        git(rival.clone, "checkout", "--quiet", "--orphan", "fresh")
        git(rival.clone, "commit", "--quiet", "--allow-empty", "-m", "fresh start")
        git(rival.clone, "push", "--quiet", "--force", "origin", "HEAD:development")
        assert (await corpus.publish(law("a"), confirm=yes)).changed
    assert remote.subjects() == ["fresh start", "harvest: a"]


async def test_a_refused_confirmation_pushes_nothing(settings: CorpusSettings, remote: Remote) -> None:
    async def lost() -> None:
        raise LeaseLost("not ours any more")

    async with open_corpus(settings) as corpus:
        with pytest.raises(LeaseLost):
            await corpus.publish(law("a"), confirm=lost)
    assert remote.subjects() == ["first"]


async def test_a_confirmation_that_hangs_delays_nobody_for_long(settings: CorpusSettings, remote: Remote) -> None:
    settings = evolve(settings, confirm_limit_s=0.2)
    failures: list[Transient] = []
    async with open_corpus(settings) as corpus, trio.open_nursery() as nursery:

        async def hang() -> None:
            try:
                await corpus.publish(law("a"), confirm=trio.sleep_forever)
            except Transient as failure:
                failures.append(failure)

        nursery.start_soon(hang)
        await corpus.publish(other(1), confirm=yes)
    assert len(failures) == 1
    assert remote.subjects() == ["first", "harvest: law 1"]


def _count_pushes(remote: Remote, tmp_path: Path) -> Callable[[], int]:
    counter = tmp_path / "pushes"
    counter.touch()
    remote.hook("post-receive", f"echo push >> {counter}")
    return lambda: len(counter.read_text().splitlines())


async def test_harvests_that_wait_share_a_push_with_a_commit_each(
    settings: CorpusSettings, remote: Remote, tmp_path: Path
) -> None:
    pushes = _count_pushes(remote, tmp_path)
    commits: dict[int, str | None] = {}
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        async with trio.open_nursery() as nursery:

            async def one(number: int) -> None:
                commits[number] = (await corpus.publish(other(number), confirm=yes)).commit

            for number in range(12):
                nursery.start_soon(one, number)
    assert sorted(remote.subjects()) == sorted(["first", *(f"harvest: law {n}" for n in range(12))])
    assert len(set(commits.values())) == 12
    assert remote.is_linear()
    assert pushes() <= 2


async def test_a_lost_lease_takes_only_its_own_commit_out_of_a_shared_push(
    settings: CorpusSettings, remote: Remote
) -> None:
    async def lost() -> None:
        raise LeaseLost("gone")

    async with open_corpus(settings) as corpus, trio.open_nursery() as nursery:

        async def loser() -> None:
            with pytest.raises(LeaseLost):
                await corpus.publish(other(2), confirm=lost)

        nursery.start_soon(corpus_publish(corpus, other(1)))
        nursery.start_soon(loser)
        nursery.start_soon(corpus_publish(corpus, other(3)))
    assert sorted(remote.subjects()) == ["first", "harvest: law 1", "harvest: law 3"]


def corpus_publish(corpus: CorpusPort, publication: Publication) -> Callable[[], Awaitable[None]]:
    async def publish() -> None:
        await corpus.publish(publication, confirm=yes)

    return publish


async def test_two_for_the_same_file_go_one_after_the_other(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(settings) as corpus, trio.open_nursery() as nursery:
        nursery.start_soon(corpus_publish(corpus, law("one")))
        nursery.start_soon(corpus_publish(corpus, law("two")))
    assert sorted(remote.subjects()) == ["first", "harvest: one", "harvest: two"]
    assert remote.is_linear()


HANG = 'echo $$ > "$GIT_DIR/hanging"; exec sleep 60'


async def _hanging(remote: Remote) -> int:
    """Wait until a push hangs in the hook; returns the pid of the hook."""
    note = remote.path / "hanging"
    await until(lambda: note.exists() and note.read_text().endswith("\n"))
    return int(note.read_text())


async def test_a_hung_push_is_killed_at_its_limit(settings: CorpusSettings, remote: Remote) -> None:
    remote.hook("pre-receive", HANG)
    async with open_corpus(evolve(settings, push_limit_s=2.5)) as corpus:
        with pytest.raises(PushTimedOut, match=r"2\.5 s"):
            await corpus.publish(law("a"), confirm=yes)
        assert not alive({await _hanging(remote)})
        remote.unhook("pre-receive")
        assert (await corpus.publish(law("a"), confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: a"]


async def test_cancelling_kills_a_push_under_way(settings: CorpusSettings, remote: Remote) -> None:
    # D6: a job that must fence itself does not wait for the push to end by itself.
    remote.hook("pre-receive", HANG)
    async with open_corpus(settings) as corpus:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(corpus_publish(corpus, law("a")))
            hanging = await _hanging(remote)
            nursery.cancel_scope.cancel()
        assert not alive({hanging})
        remote.unhook("pre-receive")
        await corpus.publish(other(1), confirm=yes)
    assert remote.subjects() == ["first", "harvest: law 1"]


async def test_who_shares_a_push_goes_on_when_another_is_cancelled(settings: CorpusSettings, remote: Remote) -> None:
    remote.hook("pre-receive", HANG)
    async with open_corpus(settings) as corpus, trio.open_nursery() as nursery:
        cancelled = trio.CancelScope()

        async def to_be_cancelled() -> None:
            with cancelled:
                await corpus.publish(other(1), confirm=yes)

        nursery.start_soon(to_be_cancelled)
        nursery.start_soon(corpus_publish(corpus, other(2)))
        await _hanging(remote)
        remote.unhook("pre-receive")
        cancelled.cancel()
    assert cancelled.cancelled_caught
    assert remote.subjects() == ["first", "harvest: law 2"]


async def test_a_push_that_landed_though_the_connection_broke_is_a_success(
    settings: CorpusSettings, remote: Remote
) -> None:
    # The answer is lost, the ref is not.
    remote.hook("post-receive", 'rm "$0"; kill -9 $PPID')
    async with open_corpus(settings) as corpus:
        assert await corpus.publish(law("a"), confirm=yes) == Published(changed=True, commit=remote.tip())
    assert remote.subjects() == ["first", "harvest: a"]


async def test_a_late_landing_is_found_by_the_next_attempt(settings: CorpusSettings, remote: Remote) -> None:
    remote.hook("post-receive", HANG)
    async with open_corpus(evolve(settings, push_limit_s=2.5)) as corpus:
        with pytest.raises(PushTimedOut):
            await corpus.publish(law("a"), confirm=yes)
        remote.unhook("post-receive")
        assert await corpus.publish(law("a"), confirm=yes) == Published(changed=False, commit=remote.tip())
    assert remote.subjects() == ["first", "harvest: a"]


async def test_a_remote_that_refuses_is_asked_a_few_times_and_quoted(
    settings: CorpusSettings, remote: Remote, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    remote.hook("pre-receive", f"echo try >> {tries}; exit 1")
    async with open_corpus(settings) as corpus:
        with pytest.raises(PushRejected, match="pre-receive hook declined"):
            await corpus.publish(law("a"), confirm=yes)
    assert len(tries.read_text().splitlines()) == 5


async def test_a_lock_on_the_remote_ref_is_waited_out(settings: CorpusSettings, remote: Remote) -> None:
    # GT-01: "cannot lock ref" of a remote where somebody else updates at this moment.
    lock = remote.path / "refs" / "heads" / "development.lock"

    def act(call: int) -> None:
        lock.touch() if call == 1 else lock.unlink(missing_ok=True)

    async with open_corpus(settings) as corpus:
        assert (await corpus.publish(law("a"), confirm=at_most(3, act))).changed
    assert remote.subjects() == ["first", "harvest: a"]


async def test_a_remote_that_is_away_is_a_retryable_failure(
    settings: CorpusSettings, remote: Remote, tmp_path: Path
) -> None:
    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a"), confirm=yes)
        remote.path.rename(tmp_path / "away")
        with pytest.raises(CorpusUnavailable):
            await corpus.publish(law("b"), confirm=yes)
        (tmp_path / "away").rename(remote.path)
        assert (await corpus.publish(law("b"), confirm=yes)).changed


async def test_an_empty_repository_gets_its_first_commit(settings: CorpusSettings, tmp_path: Path) -> None:
    empty = Remote.create(tmp_path / "empty.git")
    async with open_corpus(evolve(settings, repo_url=str(empty.path))) as corpus:
        assert await corpus.prepare() is None
        assert await corpus.read(LAW) is None
        assert await corpus.list_paths("regulation") == ()
        assert await corpus.existing((LAW,)) == ()
        assert await corpus.find_commit({"Job-Id": "1"}) is None
        assert (await corpus.publish(law("a"), confirm=yes)).changed
        assert await corpus.read(LAW) == b"a"
    assert empty.subjects() == ["harvest: a"]


async def test_a_first_commit_by_a_rival_is_not_overwritten(settings: CorpusSettings, tmp_path: Path) -> None:
    empty = Remote.create(tmp_path / "empty.git")
    rival = Rival.of(empty, tmp_path / "early")
    async with open_corpus(evolve(settings, repo_url=str(empty.path))) as corpus:
        with pytest.raises(PushConflict):
            await corpus.publish(law("a"), confirm=at_most(1, lambda n: rival.push({LAW: "theirs"})))
        assert (await corpus.publish(other(1), confirm=yes)).changed
    assert empty.subjects() == ["by the rival", "harvest: law 1"]


async def test_bad_publications_are_refused_before_anything_happens(settings: CorpusSettings) -> None:
    async with open_corpus(settings) as corpus:
        with pytest.raises(InvalidInput, match="at least one"):
            await corpus.publish(Publication((), "nothing"), confirm=yes)
        with pytest.raises(InvalidInput, match="no id of a commit"):
            await corpus.publish(law("a", base="development"), confirm=yes)
    assert not settings.path.exists()


async def test_nothing_is_cloned_when_the_disk_is_nearly_full(settings: CorpusSettings) -> None:
    async with open_corpus(evolve(settings, min_free_bytes=2**60)) as corpus:
        with pytest.raises(ResourceExhausted, match="bytes are free"):
            await corpus.prepare()


async def test_who_still_waits_when_the_corpus_closes_is_told(settings: CorpusSettings, remote: Remote) -> None:
    remote.hook("pre-receive", HANG)
    told: list[CorpusUnavailable] = []

    async def publish(corpus: GitCorpus, publication: Publication) -> None:
        try:
            await corpus.publish(publication, confirm=yes)
        except CorpusUnavailable as failure:
            told.append(failure)

    async with trio.open_nursery() as nursery, open_corpus(settings) as corpus:
        nursery.start_soon(publish, corpus, law("a"))
        await _hanging(remote)
        nursery.start_soon(publish, corpus, law("b"))
        await trio.testing.wait_all_tasks_blocked()
    assert len(told) == 2
    assert not marked()
    with pytest.raises(CorpusUnavailable, match="closed"):
        await corpus.publish(law("c"), confirm=yes)


async def test_cancelled_at_any_moment_a_publication_is_whole_or_absent(
    settings: CorpusSettings, remote: Remote
) -> None:
    landed = 0
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        for number in range(14):
            with trio.move_on_after(0.008 * number):
                await corpus.publish(other(number), confirm=yes)
        await corpus.publish(law("last"), confirm=yes)
        subjects = remote.subjects()
        for number in range(14):
            there = f"harvest: law {number}" in subjects
            landed += there
            path = other(number).content[0].path
            assert await corpus.read(path) == (f"law {number}".encode() if there else None)
    assert subjects[-1] == "harvest: last"
    assert len(subjects) == len(set(subjects)) == landed + 2
