"""Text above or below the line: ``CO<inf>2</inf>`` must not become "CO2" by accident nor lose its 2 (D32)."""

from typing import Final

_SUPER: Final = str.maketrans("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ")
_SUB: Final = str.maketrans("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")
_SUPER_KNOWN: Final = frozenset("0123456789+-=()")
_ORDINALS: Final = frozenset({"e", "de", "ste", "o", "a", "bis", "ter"})
"""What stands above the line out of habit only; on the line it reads the same."""


def superscript(text: str) -> str:
    """``2`` becomes ``²``; an ordinal ending stays as it is; anything else is marked with ``<sup>``."""
    core = text.strip()
    if not core or core.lower() in _ORDINALS:
        return core
    if _SUPER_KNOWN.issuperset(core) or core == "n":
        return core.translate(_SUPER)
    return f"<sup>{core}</sup>"


def subscript(text: str) -> str:
    """``2`` becomes ``₂``; what has no such character is marked with ``<sub>``."""
    core = text.strip()
    if not core:
        return ""
    return core.translate(_SUB) if _SUPER_KNOWN.issuperset(core) else f"<sub>{core}</sub>"
