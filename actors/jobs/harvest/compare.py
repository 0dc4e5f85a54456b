"""What is different from the last harvest of this law (D15), and where its file stood before (D33)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeVar
from uuid import UUID

import trio
from attrs import frozen

from actors.jobs.base import Work
from protocols.corpus import CorpusPort, FileChange
from protocols.failures import Permanent
from protocols.law import Layer
from protocols.lawproduct import Product
from protocols.lawyaml import UnreadableLaw, load_law
from protocols.lawyaml.files import status_file
from protocols.payloads import Change
from schema import harvest
from schema.connection import Connection
from schema.harvest import HarvestVersion
from schema.rows import Job

JOB_TRAILER = "Job-Id"

T = TypeVar("T")

Versions = Mapping[str, HarvestVersion]
"""What was last harvested into each file of the law, by path."""


class PathTaken(Permanent):
    """Another law stands at the path of this one: two laws of one kind, title and first day."""

    kind = "path_taken"


@frozen
class Former:
    """Where the same law and date stood before. ``removal`` takes what is left there away; empty: it is gone already."""

    path: str
    removal: tuple[FileChange, ...] = ()
    bookkeeping: tuple[FileChange, ...] = ()


@frozen
class Difference:
    """What a harvest is to the one before it."""

    change: Change
    former: Former | None


async def compare(work: Work, corpus: CorpusPort, product: Product, base: str | None) -> Difference:
    """Look at the branch as of ``base`` and at what was remembered. PathTaken: another law's file is in the way."""
    present = await corpus.read(product.path, at=base)
    await _refuse_foreign(present, product)
    versions = await _known_versions(work)
    former = await _former(corpus, product, base, versions)
    version = versions.get(product.path) or (None if former is None else versions.get(former.path))
    return Difference(await _what_changed(work, corpus, product, base, present, version), former)


async def _what_changed(
    work: Work,
    corpus: CorpusPort,
    product: Product,
    base: str | None,
    present: bytes | None,
    version: HarvestVersion | None,
) -> Change:
    """Text, converter or nothing. Without a remembered harvest, the file on the branch is what to compare with (D15).

    The same bytes are no change, whatever the source did: repositories write their files anew now and then. But they may
    have been pushed by an attempt that died before it could say so: then it is the text.
    """
    if version is not None:
        if version.content_sha256 == product.result.content_sha256:
            return Change.NONE
        return Change.CONVERTER if version.source_sha256 == product.result.source_sha256 else Change.TEXT
    if present != product.content:
        return Change.TEXT
    for attempt in await _earlier_attempts(work):
        if base is None or await corpus.find_commit({JOB_TRAILER: str(attempt)}) is not None:
            return Change.TEXT
    return Change.NONE


async def _refuse_foreign(present: bytes | None, product: Product) -> None:
    """PathTaken when the file at the path of ``product`` is another law's: nothing overwrites a law with another."""
    owner = None if present is None else await trio.to_thread.run_sync(_law_id_in, present)
    if owner is not None and not _is_one_law(owner, product):
        raise PathTaken(
            f"{product.path} holds {owner}; {product.law_id} has the same kind, title and date", owner=owner
        )


async def _former(corpus: CorpusPort, product: Product, base: str | None, versions: Versions) -> Former | None:
    """The other path of this law and date, under another layer or an older title; None: there is none (D33).

    What was remembered counts also when its file is gone: an attempt that died after its push has moved it.
    """
    path = PurePosixPath(product.path)
    root = path.parent.parent.parent
    remembered = [
        known
        for known in versions
        if known != product.path
        and PurePosixPath(known).name == path.name
        and PurePosixPath(known).is_relative_to(root)
    ]
    layers = [str(root / layer.directory / path.parent.name / path.name) for layer in Layer]
    others = dict.fromkeys([*remembered, *(other for other in layers if other != product.path)])
    for other in await corpus.existing(tuple(others), at=base):
        present = await corpus.read(other, at=base)
        owner = None if present is None else await trio.to_thread.run_sync(_law_id_in, present)
        if owner is not None and _is_one_law(owner, product):
            return await _left_at(corpus, other, base)
    return Former(remembered[0]) if remembered else None


async def _left_at(corpus: CorpusPort, path: str, base: str | None) -> Former:
    """The file, and its folder's status when no other text stands there: a status alone would speak of nothing."""
    status = str(status_file(PurePosixPath(path)))
    beside = await corpus.list_paths(str(PurePosixPath(path).parent), at=base)
    alone = set(beside) == {path, status}
    return Former(path, (FileChange(path, None),), (FileChange(status, None),) if alone else ())


async def _known_versions(work: Work) -> Versions:
    async def look(connection: Connection, job: Job) -> Versions:
        return await harvest.known_versions(connection, job.law_id)

    return await _read(work, look)


async def _earlier_attempts(work: Work) -> tuple[UUID, ...]:
    return await _read(work, harvest.earlier_attempts)


async def _read(work: Work, look: Callable[[Connection, Job], Awaitable[T]]) -> T:
    """What ``look`` finds, under the lease."""
    found: list[T] = []

    async def unit(connection: Connection, job: Job) -> None:
        found.append(await look(connection, job))

    await work.write(unit)
    return found[-1]


def _is_one_law(owner: str, product: Product) -> bool:
    """Versions of a decentral regulation (``CVDR1234_2``) are one law: a later one may begin on the same day."""
    return owner.partition("_")[0] in {known.partition("_")[0] for known in product.known_as}


def _law_id_in(content: bytes) -> str | None:
    """The id that a law file names; None when it names none or cannot be read."""
    try:
        law = load_law(content)
    except UnreadableLaw:
        return None
    for key in ("bwb_id", "cvdr_id"):
        if isinstance(law.get(key), str):
            return str(law[key])
    return None
