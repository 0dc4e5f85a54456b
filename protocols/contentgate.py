"""Is there anything to publish, and may it be? Judged by object ids alone (GT-04, D39)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath

from attrs import frozen

from protocols.corpus import Publication

Ids = Mapping[str, str | None]
"""Path to object id as a commit has it: None for nothing there, a final ``/`` for a directory."""


@frozen
class Standing:
    """``present``: the tip holds the content already. Else publish it, unless something stands against that."""

    present: bool = False
    moved: tuple[str, ...] = ()
    """Content files that somebody changed since the base, to something else than ours."""
    blocked: tuple[str, ...] = ()
    """What is a file where we need a folder, or a folder (or nothing we may replace) where we need a file."""


def paths_to_ask(publication: Publication) -> list[str]:
    """The files of ``publication`` and all folders above them: what ``judge`` wants to know of a commit."""
    files = [change.path for change in (*publication.content, *publication.bookkeeping)]
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents} - {"."}
    return [*files, *sorted(folders)]


def judge(publication: Publication, at_base: Ids, at_tip: Ids) -> Standing:
    """How ``publication`` stands to the tip. Bookkeeping never decides: laws of one folder share ``status.yaml``."""
    some_id = next((id_ for id_ in at_tip.values() if id_), "")
    wanted = {change.path: blob_id(change.content, len(some_id.rstrip("/"))) for change in publication.content}
    if all(at_tip.get(path) == id_ for path, id_ in wanted.items()):
        return Standing(present=True)
    moved = tuple(path for path in wanted if at_tip.get(path) not in (at_base.get(path), wanted[path]))
    files = {change.path for change in (*publication.content, *publication.bookkeeping)}
    blocked = tuple(path for path, id_ in at_tip.items() if id_ is not None and id_.endswith("/") == (path in files))
    return Standing(moved=moved, blocked=blocked)


def blob_id(content: bytes | None, digits: int = 40) -> str | None:
    """The id git gives to a file with this content; ``digits`` 64 in a SHA-256 repository."""
    if content is None:
        return None
    algorithm = hashlib.sha256 if digits == 64 else hashlib.sha1
    return algorithm(b"blob %d\0" % len(content) + content).hexdigest()
