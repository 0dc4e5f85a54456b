"""Publications on their way: who waits, who may go together, and when patience with a remote ends."""

from __future__ import annotations

import random
from collections.abc import Sequence

import trio
from attrs import define, field

from actors.ports.checkout import PushAnswer
from protocols.corpus import Confirm, CorpusUnavailable, Publication, Published, PushRejected
from protocols.failures import SupervisorError, Transient

TROUBLE_LIMIT = 5
"""Pushes that fail for another reason than a moved branch, before they are given up (GT-01)."""
UNSEEN_LIMIT = 3
"""Pushes that git calls done while the remote does not have them."""
PAUSE_LIMIT_S = 8.0


@define(eq=False)
class Entry:
    """One publication on its way. It is settled once; a withdrawn one never reaches the remote any more."""

    publication: Publication
    message: str
    confirm: Confirm
    done: trio.Event = field(init=False, factory=trio.Event)
    outcome: Published | BaseException | None = field(init=False, default=None)
    base: str | None = field(init=False, default=None)
    commits: list[str] = field(init=False, factory=list)
    """Made for it so far. Any of them may have landed, also one whose push seemed to fail."""
    withdrawn: bool = field(init=False, default=False)
    _started: bool = field(init=False, default=False)
    _effect: trio.CancelScope | None = field(init=False, default=None)
    """The confirmation or push that runs for it now."""
    _effect_over: trio.Event = field(init=False, factory=trio.Event)

    @property
    def open(self) -> bool:
        return self.outcome is None and not self.withdrawn

    @property
    def paths(self) -> set[str]:
        return {change.path for change in self.publication.content}

    def start_from(self, base: str | None) -> None:
        """The commit that conflicts are judged against: the first that is given stays (None: an empty corpus)."""
        if not self._started:
            self.base, self._started = base, True

    def settle(self, outcome: Published | BaseException) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.done.set()

    def begin_effect(self, scope: trio.CancelScope) -> None:
        self._effect, self._effect_over = scope, trio.Event()

    def end_effect(self) -> None:
        self._effect = None
        self._effect_over.set()

    async def ask(self, limit_s: float) -> None:
        """Have the job confirm its lease; what it raises is its outcome."""
        with trio.move_on_after(limit_s) as scope:
            self.begin_effect(scope)
            try:
                await self.confirm()
            except Exception as error:  # noqa: BLE001 - raised where publish() was called
                self.settle(error)
            finally:
                self.end_effect()
        if scope.cancelled_caught and not self.withdrawn:
            self.settle(Transient(f"the lease could not be confirmed within {limit_s:g} s, so nothing was pushed"))

    async def withdraw(self) -> None:
        """Nothing is confirmed or pushed for it from here on. Waits, shielded, until a running push is dead."""
        self.withdrawn = True
        if self._effect is not None:
            self._effect.cancel()
            with trio.CancelScope(shield=True):
                await self._effect_over.wait()


@define(eq=False)
class PushQueue:
    """First come, first served, in batches."""

    _waiting: list[Entry] = field(init=False, factory=list)
    _bell: trio.Event = field(init=False, factory=trio.Event)
    _closed: CorpusUnavailable | None = field(init=False, default=None)

    @property
    def waiting(self) -> int:
        return sum(entry.open for entry in self._waiting)

    async def through(self, entry: Entry) -> Published:
        """Wait for the outcome. Cancelled, it withdraws the entry."""
        if self._closed is not None:
            raise self._closed
        self._waiting.append(entry)
        self._bell.set()
        try:
            await entry.done.wait()
        finally:
            if not entry.done.is_set():
                await entry.withdraw()  # noqa: ASYNC102 - it shields itself, within its limit
        if isinstance(entry.outcome, Published):
            return entry.outcome
        raise entry.outcome or AssertionError("done without an outcome")

    async def next_batch(self) -> Sequence[Entry]:
        """All that wait, but never two for one content file: the second is judged by what the first left."""
        await self._bell.wait()
        batch: list[Entry] = []
        later: list[Entry] = []
        taken: set[str] = set()
        for entry in self._waiting:
            if entry.open:
                (later if taken & entry.paths else batch).append(entry)
                taken |= entry.paths
        self._waiting = later
        if not later:
            self._bell = trio.Event()
        return batch

    def close(self, reason: CorpusUnavailable) -> None:
        self._closed = reason
        for entry in self._waiting:
            entry.settle(reason)


@define
class Patience:
    """How often, and after what pause, a push is tried again within its limit."""

    base_s: float
    _moves: int = field(init=False, default=0)
    _troubles: int = field(init=False, default=0)
    _unseen: int = field(init=False, default=0)
    _last: SupervisorError | None = field(init=False, default=None)

    @property
    def last_words(self) -> str:
        return f"; last: {self._last.message}" if self._last else ""

    def pause_s(self, answer: PushAnswer | SupervisorError | None) -> float:
        """The pause before the next look at the remote. Raises what was wrong when it was wrong too often."""
        if answer is None:
            return 0.0
        if isinstance(answer, PushAnswer) and answer.moved:
            self._moves += 1
            return self._jittered(self._moves - 3)
        if isinstance(answer, PushAnswer) and answer.refused is None:
            self._unseen += 1  # unless the next fetch shows it, and there is no next time
            self._last = PushRejected("git calls it pushed, but the remote does not have it")
            if self._unseen > UNSEEN_LIMIT:
                raise self._last
            return 0.0
        self._last = PushRejected(f"the remote refuses: {answer.refused}") if isinstance(answer, PushAnswer) else answer
        self._troubles += 1
        if self._troubles >= TROUBLE_LIMIT:
            raise self._last
        return self._jittered(self._troubles - 1)

    def _jittered(self, doublings: int) -> float:
        return min(self.base_s * 2.0**doublings, PAUSE_LIMIT_S) * random.uniform(0.5, 1.5)
