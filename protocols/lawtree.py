"""A law as the plain tree that YAML gives, read tolerantly: whatever has another shape than expected counts as absent.

Checks and counts read through this module. Whether the shape is right is for the schema to say; nothing here raises
because an agent wrote a list where a mapping belongs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from attrs import field, frozen

from protocols.lawyaml import UnreadableLaw, load_law

Tree = dict[str, Any]
Path = tuple[str | int, ...]

MOST_NESTING: Final = 120
"""Containers inside each other. The schema validator recurses in native code: at 200 it was seen to end the process
in a thread with a small stack. The deepest real model has about 35."""

MOST_SECTION_VALUES: Final = 5000
"""Values in one ``machine_readable``: checks compare its parts with each other, and each breach of
the schema brings a copy of what it is in. The largest real model has some hundreds."""

UNTRANSLATABLES: Final = "untranslatables"
MARKINGS: Final = "markings"


@frozen
class Field:
    """A parameter, input or output. ``raw`` is the mapping as written."""

    name: str
    raw: Tree = field(repr=False)

    @property
    def description(self) -> str:
        return text_of(self.raw.get("description"))

    @property
    def unit(self) -> str:
        return text_of(mapping_of(self.raw.get("type_spec")).get("unit"))

    @property
    def source(self) -> Tree:
        """The source, empty when it is missing, null or no mapping."""
        return mapping_of(self.raw.get("source"))


@frozen
class Entry:
    """One element of ``articles``. ``model`` is None when it has no section (null and other shapes are none; ``{}`` is one)."""

    index: int
    number: str
    text: str = field(repr=False)
    model: Tree | None = field(repr=False)
    raw: Tree = field(repr=False)

    def part(self, key: str) -> list[Tree]:
        """The mappings in a list of the model: ``open_terms``, ``overrides``, ``untranslatables``, ..."""
        return mappings_in(mapping_of(self.model).get(key))

    @property
    def execution(self) -> Tree:
        return mapping_of(mapping_of(self.model).get("execution"))

    @property
    def definitions(self) -> Tree:
        return mapping_of(mapping_of(self.model).get("definitions"))

    @property
    def actions(self) -> list[Tree]:
        return mappings_in(self.execution.get("actions"))

    def fields(self, key: str) -> list[Field]:
        """``parameters``, ``input`` or ``output``; those without a usable name are left out."""
        found = mappings_in(self.execution.get(key))
        return [Field(raw["name"], raw) for raw in found if isinstance(raw.get("name"), str) and raw["name"]]

    @property
    def computed(self) -> set[str]:
        """The names that an action here gives a value."""
        return {name for action in self.actions if (name := text_of(action.get("output")))}

    @property
    def outputs(self) -> set[str]:
        """What others can get here: declared outputs and computed names."""
        return {output.name for output in self.fields("output")} | self.computed

    @property
    def open_term_ids(self) -> set[str]:
        return {name for term in self.part("open_terms") if (name := text_of(term.get("id")))}


@frozen
class Gap:
    """A recorded gap: an untranslatable (v0.5.x) or a marking (v0.6.0 on), with one vocabulary for both."""

    key: str
    raw: Tree = field(repr=False)

    @property
    def about(self) -> str:
        return text_of(self.raw.get("about")) or text_of(self.raw.get("construct"))

    @property
    def reason(self) -> str:
        return text_of(self.raw.get("reason"))

    @property
    def asked(self) -> str:
        """What it says would solve it."""
        return text_of(self.raw.get("resolved_by")) or text_of(self.raw.get("suggestion"))

    @property
    def excerpt(self) -> str:
        return text_of(self.raw.get("legal_text_excerpt"))

    @property
    def targets(self) -> list[str]:
        found = self.raw.get("target")
        return [name for name in (found if isinstance(found, list) else [found]) if isinstance(name, str) and name]


def gaps_of(entry: Entry) -> list[Gap]:
    """Both kinds, whatever the file's version allows: the schema says which one does not belong."""
    return [Gap(key, raw) for key in (UNTRANSLATABLES, MARKINGS) for raw in entry.part(key)]


def read_tree(source: str | bytes) -> Tree:
    """A law file for checks and validator: readable, of JSON values alone, with text as keys, not absurdly deep or large.

    Raises :class:`protocols.lawyaml.UnreadableLaw`; the message says where.
    """
    law = load_law(source)
    sizes: Counter[str | int] = Counter()
    pending: list[tuple[Path, Any]] = [((), law)]
    while pending:
        path, value = pending.pop()
        if len(path) > MOST_NESTING:
            raise UnreadableLaw(f"at {shown(path[:6])}/...: nested more than {MOST_NESTING} levels; make it flatter")
        if path[2:3] == ("machine_readable",) and path[0] == "articles":
            sizes[path[1]] += 1
            if sizes[path[1]] > MOST_SECTION_VALUES:
                raise UnreadableLaw(f"at {shown(path[:3])}: more than {MOST_SECTION_VALUES} values; make it smaller")
        if isinstance(value, dict):
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise UnreadableLaw(f"at {shown(path)}: the key {str(key)[:60]} is no text; put it in quotes")
                pending.append(((*path, key), inner))
        elif isinstance(value, list):
            pending.extend(((*path, index), inner) for index, inner in enumerate(value))
    return law


def entries_of(law: Tree) -> list[Entry]:
    """The entries in order. A number may be unquoted (``2``): it is compared as text. No usable number gives ``""``."""
    return [
        Entry(
            index,
            number_of(raw.get("number")),
            text_of(raw.get("text")),
            raw["machine_readable"] if isinstance(raw.get("machine_readable"), dict) else None,
            raw,
        )
        for index, raw in enumerate(list_of(law.get("articles")))
        if isinstance(raw, dict)
    ]


def top_article(number: str) -> str:
    """The article that an entry belongs to: ``2`` for ``2.1.a`` (the harvester splits with dots)."""
    return number.split(".", 1)[0]


def is_under(number: str, ancestor: str) -> bool:
    """Whether ``number`` is ``ancestor`` or one of its parts (``2.1`` is under ``2``, ``21`` is not)."""
    return number == ancestor or number.startswith(f"{ancestor}.")


def law_date(law: Tree) -> str | None:
    """The day that the law's text is of (ISO): ``valid_from``, else ``publication_date``."""
    for key in ("valid_from", "publication_date"):
        value = text_of(law.get(key))
        if value and not value.startswith("#"):
            return value
    return None


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value in ``value``, itself included, with its path, in document order."""
    pending: list[tuple[Path, Any]] = [(path, value)]
    while pending:
        here, found = pending.pop()
        yield here, found
        if isinstance(found, dict):
            pending.extend(((*here, key), inner) for key, inner in reversed(found.items()))
        elif isinstance(found, list):
            pending.extend(((*here, index), found[index]) for index in range(len(found) - 1, -1, -1))


def strings_in(value: Any) -> Iterator[str]:
    """Every text in ``value``; keys are not values."""
    return (found for _, found in walk(value) if isinstance(found, str))


def operations_in(value: Any) -> Iterator[tuple[Path, Tree]]:
    """Every mapping with an ``operation``, outermost first."""
    return ((path, found) for path, found in walk(value) if isinstance(found, dict) and operation_name(found))


def operation_name(value: Any) -> str:
    return text_of(value.get("operation")) if isinstance(value, dict) else ""


def references_in(value: Any) -> set[str]:
    """The names that ``$name`` and ``$name.part`` in ``value`` refer to, without the part."""
    return {text[1:].split(".", 1)[0] for text in strings_in(value) if len(text) > 1 and text.startswith("$")}


def number_of(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def mapping_of(value: Any) -> Tree:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def mappings_in(value: Any) -> list[Tree]:
    return [item for item in list_of(value) if isinstance(item, dict)]


def shown(path: Path) -> str:
    """``articles/0/text``; the whole document is ``(root)``."""
    return "/".join(str(part) for part in path) or "(root)"
