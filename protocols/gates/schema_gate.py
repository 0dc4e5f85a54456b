"""The schema gate: every breach of the law schema as ``instance path: message``, so that an agent sees where."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jsonschema_rs import Draft7Validator, ValidationError, ValidationErrorKind

from protocols.gates.findings import SCHEMA, Finding
from protocols.gates.yamlfault import yaml_fault
from protocols.lawschema import LawSchemas, version_of
from protocols.lawtree import Path, Tree, list_of, operation_name, read_tree, shown, text_of
from protocols.lawyaml import UnreadableLaw

MOST_IN_SECTION: Final = 200
"""More breaches of one section are not told: an agent gets the first of them only, whatever their number."""
_SECTION: Final = "machine_readable"
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=str)
_LONGEST_VALUE: Final = 80
_LONGEST_MESSAGE: Final = 400

_IN_SECTION: Final = re.compile(r"articles/(?P<entry>\d+)/machine_readable[/:]")

_Kind = ValidationErrorKind


def schema_findings(source: bytes, schemas: LawSchemas) -> list[Finding]:
    """What is wrong with a law file as a file: nothing, one fault of the YAML, or all breaches in document order."""
    try:
        tree = read_tree(source)
    except UnreadableLaw as fault:
        return [yaml_fault(SCHEMA, source, fault)]
    return tree_findings(tree, schemas)


def tree_findings(tree: Tree, schemas: LawSchemas) -> list[Finding]:
    """The breaches of the version that ``$schema`` names; a version that is not here is the one finding."""
    version = version_of(tree)
    validator = schemas.validator(version)
    if validator is None:
        named = version or (text_of(tree.get("$schema"))[:200] or "nothing")
        known = ", ".join(schemas.versions)
        return [Finding(SCHEMA, f"$schema: names {named}; the versions known here are {known}")]
    if validator.is_valid(tree):
        return []
    told = _told_in_parts(tree, validator) or {_told(leaf) for leaf in _faults(validator, tree)}
    return [Finding(SCHEMA, f"{shown(place)}: {message}") for place, message in sorted(told, key=_by_place)]


def _told_in_parts(tree: Tree, validator: Draft7Validator) -> set[tuple[Path, str]]:
    """The law without its sections, then section by section, each up to :data:`MOST_IN_SECTION` breaches.

    The library makes all errors of one validation before it gives the first, each with a copy of the value it is about:
    of a whole law that can be gigabytes.
    """
    articles = list_of(tree.get("articles"))
    bare = [_without_section(entry) for entry in articles]
    told = {_told(leaf) for leaf in _faults(validator, {**tree, "articles": bare} if articles else tree)}
    for position, entry in enumerate(articles):
        if isinstance(entry, dict) and _SECTION in entry:
            alone = {"articles": [entry]}
            found = {_told(leaf) for leaf in _faults(validator, alone) if _path(leaf)[:3] == ("articles", 0, _SECTION)}
            first = sorted(found, key=_by_place)[:MOST_IN_SECTION]
            told.update((("articles", position, *place[2:]), message) for place, message in first)
    return told


def _without_section(entry: Any) -> Any:
    return {key: value for key, value in entry.items() if key != _SECTION} if isinstance(entry, dict) else entry


def _faults(validator: Draft7Validator, value: Any) -> Iterator[ValidationError]:
    return (leaf for error in validator.iter_errors(value) for leaf in _leaves(error))


def _told(error: ValidationError) -> tuple[Path, str]:
    return _path(error), _message(error)


def section_of(finding: Finding) -> int | None:
    """The position of the entry in whose section the breach is; None: it is outside the sections that agents write, and
    no call can mend it, for all else is put back (D41)."""
    found = _IN_SECTION.match(finding.detail)
    return int(found["entry"]) if found else None


def faulty_sections(source: bytes, schemas: LawSchemas) -> frozenset[int]:
    """The positions of the entries whose section breaks the schema. UnreadableLaw."""
    sections = (section_of(finding) for finding in tree_findings(read_tree(source), schemas))
    return frozenset(position for position in sections if position is not None)


def _path(error: ValidationError) -> Path:
    return tuple(error.instance_path)


def _by_place(told: tuple[Path, str]) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Document order as far as a path tells: indexes as numbers, names after them."""
    place, message = told
    return tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in place), message


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """The faults to report for one: of "one of these" those of the branch that was meant, if it can be told."""
    kind = error.kind
    if not isinstance(kind, _Kind.OneOfNotValid | _Kind.AnyOf):
        yield error
        return
    meant = _meant(error, kind.context)
    if meant is None:
        yield error
        return
    for inner in meant:
        yield from _leaves(inner)


def _meant(error: ValidationError, branches: Sequence[Sequence[ValidationError]]) -> Sequence[ValidationError] | None:
    """The branch whose shape fits: the one whose ``operation`` matches, else the only one of the value's own type."""
    here = _path(error)
    if operation_name(error.instance):
        named = [branch for branch in branches if not _refuses(branch, (*here, "operation"))]
        fitting = [branch for branch in named if not _refuses(branch, here, types_only=True)]
        if len(fitting) == 1:
            return fitting[0]
    typed = [branch for branch in branches if not _refuses(branch, here, types_only=True)]
    return typed[0] if len(typed) == 1 else None


def _refuses(branch: Sequence[ValidationError], place: Path, *, types_only: bool = False) -> bool:
    """Whether a branch rejects the value at ``place`` for what it is, not for what is inside."""
    kinds: tuple[type, ...] = (_Kind.Type,) if types_only else (_Kind.Type, _Kind.Enum, _Kind.Constant)
    return any(_path(fault) == place and isinstance(fault.kind, kinds) for fault in branch)


def _message(error: ValidationError) -> str:
    """Short and complete: all candidates of an enumeration, never a whole subtree as the value."""
    kind = error.kind
    value = _short(error.instance)
    if isinstance(kind, _Kind.Enum):
        return f"{value} is not one of {', '.join(_short(option) for option in kind.options)}"
    if isinstance(kind, _Kind.Required):
        return f"the key {kind.property} is missing"
    if isinstance(kind, _Kind.AdditionalProperties):
        keys = ", ".join(sorted(key[:_LONGEST_VALUE] for key in kind.unexpected))
        return f"no such key here: {keys}"
    if isinstance(kind, _Kind.Type):
        return f"{value} is not of type {', '.join(kind.types)}"
    if isinstance(kind, _Kind.Pattern):
        return f"{value} does not match {kind.pattern}"
    if isinstance(kind, _Kind.OneOfNotValid | _Kind.AnyOf):
        return f"{value} fits none of the forms that are allowed here"
    return error.message[:_LONGEST_MESSAGE]


def _short(value: Any) -> str:
    text = ""
    for piece in _ENCODER.iterencode(value):  # no further than it is shown: the value may be nearly the whole section
        text += piece
        if len(text) > _LONGEST_VALUE:
            return f"{text[:_LONGEST_VALUE]}..."
    return text
