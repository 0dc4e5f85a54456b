"""Reading law YAML fast and safely, whoever wrote it.

The C parser of PyYAML with the types of YAML 1.2: an unquoted ``8:36`` is a string, an unquoted date too, ``no`` is no
boolean. Existing corpus files and agents' proposals are read with the same meaning as by the law engine.
"""

import re
from collections.abc import Hashable
from typing import Any, Final

import attrs
import yaml
from yaml import CSafeLoader
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode

from protocols.failures import InvalidInput

MAX_BYTES: Final = 100 * 1024 * 1024
MAX_ALIASES: Final = 100
MAX_NODES: Final = 1_000_000
"""Nodes of a document when every alias is written out (a "billion laughs" file is small until then)."""
MAX_NESTING: Final = 1000
"""Collections inside each other, aliases written out: what the C parser itself allows without them."""

_INDICATORS: Final = b"-:,?[{"
_NODES_OF_INDICATOR: Final = 3
"""No node but the first comes without one of these, and none brings more nodes: ``[a: b]`` has a mapping and two texts
for its colon. So counting bytes is enough for nearly every file."""
_LONGEST_NUMBER: Final = 100
_LARGEST_INTEGER: Final = 2**63
_LONGEST_QUOTE: Final = 60
_LONGEST_PROBLEM: Final = 200


class UnreadableLaw(InvalidInput):
    """Text that is not YAML, not a law file, or made to harm. The message says where and what."""

    kind = "unreadable_yaml"


class _Loader(CSafeLoader):
    """The core types of YAML 1.2 and no other tag, and a veto on doubled keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, MappingNode):
            raise ConstructorError(None, None, f"expected a mapping, found a {node.id}", node.start_mark)
        mapping: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise ConstructorError(None, None, "found a key that is a list or a mapping", key_node.start_mark)
            if key in mapping:
                raise ConstructorError(None, None, f"found the key {_quoted(key)} twice", key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping

    def construct_null(self, node: Any) -> None:
        self._text_of(node, "null")

    def construct_bool(self, node: Any) -> bool:
        return self._text_of(node, "bool") in ("true", "True", "TRUE")

    def construct_int(self, node: Any) -> int:
        """Zeros in front do not make an octal number, as they do in YAML 1.1. A number that no 64 bits hold is refused:
        what such a number is turned into elsewhere (a text, JSON) has limits of its own."""
        text = self._text_of(node, "int")
        if len(text) <= _LONGEST_NUMBER:
            number = int(text, 0) if text.startswith(("0o", "0x")) else int(text)
            if -_LARGEST_INTEGER <= number < _LARGEST_INTEGER:
                return number
        raise ConstructorError(None, None, "found a whole number of more than 64 bits", node.start_mark)

    def construct_float(self, node: Any) -> float:
        return float(self._text_of(node, "float").lower().replace(".inf", "inf").replace(".nan", "nan"))

    def _text_of(self, node: Any, kind: str) -> str:
        """The text of a scalar, which has the form of its type even where a tag gave the type."""
        text = str(self.construct_scalar(node))
        if not _PATTERNS[kind].match(text):
            raise ConstructorError(None, None, f"found a text that is no {kind} where a tag says so", node.start_mark)
        return text


_TYPES: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)
_PATTERNS: Final = {name: re.compile(rf"(?:{pattern})\Z") for name, pattern, _ in _TYPES}
_TAG: Final = "tag:yaml.org,2002:"

_Loader.yaml_implicit_resolvers = {}
for _name, _, _first in _TYPES:
    _Loader.add_implicit_resolver(_TAG + _name, _PATTERNS[_name], _first)
_Loader.yaml_multi_constructors = {}
_Loader.yaml_constructors = {
    **{_TAG + _name: getattr(_Loader, f"construct_{_name}") for _name in _PATTERNS},
    **{_TAG + _name: getattr(CSafeLoader, f"construct_yaml_{_name}") for _name in ("str", "seq", "map")},
    None: CSafeLoader.construct_undefined,
}


def load_yaml(
    source: str | bytes, *, max_bytes: int = MAX_BYTES, max_nodes: int = MAX_NODES, max_nesting: int = MAX_NESTING
) -> Any:
    """The one document in ``source`` as plain values: None, bool, int of 64 bits, float, str, list and dict.

    Raises :class:`UnreadableLaw` for anything else: not UTF-8, not YAML, two documents, a key twice, another tag, a value
    that does not fit its tag, more bytes, nodes or levels than asked for. Aliases count as what they stand for, so that a
    walk through the value takes no more than ``max_nodes`` steps; no value stands in itself.
    """
    content = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(content) > max_bytes:
        raise UnreadableLaw(f"the YAML has {len(content)} bytes; at most {max_bytes} are read")
    if isinstance(source, bytes):
        _expect_utf8(source)
    try:
        if max_nesting < MAX_NESTING or _may_have_aliases(content) or _most_nodes(content) > max_nodes:
            _refuse_large(content, max_nodes, max_nesting)
        return yaml.load(content, Loader=_Loader)  # noqa: S506  a safe loader, made stricter
    except yaml.YAMLError as error:
        raise UnreadableLaw(_told(error)) from None
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise UnreadableLaw(f"not readable as YAML: {str(error)[:_LONGEST_PROBLEM]}") from None


def load_law(
    source: str | bytes, *, max_bytes: int = MAX_BYTES, max_nodes: int = MAX_NODES, max_nesting: int = MAX_NESTING
) -> dict[str, Any]:
    """A law file as a mapping; whether it is a valid law is for the schema to say. Raises as :func:`load_yaml`."""
    value = load_yaml(source, max_bytes=max_bytes, max_nodes=max_nodes, max_nesting=max_nesting)
    if not isinstance(value, dict):
        raise UnreadableLaw(f"a law file is a mapping of keys, this is a {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise UnreadableLaw(f"a law file has names as keys, this one has {_quoted(key)}")
    return value


def _expect_utf8(content: bytes) -> None:
    """No other encoding: the parser would know UTF-16 by its first bytes, and what looks at bytes here would not."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableLaw(f"not readable as UTF-8: byte {error.start}; write the file in UTF-8") from None


def _may_have_aliases(content: bytes) -> bool:
    """No guess at where an anchor can stand: the grammar has more such places than a pattern here would know."""
    return b"&" in content and b"*" in content


def _most_nodes(content: bytes) -> int:
    return 1 + _NODES_OF_INDICATOR * sum(content.count(indicator) for indicator in _INDICATORS)


@attrs.define
class _Open:
    """A collection that is being read: the anchor it bears, the nodes before it, and the levels below it so far."""

    anchor: str | None
    before: int
    height: int = 1


@attrs.frozen
class _Size:
    """What an anchor stands for."""

    nodes: int
    height: int


def _refuse_large(content: bytes, max_nodes: int, max_nesting: int) -> None:
    """Count nodes and levels as they are with aliases written out, from the events alone, before anything is built."""
    known: dict[str | None, _Size] = {}
    stack = [_Open(None, 0)]
    nodes = aliases = 0
    for event in yaml.parse(content, Loader=CSafeLoader):
        height = 0
        if isinstance(event, yaml.AliasEvent):
            aliases += 1
            size = known.get(event.anchor)
            if size is None:
                what = _quoted(f"*{event.anchor}")
                raise UnreadableLaw(f"alias {what} refers to nothing, or to what it stands in")
            nodes += size.nodes
            height = size.height
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            if event.anchor:
                known[event.anchor] = _Size(1, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(event.anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = stack.pop()
            height = closed.height
            if closed.anchor:
                known[closed.anchor] = _Size(nodes - closed.before, closed.height)
        stack[-1].height = max(stack[-1].height, height + 1)
        if aliases > MAX_ALIASES:
            raise UnreadableLaw(f"the YAML has more than {MAX_ALIASES} aliases; write out what they stand for")
        if nodes > max_nodes:
            raise UnreadableLaw(f"the YAML has more than {max_nodes} values and keys, aliases written out")
        if len(stack) - 1 + height > max_nesting:
            raise UnreadableLaw(f"the YAML is nested more than {max_nesting} levels deep; make it flatter")


def _quoted(key: Any) -> str:
    """A name from the file for a message, which it must not fill."""
    text = repr(key)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def _told(error: yaml.YAMLError) -> str:
    """The error in one line with its place, without the quoted text around it."""
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or type(error).__name__)[:_LONGEST_PROBLEM]
    place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"not readable as YAML: {problem}{place}"
