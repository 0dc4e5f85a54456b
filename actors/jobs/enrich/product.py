"""From a worked-out window to its files and its result: coverage, gaps, related laws, the cursor (``enrich.md`` 9)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath

import structlog
import trio

from actors.jobs.enrich.desk import Desk
from actors.jobs.enrich.flows import Loaded, Product
from actors.jobs.enrich.lane import Lane
from actors.ports.foldercorpus import FolderCorpus
from actors.relatedlaws import resolve_related, tally
from protocols.bwb.search import BwbHit
from protocols.corpus import corpus_path
from protocols.enrichmentfile import EnrichmentFile, dump_enrichment
from protocols.enrichresult import EnrichResult, result_document
from protocols.envelope import Envelope, Gain, no_op, read_envelope
from protocols.failures import InvalidInput, JsonObject
from protocols.lawstats import LawCount, count, count_gaps, markings_of, untranslatables_of
from protocols.lawtree import Tree, entries_of, read_tree
from protocols.prompts import PROMPT_VERSION
from protocols.related import is_deep_enough
from protocols.skillset import prompt_hash
from schema.connection import Connection
from schema.related import RelatedWish, law_of_slug
from schema.rows import Job

SEARCH_LIMIT_S = 60.0
"""For all names together: a slow search service costs a run no more than this."""
MOST_SCENARIOS = 50

SearchName = Callable[[str], Awaitable[Sequence[BwbHit]]]

_log = structlog.get_logger(__name__)


async def product_of(desk: Desk, loaded: Loaded, lane: Lane, *, search_name: SearchName | None) -> Product:
    """NoOutput or ContentFailure when the run has nothing to show."""
    before, after = await trio.to_thread.run_sync(_trees, desk)
    reported = await trio.to_thread.run_sync(read_envelope, await desk.read(desk.envelope_path))
    counts = count(before), count(after)
    if not desk.window.empty:
        view = desk.calls.view
        gain = _gain(desk, before, after)
        failure = no_op(gain, reported, cut_off_steps=view.cut_off_steps, denied_tools=view.denied_tools)
        if failure is not None:
            raise failure
    result = _result(desk, lane, counts, after, reported, loaded)
    enrichment = EnrichmentFile(
        law_id=desk.payload.law_id,
        timestamp=dt.datetime.now(dt.UTC),
        provider=desk.provider,
        model=", ".join(result.models) or lane.model or "",
        prompt_hash=prompt_hash(desk.skills, PROMPT_VERSION),
        code_commit=desk.settings.code_commit,
        coverage_score=result.coverage_score,
        articles_total=result.articles_total,
        articles_with_machine_readable=result.articles_with_machine_readable,
        source_hash=loaded.source_hash,
        enrich_cursor=result.enrich_cursor,
        enrich_cursor_path=desk.path,
    )
    return Product(
        files=await _files(desk, dump_enrichment(enrichment)),
        result=result_document(result),
        coverage=counts[1].coverage,
        first=desk.first,
        window=f"{desk.window.start}-{desk.window.end}",
        related=await _related(desk, reported, search_name),
    )


def _trees(desk: Desk) -> tuple[Tree, Tree]:
    return read_tree(desk.draft.start), read_tree(desk.draft.law)


def _gain(desk: Desk, before: Tree, after: Tree) -> Gain:
    old, new = entries_of(before), entries_of(after)
    window = desk.window.positions
    gained = [position for position, entry in enumerate(new) if entry.model is not None and old[position].model is None]
    numbers = set(desk.numbers())
    return Gain(
        windowed=desk.window.windowed,
        missing_before=sum(entry.model is None for entry in old),
        gained_in_law=len(gained),
        gained_in_window=sum(position in window for position in gained),
        gaps_before=count_gaps(before, numbers),
        gaps_after=count_gaps(after, numbers),
        window_numbers=numbers,
    )


def _result(
    desk: Desk, lane: Lane, counts: tuple[LawCount, LawCount], after: Tree, reported: Envelope, loaded: Loaded
) -> EnrichResult:
    old, new = counts
    restarted: JsonObject | None = None
    if loaded.restarted is not None:
        restarted = {"kept": list(loaded.restarted.kept), "dropped": list(loaded.restarted.dropped)}
    return EnrichResult(
        law_id=desk.payload.law_id,
        yaml_path=desk.path,
        articles_total=new.total,
        articles_with_machine_readable=new.with_section,
        coverage_score=new.gained_since(old),
        provider=desk.provider,
        branch=lane.branch,
        law_complete=desk.window.law_complete,
        enrich_cursor=desk.window.next_position,
        related_legislation=reported.related,
        untranslatables=tuple(untranslatables_of(after)),
        markings=tuple(markings_of(after)),
        feedback=tuple(desk.feedback),
        agent_calls=tuple(desk.calls.records),
        session_reuse=desk.calls.reuse.value,
        models=tuple(desk.calls.view.models),
        discarded_edits=desk.draft.discarded_edits,
        restarted=restarted,
    )


async def _files(desk: Desk, enrichment: bytes) -> dict[str, bytes]:
    """What goes out: the law, the cursor, the report, and scenarios named for the law."""
    files = {desk.path: desk.draft.law, desk.enrichment_path: enrichment}
    reported = await desk.read(desk.envelope_path)
    if reported is not None:
        files[desk.envelope_path] = reported
    checkout = FolderCorpus(desk.folder.checkout)
    features = [
        path
        for path in await checkout.list_paths("features")
        if path.count("/") == 1 and desk.directory.name in PurePosixPath(path).stem
    ]
    scenarios = await checkout.list_paths(str(desk.directory / "scenarios"))
    for path in [path for path in (*features, *scenarios) if path.endswith(".feature")][:MOST_SCENARIOS]:
        content = await desk.read(path) if _is_fit(path) else None
        if content is not None:
            files[path] = content
    return files


def _is_fit(path: str) -> bool:
    """File names are an agent's."""
    try:
        corpus_path(path)
    except InvalidInput:
        return False
    return True


async def _related(desk: Desk, reported: Envelope, search_name: SearchName | None) -> RelatedWish | None:
    """What the named laws stand for; nothing of it can fail the run."""
    limits, depth = desk.settings.related, desk.payload.depth or 0
    if desk.payload.is_task_flow or not reported.related or not is_deep_enough(depth, limits):
        return None

    async def look_up(slug: str) -> str | None:
        found: list[str | None] = []

        async def unit(connection: Connection, job: Job) -> None:
            found.append(await law_of_slug(connection, slug))

        await desk.work.write(unit)
        return found[-1]

    async def nobody(name: str) -> Sequence[BwbHit]:
        return ()

    with trio.move_on_after(SEARCH_LIMIT_S):
        resolutions = await resolve_related(reported.related, look_up_slug=look_up, search_name=search_name or nobody)
        return RelatedWish(resolutions, depth, limits, tally(resolutions))
    _log.warning("related laws not resolved in time", named=len(reported.related))
    return None
