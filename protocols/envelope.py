"""``.enrichment-result.yaml`` beside a law: what an agent reports besides the law itself (``enrich.md`` 5.5).

Written by agents, so by law text: reading never fails, what has a wrong shape is left out. Here too is the guard that
tells a run with nothing to show from one that found nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import yaml
from attrs import field, frozen

from protocols.failures import ContentFailure, NoOutput, SupervisorError
from protocols.lawyaml.read import UnreadableLaw, load_law
from protocols.related import RelatedEntry, read_entries
from protocols.yamlsource import compose_nodes, content_end, decode, emit_block, is_flow, line_end, pairs_of, same

FILE_NAME: Final = ".enrichment-result.yaml"
MAX_BYTES: Final = 1024 * 1024
MAX_NODES: Final = 50_000
MAX_NESTING: Final = 50
"""A report has 3 levels. Writing it anew recurses, so deeper ones count as malformed."""
REPORT: Final = "chunk_report"
RELATED: Final = "related_legislation"


@frozen
class Skipped:
    number: str
    reason: str | None = None


@frozen
class Envelope:
    """``reviewed`` and ``skipped`` are the chunk report: numbers as texts. ``related`` is checked, ``raw`` is the file."""

    related: tuple[RelatedEntry, ...] = ()
    reviewed: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    raw: dict[str, Any] = field(factory=dict, repr=False)

    @property
    def reported(self) -> frozenset[str]:
        """Every number that the report names."""
        return frozenset(self.reviewed) | {entry.number for entry in self.skipped}


def read_envelope(content: bytes | None) -> Envelope:
    """Absent or malformed: empty."""
    raw = _loaded(content)
    if raw is None:
        return Envelope()
    report = raw.get(REPORT)
    report = report if isinstance(report, dict) else {}
    return Envelope(
        related=read_entries(raw.get(RELATED))[0],
        reviewed=tuple(number for item in _items(report, "articles_reviewed") if (number := _number(item))),
        skipped=tuple(entry for item in _items(report, "articles_skipped") if (entry := _skipped(item))),
        raw=raw,
    )


def without_report(content: bytes | None) -> bytes | None:
    """The file without its ``chunk_report``, every other key as it stands; what is unreadable is left alone.

    Without this the report of the last window would prove the review of this one.
    """
    raw = _loaded(content)
    if content is None or raw is None or REPORT not in raw:
        return content
    rest = {key: value for key, value in raw.items() if key != REPORT}
    text = decode(content)
    root = compose_nodes(text)
    pair = next((pair for pair in pairs_of(root) if pair.name == REPORT), None) if root is not None else None
    if pair is not None and root is not None and not is_flow(root):
        end = line_end(text, content_end(text, pair))
        cut = text[: pair.start] + text[end:].removeprefix("\r").removeprefix("\n")
        try:
            if same(load_law(cut) if rest else {}, rest):
                return cut.encode()
        except UnreadableLaw:
            pass
    return _dumped(rest)


def merge_envelopes(base: bytes | None, slices: Sequence[bytes | None]) -> bytes | None:
    """The files of several slices as one: their reports and their related laws united; other keys of the first that has them."""
    found = [raw for content in slices if (raw := _loaded(content)) is not None]
    if not found:
        return base
    merged: dict[str, Any] = dict(_loaded(base) or {})
    for raw in found:
        merged = {**raw, **merged}
    merged[RELATED] = _united(item for raw in [merged, *found] for item in _items(raw, RELATED))
    reports = [raw[REPORT] for raw in found if isinstance(raw.get(REPORT), dict)]
    if reports:
        merged[REPORT] = {
            name: _united(item for report in reports for item in _items(report, name))
            for name in ("articles_reviewed", "articles_skipped")
        }
    return _dumped(merged)


@frozen
class Gain:
    """What a run changed, by count. ``window_numbers`` are those of the window; counts of a window are inside it only."""

    windowed: bool
    missing_before: int
    """Entries of the law without a model before the run."""
    gained_in_law: int
    gained_in_window: int
    gaps_before: int
    gaps_after: int
    window_numbers: Collection[str]


def no_op(
    gain: Gain, envelope: Envelope, *, cut_off_steps: int = 0, denied_tools: Sequence[str] = ()
) -> SupervisorError | None:
    """The failure of a run that has nothing to show, or None.

    A whole law without one model fails the same way again: terminal. A window is retried: any of a new model, a new gap
    or a report that names one of its entries is enough, since agents' own counts are too unreliable to ask for more. The text says what explains it (AG-06).
    """
    why = [f"{cut_off_steps} steps were cut off by the output limit"] if cut_off_steps else []
    why += [f"denied tools: {', '.join(denied_tools)}"] if denied_tools else []
    suffix = f" ({'; '.join(why)})" if why else ""
    if not gain.windowed:
        if gain.missing_before and not gain.gained_in_law:
            return ContentFailure(f"the agent wrote no machine_readable sections{suffix}")
        return None
    if not gain.window_numbers or gain.gained_in_window or gain.gaps_after > gain.gaps_before:
        return None
    if envelope.reported & frozenset(gain.window_numbers):
        return None
    return NoOutput(f"enrichment chunk produced no reviewable output{suffix}")


def _loaded(content: bytes | None) -> dict[str, Any] | None:
    if content is None:
        return None
    try:
        return load_law(content, max_bytes=MAX_BYTES, max_nodes=MAX_NODES, max_nesting=MAX_NESTING)
    except UnreadableLaw:
        return None


def _dumped(values: dict[str, Any]) -> bytes:
    return "".join(f"{emit_block(key, value, 0)}\n" for key, value in values.items()).encode()


def _items(mapping: dict[str, Any], key: str) -> list[Any]:
    value = mapping.get(key)
    return value if isinstance(value, list) else []


def _united(items: Iterable[Any]) -> list[Any]:
    seen: dict[str, Any] = {}
    for item in items:
        seen.setdefault(yaml.safe_dump(item), item)
    return list(seen.values())


def _number(value: Any) -> str | None:
    """Entry numbers may come unquoted."""
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _skipped(item: Any) -> Skipped | None:
    if not isinstance(item, dict):
        return None
    number, reason = _number(item.get("number")), item.get("reason")
    return None if number is None else Skipped(number, reason if isinstance(reason, str) else None)
