"""Where things stand in the source text of a YAML file, and pieces of YAML to put there.

Used to take one block out of one file and put it into another while every other byte stays (D41). Positions are
indices into the decoded text. What comes out must be read back and compared by whoever splices: layout that hostile
or odd YAML can have is met by that check, not by rules here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml
from attrs import frozen
from yaml import CSafeLoader, SafeDumper
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from protocols.lawyaml.read import UnreadableLaw
from protocols.lawyaml.scalars import one_line

_WIDTH: Final = 110


@frozen
class Pair:
    """One key of a mapping with its value, as nodes. ``limit`` is where the next key, or the mapping's end, begins."""

    name: str
    key: Node
    value: Node
    limit: int
    following: Node | None
    """The next key of the same mapping."""

    @property
    def start(self) -> int:
        return int(self.key.start_mark.index)

    @property
    def column(self) -> int:
        return int(self.key.start_mark.column)


def decode(content: bytes) -> str:
    """UTF-8 with an optional byte order mark. UnreadableLaw for anything else."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableLaw(f"not readable as UTF-8: byte {error.start}") from None


def compose_nodes(text: str) -> Node | None:
    """The node graph of the one document in ``text``. Aliases are not expanded. UnreadableLaw."""
    try:
        return yaml.compose(text, Loader=CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableLaw(f"not readable as YAML: {error}") from None


def pairs_of(node: Node) -> list[Pair]:
    """The pairs of a mapping node in source order; empty for any other node. Keys that are no scalars are left out."""
    if not isinstance(node, MappingNode):
        return []
    keys = [key for key, _ in node.value]
    found = []
    for position, (key, value) in enumerate(node.value):
        following = keys[position + 1] if position + 1 < len(keys) else None
        limit = node.end_mark.index if following is None else following.start_mark.index
        if isinstance(key, ScalarNode):
            found.append(Pair(str(key.value), key, value, int(limit), following))
    return found


def content_end(text: str, pair: Pair) -> int:
    """Where the value of ``pair`` ends: after its last word, before the comments and blank lines that follow it."""
    end = int(pair.key.end_mark.index)
    for node in _within(pair):
        end = max(end, _end_of(text, node))
    return end


def line_end(text: str, position: int) -> int:
    """The end of the line that holds ``position``, before its line break."""
    found = text.find("\n", position)
    return len(text) if found < 0 else found - (text[found - 1 : found] == "\r")


def block_text(text: str, pair: Pair, column: int) -> str | None:
    """``key: value`` of a pair in block style as it stands, moved to ``column``; no indent before its first line.

    None when its source cannot stand elsewhere: it is written in flow style on a shared line, or is an alias.
    """
    inside = range(int(pair.key.end_mark.index), pair.limit + 1)
    if int(pair.value.start_mark.index) not in inside:
        return None
    source = text[pair.start : line_end(text, content_end(text, pair))].replace("\r\n", "\n")
    first, *rest = source.split("\n")
    shift = column - pair.column
    return "\n".join([first, *(_moved(line, shift) for line in rest)])


def spliced(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """``text`` with each ``start, end, replacement`` made, in any order; they must not overlap."""
    pieces, done = [], 0
    for start, end, replacement in sorted(edits):
        pieces += [text[done:start], replacement]
        done = end
    return "".join([*pieces, text[done:]])


def is_flow(node: Node) -> bool:
    """Whether a collection is written as ``{...}`` or ``[...]``."""
    return isinstance(node, CollectionNode) and bool(node.flow_style)


def emit_block(key: str, value: Any, column: int) -> str:
    """``key: value`` in block style at ``column``; no indent before its first line, no line break at its end."""
    dumped = yaml.dump(
        {key: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=False
    )
    return dumped.rstrip("\n").replace("\n", "\n" + " " * column)


def emit_flow(key: str, value: Any) -> str:
    """``key: value`` for inside a flow mapping, on one line."""
    return f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"


def same(one: Any, other: Any) -> bool:
    """Whether two loaded values are the same, types included (``1``, ``1.0`` and ``true`` differ); key order is not."""
    stack = [(one, other)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if _typed_keys(a) != _typed_keys(b):
                return False
            stack.extend((a[key], b[key]) for key in a)
        elif _is_list(a) and _is_list(b):
            if len(a) != len(b):
                return False
            stack.extend(zip(a, b, strict=True))
        elif type(a) is not type(b) or (a != b and repr(a) != repr(b)):
            return False
    return True


def _typed_keys(mapping: Mapping[Any, Any]) -> set[tuple[type, Any]]:
    return {(type(key), key) for key in mapping}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _within(pair: Pair) -> Iterator[Node]:
    """The nodes of the value that stand in the source of the pair; an alias brings those of elsewhere."""
    inside = range(int(pair.key.end_mark.index), pair.limit + 1)
    stack, seen = [pair.value], set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if int(node.start_mark.index) in inside and int(node.end_mark.index) in inside:
            yield node
        if isinstance(node, MappingNode):
            stack.extend(part for both in node.value for part in both)
        elif isinstance(node, SequenceNode):
            stack.extend(node.value)


def _end_of(text: str, node: Node) -> int:
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        start, end = int(node.start_mark.index), int(node.end_mark.index)
        header = text[start : line_end(text, start)]
        if "+" in header.partition("#")[0]:  # its blank lines belong to it
            return end - 1 if text[end - 1 : end] == "\n" else end
        return start + len(text[start:end].rstrip())  # not from the top of the file: a file may have many such nodes
    if isinstance(node, ScalarNode) or is_flow(node):
        return int(node.end_mark.index)
    return int(node.start_mark.index)  # a block collection ends where the last of its parts does


def _moved(line: str, shift: int) -> str:
    if not line.strip():
        return line if not line else ""
    if shift >= 0:
        return " " * shift + line
    blanks = len(line) - len(line.lstrip(" "))
    return line[min(-shift, blanks) :]


class _Dumper(SafeDumper):
    """Block style with indented lists; a text that any reader could take for something else is quoted."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: SafeDumper, text: str) -> ScalarNode:
    style = "|" if "\n" in text else None if one_line(text) == text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
