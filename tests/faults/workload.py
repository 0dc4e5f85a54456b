"""The jobs of a round: short, of every sort, and each with one right end."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from tests.kit.bwb_works import Work, invented_work

PATIENT = 100
"""More attempts than any round of faults can use up."""


@frozen
class Order:
    """A probe to be. ``payload["fail"]`` is how it must end, else it must be completed."""

    law_id: str
    payload: Mapping[str, Any] = field(factory=dict)
    max_attempts: int = PATIENT


def workload(random_: random.Random, batch: int = 0) -> list[Order]:
    """Probes of all sorts, in an order that ``random_`` decides."""

    def about(seconds: float) -> float:
        return round(random_.uniform(0.1, 2) * seconds, 2)

    payloads: list[Mapping[str, Any]] = [
        *({"seconds": about(0.8)} for _ in range(10)),
        # long ones, so that a holder that lost its lease and did not notice would be seen at work beside the next one
        *({"seconds": round(random_.uniform(3, 11), 2)} for _ in range(4)),
        *({"seconds": round(random_.uniform(3, 11), 2), "child": True} for _ in range(2)),
        *({"seconds": about(0.2), "settle": True} for _ in range(10)),
        *({"seconds": about(1), "child": True} for _ in range(5)),
        *({"seconds": about(0.3), "push": True} for _ in range(7)),
        *({"seconds": about(0.5), "effect": True} for _ in range(3)),
        {"seconds": about(1.5), "deaf": True},
    ]
    orders = [Order("", payload) for payload in payloads]
    orders += [Order("", {"seconds": about(0.2), "fail": "transient"}, max_attempts=2) for _ in range(2)]
    orders += [Order("", {"seconds": about(0.2), "fail": kind}) for kind in ("permanent", "permanent")]
    orders += [Order("", {"fail": "crash"}, max_attempts=1)]
    random_.shuffle(orders)
    return [evolve(one, law_id=f"probe {batch}.{n}") for n, one in enumerate(orders)]


def laws(count: int, *, first: int = 1) -> Sequence[Work]:
    """Invented laws; none refers to another, so that nobody adds jobs."""
    return [invented_work(f"BWBR{n:07}", f"Wet nummer {n}") for n in range(first, first + count)]
