"""What a check may look at: the law, and what the run knows around it. All of it is handed in; nothing here reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from attrs import Factory, define, field, frozen

from protocols.lawschema import LawSchemas, has_markings, operation_names, shipped_schemas, version_of
from protocols.lawtree import (
    MARKINGS,
    UNTRANSLATABLES,
    Entry,
    Field,
    Tree,
    entries_of,
    law_date,
    number_of,
    text_of,
)

_SPACES = re.compile(r"\s+")
_IN_NUMBERS = re.compile(r"[., ]")
_EMPHASIS = re.compile(r"[*_`]+")
_LINKED = re.compile(r"\[([^\]\[]*)\](?:\([^()\s]{0,500}\)|\[[^\]\[]*\])")


@frozen
class Unreadable:
    """A law file that is there and cannot be read."""

    why: str


class CorpusView(Protocol):
    """Other laws as they are on the branch. The caller fetched them beforehand (:func:`protocols.gates.targets.laws_named`)."""

    def law_by_id(self, law_id: str, not_after: str | None) -> Tree | Unreadable | None:
        """The newest version of the law with this ``$id`` not after the ISO day; None when it was never harvested."""
        ...


class NoCorpus:
    """The corpus of a run that has none: every other law is outside it."""

    def law_by_id(self, law_id: str, not_after: str | None) -> Tree | Unreadable | None:
        return None


@frozen
class Surroundings:
    """``companions``: files that the agent wrote beside the law, by name. ``provided``: texts it was given besides the
    law. ``skipped``: entries that its report says need no section, with a reason."""

    schemas: LawSchemas = Factory(shipped_schemas)
    corpus: CorpusView = Factory(NoCorpus)
    companions: Mapping[str, str] = Factory(dict)
    provided: tuple[str, ...] = ()
    skipped: frozenset[str] = frozenset()


@define(slots=False)
class LawIndex:
    """The entries of a law by what checks look for: a law may name thousands of things, each thousands of times."""

    tree: Tree
    entries: list[Entry]

    @cached_property
    def interpreted(self) -> bool:
        """Whether any entry has a model that is not empty."""
        return any(entry.model for entry in self.entries)

    @cached_property
    def givers(self) -> dict[str, list[Entry]]:
        """By output name the entries that give it, in order."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            for name in sorted(entry.outputs):
                found.setdefault(name, []).append(entry)
        return found

    @cached_property
    def outputs(self) -> list[str]:
        """The names of all outputs, sorted."""
        return sorted(self.givers)

    @cached_property
    def declared(self) -> dict[str, Field]:
        """By output name its first declaration."""
        found: dict[str, Field] = {}
        for entry in self.entries:
            for output in entry.fields("output"):
                found.setdefault(output.name, output)
        return found

    @cached_property
    def under(self) -> dict[str, list[Entry]]:
        """By number the entries of that article: its own and its parts' (:func:`protocols.lawtree.is_under`)."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            parts = entry.number.split(".")
            for number in {".".join(parts[:length]) for length in range(1, len(parts) + 1)}:
                found.setdefault(number, []).append(entry)
        return found


@define(slots=False)
class LawReading:
    """A law that can be read, with what the checks ask of it more than once."""

    tree: Tree
    around: Surroundings
    _indexes: dict[int, LawIndex] = field(init=False, factory=dict, repr=False)

    @cached_property
    def entries(self) -> list[Entry]:
        return entries_of(self.tree)

    @cached_property
    def modelled(self) -> list[Entry]:
        """The entries that have a section, an empty one included."""
        return [entry for entry in self.entries if entry.model is not None]

    @cached_property
    def law_id(self) -> str:
        return text_of(self.tree.get("$id"))

    @cached_property
    def bwb_id(self) -> str:
        return text_of(self.tree.get("bwb_id"))

    @cached_property
    def date(self) -> str | None:
        return law_date(self.tree)

    @cached_property
    def version(self) -> str | None:
        return version_of(self.tree)

    @cached_property
    def operations(self) -> frozenset[str]:
        return operation_names(self.version)

    @property
    def gap_key(self) -> str:
        """The key for gaps that this file's version knows: what a text to the agent must name."""
        return MARKINGS if has_markings(self.version) else UNTRANSLATABLES

    @cached_property
    def words(self) -> str:
        """The whole law's text, :func:`plain` and in lower case."""
        return plain(" ".join(entry.text for entry in self.entries)).casefold()

    @cached_property
    def bare_words(self) -> str:
        """:attr:`words` without spaces and the marks inside numbers, to look for a number however it is written."""
        return _IN_NUMBERS.sub("", self.words)

    @property
    def producers(self) -> dict[str, list[Entry]]:
        """By output name the entries of this law that give it, in order."""
        return self.index.givers

    @property
    def index(self) -> LawIndex:
        return self.index_of(self.tree)

    def index_of(self, tree: Tree) -> LawIndex:
        """The index of this law or of another one, made once."""
        if id(tree) not in self._indexes:  # the index keeps the tree, so that no other one gets its id
            self._indexes[id(tree)] = LawIndex(tree, self.entries if tree is self.tree else entries_of(tree))
        return self._indexes[id(tree)]

    @cached_property
    def plain_texts(self) -> dict[int, str]:
        """The text of each entry by its index, :func:`plain` and in lower case."""
        return {entry.index: plain(entry.text).casefold() for entry in self.entries}

    def other(self, law_id: str) -> Tree | Unreadable | None:
        """Another law; this one for its own id."""
        if law_id == self.law_id:
            return self.tree
        return self.around.corpus.law_by_id(law_id, self.date)

    def under(self, number: str) -> list[Entry]:
        """The entries of one article: its own and its parts'."""
        return self.index.under.get(number, [])


def article_of(entry: Entry) -> str:
    """How a finding names an entry: by number, else by place."""
    return number_of(entry.number) or f"at place {entry.index + 1}"


def plain(text: str) -> str:
    """Text as it reads: links without their address, no emphasis, single spaces."""
    return _SPACES.sub(" ", _EMPHASIS.sub(" ", _LINKED.sub(r"\1", text))).strip()
