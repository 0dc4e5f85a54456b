"""The law in the job's checkout: what the worker stands for, and what an agent left there (D41)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import structlog
import trio
from attrs import define, evolve, field, frozen

from actors.ports.agentfolders import AgentFileRefused, clear_way, read_agent_file
from actors.ports.foldercorpus import FolderCorpus
from protocols.compose import Composition, LawSource, compose
from protocols.corpus import FileChange, Publication
from protocols.lawyaml import UnreadableLaw

LAW_LIMIT_BYTES = 32 * 1024 * 1024

_log = structlog.get_logger(__name__)


@frozen
class Snapshot:
    """A state of the draft to come back to."""

    law: bytes = field(repr=False)
    on_disk: bytes = field(repr=False)


@define(eq=False)
class Draft:
    """``start``: the law as the run found it. ``law``: composed. ``on_disk``: the same, or a proposal that cannot be read.

    Gates read ``on_disk``; only ``law`` is ever published. ``opening`` is the law as it was laid out, parsed once: the
    numbers of its entries and its header stay what they are, whatever agents do (D41).
    """

    checkout: Path
    path: str
    start: bytes = field(repr=False)
    law: bytes = field(repr=False)
    on_disk: bytes = field(repr=False)
    opening: LawSource = field(repr=False)
    discarded_edits: int = 0

    @classmethod
    async def begin(cls, checkout: Path, path: str, *, start: bytes, law: bytes) -> Draft:
        """Lay ``law`` out for the agent. ``start`` differs from it when an earlier attempt left something."""
        draft = cls(checkout, path, start, law, law, await trio.to_thread.run_sync(LawSource.read, law))
        await lay_out(checkout, {path: law})
        return draft

    @property
    def changed(self) -> bool:
        """Whether this run has anything that gates must look at."""
        return self.on_disk != self.start

    @property
    def readable(self) -> bool:
        """False: the last proposal could not be read and stays for the schema gate."""
        return self.on_disk is self.law or self.on_disk == self.law

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(self.law, self.on_disk)

    async def take(self, assigned: Collection[int]) -> None:
        """Compose what the agent left in the checkout; a proposal that cannot be read stays there as it is."""
        await self.take_from(self.checkout, assigned, keep_unreadable=True)

    async def take_from(
        self, checkout: Path, assigned: Collection[int], *, base: bytes | None = None, keep_unreadable: bool = False
    ) -> bool:
        """Compose the proposal in ``checkout`` (a slice's, say). False: it could not be read, and nothing was taken.

        ``base``: what that agent began with, when the law has moved on since by the work of another slice.
        """
        try:
            proposal = await trio.to_thread.run_sync(_read, checkout, self.path)
        except AgentFileRefused as refusal:
            _log.warning("agent left no plain law file", why=refusal.message)
            proposal = None
        if proposal is None:  # deleted, or made something else: one edit that is not taken
            self.discarded_edits += 1
            await self._write(self.law)
            return False
        try:
            composed = await trio.to_thread.run_sync(_composed, base or self.law, self.law, proposal, assigned)
        except UnreadableLaw as fault:
            _log.warning("agent left a law file that cannot be read", why=fault.message)
            if keep_unreadable:
                self.on_disk = proposal
            return False
        self.discarded_edits += composed.discarded_edits
        self.law = composed.content
        await self._write(self.law)
        return True

    async def replace(self, law: bytes) -> None:
        """A composed law of the worker's own making takes the place of this one."""
        self.law = law
        await self._write(law)

    async def restore(self, snapshot: Snapshot) -> None:
        """Back to the bytes from before a call (D42)."""
        self.law = snapshot.law
        await self._write(snapshot.on_disk)

    async def _write(self, content: bytes) -> None:
        await lay_out(self.checkout, {self.path: content})
        self.on_disk = content


async def lay_out(checkout: Path, files: dict[str, bytes]) -> None:
    """Write files into a checkout, whole or not at all, never through a link that an agent made there.

    What it made in their place (a folder, a link, a pipe) goes: that is an edit that is not taken, and no fault of the
    corpus.
    """
    if files:
        for path in files:
            await clear_way(checkout, path)
        changes = tuple(FileChange(path, content) for path, content in files.items())
        await FolderCorpus(checkout).publish(Publication(content=changes, subject="lay out"), confirm=_nothing)


async def _nothing() -> None:
    return None


def _composed(base: bytes, law: bytes, proposal: bytes, assigned: Collection[int]) -> Composition:
    """Edits are counted against what the agent began with, models go into the law as it is by now."""
    composed = compose(base, proposal, assigned)
    if base == law:
        return composed
    return evolve(composed, content=compose(law, composed.content, assigned).content)


def _read(checkout: Path, path: str) -> bytes | None:
    return read_agent_file(checkout, path, most_bytes=LAW_LIMIT_BYTES)
