"""What a crawl costs (``pipelines.md`` 4). Money is whole micros: 1 000 000 micros are one dollar."""

from __future__ import annotations

from attrs import field, frozen

from protocols.failures import InvalidInput, Permanent


def _whole(_: object, attribute: object, value: object) -> None:
    if type(value) is not int or value < 0:
        raise InvalidInput(f"a price is a whole number of micros, 0 or more, not {value!r}")


@frozen
class Pricing:
    """The price of one successful crawl, as configured. A run takes it once, before its first fetch (D64)."""

    enabled: bool = False
    micros_per_success: int = field(default=1000, validator=_whole)

    def billing_enabled(self) -> bool:
        """Whether crawls are charged at all."""
        return self.enabled

    @property
    def unit_price_micros(self) -> int | None:
        """What a run remembers. None: billing is off, and stays off for that run."""
        return self.micros_per_success if self.enabled else None

    def successes_to_micros(self, successes: int) -> int:
        """0 when billing is off."""
        return successes * self.micros_per_success if self.enabled else 0


class InsufficientCredits(Permanent):
    """The owner cannot pay for all of it, so none of it is begun. Amounts in micros; available is balance less holds."""

    kind = "out_of_credit"

    def __init__(self, *, required_micros: int, available_micros: int) -> None:
        super().__init__(
            f"{required_micros} micros of crawl credit are needed and {available_micros} are available",
            required_micros=required_micros,
            available_micros=available_micros,
        )
        self.required_micros = required_micros
        self.available_micros = available_micros
