"""``ENRICH_FEEDBACK_ROUNDS``: how often a gate may send its findings back."""

from __future__ import annotations

import re
from typing import Final

from attrs import evolve, frozen

DEFAULT_ROUNDS: Final = 1
MOST_ROUNDS: Final = 20

_NUMBER = re.compile(r"[0-9]{1,3}")


@frozen
class Rounds:
    """Rounds per gate. ``binding`` None follows ``checks``; ``schema`` holds for the final schema gate too."""

    schema: int = DEFAULT_ROUNDS
    checks: int = DEFAULT_ROUNDS
    marking: int = DEFAULT_ROUNDS
    reconcile: int = DEFAULT_ROUNDS
    binding: int | None = None

    def of(self, gate: str) -> int:
        """The budget of a gate of :mod:`protocols.gates.table`, by name."""
        budgets = {
            "schema": self.schema,
            "checks": self.checks,
            "marking": self.marking,
            "reconcile": self.reconcile,
            "binding": self.checks if self.binding is None else self.binding,
            "schema-final": self.schema,
        }
        return budgets[gate]

    @property
    def possible(self) -> int:
        """How many feedback calls one run may make: three window gates and three closing ones."""
        return sum(self.of(gate) for gate in ("schema", "checks", "marking", "reconcile", "binding", "schema-final"))


def parse_rounds(text: str) -> tuple[Rounds, str | None]:
    """The setting, and a warning when it cannot be read; then the default holds whole, never half of the text.

    A comma list: a bare number sets all gates, ``gate=n`` one of them; later parts win (``2,schema=1``). Empty is unset.
    """
    rounds = Rounds()
    for part in text.split(",") if text.strip() else ():
        gate, equals, written = (piece.strip() for piece in part.rpartition("="))
        if not _NUMBER.fullmatch(written) or int(written) > MOST_ROUNDS:
            return Rounds(), _warning(text, f"{part.strip()!r} is no whole number from 0 to {MOST_ROUNDS}")
        if not equals:
            number = int(written)
            rounds = Rounds(number, number, number, number)
        elif gate in ("schema", "checks", "marking", "reconcile", "binding"):
            rounds = evolve(rounds, **{gate: int(written)})
        else:
            return Rounds(), _warning(
                text, f"{gate!r} is no gate; they are schema, checks, marking, reconcile, binding"
            )
    return rounds, None


def _warning(text: str, why: str) -> str:
    return f"ENRICH_FEEDBACK_ROUNDS={text[:100]!r} is not used: {why}. Each gate gets {DEFAULT_ROUNDS} round"
