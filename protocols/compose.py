"""What an agent wrote is a proposal; the law is composed here (D41).

Of a proposal only the ``machine_readable`` block of each assigned entry is taken, as source text. Everything else of
the base stays byte for byte: text, number, url, header, order, other entries, and ``accepted``, which is a person's to
set. What an agent changed beyond that is not an error; it is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from attrs import frozen
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from protocols.lawtree import MOST_NESTING, walk
from protocols.lawyaml.read import UnreadableLaw, load_law
from protocols.yamlsource import (
    Pair,
    block_text,
    compose_nodes,
    content_end,
    decode,
    emit_block,
    emit_flow,
    is_flow,
    line_end,
    pairs_of,
    same,
    spliced,
)

MODEL: Final = "machine_readable"
ARTICLES: Final = "articles"
ACCEPTED: Final = "accepted"
_GAP_LISTS: Final = {"untranslatables": "construct", "markings": "about"}

MOST_NEW_VALUES: Final = 200_000
"""What one proposal may change. Writing a block anew takes 0.1 ms a value, and nothing can break it off."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ABSENT: Final = object()


class NotComposable(UnreadableLaw):
    """The base has a layout into which no block can be put."""

    kind: ClassVar[str] = "not_composable"


@frozen
class Entry:
    """One element of ``articles``: its number as written (``1.10`` is no 1.1) and which of several such it is."""

    number: str | None
    occurrence: int
    tree: Mapping[str, Any]
    pairs: tuple[Pair, ...]
    flow: bool

    @property
    def key(self) -> tuple[str | None, int]:
        return self.number, self.occurrence

    @property
    def model(self) -> Any:
        """The value of ``machine_readable``; absent and null are the same."""
        value = self.tree.get(MODEL)
        return _ABSENT if value is None else value

    @property
    def model_pair(self) -> Pair | None:
        return next((pair for pair in self.pairs if pair.name == MODEL), None)


@frozen
class LawSource:
    """A law file with the places of its entries."""

    text: str
    tree: Mapping[str, Any]
    entries: tuple[Entry, ...]

    @classmethod
    def read(cls, content: bytes) -> LawSource:
        """UnreadableLaw when the file is no YAML mapping, or nested deeper than checks read it (writing a block anew
        recurses). A law without a list of articles has no entries."""
        text = decode(content)
        tree = load_law(text, max_nesting=MOST_NESTING + 1)
        pairs = {pair.name: pair.value for pair in pairs_of(compose_nodes(text) or MappingNode("", []))}
        articles = pairs.get(ARTICLES)
        nodes = articles.value if isinstance(articles, SequenceNode) else []
        values = tree[ARTICLES] if nodes else []
        seen: Counter[str | None] = Counter()
        entries = []
        for node, value in zip(nodes, values, strict=True):
            found = tuple(pairs_of(node))
            number = next((_scalar(pair) for pair in found if pair.name == "number"), None)
            entries.append(Entry(number, seen[number], value if isinstance(value, dict) else {}, found, is_flow(node)))
            seen[number] += 1
        return cls(text, tree, tuple(entries))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Of all entries, in order; an entry without a usable number has ``?``."""
        return tuple(entry.number or "?" for entry in self.entries)

    def lines_of(self, position: int) -> tuple[int, int]:
        """First and last line of an entry, counted from 1, for who reads the file in pieces."""
        pairs = self.entries[position].pairs
        if not pairs:
            return 1, self.text.count("\n")
        last = self.text.count("\n", 0, content_end(self.text, pairs[-1]))
        return int(pairs[0].key.start_mark.line) + 1, last + 1


def _values_in(models: Iterable[Any]) -> int:
    return sum(1 for model in models if model is not _ABSENT for _ in walk(model))


def _scalar(pair: Pair) -> str | None:
    return str(pair.value.value) if isinstance(pair.value, ScalarNode) else None


@frozen
class Composition:
    """``content``: the law as the worker stands for it. ``changed``: positions whose model is another than the base's."""

    content: bytes
    changed: frozenset[int]
    discarded_edits: int


def compose(base: bytes, proposal: bytes, assigned: Collection[int]) -> Composition:
    """The base with the models that the proposal has for the ``assigned`` positions of it.

    An entry that the proposal lost keeps its model; one whose model it removed loses it. UnreadableLaw: the proposal is
    no YAML, or (NotComposable) the base has no place for it. The base must be readable.
    """
    ours, theirs = LawSource.read(base), LawSource.read(proposal)
    found = {entry.key: entry for entry in theirs.entries if entry.number is not None}
    wanted: dict[int, Any] = {}
    restored = 0
    for position in sorted(set(assigned)):
        entry = ours.entries[position]
        other = found.get(entry.key)
        if other is None:
            continue
        model, corrections = _with_prior_accepted(entry.model, other.model)
        restored += corrections
        if not same(model, entry.model):
            wanted[position] = model
    if _values_in(wanted.values()) > MOST_NEW_VALUES:
        raise UnreadableLaw(f"the changed models have more than {MOST_NEW_VALUES} values together: no law needs that")
    discarded = restored + _discarded(ours, theirs, found, assigned)
    if not wanted:
        return Composition(base, frozenset(), discarded)
    content = _spliced(ours, theirs, {position: found[ours.entries[position].key] for position in wanted}, wanted)
    mark = _BYTE_ORDER_MARK if base.startswith(_BYTE_ORDER_MARK) else b""
    return Composition(mark + content, frozenset(wanted), discarded)


@frozen
class CarriedOver:
    """``kept`` and ``dropped`` are entry numbers whose model the new text has, and those that had one in the old."""

    content: bytes
    kept: tuple[str, ...]
    dropped: tuple[str, ...]


def _none_faulty(content: bytes) -> Collection[int]:
    return ()


def carry_over(base: bytes, former: bytes, *, faulty: Callable[[bytes], Collection[int]] = _none_faulty) -> CarriedOver:
    """A new base with the models of the entries whose text is letter by letter the same as before (D55).

    ``faulty`` finds the entries whose model cannot be kept, by position: they have none afterwards, whoever wrote it, and
    their numbers are among the dropped. UnreadableLaw when either of the two cannot be read.
    """
    ours, theirs = LawSource.read(base), LawSource.read(former)
    found = {entry.key: (position, entry) for position, entry in enumerate(ours.entries) if entry.number is not None}
    others: dict[int, Entry] = {}
    dropped = []
    for entry in theirs.entries:
        if entry.model is _ABSENT:
            continue
        position, present = found.get(entry.key, (-1, None))
        if present is not None and same(present.tree.get("text", _ABSENT), entry.tree.get("text", _ABSENT)):
            others[position] = entry
        else:
            dropped.append(entry.number or "?")
    wanted = {position: entry.model for position, entry in others.items()}
    content = _spliced(ours, theirs, others, wanted) if wanted else ours.text.encode()
    unfit = sorted(faulty(content))
    if unfit:
        dropped += [ours.numbers[position] for position in unfit]
        wanted = {position: model for position, model in wanted.items() if position not in unfit}
        removed = {position: _ABSENT for position in unfit if ours.entries[position].model_pair is not None}
        origins = {**others, **{position: ours.entries[position] for position in removed}}
        content = _spliced(ours, theirs, origins, {**wanted, **removed}) if wanted or removed else ours.text.encode()
    return CarriedOver(content, tuple(ours.numbers[position] for position in sorted(wanted)), tuple(dropped))


def _spliced(ours: LawSource, theirs: LawSource, others: Mapping[int, Entry], wanted: Mapping[int, Any]) -> bytes:
    """First with the proposal's own source, and where that does not read back as wanted, with blocks written anew."""
    expected = _expected(ours, wanted)
    for with_source in (True, False):
        edits = []
        for position, model in wanted.items():
            entry = ours.entries[position]
            column = entry.pairs[0].column
            block = _source_block(theirs.text, others[position], column) if with_source else None
            edits.append(_edit(ours.text, entry, model, _written(model, column) if block is None else block))
        text = spliced(ours.text, edits)
        try:
            if same(load_law(text), expected):
                return text.encode()
        except UnreadableLaw:
            continue
    raise NotComposable("the law file has a layout into which machine_readable blocks cannot be put")


def _written(model: Any, column: int) -> str:
    return "" if model is _ABSENT else emit_block(MODEL, model, column)


def _source_block(text: str, other: Entry, column: int) -> str | None:
    pair = other.model_pair
    return None if other.flow or pair is None else block_text(text, pair, column)


def _edit(text: str, entry: Entry, model: Any, block: str) -> tuple[int, int, str]:
    """Start, end and replacement that give ``entry`` this model, written as ``block`` where it has lines of its own."""
    present = entry.model_pair
    if entry.flow:
        return _flow_edit(text, entry, present, model)
    if present is None:
        at = line_end(text, content_end(text, entry.pairs[-1]))
        return at, at, "\n" + " " * entry.pairs[0].column + block
    end = line_end(text, content_end(text, present))
    if model is not _ABSENT:
        return present.start, end, block
    if present.following is not None:
        return present.start, int(present.following.start_mark.index), ""
    before = present.start
    while text[before - 1 : before] == " ":
        before -= 1
    return before - 1, end, ""


def _flow_edit(text: str, entry: Entry, present: Pair | None, model: Any) -> tuple[int, int, str]:
    """Inside ``{...}``: JSON is YAML there."""
    if present is None:
        last = entry.pairs[-1]
        end = max(content_end(text, last), int(last.value.end_mark.index))
        return end, end, ", " + emit_flow(MODEL, model)
    end = max(content_end(text, present), int(present.value.end_mark.index))
    if model is not _ABSENT:
        return present.start, end, emit_flow(MODEL, model)
    if present.following is not None:
        return present.start, int(present.following.start_mark.index), ""
    comma = text.rfind(",", 0, present.start)
    return comma, end, ""


def _expected(ours: LawSource, wanted: Mapping[int, Any]) -> dict[str, Any]:
    articles = list(ours.tree[ARTICLES])
    for position, model in wanted.items():
        rest = {key: value for key, value in articles[position].items() if key != MODEL}
        articles[position] = rest if model is _ABSENT else {**rest, MODEL: model}
    return {**ours.tree, ARTICLES: articles}


def _with_prior_accepted(old: Any, new: Any) -> tuple[Any, int]:
    """``new`` with each gap's ``accepted`` as it was before, and how many that changed: only a person accepts."""
    if not isinstance(new, dict):
        return new, 0
    corrections = 0
    result = dict(new)
    for name, identity in _GAP_LISTS.items():
        items = new.get(name)
        if not isinstance(items, list):
            continue
        before = _accepted_of(old.get(name) if isinstance(old, dict) else None, identity)
        seen: Counter[str] = Counter()
        fixed: list[Any] = []
        for item in items:
            if not isinstance(item, dict):
                fixed.append(item)
                continue
            key = str(item.get(identity))
            prior = before.get((key, seen[key]), _ABSENT)
            seen[key] += 1
            if same(item.get(ACCEPTED, _ABSENT), prior):
                fixed.append(item)
                continue
            corrections += 1
            rest = {name: value for name, value in item.items() if name != ACCEPTED}
            fixed.append(rest if prior is _ABSENT else {**rest, ACCEPTED: prior})
        result[name] = fixed
    return (result, corrections) if corrections else (new, 0)


def _accepted_of(items: Any, identity: str) -> dict[tuple[str, int], Any]:
    seen: Counter[str] = Counter()
    found = {}
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            key = str(item.get(identity))
            found[key, seen[key]] = item.get(ACCEPTED, _ABSENT)
            seen[key] += 1
    return found


def _discarded(
    ours: LawSource, theirs: LawSource, found: Mapping[tuple[str | None, int], Entry], assigned: Collection[int]
) -> int:
    """How many edits outside the assigned models the proposal holds."""
    mine = {entry.key: position for position, entry in enumerate(ours.entries)}
    count = _differing(ours.tree, theirs.tree, leave_out=(ARTICLES,))
    count += sum(entry.key not in mine for entry in theirs.entries)
    taken = frozenset(assigned)
    for position, entry in enumerate(ours.entries):
        other = found.get(entry.key)
        if other is None:
            count += 1
            continue
        count += _differing(entry.tree, other.tree, leave_out=(MODEL, "number"))
        count += position not in taken and not same(entry.model, other.model)
    order = [mine[entry.key] for entry in theirs.entries if entry.key in mine]
    return count + (order != sorted(order))


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], *, leave_out: Sequence[str]) -> int:
    keys = (set(one) | set(other)) - set(leave_out)
    return sum(not same(one.get(key, _ABSENT), other.get(key, _ABSENT)) for key in keys)
