"""The other laws that a law's models name, read from the branch and then from its base (D56)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import structlog
import trio
from attrs import define, field, frozen

from protocols.corpus import CorpusPort
from protocols.gates.reading import Unreadable
from protocols.gates.targets import laws_named
from protocols.lawtree import Tree, law_date, read_tree
from protocols.lawyaml import UnreadableLaw

MOST_LAWS = 50
"""So many other laws are read in one run; models that name more are checked against these."""

SIDECARS = frozenset({"status.yaml"})
"""Files beside laws that are none."""
_log = structlog.get_logger(__name__)


@frozen
class Shelf:
    """One corpus as of one commit."""

    corpus: CorpusPort
    commit: str | None


@define(eq=False)
class Library:
    """A :class:`protocols.gates.reading.CorpusView` that is filled before the gates look. ``base``: where laws start."""

    shelves: Sequence[Shelf]
    base: str
    _found: dict[str, Tree | Unreadable | None] = field(init=False, factory=dict)
    _indexes: list[Mapping[str, list[str]]] | None = field(init=False, default=None)

    def law_by_id(self, law_id: str, not_after: str | None) -> Tree | Unreadable | None:
        """What :meth:`fetch` found; it was asked with the date of the law itself."""
        return self._found.get(law_id)

    async def fetch(self, tree: Tree) -> None:
        """Read what ``tree`` names and is not here yet: the newest version not after the day that its text is of."""
        named = await trio.to_thread.run_sync(laws_named, tree)
        missing = [law_id for law_id in named if law_id not in self._found]
        room = MOST_LAWS - len(self._found)
        if len(missing) > room:
            _log.warning("more laws named than are read", named=len(missing) + len(self._found), read=MOST_LAWS)
        day = law_date(tree)
        for law_id in missing[:room]:
            self._found[law_id] = await self._read(law_id, day)

    async def _read(self, law_id: str, day: str | None) -> Tree | Unreadable | None:
        if self._indexes is None:
            self._indexes = [await _index(shelf, self.base) for shelf in self.shelves]
        for shelf, index in zip(self.shelves, self._indexes, strict=True):
            path = newest(index.get(law_id, []), day)
            content = None if path is None else await shelf.corpus.read(path, at=shelf.commit)
            if content is None:
                continue
            try:
                return await trio.to_thread.run_sync(read_tree, content)
            except UnreadableLaw as fault:
                return Unreadable(fault.message)
        return None


async def _index(shelf: Shelf, base: str) -> Mapping[str, list[str]]:
    """Paths of law files by the folder they stand in, which is named for the law's ``$id``."""
    index: dict[str, list[str]] = {}
    for path in await shelf.corpus.list_paths(base, at=shelf.commit):
        pure = PurePosixPath(path)
        if pure.suffix == ".yaml" and not pure.name.startswith(".") and pure.name not in SIDECARS:
            index.setdefault(pure.parent.name, []).append(path)
    return index


def newest(paths: Sequence[str], day: str | None) -> str | None:
    """Of the versions of a law the last one not after the ISO day: files are named for the first day of their text."""
    dated = sorted((PurePosixPath(path).stem, path) for path in paths)
    fit = [path for stem, path in dated if day is None or stem <= day]
    return fit[-1] if fit else None
