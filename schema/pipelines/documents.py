"""Documents that crawls fill (``pipelines.md`` 3.5): one per URL and workspace, worked on by one claim at a time.

``claimed_by`` names that claim. It is good while the job's row says the same claim is processing, so a document that a dead
worker left behind is taken over by the next crawl without anybody cleaning up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.crawl import CrawlOutcome, CrawlResult, CrawlStatus, content_identity, document_identity
from protocols.runs import DocAction, claim_holder, shown
from protocols.scrub import payload_to_json, scrub_text
from schema.connection import Connection
from schema.rows import Job

DOCUMENT_TYPE: Final = "CRAWLED_URL"
MAX_REASON: Final = 200
_MAX_TITLE: Final = 500


@frozen
class Shelf:
    """Where a crawl puts its documents. ``folder_id`` None is the root for new ones and leaves old ones where they are."""

    workspace_id: int
    connector_id: int
    actor_id: UUID
    folder_id: int | None = None
    run_id: int | None = None


@frozen
class Filed:
    """What became of one document. ``document_id`` None: it was deleted or taken away meanwhile."""

    action: DocAction = DocAction.NONE
    document_id: int | None = None


# A folder that was deleted meanwhile counts as none; the lock keeps one that is there from going in between.
_FOLDER: Final = "(SELECT f.id FROM folders AS f WHERE f.id = {0}::bigint AND f.workspace_id = {1} FOR KEY SHARE)"


async def open_all(connection: Connection, job: Job, shelf: Shelf, urls: Sequence[str]) -> None:
    """Phase one: a pending document for every URL that has none. In the order of the index, so that two never deadlock."""
    known = sorted((document_identity(url, shelf.workspace_id), url) for url in urls)
    await connection.execute(
        f"""
        INSERT INTO documents (workspace_id, folder_id, connector_id, created_by_id, document_type, title, url,
                               content_hash, unique_identifier_hash, claimed_by, last_run_id)
        SELECT $1, {_FOLDER.format("$2", "$1")}, $3, $4, $5, left(d.url, 100), d.url, d.identity, d.identity, $6, $7
        FROM unnest($8::text[], $9::text[]) AS d(identity, url)
        ON CONFLICT (workspace_id, unique_identifier_hash) DO NOTHING
        """,
        shelf.workspace_id,
        shelf.folder_id,
        shelf.connector_id,
        shelf.actor_id,
        DOCUMENT_TYPE,
        _holder(job),
        shelf.run_id,
        [identity for identity, _ in known],
        [url for _, url in known],
    )


async def start(connection: Connection, job: Job, shelf: Shelf, url: str) -> bool:
    """Phase two, before the fetch: processing, under this claim. False: another live claim is at it, or it was deleted."""
    found = await connection.fetchval(
        """
        UPDATE documents AS d SET state = 'processing', claimed_by = $3, updated_at = now()
        WHERE d.workspace_id = $1 AND d.unique_identifier_hash = $2 AND (d.claimed_by IS NULL OR d.claimed_by = $3
            OR NOT EXISTS (SELECT FROM jobs AS j WHERE j.id = split_part(d.claimed_by, ':', 1)::uuid
                           AND j.status = 'processing' AND j.attempts::text = split_part(d.claimed_by, ':', 2)))
        RETURNING d.id
        """,
        shelf.workspace_id,
        document_identity(url, shelf.workspace_id),
        _holder(job),
    )
    return found is not None


async def finish(connection: Connection, job: Job, shelf: Shelf, url: str, outcome: CrawlOutcome) -> Filed:
    """Phase two, after the fetch. A failed fetch never costs a document the content that it had."""
    row = await connection.fetchrow(
        """
        SELECT id, content <> '' AS filled, content_hash FROM documents
        WHERE workspace_id = $1 AND unique_identifier_hash = $2 AND claimed_by = $3 FOR UPDATE
        """,
        shelf.workspace_id,
        document_identity(url, shelf.workspace_id),
        _holder(job),
    )
    if row is None:
        return Filed()
    if outcome.result is None or not outcome.succeeded:
        await _settle(connection, shelf, row["id"], ready=row["filled"], reason=_reason(outcome))
        return Filed(DocAction.NONE, row["id"])
    digest = content_identity(outcome.result.content, shelf.workspace_id)
    if row["filled"] and row["content_hash"] == digest:
        await _settle(connection, shelf, row["id"], ready=True, reason=None, move=True)
        return Filed(DocAction.UNCHANGED, row["id"])
    if not row["filled"] and await _is_known(connection, shelf.workspace_id, digest):
        await _settle(connection, shelf, row["id"], ready=False, reason="Duplicate content exists")
        return Filed(DocAction.DUPLICATE, row["id"])
    await _fill(connection, shelf, row["id"], outcome.result, digest)
    return Filed(DocAction.UPDATED if row["filled"] else DocAction.CREATED, row["id"])


async def _is_known(connection: Connection, workspace_id: int, digest: str) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT EXISTS (SELECT FROM documents WHERE workspace_id = $1 AND content_hash = $2 AND state = 'ready')",
            workspace_id,
            digest,
        )
    )


async def _settle(
    connection: Connection, shelf: Shelf, document_id: int, *, ready: bool, reason: str | None, move: bool = False
) -> None:
    """Let go of a document whose content stays what it was."""
    await connection.execute(
        f"""
        UPDATE documents SET state = $2::text::document_state, state_reason = $3, claimed_by = NULL,
            last_run_id = COALESCE($4, last_run_id), updated_at = now(),
            folder_id = CASE WHEN $5 THEN COALESCE({_FOLDER.format("$6", "$7")}, folder_id) ELSE folder_id END
        WHERE id = $1
        """,
        document_id,
        "ready" if ready else "failed",
        reason,
        shelf.run_id,
        move,
        shelf.folder_id,
        shelf.workspace_id,
    )


async def _fill(connection: Connection, shelf: Shelf, document_id: int, result: CrawlResult, digest: str) -> None:
    metadata: Mapping[str, Any] = {
        **result.metadata,
        "crawler_type": result.crawler_type,
        "connector_id": shelf.connector_id,
    }
    await connection.execute(
        f"""
        UPDATE documents SET state = 'ready', state_reason = NULL, claimed_by = NULL, title = $2, content = $3,
            content_hash = $4, metadata = $5::text::jsonb || jsonb_build_object('indexed_at', now()),
            connector_id = $6, last_run_id = COALESCE($7, last_run_id), updated_at = now(),
            folder_id = COALESCE({_FOLDER.format("$8", "$9")}, folder_id)
        WHERE id = $1
        """,
        document_id,
        scrub_text(result.title)[:_MAX_TITLE] or "(no title)",
        scrub_text(result.content),
        digest,
        payload_to_json(metadata),
        shelf.connector_id,
        shelf.run_id,
        shelf.folder_id,
        shelf.workspace_id,
    )


def _reason(outcome: CrawlOutcome) -> str:
    if outcome.status is CrawlStatus.EMPTY:
        return "No content extracted"
    return shown(outcome.error or "the crawl failed", MAX_REASON)


def _holder(job: Job) -> str:
    return claim_holder(job.id, job.attempts)
