"""What is different from the last harvest of this law (D15), and where its file stood before (D33)."""

from __future__ import annotations

from pathlib import PurePosixPath

import trio

from actors.jobs.base import Work
from protocols.corpus import CorpusPort
from protocols.failures import Permanent
from protocols.law import Layer
from protocols.lawproduct import Product
from protocols.lawyaml import UnreadableLaw, load_law
from protocols.payloads import Change
from schema import harvest
from schema.connection import Connection
from schema.harvest import HarvestVersion
from schema.rows import Job

JOB_TRAILER = "Job-Id"


class PathTaken(Permanent):
    """Another law stands at the path of this one: two laws of one kind, title and first day."""

    kind = "path_taken"


async def what_changed(work: Work, corpus: CorpusPort, product: Product, base: str | None) -> Change:
    """Text, converter or nothing. Without a remembered harvest, the file on the branch is what to compare with (D15).

    A retry may find its own push there, made by an attempt that died before it could say so: then it is the text.
    """
    version = await _last_version(work, product)
    if version is not None:
        if version.source_sha256 != product.result.source_sha256:
            return Change.TEXT
        return Change.NONE if version.content_sha256 == product.result.content_sha256 else Change.CONVERTER
    if work.job.attempts > 1 and (
        base is None or await corpus.find_commit({JOB_TRAILER: str(work.job.id)}) is not None
    ):
        return Change.TEXT
    return Change.NONE if await corpus.read(product.path, at=base) == product.content else Change.TEXT


async def refuse_foreign_path(corpus: CorpusPort, product: Product, base: str | None) -> None:
    """PathTaken when the file at the path of ``product`` is another law's: nothing overwrites a law with another."""
    present = await corpus.read(product.path, at=base)
    owner = None if present is None else await trio.to_thread.run_sync(_law_id_in, present)
    if owner not in (None, *product.known_as):
        raise PathTaken(
            f"{product.path} holds {owner}; {product.law_id} has the same kind, title and date", owner=owner
        )


async def former_path(corpus: CorpusPort, product: Product, base: str | None) -> str | None:
    """Where the same law and date stands under another layer of the corpus; None: nowhere (D33)."""
    path = PurePosixPath(product.path)
    root = path.parent.parent.parent
    for layer in Layer:
        other = str(root / layer.directory / path.parent.name / path.name)
        if other == product.path:
            continue
        present = await corpus.read(other, at=base)
        if present is not None and await trio.to_thread.run_sync(_law_id_in, present) in product.known_as:
            return other
    return None


async def _last_version(work: Work, product: Product) -> HarvestVersion | None:
    found: list[HarvestVersion | None] = []

    async def look(connection: Connection, job: Job) -> None:
        found.append(await harvest.last_version(connection, job.law_id, product.path))

    await work.write(look)
    return found[-1]


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
