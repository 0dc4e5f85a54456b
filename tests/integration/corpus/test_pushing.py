"""Pushes that are shared, refused, cut off, hung or cancelled: each publication is whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from attrs import evolve

from actors.ports.corpus import GitCorpus, open_corpus
from protocols.corpus import (
    CorpusSettings,
    CorpusUnavailable,
    Publication,
    Published,
    PushRejected,
    PushTimedOut,
)
from protocols.failures import LeaseLost, Transient
from tests.kit.gitrepos import Remote
from tests.kit.processes import alive
from tests.kit.publications import HANG, at_most, corpus_publish, hanging, law, other, yes


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


async def test_two_for_the_same_file_go_one_after_the_other(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(settings) as corpus, trio.open_nursery() as nursery:
        nursery.start_soon(corpus_publish(corpus, law("one")))
        nursery.start_soon(corpus_publish(corpus, law("two")))
    assert sorted(remote.subjects()) == ["first", "harvest: one", "harvest: two"]
    assert remote.is_linear()


async def test_a_hung_push_is_killed_at_its_limit(settings: CorpusSettings, remote: Remote) -> None:
    remote.hook("pre-receive", HANG)
    async with open_corpus(evolve(settings, push_limit_s=2.5)) as corpus:
        with pytest.raises(PushTimedOut, match=r"2\.5 s"):
            await corpus.publish(law("a"), confirm=yes)
        assert not alive({await hanging(remote)})
        remote.unhook("pre-receive")
        assert (await corpus.publish(law("a"), confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: a"]


async def test_cancelling_kills_a_push_under_way(settings: CorpusSettings, remote: Remote) -> None:
    # D6: a job that must fence itself does not wait for the push to end by itself.
    remote.hook("pre-receive", HANG)
    async with open_corpus(settings) as corpus:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(corpus_publish(corpus, law("a")))
            hook = await hanging(remote)
            nursery.cancel_scope.cancel()
        assert not alive({hook})
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
        await hanging(remote)
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
        hook = await hanging(remote)
        nursery.start_soon(publish, corpus, law("b"))
        await trio.testing.wait_all_tasks_blocked()
    assert len(told) == 2
    assert not alive({hook})
    with pytest.raises(CorpusUnavailable, match="closed"):
        await corpus.publish(law("c"), confirm=yes)


async def test_cancelled_at_any_moment_a_publication_is_whole_or_absent(
    settings: CorpusSettings, remote: Remote
) -> None:
    landed = 0
    # This remote is a folder: its receiving end is our child and dies with our push, which on a busy machine can leave
    # its lock behind. A server is not killed with us.
    lock = remote.path / "refs" / "heads" / "development.lock"
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        for number in range(14):
            with trio.move_on_after(0.008 * number):
                await corpus.publish(other(number), confirm=yes)
            lock.unlink(missing_ok=True)
        await corpus.publish(law("last"), confirm=yes)
        subjects = remote.subjects()
        for number in range(14):
            there = f"harvest: law {number}" in subjects
            landed += there
            path = other(number).content[0].path
            assert await corpus.read(path) == (f"law {number}".encode() if there else None)
    assert subjects[-1] == "harvest: last"
    assert len(subjects) == len(set(subjects)) == landed + 2
