"""A law file that cannot be read, as the one finding that replaces all others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml

from protocols.gates.findings import Finding
from protocols.lawtree import read_tree
from protocols.lawyaml import UnreadableLaw

_PLACE = re.compile(r"in line ([0-9]+), column [0-9]+\Z")
_PAIR = re.compile(r"(?P<head>\s*(?:-\s+)*(?P<key>[^\s:#'\"\-][^:#]*|'[^']*'|\"[^\"]*\"):\s+)(?P<value>\S.*)\Z")
_LINE = re.compile("[^\r\n\x85\u2028\u2029]*(?:\r\n|[\r\n\x85\u2028\u2029])|[^\r\n\x85\u2028\u2029]+\\Z")
"""A line with its end, by the line ends that YAML knows (``str.splitlines`` knows more)."""
_ITEM = re.compile(r"(?P<head>\s*(?:-\s+)+)(?P<value>\S.*)\Z")

_SHOWN: Final = 200
_LARGEST_TRIED: Final = 4 * 1024 * 1024
"""Repairs of larger files are not tried out, and so not proposed: each try reads the whole file."""


def yaml_fault(check: str, source: bytes, fault: UnreadableLaw) -> Finding:
    """What is wrong, where, how the line reads, and how it would read right (only a repair that was tried out)."""
    text = source.decode("utf-8", "replace")
    lines = _LINE.findall(text)
    number = _line_of(fault)
    if number is not None and number > len(lines):
        number = _opening_line(text)
    if number is None or not 1 <= number <= len(lines):
        return Finding(check, f"{fault.message}. Repair the file in place; do not delete what it says")
    parts = [f"{fault.message}.", f"Line {number} reads: {lines[number - 1][:_SHOWN].rstrip()}"]
    repaired = _repair(text, number) if len(source) <= _LARGEST_TRIED else None
    if repaired is not None:
        parts.append(f"It can read: {repaired[:_SHOWN]}")
    parts.append("Repair the line in place; do not delete the line.")
    return Finding(check, "\n".join(parts))


def _line_of(fault: UnreadableLaw) -> int | None:
    """The line that the reader stopped at. It always stands at the end, whatever the file made the reader quote before."""
    place = _PLACE.search(fault.message)
    return int(place[1]) if place else None


def _opening_line(text: str) -> int | None:
    """Where what never ends began: a quote that is not closed is noticed only at the end of the file."""
    try:
        for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
            pass
    except yaml.MarkedYAMLError as error:
        return error.context_mark.line + 1 if error.context_mark is not None else None
    return None


def _repair(text: str, number: int) -> str | None:
    """The first candidate for the line, or for the one before it, with which the reader gets further."""
    lines = _LINE.findall(text)
    line = lines[number - 1]
    ending = line[len(line.rstrip()) :]
    for candidate in _candidates(line.rstrip()):
        tried = "".join([*lines[: number - 1], candidate + ending, *lines[number:]])
        try:
            read_tree(tried)
        except UnreadableLaw as left:
            further = _line_of(left)
            if further is None or further <= number:
                continue
        return candidate
    return None


def _candidates(line: str) -> Iterator[str]:
    """Likely repairs: spaces for tabs, a quoted value, a quoted value whose quotes were wrong."""
    if "\t" in line:
        yield line.replace("\t", "  ")
    for pattern in (_PAIR, _ITEM):
        found = pattern.match(line)
        if found:
            value = found["value"]
            opening = value[0] if value[0] in "'\"" else ""
            bare = value.removeprefix(opening).removesuffix(opening)
            for content in dict.fromkeys((bare, value)):
                yield f"{found['head']}'{content.replace(chr(39), chr(39) * 2)}'"
