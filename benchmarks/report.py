"""What a benchmark gives back, and the table of all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from attrs import frozen


@frozen
class Row:
    """One comparison. ``ratio`` is ours against the peer's; ``aim`` is its bound, ``at_least`` says on which side."""

    name: str
    ours: str
    peer: str
    ratio: float
    aim: float
    at_least: bool

    @property
    def met(self) -> bool:
        return self.ratio >= self.aim if self.at_least else self.ratio <= self.aim


def table(rows: Iterable[Row]) -> str:
    """Readable in 120 columns."""
    lines = [f"{'what':<44} {'ours':>20} {'peer':>28} {'ratio':>7}  aim"]
    for row in rows:
        sign, mark = (">=" if row.at_least else "<="), ("met" if row.met else "MISSED")
        lines.append(f"{row.name:<44} {row.ours:>20} {row.peer:>28} {row.ratio:>7.2f}  {sign} {row.aim:g}x {mark}")
    return "\n".join(lines)


def median_ratio(rounds: Sequence[tuple[float, float]]) -> float:
    """The median of ours / peer, pair by pair: a machine whose speed drifts slows both of a pair."""
    return statistics.median(ours / peer for ours, peer in rounds)


def alternate(ours: Callable[[], float], peer: Callable[[], float], *, rounds: int) -> list[tuple[float, float]]:
    """One uncounted round, then ``rounds`` pairs, taking turns at who goes first."""
    ours()
    peer()
    pairs = []
    for number in range(rounds):
        if number % 2:
            theirs = peer()
            pairs.append((ours(), theirs))
        else:
            mine = ours()
            pairs.append((mine, peer()))
    return pairs
