"""The mechanical half of the closing pass (``enrich.md`` 6.7): bind what the windows could not see of each other.

An input without a source whose name is the output of exactly one other entry is bound to it by a textual splice, so
that comments and layout stay. Whatever is not that clear is a lead for the agent. Nothing is kept that does not help.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

from attrs import frozen
from yaml.nodes import Node, ScalarNode, SequenceNode

from protocols.gates.findings import Finding
from protocols.gates.reading import LawReading, Surroundings, article_of
from protocols.gates.targets import listed
from protocols.lawtree import Entry, Field, Tree, entries_of, read_tree, text_of
from protocols.lawyaml import UnreadableLaw
from protocols.yamlsource import compose_nodes, decode, is_flow, line_end, pairs_of

CHECK: Final = "reconcile"
MOST_CONSIDERED: Final = 1000
"""Inputs that one pass binds or tells of: each may take a walk through the whole law. The rest is for the next one."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_PLAIN: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off"})
_EMPTY_SOURCE = re.compile(r"[ \t]*:[ \t]*(?:\{[ \t]*\}|null\b|Null\b|NULL\b|~)?")


@frozen
class Counts:
    """What a version of the law is worth: fewer is better."""

    schema_errors: int
    findings: int

    def no_worse_than(self, other: Counts) -> bool:
        return self.schema_errors <= other.schema_errors and self.findings <= other.findings


Measure = Callable[[bytes], Counts | None]
"""None: the bytes are no readable law."""


@frozen
class Bond:
    """An input (by its place) and what it is to be bound to."""

    entry: int
    position: int
    name: str
    parameters: tuple[str, ...]

    @property
    def flow(self) -> str:
        """The source as flow YAML; every name in it is plain."""
        given = ", ".join(f"{name}: ${name}" for name in self.parameters)
        return f"{{output: {self.name}, parameters: {{{given}}}}}" if given else f"{{output: {self.name}}}"


@frozen
class Reconciled:
    """``source`` is the law to go on with: rewritten, or the bytes that came in. ``bound`` says what was written."""

    source: bytes
    bound: tuple[str, ...] = ()


def reconcile(source: bytes, measure: Measure) -> Reconciled:
    """Bind every clear case at once; keep it only if the law reads, nothing got worse and something got better."""
    before = measure(source)
    if before is None:
        return Reconciled(source)
    tree = read_tree(source)
    bonds, _ = plan(LawReading(tree, Surroundings()))
    rewritten = _spliced(source, tree, bonds) if bonds else None
    after = measure(rewritten) if rewritten is not None else None
    if rewritten is None or after is None or after == before or not after.no_worse_than(before):
        return Reconciled(source)
    return Reconciled(rewritten, tuple(bond.name for bond in bonds))


def keeps(before: bytes, after: bytes, measure: Measure) -> bool:
    """Whether an agent's edit in a closing pass stays: it reads, and neither count rose. Equal is allowed here."""
    old, new = measure(before), measure(after)
    return new is not None and (old is None or new.no_worse_than(old))


def leads(reading: LawReading) -> Iterator[Finding]:
    """What the mechanical half refuses, for the agent."""
    yield from plan(reading)[1]
    for entry in reading.modelled:
        for name in sorted(entry.open_term_ids):
            others = [other for other in reading.producers.get(name, []) if other is not entry]
            if others:
                yield Finding(
                    CHECK,
                    f"open term {name} is now given as an output by {_numbers(others)}: bind an input to it instead, unless "
                    "the text leaves it to someone else all the same",
                    article_of(entry),
                )


def plan(reading: LawReading) -> tuple[list[Bond], list[Finding]]:
    """The clear cases, and a lead for each that is not."""
    bonds: list[Bond] = []
    unclear: list[Finding] = []
    needs = {entry.index: _bound_to(reading, entry) for entry in reading.modelled}
    for entry in reading.modelled:
        computed = entry.computed
        for position, bound in enumerate(entry.fields("input")):
            if len(bonds) + len(unclear) >= MOST_CONSIDERED:
                return bonds, unclear
            if not _is_unbound(bound) or bound.name in computed:
                continue
            givers = [other for other in reading.producers.get(bound.name, []) if other is not entry]
            if not givers:
                continue
            problem = _refusal(entry, bound, givers, needs)
            if problem:
                unclear.append(Finding(CHECK, problem, article_of(entry)))
                continue
            needs[entry.index].add(givers[0].index)
            names = tuple(field.name for field in givers[0].fields("parameters"))
            bonds.append(Bond(entry.index, position, bound.name, names))
    return bonds, unclear


def _is_unbound(bound: Field) -> bool:
    """Missing, null or an empty mapping. A source with any content, whatever its shape, is left alone."""
    return bound.raw.get("source") is None or bound.raw.get("source") == {}


def _refusal(entry: Entry, bound: Field, givers: list[Entry], needs: dict[int, set[int]]) -> str:
    if len(givers) > 1:
        return f"input {bound.name} is an output of several entries ({_numbers(givers)}): bind it to the one the text means"
    available = {field.name for key in ("parameters", "input") for field in entry.fields(key)}
    wanted = [field.name for field in givers[0].fields("parameters")]
    missing = [name for name in wanted if name not in available]
    if missing:
        return (
            f"input {bound.name} is an output of {_numbers(givers)}, which needs {listed(missing)}, and this entry has no "
            "such parameter or input: add it, then bind the input"
        )
    if _reaches(givers[0].index, entry.index, needs):
        return (
            f"input {bound.name} is an output of {_numbers(givers)}, which itself depends on this entry: untangle them"
        )
    if not all(_PLAIN_NAME.fullmatch(name) and name.lower() not in _NOT_PLAIN for name in [bound.name, *wanted]):
        return f"input {bound.name} is an output of {_numbers(givers)}: bind it, quoting names that YAML would misread"
    return ""


def _bound_to(reading: LawReading, entry: Entry) -> set[int]:
    """The entries of this law that an entry reads from already."""
    outputs = [
        text_of(bound.source.get("output"))
        for bound in entry.fields("input")
        if text_of(bound.source.get("regulation")) in ("", reading.law_id)
    ]
    return {giver.index for output in outputs if output for giver in reading.producers.get(output, [])}


def _reaches(start: int, goal: int, needs: dict[int, set[int]]) -> bool:
    seen, pending = {start}, [start]
    while pending:
        here = pending.pop()
        if here == goal:
            return True
        fresh = needs.get(here, set()) - seen
        seen |= fresh
        pending.extend(fresh)
    return False


def _numbers(entries: list[Entry]) -> str:
    return "art. " + listed([article_of(entry) for entry in entries])


def _spliced(source: bytes, tree: Tree, bonds: list[Bond]) -> bytes | None:
    """The law with the sources written in, or None unless it then reads as exactly the tree that was meant."""
    try:
        text = decode(source)
        root = compose_nodes(text)
        for start, end, written in sorted((_edit(text, root, bond) for bond in bonds), reverse=True):
            text = text[:start] + written + text[end:]
        mark = BOM_UTF8 if source.startswith(BOM_UTF8) else b""
        rewritten = mark + text.encode("utf-8")
        return rewritten if read_tree(rewritten) == _intended(tree, bonds) else None
    except (UnreadableLaw, LookupError):
        return None


def _intended(tree: Tree, bonds: list[Bond]) -> Tree:
    meant = deepcopy(tree)
    for bond in bonds:
        source: dict[str, Any] = {"output": bond.name}
        if bond.parameters:
            source["parameters"] = {name: f"${name}" for name in bond.parameters}
        entry = next(entry for entry in entries_of(meant) if entry.index == bond.entry)
        entry.fields("input")[bond.position].raw["source"] = source
    return meant


def _edit(text: str, root: Node | None, bond: Bond) -> tuple[int, int, str]:
    """Where to write what: over an empty source, else right after the name. LookupError: not written as expected."""
    node = _input_node(root, bond)
    pairs = {pair.name: pair for pair in pairs_of(node)}
    if "source" in pairs:
        end = int(pairs["source"].key.end_mark.index)
        empty = _EMPTY_SOURCE.match(text, end)
        if empty is None:
            raise LookupError("source")
        return end, empty.end(), f": {bond.flow}"
    after = int(pairs["name"].value.end_mark.index)
    if is_flow(node):
        return after, after, f", source: {bond.flow}"
    end = line_end(text, after)
    newline = "\r\n" if text.startswith("\r", end) else "\n"
    return end, end, f"{newline}{' ' * pairs['name'].column}source: {bond.flow}"


def _input_node(root: Node | None, bond: Bond) -> Node:
    entry = _items(_child(root, "articles"))[bond.entry]
    inputs = _items(_child(entry, "machine_readable", "execution", "input"))
    return [node for node in inputs if _has_name(node)][bond.position]


def _child(node: Node | None, *keys: str) -> Node | None:
    for key in keys:
        node = next((pair.value for pair in pairs_of(node) if pair.name == key), None) if node is not None else None
    return node


def _items(node: Node | None) -> list[Node]:
    return list(node.value) if isinstance(node, SequenceNode) else []


def _has_name(node: Node) -> bool:
    """As :meth:`protocols.lawtree.Entry.fields` counts: positions must agree."""
    return any(
        pair.name == "name" and isinstance(pair.value, ScalarNode) and pair.value.value for pair in pairs_of(node)
    )
