"""What happens when in a round: all of it follows from the seed, so a round can be played again."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import frozen

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


def plan_of(seed: int, faults: int, kinds: Sequence[str]) -> Plan:
    """Kinds are dealt like cards, so that each comes before any comes twice."""
    random_ = random.Random(seed)
    seats = random_.randint(2, 4)
    deck: list[str] = []
    dealt = []
    for n in range(faults):
        if not deck:
            deck = random_.sample(sorted(kinds), len(kinds))
        at_s = round((n + random_.random()) * GAP_S, 2)
        dealt.append(Fault(at_s, deck.pop(), random_.randrange(seats), random_.getrandbits(32)))
    return Plan(seed, seats, tuple(dealt))
