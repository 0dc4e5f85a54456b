"""Text of others on somebody's terminal: names of laws, errors, what agents print. All of it is hostile.

A terminal obeys what is written to it: it moves the cursor, changes its title, answers with keystrokes. What could make it
do so is shown as a replacement character instead; so are marks that turn the direction of writing.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Final

import click

_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but for line ends and tabs, marks of direction, and halves of characters."""

_NOT_ASCII: Final = re.compile("[^\x00-\x7f]")


def harmless(text: str) -> str:
    """``text`` as it may be shown."""
    return _OBEYED.sub("\ufffd", text)


def say(text: str, *, err: bool = False, bold: bool = False) -> None:
    """A line on stdout, or on stderr. What commands print comes through here, ``say_json`` or ``session.print_table``."""
    shown = harmless(text)
    # The stream is named: left to itself, click takes ASCII for a mistake and writes UTF-8.
    click.echo(click.style(shown, bold=True) if bold else shown, file=sys.stderr if err else sys.stdout, err=err)


def say_json(text: str) -> None:
    """A JSON text on stdout. What a terminal would obey is escaped in it, and what its encoding lacks, so that a program
    reads what there was."""
    escaped = _OBEYED.sub(_as_json, text)
    try:
        escaped.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        escaped = _NOT_ASCII.sub(_as_json, escaped)
    click.echo(escaped, file=sys.stdout)


def _as_json(found: re.Match[str]) -> str:
    return json.dumps(found[0]).strip('"')
