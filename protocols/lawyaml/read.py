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
MAX_EXPANDED_NODES: Final = 1_000_000
"""What the document may grow to when every alias is written out (a "billion laughs" file is small until then)."""

_ANCHOR = re.compile(rb"&(?<![^\s\[{,]&)[^\s&]")
"""An ampersand where an anchor may begin; the pattern begins with it, because such a search is fast."""


class UnreadableLaw(InvalidInput):
    """Text that is not YAML, not a law file, or made to harm. The message says where and what."""

    kind = "unreadable_yaml"


class _Loader(CSafeLoader):
    """The core types of YAML 1.2, and a veto on doubled keys. Nesting is limited to 1000 by the C parser itself."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, MappingNode):
            raise ConstructorError(None, None, f"expected a mapping, found a {node.id}", node.start_mark)
        mapping: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise ConstructorError(None, None, "found a key that is a list or a mapping", key_node.start_mark)
            if key in mapping:
                raise ConstructorError(None, None, f"found the key {key!r} twice", key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping

    def construct_decimal(self, node: Any) -> int:
        """Zeros in front do not make an octal number, as they do in YAML 1.1."""
        text = str(self.construct_scalar(node))
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)


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

_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in _TYPES:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_decimal)


def load_yaml(source: str | bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The one document in ``source`` as plain Python values.

    Raises :class:`UnreadableLaw` for anything else: not YAML, two documents, a key twice, more than ``max_bytes``, too
    many aliases, a tag that makes an object.
    """
    content = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(content) > max_bytes:
        raise UnreadableLaw(f"the YAML has {len(content)} bytes; at most {max_bytes} are read")
    try:
        if _ANCHOR.search(content):
            _refuse_harmful_aliases(content)
        return yaml.load(content, Loader=_Loader)  # noqa: S506  a safe loader, made stricter
    except yaml.YAMLError as error:
        raise UnreadableLaw(_told(error)) from None
    except (ValueError, RecursionError) as error:
        raise UnreadableLaw(f"not readable as YAML: {error}") from None


def load_law(source: str | bytes, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """A law file as a mapping; whether it is a valid law is for the schema to say. Raises :class:`UnreadableLaw`."""
    value = load_yaml(source, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise UnreadableLaw(f"a law file is a mapping of keys, this is a {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise UnreadableLaw(f"a law file has names as keys, this one has {key!r}")
    return value


@attrs.define
class _Open:
    """A collection that is being read: the anchor it bears, and how many nodes it stands for so far."""

    anchor: str | None
    nodes: int = 1


def _refuse_harmful_aliases(content: bytes) -> None:
    """Count what the aliases stand for, from the events alone, before anything is built."""
    sizes: dict[str, int] = {}
    stack = [_Open(None)]
    aliases = 0
    for event in yaml.parse(content, Loader=CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            aliases += 1
            if event.anchor not in sizes:
                raise UnreadableLaw(f"alias *{event.anchor} refers to nothing, or to what it stands in")
            stack[-1].nodes += sizes[event.anchor]
            if aliases > MAX_ALIASES or stack[-1].nodes > MAX_EXPANDED_NODES:
                raise UnreadableLaw("the YAML has more aliases, or larger ones, than any law needs")
        elif isinstance(event, yaml.ScalarEvent):
            stack[-1].nodes += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = stack.pop()
            stack[-1].nodes += closed.nodes
            if closed.anchor:
                sizes[closed.anchor] = closed.nodes


def _told(error: yaml.YAMLError) -> str:
    """The error in one line with its place, without the quoted text around it."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or type(error).__name__
    place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"not readable as YAML: {problem}{place}"
