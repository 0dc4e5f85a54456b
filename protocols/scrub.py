"""Make any value fit for a ``jsonb`` or ``text`` column (DB-09).

PostgreSQL refuses NUL and lone surrogates, JSON knows no NaN, and what an agent prints has no size. A job that can
neither fail nor finish because its own error text is refused is the bug that this module prevents.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

MAX_STRING_BYTES: Final = 10_000
MAX_DOCUMENT_BYTES: Final = 256_000
_MAX_DEPTH: Final = 64
_MAX_INT_DIGITS: Final = 1_000
_ELLIPSIS: Final = "…"
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def scrub_text(text: str, max_bytes: int | None = None) -> str:
    """``text`` with NUL and lone surrogates as U+FFFD, cut to ``max_bytes`` of UTF-8 at a character border."""
    clean = _UNSTORABLE.sub("\ufffd", text)
    if max_bytes is None or len(clean) * 4 <= max_bytes:
        return clean
    encoded = clean.encode()
    if len(encoded) <= max_bytes:
        return clean
    return encoded[: max_bytes - len(_ELLIPSIS.encode())].decode(errors="ignore") + _ELLIPSIS


def scrub(
    value: Any, *, max_string_bytes: int | None = MAX_STRING_BYTES, max_document_bytes: int | None = MAX_DOCUMENT_BYTES
) -> Any:
    """A JSON value that PostgreSQL stores, as near to ``value`` as the limits allow.

    Within an object the scalars come first, so that the words which say what happened survive when a long list is cut.
    An object from which something was left out has ``"truncated": true``; a list just ends.
    """
    budget = math.inf if max_document_bytes is None else max_document_bytes
    return _Scrubber(math.inf if max_string_bytes is None else max_string_bytes, budget).value(value, 0)


def to_json(value: Any) -> str | None:
    """``value`` scrubbed and encoded for a ``jsonb`` column with result, progress or error; None stays None (SQL NULL)."""
    return None if value is None else _encode(scrub(value))


def payload_to_json(value: Any) -> str | None:
    """The same for a payload: cleaned, never cut, because a handler must read it back whole."""
    return None if value is None else _encode(scrub(value, max_string_bytes=None, max_document_bytes=None))


def _encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class _Scrubber:
    """Walks a value and keeps count of the bytes that are left."""

    def __init__(self, max_string: float, budget: float) -> None:
        self._max_string = max_string
        self._left = budget

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._object(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value, depth)
        return self._scalar(value)

    def _scalar(self, value: Any) -> Any:
        clean = self._clean(value)
        self._left -= len(_encode(clean).encode()) + 1
        return clean

    def _clean(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return (
                int(value) if abs(value) < 10**_MAX_INT_DIGITS else self._text(f"a number of {value.bit_length()} bits")
            )
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        return self._text(value if isinstance(value, str) else str(value))

    def _text(self, text: str) -> str:
        limit = min(self._max_string, max(self._left, len(_ELLIPSIS.encode())))
        return scrub_text(text, None if math.isinf(limit) else int(limit))

    def _object(self, mapping: Mapping[Any, Any], depth: int) -> Any:
        if depth >= _MAX_DEPTH:
            return self._scalar(_ELLIPSIS)
        scalars_first = sorted(mapping.items(), key=lambda item: isinstance(item[1], Mapping | list | tuple))
        kept: dict[str, Any] = {}
        self._left -= 2
        for key, value in scalars_first:
            if self._left <= 0:
                kept["truncated"] = True
                break
            name = self._text(str(key))
            self._left -= len(_encode(name).encode()) + 1
            kept[name] = self.value(value, depth + 1)
        return kept

    def _list(self, items: list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any], depth: int) -> Any:
        if depth >= _MAX_DEPTH:
            return self._scalar(_ELLIPSIS)
        kept: list[Any] = []
        self._left -= 2
        for item in items:
            if self._left <= 0:
                break
            kept.append(self.value(item, depth + 1))
        return kept
