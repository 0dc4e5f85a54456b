"""What happens when in a round: all of it follows from the seed, so a round can be played again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator

from attrs import evolve, frozen

GAP_S = 1.5
"""Between two faults on average; most last longer, so that they overlap."""


@frozen
class Fault:
    """``seat`` is hit where the kind hits one; ``seed`` decides the rest (how long, which)."""

    at_s: float
    kind: str
    seat: int
    seed: int


@frozen
class Plan:
    seed: int
    seats: int
    faults: tuple[Fault, ...]


ALWAYS = frozenset({"failpoint before a commit", "failpoint after a commit"})
"""In every round, so that a run of consecutive seeds comes by every commit of the queue."""


def plan_of(seed: int, faults: int, kinds: Collection[str], gap_s: float = GAP_S) -> Plan:
    """Kinds are dealt like cards, so that each comes before any comes twice."""
    random_ = random.Random(seed)
    seats = random_.randint(2, 4)
    dealt = sorted(ALWAYS & set(kinds))[:faults]
    deck: list[str] = []
    while len(dealt) < faults:
        if not deck:
            deck = random_.sample(sorted(set(kinds) - ALWAYS or kinds), len(set(kinds) - ALWAYS or kinds))
        dealt.append(deck.pop())
    random_.shuffle(dealt)
    hits = [
        Fault(round((n + random_.random()) * gap_s, 2), kind, random_.randrange(seats), random_.getrandbits(32))
        for n, kind in enumerate(dealt)
    ]
    return Plan(seed, seats, tuple(_apart(hits, seats)))


def _apart(faults: list[Fault], seats: int) -> Iterator[Fault]:
    """A process has one failpoint: two of them at the same seat would leave the first one out."""
    first = next((fault.seat for fault in faults if fault.kind in ALWAYS), 0)
    marked = itertools.count(first)
    for fault in faults:
        yield evolve(fault, seat=next(marked) % seats) if fault.kind in ALWAYS else fault
