"""Operations on runs: begin, look, read the result, end (``pipelines.md`` 9)."""

from __future__ import annotations

import re
from typing import Final, Self

import structlog
from attrs import define
from starlette.responses import StreamingResponse

from actors.http.answers import ChildrenAnswer, ItemAnswer, ItemPage, RunAnswer, RunDetailAnswer, RunPage, told
from actors.http.faults import FieldFault, Problem, invalid
from actors.http.operations import READ, UPDATE, Call, Desk, Operation
from actors.http.requests import Page, RunQuery
from actors.ports.blobs import BlobStream
from schema.pipelines import api

_log = structlog.get_logger(__name__)

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
PIECE_BYTES: Final = 64 * 1024
"""How much of a result is sent at once: what a client must take within the limit of a send."""

_KEY: Final = re.compile(r"[!-~]{1,255}")


async def _run(desk: Desk, call: Call) -> RunAnswer:
    key = call.headers.get(IDEMPOTENCY_KEY)
    if key is not None and not _KEY.fullmatch(key):
        raise invalid([FieldFault(f"header.{IDEMPOTENCY_KEY}", "1 to 255 visible ASCII characters without blanks")])
    run = await desk.database.transact(
        api.ask_for_run, call.principal, call.ids["pipeline_id"], if_idle=call.query.if_idle, key=key
    )
    return told(RunAnswer, run)


async def _list(desk: Desk, call: Call) -> RunPage:
    found, total = await desk.database.run(
        api.runs_page, call.workspace, call.ids["pipeline_id"], limit=call.query.limit, offset=call.query.offset
    )
    return RunPage([told(RunAnswer, run) for run in found], total)


async def _get(desk: Desk, call: Call) -> RunDetailAnswer:
    found = await desk.database.run(api.run_detail, call.workspace, call.ids["pipeline_id"], call.ids["run_id"])
    children = told(ChildrenAnswer, found.children)
    return told(RunDetailAnswer, found.run, progress=found.progress, children=children)


async def _items(desk: Desk, call: Call) -> ItemPage:
    found, total = await desk.database.run(
        api.items_page,
        call.workspace,
        call.ids["pipeline_id"],
        call.ids["run_id"],
        limit=call.query.limit,
        offset=call.query.offset,
    )
    return ItemPage([told(ItemAnswer, item) for item in found], total)


async def _cancel(desk: Desk, call: Call) -> RunAnswer:
    run = await desk.database.transact(api.cancel_run, call.workspace, call.ids["pipeline_id"], call.ids["run_id"])
    return told(RunAnswer, run)


async def _result(desk: Desk, call: Call) -> StreamingResponse:
    """The blob is asked for before a status is sent: one that is missing must not be found out under a 200."""
    stored = await desk.database.run(api.stored_result, call.workspace, call.ids["pipeline_id"], call.ids["run_id"])
    if stored.key is None:
        raise _no_result()
    if stored.backend not in (None, desk.blobs.backend_name):
        _log.warning("a result lies in a store that is not the configured one", run=stored.run_id, store=stored.backend)
        raise _no_result()
    stream = await desk.blobs.open_stream(stored.key)
    headers = {
        "Content-Length": str(stream.size_bytes),
        "Content-Disposition": f'attachment; filename="run-{stored.run_id}.json"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return StreamingResponse(_Pieces(stream), media_type="application/json", headers=headers)


@define
class _Pieces:
    """The chunks of a blob in pieces of at most ``PIECE_BYTES``, so that a slow client holds little of it."""

    stream: BlobStream
    _chunk: bytes = b""
    _at: int = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while self._at >= len(self._chunk):
            self._chunk, self._at = await anext(aiter(self.stream)), 0
        piece = self._chunk[self._at : self._at + PIECE_BYTES]
        self._at += PIECE_BYTES
        return piece


def _no_result() -> Problem:
    return Problem(404, "no_result", "this run has no result, or not any more")


# fmt: off
OPERATIONS = (
    Operation("POST", "/pipelines/{pipeline_id}/run", "Run a pipeline now.", UPDATE, _run,
              query=RunQuery, answer=RunAnswer, status=202, also=(409,),
              request_headers={IDEMPOTENCY_KEY: "Sent again within a day, the same run is answered and none is made."}),
    Operation("GET", "/pipelines/{pipeline_id}/runs", "List the runs of a pipeline, the newest first.", READ, _list,
              query=Page, answer=RunPage),
    Operation("GET", "/pipelines/{pipeline_id}/runs/{run_id}", "Show a run with its progress.", READ, _get,
              answer=RunDetailAnswer),
    Operation("GET", "/pipelines/{pipeline_id}/runs/{run_id}/items", "List what came of each target.", READ, _items,
              query=Page, answer=ItemPage),
    Operation("GET", "/pipelines/{pipeline_id}/runs/{run_id}/result", "Read the result of a run that does not save.", READ,
              _result),
    Operation("POST", "/pipelines/{pipeline_id}/runs/{run_id}/cancel", "End a run; it costs nothing then.", UPDATE, _cancel,
              answer=RunAnswer, status=202, also=(409,)),
)
# fmt: on
