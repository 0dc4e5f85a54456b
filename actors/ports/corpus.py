"""The git corpus as jobs see it: publications go through one queue, and those that wait share a push (D39).

A publication is on the remote or it is an error; there is nothing in between. Each round of a turn fetches the tip,
sees who is through already, refuses conflicts, makes one commit each on the tip, asks every job to confirm its lease,
pushes, and begins again: a success is only ever what the next fetch shows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import structlog
import trio
from attrs import define, field

from actors.ports.checkout import Checkout, PushAnswer, Tip
from actors.ports.git import Git, GitFailed, GitTimedOut, private_home
from actors.ports.gitobjects import commit_id
from actors.ports.guardian import Guardian
from actors.ports.pushqueue import Entry, Patience, PushQueue
from protocols.contentgate import Ids, Standing, judge, paths_to_ask
from protocols.corpus import (
    Confirm,
    CorpusSettings,
    CorpusUnavailable,
    Publication,
    Published,
    PushTimedOut,
    commit_message,
)
from protocols.failures import InvalidInput, PushConflict, SupervisorError
from protocols.fastimport import NewCommit

TIDY_EVERY = 100
"""Turns between two looks at whether loose objects should be packed."""

T = TypeVar("T")
_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_corpus(settings: CorpusSettings, guardian: Guardian | None = None) -> AsyncIterator[GitCorpus]:
    """The corpus with its queue running, for the length of the block. Nothing is fetched before it is asked for."""
    with private_home() as home:
        corpus = GitCorpus(settings, Checkout(settings, Git.for_corpus(settings, home, guardian)))
        async with trio.open_nursery() as nursery:
            await nursery.start(corpus.run)
            yield corpus
            nursery.cancel_scope.cancel()


@define(eq=False)
class GitCorpus:
    """A :class:`protocols.corpus.CorpusPort` over one checkout and branch. ``run`` must run while it is used."""

    settings: CorpusSettings
    checkout: Checkout
    _queue: PushQueue = field(init=False, factory=PushQueue)
    _turns: int = field(init=False, default=0)
    _tip: Tip | None = field(init=False, default=None)
    _tip_at_s: float = field(init=False, default=-math.inf)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve publications, turn by turn, until cancelled. One that fails takes no other with it."""
        task_status.started()
        try:
            while True:
                if batch := await self._queue.next_batch():
                    await self._turn(batch)
        finally:
            self._queue.close(CorpusUnavailable("the corpus is closed: the supervisor ends"))

    # -- what jobs call -----------------------------------------------------------------------------------------------

    async def prepare(self) -> str | None:
        """Clone or mend the checkout, get the newest state and show it in the working tree. Returns the tip."""
        async with self.checkout.locked():
            tip = await self._fetch()
            await self.checkout.show(tip)
            return tip.commit

    async def tip(self, *, max_age_s: float = 0.0) -> str | None:
        oldest_s = trio.current_time() - max_age_s
        if self._tip is None or self._tip_at_s < oldest_s:
            async with self.checkout.locked():
                if self._tip is None or self._tip_at_s < oldest_s:  # somebody may have asked while we waited
                    return (await self._fetch()).commit
        return self._tip.commit

    async def read(self, path: str, *, at: str | None = None) -> bytes | None:
        return await self._look(at, None, partial(self.checkout.objects.read, path=path))

    async def existing(self, paths: Sequence[str], *, at: str | None = None) -> tuple[str, ...]:
        return await self._look(at, (), partial(self.checkout.objects.existing, paths=paths))

    async def list_paths(self, folder: str, *, at: str | None = None) -> tuple[str, ...]:
        return await self._look(at, (), partial(self.checkout.objects.list_paths, folder=folder))

    async def find_commit(self, trailers: Mapping[str, str]) -> str | None:
        nothing: list[tuple[str, Mapping[str, str]]] = []
        for commit, found in await self._look(None, nothing, self.checkout.objects.log):
            if trailers.items() <= found.items():
                return commit
        return None

    async def publish(self, publication: Publication, *, confirm: Confirm) -> Published:
        if not publication.content:
            raise InvalidInput("nothing to publish: at least one content file is needed")
        if publication.base is not None:
            commit_id(publication.base)
        return await self._queue.through(
            Entry(publication, commit_message(publication.subject, publication.trailers), confirm)
        )

    async def _look(self, at: str | None, nothing: T, look: Callable[[str], Awaitable[T]]) -> T:
        """``look`` at a commit: without the lock where that works, so that a slow push delays no reader."""
        commit = await self.tip(max_age_s=math.inf) if at is None else commit_id(at)
        if commit is None:
            return nothing
        if not self.checkout.is_ours:
            async with self.checkout.locked():
                await self.checkout.ensure()
        try:
            return await look(commit)
        except GitFailed:  # not here (shallow clone), or the repository is being made anew at this moment
            async with self.checkout.locked():
                await self._fetch()
                if not await self.checkout.get_commit(commit):
                    raise CorpusUnavailable(f"commit {commit} is not in the corpus any more") from None
                return await look(commit)

    # -- one turn -----------------------------------------------------------------------------------------------------

    async def _turn(self, batch: Sequence[Entry]) -> None:
        """Bring all of ``batch`` to an outcome, within the push limit."""
        patience = Patience(self.settings.retry_base_s)
        failure: BaseException = CorpusUnavailable("the corpus was closed during the push: the supervisor ends")
        try:
            with trio.move_on_after(self.settings.push_limit_s) as limit:
                async with self.checkout.locked():
                    await self._publish(batch, patience)
                    await self._leave_tidy()
            if limit.cancelled_caught:
                failure = PushTimedOut(f"not pushed within {self.settings.push_limit_s:g} s{patience.last_words}")
        except SupervisorError as error:
            failure = error
            _log.warning("corpus_turn_failed", error=error.message)
        except Exception as error:  # noqa: BLE001 - it goes to the jobs, where each is classified
            failure = error  # of the jobs of this turn; those of the next have nothing to do with it
            _log.exception("corpus_turn_crashed")
        finally:
            for entry in batch:
                entry.settle(copy.copy(failure))

    async def _publish(self, batch: Sequence[Entry], patience: Patience) -> None:
        while open_entries := [entry for entry in batch if entry.open]:
            tip = await self._fetch()
            await self._settle_landed(open_entries, tip)
            todo = await self._gate([entry for entry in open_entries if entry.open], tip)
            made = await self._make_commits(todo, tip)
            todo, everyone = await self._confirmed(todo), len(todo)
            if len(todo) < everyone:
                made = await self._make_commits(todo, tip)
            for entry, commit in zip(todo, made, strict=True):
                entry.commits.append(commit)
            if made:
                await trio.sleep(patience.pause_s(await self._push(todo, made[-1])))

    async def _settle_landed(self, entries: Iterable[Entry], tip: Tip) -> None:
        """Whoever's commit is at the tip or below it is through, whatever the push had said."""
        for entry in entries:
            for commit in reversed(entry.commits):
                if tip.commit is not None and (
                    commit == tip.commit or await self.checkout.objects.is_ancestor(commit, tip.commit)
                ):
                    entry.settle(Published(changed=True, commit=commit))
                    break

    async def _gate(self, entries: Sequence[Entry], tip: Tip) -> list[Entry]:
        """Settle what is there already and what is in conflict (D39); returns the rest."""
        for entry in entries:
            entry.start_from(entry.publication.base or tip.commit)
            if entry.base not in (None, tip.commit) and not await self.checkout.get_commit(str(entry.base)):
                entry.settle(PushConflict(f"commit {entry.base}, where the work began, is gone from the corpus"))
        entries = [entry for entry in entries if entry.open]
        known = await self._ids({(commit, entry) for entry in entries for commit in (entry.base, tip.commit)})
        return [
            entry
            for entry in entries
            if not _settled_by(judge(entry.publication, known[entry.base, entry], known[tip.commit, entry]), entry, tip)
        ]

    async def _ids(self, wanted: set[tuple[str | None, Entry]]) -> dict[tuple[str | None, Entry], Ids]:
        """What each commit has at the paths of each entry, in one question; a commit None has nothing."""
        pairs = [(commit, path) for commit, entry in wanted if commit for path in paths_to_ask(entry.publication)]
        answers = await self.checkout.objects.ids([f"{commit}:{path}" for commit, path in pairs]) if pairs else []
        found = dict(zip(pairs, answers, strict=True))
        return {
            (commit, entry): {path: found.get((commit or "", path)) for path in paths_to_ask(entry.publication)}
            for commit, entry in wanted
        }

    async def _make_commits(self, entries: Sequence[Entry], tip: Tip) -> list[str]:
        commits = [
            NewCommit(entry.message, entry.publication.content + entry.publication.bookkeeping) for entry in entries
        ]
        return await self.checkout.objects.commit_on(tip.commit, commits) if commits else []

    async def _confirmed(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those whose jobs still hold their lease and were not withdrawn; the others are settled (D6)."""
        async with trio.open_nursery() as nursery:
            for entry in entries:
                nursery.start_soon(entry.ask, self.settings.confirm_limit_s)
        return [entry for entry in entries if entry.open]

    async def _push(self, entries: Sequence[Entry], head: str) -> PushAnswer | SupervisorError | None:
        """None when an entry was withdrawn meanwhile: the push was killed, and the others go without it."""
        if not all(entry.open for entry in entries):
            return None
        with trio.CancelScope() as scope:
            for entry in entries:
                entry.begin_effect(scope)
            try:
                return await self.checkout.push(head)
            except (GitFailed, GitTimedOut) as error:
                return error
            finally:
                for entry in entries:
                    entry.end_effect()
        return None

    async def _fetch(self) -> Tip:
        asked_s = trio.current_time()
        self._tip = await self.checkout.fetch()
        self._tip_at_s = asked_s
        return self._tip

    async def _leave_tidy(self) -> None:
        self._turns += 1
        if self._tip is not None and not self._queue.waiting:  # else the next turn shows its own
            await self.checkout.show(self._tip)
        if self._turns % TIDY_EVERY == 0:
            await self.checkout.tidy()


def _settled_by(standing: Standing, entry: Entry, tip: Tip) -> bool:
    if standing.present:
        entry.settle(Published(changed=False, commit=tip.commit))
    elif standing.moved:
        names = ", ".join(standing.moved)
        entry.settle(PushConflict(f"changed in the corpus since the work began: {names}", paths=[*standing.moved]))
    elif standing.blocked:
        names = ", ".join(standing.blocked)
        entry.settle(PushConflict(f"a file and a folder of one name in the corpus: {names}", paths=[*standing.blocked]))
    else:
        return False
    return True
