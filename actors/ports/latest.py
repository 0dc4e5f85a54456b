"""A slot that keeps the newest value per key: for progress, where a queue would only hide a slow reader (SD-07)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from attrs import define, field

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@define
class LatestWins(Generic[K, V]):
    """``put`` never waits and never fails, however slow the reader is."""

    _waiting: dict[K, V] = field(init=False, factory=dict)

    def put(self, key: K, value: V) -> None:
        self._waiting[key] = value

    def take_all(self) -> dict[K, V]:
        """Everything that waits; the slot is empty afterwards."""
        taken, self._waiting = self._waiting, {}
        return taken

    def put_back(self, values: Mapping[K, V]) -> None:
        """Return what could not be delivered, except where something newer arrived meanwhile."""
        self._waiting = {**values, **self._waiting}

    def __len__(self) -> int:
        return len(self._waiting)
