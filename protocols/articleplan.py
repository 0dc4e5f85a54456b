"""Which articles are to be enriched so that some chosen ones rest on models: what they cite, over laws (``enrich.md`` 13)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Self

from attrs import field, frozen

from protocols.failures import InvalidInput
from protocols.lawtree import Entry, Tree, entries_of, is_under, mappings_in, text_of, top_article
from protocols.windows import cited_articles

_MOST_SHOWN: Final = 20


@frozen
class LawParts:
    """A law of the corpus as the plan sees it. ``path`` is relative to the corpus."""

    path: str
    bwb_id: str
    entries: tuple[Entry, ...] = field(repr=False)

    @classmethod
    def of(cls, path: str, tree: Tree) -> Self:
        return cls(path, text_of(tree.get("bwb_id")), tuple(entries_of(tree)))

    @property
    def tops(self) -> tuple[str, ...]:
        """Its articles, in order."""
        return tuple(dict.fromkeys(top_article(entry.number) for entry in self.entries if entry.number))

    def under(self, article: str) -> tuple[Entry, ...]:
        """The entries of an article (``2``) or of a part of one (``2.1``); none when the law has no such article."""
        return tuple(entry for entry in self.entries if is_under(entry.number, article))


@frozen
class PlannedLaw:
    """``positions`` of the entries of ``articles``, in document order. ``depth``: so many laws away from the chosen ones."""

    path: str
    articles: tuple[str, ...]
    positions: tuple[int, ...]
    depth: int = 0


@frozen
class ArticlePlan:
    """``laws`` in the order to work in: the deepest first, the chosen one last. ``left_out``: citations that lead nowhere."""

    laws: tuple[PlannedLaw, ...]
    left_out: tuple[str, ...] = ()


FindLaw = Callable[[str], LawParts | str]
"""The law with a BWB id, or why there is none, as what follows "the law": is not in the corpus."""


def plan_articles(
    start: LawParts, articles: Sequence[str], *, depth: int | None, most: int, find: FindLaw
) -> ArticlePlan:
    """The ``articles`` of ``start`` and what they cite, directly or over others. A step into another law costs one of
    ``depth``, one inside a law nothing; None follows no citation at all.

    InvalidInput for an article that the law does not have, and for a plan of more than ``most`` articles.
    """
    for article in articles:
        if not start.under(article):
            shown = ", ".join(start.tops[:_MOST_SHOWN]) + (", ..." if len(start.tops) > _MOST_SHOWN else "")
            raise InvalidInput(f"{start.path} has no article {article[:40]!r}; its articles are {shown or 'none'}")
    laws: dict[str, LawParts] = {}
    costs: dict[tuple[str, str], int] = {}
    left_out: dict[str, None] = {}
    pending = deque((start, article, 0) for article in articles)
    while pending:  # the cheapest first: free steps go to the front
        law, article, cost = pending.popleft()
        if (law.path, article) in costs:
            continue
        laws.setdefault(law.path, law)
        costs[law.path, article] = cost
        if len(costs) > most:
            raise InvalidInput(
                f"the plan has more than {most} articles: lower --depth, choose fewer, or raise --max-plan-articles"
            )
        if depth is None:
            continue
        pending.extendleft((law, cited, cost) for cited in _cited_inside(law, article))
        for bwb_id, number in _cited_elsewhere(law, article) if cost < depth else ():
            other = find(bwb_id)
            if isinstance(other, LawParts) and other.under(number):
                pending.append((other, number, cost + 1))
            else:
                why = other if isinstance(other, str) else "has no such article there"
                left_out.setdefault(f"{bwb_id} article {number}: the law {why}")
    return ArticlePlan(_in_order(laws, costs), tuple(left_out))


def _cited_inside(law: LawParts, article: str) -> Iterator[str]:
    """Articles of the law itself that the texts of ``article`` cite, in words or as a reference."""
    for entry in law.under(article):
        yield from cited_articles(entry.text, law.tops)
        for bwb_id, number in _references(entry):
            if bwb_id == law.bwb_id and law.under(number):
                yield number


def _cited_elsewhere(law: LawParts, article: str) -> Iterator[tuple[str, str]]:
    for entry in law.under(article):
        yield from ((bwb_id, number) for bwb_id, number in _references(entry) if bwb_id != law.bwb_id)


def _references(entry: Entry) -> Iterator[tuple[str, str]]:
    """BWB id and article of what the entry refers to; a reference to a whole law names no article to enrich."""
    for item in mappings_in(entry.raw.get("references")):
        bwb_id, number = text_of(item.get("bwb_id")), text_of(item.get("artikel"))
        if bwb_id and number:
            yield bwb_id, number


def _in_order(laws: Mapping[str, LawParts], costs: Mapping[tuple[str, str], int]) -> tuple[PlannedLaw, ...]:
    planned = []
    for path, law in laws.items():
        articles = tuple(article for where, article in costs if where == path)
        entries = {entry.index for article in articles for entry in law.under(article)}
        depth = min(cost for (where, _), cost in costs.items() if where == path)
        planned.append(PlannedLaw(path, articles, tuple(sorted(entries)), depth))
    return tuple(sorted(planned, key=lambda one: -one.depth))
