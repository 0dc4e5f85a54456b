"""Amounts of money as text."""

from __future__ import annotations

from typing import Final

_MICROS: Final = 1_000_000


def dollars(micros: int) -> str:
    """Exact, with two decimals or as many as are needed: ``$5.00``, ``$4.998``, ``-$0.002``."""
    whole, part = divmod(abs(micros), _MICROS)
    decimals = f"{part:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if micros < 0 else ''}${whole}.{decimals}"
