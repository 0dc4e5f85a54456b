"""Gates over the law of a window, and over the whole law at its end, each with its feedback rounds (D42, ``enrich.md`` 6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import ClassVar

import structlog
import trio
from attrs import evolve

from actors.jobs.enrich.desk import Desk
from protocols.failures import Permanent, ProviderTrouble, ResourceExhausted, Transient
from protocols.gates import rounds as gate_rounds
from protocols.gates.findings import bullets
from protocols.gates.reading import Surroundings
from protocols.gates.reconcile import keeps, reconcile
from protocols.gates.rounds import GateState, Look, digest_of
from protocols.gates.schema_gate import section_of, tree_findings
from protocols.gates.table import (
    BINDING_GATE,
    RECONCILE_GATE,
    SCHEMA_FINAL_GATE,
    SCHEMA_GATE,
    WINDOW_GATES,
    Gate,
    evaluate,
    measure,
)
from protocols.lawstats import count_gaps
from protocols.lawtree import read_tree
from protocols.lawyaml import UnreadableLaw
from protocols.prompts import Feedback, feedback_prompt

MOST_FAULTS_TOLD = 3

_log = structlog.get_logger(__name__)


class SchemaErrorsLeft(Transient):
    """The agent did not get the law through the schema gate. Nothing of this run is published."""

    kind: ClassVar[str] = "schema_errors"


class LawUnfit(Permanent):
    """The law breaks its schema outside of what agents write. A harvest mends that, a call cannot (D41, EN-01)."""

    kind: ClassVar[str] = "law_unfit"


async def refuse_unfit(desk: Desk) -> None:
    """LawUnfit, before anybody is called and anything spent.

    A section outside the window that breaks the schema already is none of this window's business: it would fail every
    run for ever. It is told, and put to the agent of the window that it stands in, or of the closing pass (D41).
    """
    found = await trio.to_thread.run_sync(lambda: tree_findings(read_tree(desk.draft.start), desk.schemas))
    faults = [finding for finding in found if section_of(finding) is None]
    desk.standing = frozenset(finding for finding in found if section_of(finding) not in (None, *desk.window.positions))
    if faults:
        told = "; ".join(finding.detail for finding in faults[:MOST_FAULTS_TOLD])
        raise LawUnfit(
            f"{desk.path} breaks the law schema in {len(faults)} places that no agent may change ({told}): "
            f"harvest {desk.payload.law_id} again, or give its schema with LAW_SCHEMA_DIR",
            findings=len(faults),
        )


async def window_gates(desk: Desk) -> None:
    """The gates of the window, when this run changed the law. SchemaErrorsLeft."""
    for gate in WINDOW_GATES:
        if desk.draft.changed:
            await run_gate(desk, gate, numbers=desk.numbers(), assigned=desk.window.positions)


async def closing_pass(desk: Desk) -> None:
    """Once per law, after its last window, over all entries: connect, check the bindings, and the schema again."""
    before = desk.draft.law
    everything = range(len(desk.draft.opening.entries))
    around = await _around(desk)
    bound = await trio.to_thread.run_sync(reconcile, desk.draft.law, partial(measure, around=around))
    if bound.bound:
        _log.info("inputs bound to outputs of other windows", bound=list(bound.bound))
        await desk.draft.replace(bound.source)
    for gate in (RECONCILE_GATE, BINDING_GATE):
        await run_gate(desk, gate, numbers=None, assigned=everything)
    if desk.draft.law != before or desk.draft.changed or desk.standing:
        await run_gate(desk, SCHEMA_FINAL_GATE, numbers=None, assigned=everything)


async def run_gate(desk: Desk, gate: Gate, *, numbers: Sequence[str] | None, assigned: Collection[int]) -> GateState:
    """Evaluate ``gate`` and send its findings back as often as its budget allows. ``numbers`` None: no window.

    A call that fails costs its own changes and nothing else; only findings that a hard gate keeps raise. A provider in
    trouble is not asked again in this run, and what a hard gate keeps for that is the provider's failure (D52).
    """
    state = gate_rounds.begin(gate, desk.settings.rounds.of(gate.name), await look(desk, gate, numbers))
    while state.wants_round:
        if desk.trouble is not None:
            state = state.failed(desk.trouble.message)
            break
        if not desk.calls.may_feed_back:
            state = state.out_of_time()
            break
        state = await _round(desk, state, numbers, assigned)
    desk.feedback.append(state.to_json())
    if state.fails_run and desk.trouble is not None:
        raise desk.trouble
    if state.fails_run:
        text = state.failure_text() + await _way_out(desk, state)
        raise SchemaErrorsLeft(text, gate=gate.name, findings=len(state.open))
    return state


async def _way_out(desk: Desk, state: GateState) -> str:
    """What a person can do about errors that the run did not make, if that is what is left."""
    old = await trio.to_thread.run_sync(lambda: frozenset(tree_findings(read_tree(desk.draft.start), desk.schemas)))
    left = sum(finding in old for finding in state.open)
    if not left:
        return ""
    told = f"\n{left} of them were in the law before this run: take these sections out of the file"
    if desk.payload.is_task_flow:
        return f"{told} and ask again"
    return f"{told}, or let `enrich {desk.payload.law_id} --provider {desk.provider} --restart` begin anew without them"


async def _round(desk: Desk, state: GateState, numbers: Sequence[str] | None, assigned: Collection[int]) -> GateState:
    gate, before = state.gate, desk.draft.snapshot

    def prompt(resumed: bool) -> str:
        task = Feedback(
            gate.name, desk.paths(desk.folder), bullets(state.open), _named(state, numbers), resumed, desk.gap_key
        )
        return feedback_prompt(task)

    failure = await desk.calls.feed_back(gate.name, prompt, desk.attach)
    if isinstance(failure, ResourceExhausted):
        raise failure
    if isinstance(failure, ProviderTrouble):
        desk.trouble = failure
    if failure is not None:
        _log.warning("feedback round failed", gate=gate.name, error=failure.message)
        await desk.draft.restore(before)
        return state.failed(failure.message)
    await desk.draft.take(assigned)
    if gate.closing and not gate.hard:
        around = await _around(desk)
        better = await trio.to_thread.run_sync(
            keeps, before.on_disk, desk.draft.on_disk, partial(measure, around=around)
        )
        if not better:
            _log.info("closing edit taken back: it made the law worse", gate=gate.name)
            await desk.draft.restore(before)
            return state.restored()
    return state.answered(await look(desk, gate, numbers))


async def look(desk: Desk, gate: Gate, numbers: Sequence[str] | None) -> Look:
    """One evaluation of the file as it is in the checkout."""
    around = await _around(desk)
    seen = await trio.to_thread.run_sync(_look, gate, desk.draft.on_disk, around, numbers)
    return evolve(seen, reading=seen.reading.without(desk.standing)) if gate is SCHEMA_GATE else seen


def _look(gate: Gate, source: bytes, around: Surroundings, numbers: Sequence[str] | None) -> Look:
    try:
        gaps: int | None = count_gaps(read_tree(source), numbers)
    except UnreadableLaw:
        gaps = None
    return Look(evaluate(gate, source, around, numbers), gaps, digest_of(source))


async def _around(desk: Desk) -> Surroundings:
    """What the gates may see, with the laws that the present models name."""
    if desk.library is not None:
        try:
            tree = await trio.to_thread.run_sync(read_tree, desk.draft.on_disk)
        except UnreadableLaw:
            pass
        else:
            await desk.library.fetch(tree)
    return await desk.surroundings()


def _named(state: GateState, numbers: Sequence[str] | None) -> Sequence[str] | None:
    """Which entries the agent may edit: those of the window, or in a closing round those that the findings name."""
    if numbers is not None:
        return numbers
    named = dict.fromkeys(finding.article for finding in state.open if finding.article is not None)
    return tuple(named) or None
