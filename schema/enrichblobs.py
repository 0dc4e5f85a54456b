"""What an enrich job leaves for its own next attempt: partial work (D43), and the result of a push (D53).

All writes are for fenced units of work: whoever lost the claim leaves nothing.
"""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.failures import JsonObject
from schema.connection import Connection
from schema.rows import Job
from schema.tasks import BlobKind, insert_blob, load_blobs

_PARTIAL_NAME: Final = "partial.json"
_RESULT_NAME: Final = "result.json"
_OWN: Final = [BlobKind.PARTIAL.value, BlobKind.PENDING_RESULT.value]


@frozen
class PartialWork:
    """Models that an attempt finished before it broke off. ``base_sha256`` (hex) is of the law file it began with."""

    base_sha256: str
    law: str
    numbers: tuple[str, ...]


async def save_partial(connection: Connection, job: Job, work: PartialWork) -> None:
    """Instead of what an earlier attempt left."""
    document = {"base_sha256": work.base_sha256, "numbers": list(work.numbers), "law": work.law}
    await _replace(connection, job, BlobKind.PARTIAL, _PARTIAL_NAME, document)


async def load_partial(connection: Connection, job: Job, base_sha256: str) -> PartialWork | None:
    """What can be gone on with: made from the very same base."""
    document = await _load(connection, job, BlobKind.PARTIAL)
    if document is None or document.get("base_sha256") != base_sha256:
        return None
    law, numbers = document.get("law"), document.get("numbers")
    if not isinstance(law, str) or not isinstance(numbers, list):
        return None
    return PartialWork(base_sha256, law, tuple(str(number) for number in numbers))


async def hand_on(connection: Connection, job: Job, follower: UUID) -> None:
    """To the job that tries the law again after this one failed for good: paid work is not done twice (D43, D53)."""
    await connection.execute(
        "UPDATE job_blobs SET job_id = $2 WHERE job_id = $1 AND kind = ANY ($3::text[])", job.id, follower, _OWN
    )


async def save_pending_result(connection: Connection, job: Job, document: JsonObject) -> None:
    """Before the push: what a retry completes with when it finds the push on the branch (D53)."""
    await _replace(connection, job, BlobKind.PENDING_RESULT, _RESULT_NAME, document)


async def load_pending_result(connection: Connection, job: Job) -> JsonObject | None:
    return await _load(connection, job, BlobKind.PENDING_RESULT)


async def drop_own_blobs(connection: Connection, job: Job) -> None:
    """The job is done: what its attempts left for each other goes; inputs and results stay."""
    await connection.execute(
        "DELETE FROM job_blobs WHERE job_id = $1 AND kind = ANY ($2::text[])",
        job.id,
        _OWN,
    )


async def _replace(connection: Connection, job: Job, kind: BlobKind, path: str, document: JsonObject) -> None:
    await connection.execute("DELETE FROM job_blobs WHERE job_id = $1 AND kind = $2", job.id, kind.value)
    await insert_blob(connection, job.id, kind, path, json.dumps(document, ensure_ascii=False))


async def _load(connection: Connection, job: Job, kind: BlobKind) -> dict[str, Any] | None:
    found = await load_blobs(connection, job.id, kind)
    if not found:
        return None
    try:
        document = json.loads(found[0].content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
