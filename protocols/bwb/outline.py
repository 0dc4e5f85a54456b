"""The division tree under construction: where each article stands (D32, ``structure``)."""

from typing import Final

from protocols.bwb.walk import Task, run
from protocols.law import ArticleEntry, Division

MAX_DEPTH: Final = 20
"""Deeper divisions are put beside the last one that fits: readers of YAML cannot nest without end (D36)."""

_CONTINUED: Final = "vervolg"


class Outline:
    """One division with what stands in it. ``container`` is the element around articles that stand in no division."""

    def __init__(self, kind: str, number: str | None = None, title: str | None = None, depth: int = 0) -> None:
        self.type, self.number, self.title, self.depth = kind, number, title, depth
        self.container = kind
        self.entries: list[ArticleEntry] = []
        self.children: list[Outline] = []

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.children

    def below(self, kind: str, number: str | None, title: str | None) -> "Outline":
        """A new division inside this one."""
        child = Outline(kind, number, title, self.depth + 1)
        self.children.append(child)
        return child

    def add(self, number: str, title: str | None, status: str | None) -> None:
        """An article of this division. Behind a child division it goes into a part that says it goes on."""
        entry = ArticleEntry(number, title, status)
        if self.depth == 0:
            if not self.children or self.children[-1].type != self.container or self.children[-1].number:
                self.children.append(Outline(self.container, depth=1))
            self.children[-1].entries.append(entry)
        elif not self.children:
            self.entries.append(entry)
        else:
            if self.children[-1].type != _CONTINUED:
                self.children.append(Outline(_CONTINUED, depth=self.depth + 1))
            self.children[-1].entries.append(entry)

    def divisions(self) -> tuple[Division, ...]:
        """The finished tree; empty when it would only repeat the list of articles."""
        if all(self._says_nothing(child) for child in self.children):
            return ()
        return run(_divisions(self))

    @staticmethod
    def _says_nothing(child: "Outline") -> bool:
        titled = any(entry.title or entry.status for entry in child.entries)
        return not (child.number or child.title or child.children or titled)


def _divisions(outline: Outline) -> Task[tuple[Division, ...]]:
    found: list[Division] = []
    for child in outline.children:
        below: tuple[Division, ...] = yield _divisions(child)
        beside: tuple[Division, ...] = ()
        if child.depth >= MAX_DEPTH:
            below, beside = (), below
        found.append(Division(child.type, child.number, child.title, tuple(child.entries), below))
        found += beside
    return tuple(found)
