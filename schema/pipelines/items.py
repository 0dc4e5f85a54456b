"""The targets of a run: frozen once, ticked off one by one, read again when the run is taken up anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from attrs import frozen

from protocols.crawl import CrawlOutcome, Target
from protocols.runs import DocAction, ItemOutcome, RunCounts, shown
from schema.connection import Connection
from schema.pipelines.rows import Item, item_of

MAX_ERROR: Final = 500


@frozen
class ItemResult:
    """What came of one target. ``job_id`` is the child job of a law; the other details are those of a crawl."""

    outcome: ItemOutcome
    doc_action: DocAction | None = None
    document_id: int | None = None
    job_id: UUID | None = None
    tier: str | None = None
    http_status: int | None = None
    size_bytes: int | None = None
    duration_ms: int | None = None
    error: str | None = None

    @staticmethod
    def of(outcome: CrawlOutcome, action: DocAction | None = None, document_id: int | None = None) -> ItemResult:
        """The item of a crawled URL."""
        return ItemResult(
            ItemOutcome(outcome.status.value),
            doc_action=action,
            document_id=document_id,
            tier=outcome.tier,
            http_status=outcome.http_status,
            size_bytes=outcome.size_bytes,
            duration_ms=outcome.duration_ms,
            error=outcome.error,
        )


async def freeze(connection: Connection, run_id: int, targets: Sequence[Target]) -> None:
    """The list of a run, once. A target with a fault has it as its error, without an outcome: it fails when its turn comes."""
    await connection.execute(
        """
        INSERT INTO pipeline_run_items (run_id, ordinal, target, error)
        SELECT $1, t.ordinal, t.target, t.fault FROM unnest($2::int[], $3::text[], $4::text[]) AS t(ordinal, target, fault)
        """,
        run_id,
        list(range(len(targets))),
        [target.text for target in targets],
        [target.fault for target in targets],
    )


async def resume(connection: Connection, run_id: int, *, keep_done: bool) -> list[Item]:
    """What is left to do, in order. A run without documents starts over: half a stream is of no use.

    One that keeps its documents still repeats a target that an attempt without documents had done.
    """
    await connection.execute(
        """
        UPDATE pipeline_run_items SET outcome = NULL, doc_action = NULL, document_id = NULL, finished_at = NULL,
            error = NULL, tier = NULL, http_status = NULL, bytes = NULL, duration_ms = NULL
        WHERE run_id = $1 AND claim_seq > 0 AND outcome IS NOT NULL AND (NOT $2 OR doc_action IS NULL)
        """,
        run_id,
        keep_done,
    )
    return await unfinished(connection, run_id)


async def unfinished(connection: Connection, run_id: int) -> list[Item]:
    """Targets without an outcome, in order."""
    rows = await connection.fetch(
        "SELECT * FROM pipeline_run_items WHERE run_id = $1 AND outcome IS NULL ORDER BY ordinal", run_id
    )
    return [item_of(row) for row in rows]


async def page_of(connection: Connection, run_id: int, *, limit: int, offset: int = 0) -> list[Item]:
    """A page of the targets, in order."""
    rows = await connection.fetch(
        "SELECT * FROM pipeline_run_items WHERE run_id = $1 ORDER BY ordinal LIMIT $2 OFFSET $3", run_id, limit, offset
    )
    return [item_of(row) for row in rows]


async def record(connection: Connection, run_id: int, claim_seq: int, ordinal: int, result: ItemResult) -> bool:
    """Tick one target off. False: it has an outcome already, for instance from this very write with a lost answer."""
    return await record_many(connection, run_id, claim_seq, [(ordinal, result)]) == 1


async def record_many(
    connection: Connection, run_id: int, claim_seq: int, results: Sequence[tuple[int, ItemResult]]
) -> int:
    """Tick several off at once; how many were open. A later claim's outcome is never overwritten by an earlier one's."""
    found = [result for _, result in results]
    rows = await connection.fetch(
        """
        UPDATE pipeline_run_items AS i SET claim_seq = $2, outcome = r.outcome, doc_action = r.doc_action,
            document_id = r.document_id, job_id = r.job_id, tier = r.tier, http_status = r.http_status, bytes = r.bytes,
            duration_ms = r.duration_ms, error = r.error, finished_at = now()
        FROM unnest($3::int[], $4::text[], $5::text[], $6::bigint[], $7::uuid[], $8::text[], $9::int[], $10::bigint[],
                    $11::int[], $12::text[])
            AS r(ordinal, outcome, doc_action, document_id, job_id, tier, http_status, bytes, duration_ms, error)
        WHERE i.run_id = $1 AND i.ordinal = r.ordinal AND i.outcome IS NULL AND i.claim_seq <= $2
        RETURNING i.ordinal
        """,
        run_id,
        claim_seq,
        [ordinal for ordinal, _ in results],
        [result.outcome.value for result in found],
        [None if result.doc_action is None else result.doc_action.value for result in found],
        [result.document_id for result in found],
        [result.job_id for result in found],
        [result.tier for result in found],
        [result.http_status for result in found],
        [result.size_bytes for result in found],
        [result.duration_ms for result in found],
        [None if result.error is None else shown(result.error, MAX_ERROR) for result in found],
    )
    return len(rows)


async def counts(connection: Connection, run_id: int) -> RunCounts:
    """What came of the targets so far, over all attempts of the run."""
    row = await connection.fetchrow(
        """
        SELECT count(*) AS targets,
            count(*) FILTER (WHERE outcome = 'success') AS success, count(*) FILTER (WHERE outcome = 'empty') AS empty,
            count(*) FILTER (WHERE outcome = 'failed') AS failed, count(*) FILTER (WHERE outcome = 'skipped') AS skipped,
            count(*) FILTER (WHERE doc_action = 'created') AS created,
            count(*) FILTER (WHERE doc_action = 'updated') AS updated,
            count(*) FILTER (WHERE doc_action = 'unchanged') AS unchanged,
            count(*) FILTER (WHERE doc_action = 'duplicate') AS duplicate
        FROM pipeline_run_items WHERE run_id = $1
        """,
        run_id,
    )
    assert row is not None
    return RunCounts(**row)
