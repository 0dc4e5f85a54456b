"""The translate pass: one agent, or one a slice, and what is kept when it breaks off (D40, D41, D43)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import structlog
import trio

from actors.jobs.enrich.desk import Desk, read_left
from actors.jobs.enrich.draft import lay_out
from actors.ports.agentfolders import SliceFolder, copy_checkout
from protocols import envelope
from protocols.compose import LawSource, compose
from protocols.failures import AgentTimedOut, NoOutput, SupervisorError
from protocols.gates.schema_gate import faulty_sections
from protocols.lawschema import LawSchemas
from protocols.lawyaml import UnreadableLaw
from protocols.prompts import ATTACH_LIMIT_BYTES, Translation, translate_prompt
from protocols.skillset import plan_steps
from protocols.windows import slices
from schema.enrichblobs import PartialWork, save_partial

KEEP_LIMIT_S = 20.0
"""For putting partial work away while the job is being ended."""

_log = structlog.get_logger(__name__)


async def translate(desk: Desk) -> None:
    """Let agents write the models of the window, and compose the law from what they leave.

    Raises the failure of a call, with what is finished put away for the next attempt; so does a cancellation.
    """
    if Counter(desk.numbers()) <= Counter(desk.done):
        _log.info("the window was translated by an earlier attempt", entries=len(desk.done))
        return
    if not desk.calls.may_translate:
        raise AgentTimedOut(f"{desk.calls.left_s:.0f} s are left of this job: too little for a translation")
    assignments = await assignments_of(desk)
    folders = await folders_of(desk, len(assignments))
    prompts = [prompt_of(desk, folder, part) for folder, part in zip(folders, assignments, strict=True)]
    ended = False
    try:
        desk.slices = () if len(folders) == 1 else tuple(folders)
        failure = await desk.calls.translate(folders, prompts, desk.attach)
        ended = True
    finally:
        desk.slices = ()
        if not ended:  # a drain, a person, the job's own limit: what is finished is not lost
            with trio.move_on_after(KEEP_LIMIT_S, shield=True):
                await _take_all(desk, folders, assignments)
                await keep_partial(desk)
    unread = await _take_all(desk, folders, assignments)
    if failure is None and unread and len(folders) > 1:
        failure = NoOutput(f"{len(unread)} of {len(folders)} slices left a law file that cannot be read")
    if failure is not None:
        await keep_partial(desk)
        raise failure


async def assignments_of(desk: Desk) -> list[tuple[int, ...]]:
    """The positions that each agent gets."""
    source = desk.draft.opening
    window = desk.window.positions
    entries = [(source.numbers[position], str(source.entries[position].tree.get("text", ""))) for position in window]
    cut = await trio.to_thread.run_sync(slices, entries, desk.settings.window_concurrency)
    return [tuple(window[index] for index in part) for part in cut]


async def folders_of(desk: Desk, count: int) -> list[SliceFolder]:
    """The job's own folder for one agent, else a private copy of it for each."""
    if count == 1:
        return [desk.folder]
    folders: list[SliceFolder] = [desk.folder.slice(number) for number in range(count)]
    for folder in folders:
        await trio.to_thread.run_sync(copy_checkout, desk.folder.checkout, folder.checkout)
    return folders


def prompt_of(desk: Desk, folder: SliceFolder, positions: Sequence[int]) -> str:
    """What the agent in ``folder`` is told to do with the entries at these positions."""
    source = desk.draft.opening
    numbers = [source.numbers[position] for position in positions]
    large = len(desk.draft.law) >= ATTACH_LIMIT_BYTES
    whole = not desk.window.windowed and len(positions) == desk.window.total
    return translate_prompt(
        Translation(
            law_id=desk.payload.law_id,
            paths=desk.paths(folder),
            steps=plan_steps(desk.skills, desk.calls.lane.dialect.granted_tools, first_window=desk.first),
            numbers=None if whole else numbers,
            done=[number for number in numbers if number in desk.done],
            lines={source.numbers[position]: source.lines_of(position) for position in positions} if large else None,
            continuation=desk.window.start > 0,
            gap_key=desk.gap_key,
        )
    )


async def _take_all(desk: Desk, folders: Sequence[SliceFolder], assignments: Sequence[Sequence[int]]) -> list[int]:
    """Compose the law from all proposals; the slices whose proposal could not be read."""
    if len(folders) == 1:
        await desk.draft.take(assignments[0])
        return [] if desk.draft.readable else [0]
    unread, base = [], desk.draft.law
    for number, (folder, positions) in enumerate(zip(folders, assignments, strict=True)):
        if not await desk.draft.take_from(folder.checkout, positions, base=base):
            unread.append(number)
    left = [await read_left(folder, desk.envelope_path) for folder in folders]
    merged = await trio.to_thread.run_sync(envelope.merge_envelopes, await desk.read(desk.envelope_path), left)
    if merged is not None:
        await lay_out(desk.folder.checkout, {desk.envelope_path: merged})
    return unread


async def keep_partial(desk: Desk) -> None:
    """Put the finished models of the window away for the next attempt (D43). Trouble with that is logged, not raised."""
    work = await trio.to_thread.run_sync(
        finished_work, desk.draft.start, desk.draft.law, tuple(desk.window.positions), desk.schemas
    )
    if work is None:
        return
    with suppress(SupervisorError):
        await desk.work.write(partial(save_partial, work=work))
        _log.info("partial work kept", entries=len(work.numbers))


def finished_work(start: bytes, law: bytes, positions: Sequence[int], schemas: LawSchemas) -> PartialWork | None:
    """The models of ``law`` at these positions that are new since ``start`` and that the schema takes; None: there are none."""
    try:
        changed = compose(start, law, positions).changed
        faulty = faulty_sections(law, schemas)
    except UnreadableLaw:
        return None
    kept = sorted(changed - faulty)
    if not kept:
        return None
    composed = compose(start, law, kept).content
    numbers = LawSource.read(start).numbers
    return PartialWork(base_of(start), composed.decode(), tuple(numbers[position] for position in kept))


def base_of(law: bytes) -> str:
    """By what partial work knows the law it was made from."""
    return hashlib.sha256(law).hexdigest()
