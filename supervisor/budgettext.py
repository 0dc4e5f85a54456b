"""What people read of the hourly claude limit, the same in every place. Its hours are those of Amsterdam (D11)."""

from __future__ import annotations

from attrs import frozen

from protocols.budget import hourly_cap

UNKNOWN = "limit not known here (ENRICH_HOURLY_LIMIT is unset; a supervisor without it allows no claude run)"


@frozen
class Budget:
    """The hourly claude limit as configured where the question is asked; None: not configured there.

    Supervisors may run with another environment, so that None is no 0.
    """

    hourly_limit: int | None
    night_multiplier: int = 1

    def cap(self, local_hour: int) -> int | None:
        """None: not known."""
        return None if self.hourly_limit is None else hourly_cap(self.hourly_limit, self.night_multiplier, local_hour)


def configured(set_to: str | None, hourly_limit: int, night_multiplier: int) -> Budget:
    """``set_to`` is what the environment has for ENRICH_HOURLY_LIMIT, ``hourly_limit`` how that was read."""
    return Budget(hourly_limit if set_to else None, night_multiplier)


def refusal(cap: int | None, used: int, next_hour: int) -> str:
    """Why no claude job starts in this hour; empty where one may. ``next_hour`` is what clocks in Amsterdam show then."""
    if cap is None:
        return UNKNOWN
    if cap == 0:
        return "no claude run is allowed (ENRICH_HOURLY_LIMIT is 0 here)"
    if used < cap:
        return ""
    return f"waiting for next hour ({hour_text(next_hour)}): {used} of {cap} claude runs used"


def hour_text(local_hour: int) -> str:
    """``17:00 Amsterdam``."""
    return f"{local_hour:02}:00 Amsterdam"
