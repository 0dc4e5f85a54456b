"""Which checks each gate runs, and how one evaluation of a gate goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from attrs import frozen

from protocols.gates import (
    bindings,
    citations,
    constants,
    coverage,
    crosslaw,
    gapchecks,
    placement,
    reconcile,
)
from protocols.gates.findings import Finding, Reading, reading_of
from protocols.gates.reading import LawReading, Surroundings
from protocols.gates.reconcile import Counts
from protocols.gates.schema_gate import schema_findings, tree_findings
from protocols.gates.yamlfault import yaml_fault
from protocols.lawtree import read_tree
from protocols.lawyaml import UnreadableLaw

Check = Callable[[LawReading], Iterable[Finding]]

PARSES: Final = "parses"


@frozen
class Gate:
    """``hard``: findings that survive its rounds fail the run. ``closing``: once per law, over the whole law, no window.

    A gate without checks is a schema gate.
    """

    name: str
    checks: tuple[Check, ...] = ()
    hard: bool = False
    closing: bool = False


SCHEMA_GATE: Final = Gate("schema", hard=True)
CHECKS_GATE: Final = Gate(
    "checks",
    (
        constants.definition_types,
        coverage.coverage,
        constants.enumerated,
        bindings.bindings,
        crosslaw.overrides,
        crosslaw.units,
        crosslaw.promises,
        crosslaw.declarations,
        gapchecks.targets,
        gapchecks.open_terms,
        coverage.flags_only,
        coverage.unproduced,
        gapchecks.reach,
        placement.placements,
    ),
)
MARKING_GATE: Final = Gate(
    "marking",
    (coverage.accounted, crosslaw.references, gapchecks.gaps, citations.citations, constants.workarounds),
)
RECONCILE_GATE: Final = Gate("reconcile", (reconcile.leads,), closing=True)
BINDING_GATE: Final = Gate("binding", (bindings.bindings,), closing=True)
SCHEMA_FINAL_GATE: Final = Gate("schema-final", hard=True, closing=True)

WINDOW_GATES: Final = (SCHEMA_GATE, CHECKS_GATE, MARKING_GATE)
CLOSING_GATES: Final = (RECONCILE_GATE, BINDING_GATE, SCHEMA_FINAL_GATE)
GATES: Final = (*WINDOW_GATES, *CLOSING_GATES)
"""In the order in which they run."""


def evaluate(gate: Gate, source: bytes, around: Surroundings, window: Collection[str] | None = None) -> Reading:
    """One reading of ``gate`` over the bytes of a law. ``window`` holds the entry numbers of this run.

    A file that cannot be read gives exactly one finding, never an empty list. Closing and schema gates ignore the window.
    """
    if not gate.checks:
        return reading_of(schema_findings(source, around.schemas))
    try:
        tree = read_tree(source)
    except UnreadableLaw as fault:
        return reading_of([yaml_fault(PARSES, source, fault)])
    reading = LawReading(tree, around)
    found = (finding for check in gate.checks for finding in check(reading))
    return reading_of(found, None if gate.closing else window)


def measure(source: bytes, around: Surroundings) -> Counts | None:
    """What the closing pass compares: schema errors, and findings of all soft gates over the whole law."""
    try:
        tree = read_tree(source)
    except UnreadableLaw:
        return None
    reading = LawReading(tree, around)
    checks = [*CHECKS_GATE.checks, *MARKING_GATE.checks, *RECONCILE_GATE.checks]
    findings = reading_of(finding for check in checks for finding in check(reading))
    return Counts(len(tree_findings(tree, around.schemas)), len(findings.answerable))
