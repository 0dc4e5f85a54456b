"""YAML scalars on one line that every reader takes for the same string.

YAML 1.1 and 1.2 disagree about what looks like a number, a boolean or a date. Whatever either of them would read as
anything but a string is quoted (BW-07): article numbers such as ``1:1``, ``24e1`` or ``2.10`` are ordinary law.
"""

import re
from functools import lru_cache
from typing import Final

_INDICATORS: Final = frozenset("{}[],&*#?|-<>=!%@:\"`' ~")
_MAY_BE_TYPED: Final = frozenset("0123456789+.tTfFyYnNoO")
"""The first characters of whatever matches ``_TYPED`` and is not an indicator."""

_TYPED = re.compile(
    r"""
    true | false | yes | no | on | off | null | y | n
    | \+? (?: [0-9_]+ (?:\.[0-9_]*)? | \.[0-9_]+ ) (?: e [-+]? [0-9]+ )?
    | \+? 0 [box] [0-9a-f_]+
    | \+? [0-9][0-9_]* (?: :[0-9_]+ )+ (?: \.[0-9_]* )?
    | \+? \. (?: inf | nan )
    | [0-9]{4} - [0-9]{1,2} - [0-9]{1,2} (?: (?: t | [ ]+ ) [0-9]{1,2} : [0-9]{2} : [0-9]{2} .* )?
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)

_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_TO_ESCAPE = re.compile('["\\\\\n]|' + _UNPRINTABLE.pattern)
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def has_unprintable(text: str) -> bool:
    """Whether ``text`` holds a character that only a double-quoted scalar can carry (a tab is one; a newline is not)."""
    return not text.replace("\n", "").isprintable() and _UNPRINTABLE.search(text) is not None


def double_quoted(text: str) -> str:
    """``text`` on one line with escapes. Lone surrogates, which no file can hold, become U+FFFD."""
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}"


def single_quoted(text: str) -> str:
    """``text`` in single quotes; it must not hold a newline or an unprintable character."""
    return "'" + text.replace("'", "''") + "'"


def one_line(text: str) -> str:
    """``text`` as one line of YAML: plain where no reader can mistake it, else quoted."""
    if "\n" in text or has_unprintable(text):
        return double_quoted(text)
    if not text or text[0] in _INDICATORS or text[-1] in ": " or ": " in text or " #" in text:
        return single_quoted(text)
    if text[0] in _MAY_BE_TYPED and _TYPED.fullmatch(text):
        return single_quoted(text)
    return text


scalar = lru_cache(maxsize=4096)(one_line)
"""The same for short values that come back often: numbers, ids, addresses."""
