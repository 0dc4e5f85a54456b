"""CBS codes of the makers of local regulations."""

import re

import pytest

from protocols.cvdr.areas import _codes, area_code
from protocols.law import Layer

GM, PV, WS = Layer.GEMEENTELIJKE_VERORDENING, Layer.PROVINCIALE_VERORDENING, Layer.WATERSCHAPS_VERORDENING


@pytest.mark.parametrize(
    ("layer", "name", "code"),
    [
        (GM, "Utrecht", "GM0344"),
        (PV, "Utrecht", "PV26"),
        (GM, "Kampen", "GM0166"),
        (GM, "gemeente Kampen", "GM0166"),
        (GM, "Gemeente  's-Gravenhage", "GM0518"),
        (GM, "Den Haag", "GM0518"),
        (GM, "’s-Hertogenbosch", "GM0796"),
        (GM, "Súdwest-Fryslân", "GM1900"),
        (GM, "SUDWEST-FRYSLAN", "GM1900"),
        (GM, "Hengelo (O)", "GM0164"),
        (GM, "Laren (NH)", "GM0417"),
        (GM, "Bergen (NH)", "GM0373"),
        (GM, "Bergen (NH.)", "GM0373"),
        (GM, "Bergen (Limburg)", "GM0893"),
        (GM, "Nuenen, Gerwen en Nederwetten", "GM0820"),
        (GM, "Spijkenisse", "GM0612"),
        (GM, "Voorne aan Zee", "GM1992"),
        (PV, "Friesland", "PV21"),
        (PV, "Provincie Fryslân", "PV21"),
        (PV, "Noord-Holland", "PV27"),
        (WS, "Waterschap Amstel, Gooi en Vecht", "WS0155"),
        (WS, "Hoogheemraadschap van Delfland", "WS0372"),
        (WS, "Wetterskip Fryslân", "WS0653"),
        (WS, "Waterschap Limburg", "WS0665"),
        (WS, "Hoogheemraadschap van Schieland en de Krimpenerwaard", "WS0656"),
    ],
)
def test_a_maker_has_the_code_of_its_area(layer: Layer, name: str, code: str) -> None:
    assert area_code(layer, name) == code


@pytest.mark.parametrize(
    ("layer", "name"),
    [(GM, "Bergen"), (GM, ""), (GM, "Atlantis"), (PV, "Kampen"), (Layer.WET, "Utrecht"), (WS, "Utrecht")],
)
def test_an_unknown_or_ambiguous_maker_has_no_code(layer: Layer, name: str) -> None:
    assert area_code(layer, name) is None


def test_every_code_has_the_shape_that_the_law_schema_wants_and_belongs_to_one_area() -> None:
    shapes = {GM: r"GM[0-9]{4}", PV: r"PV[0-9]{2}", WS: r"WS[0-9]{4}"}
    for layer, codes in _codes().items():
        assert all(re.fullmatch(shapes[layer], code) for code in codes.values())
        assert len(set(codes.values())) == len(codes)
    assert len(_codes()[GM]) > 440
