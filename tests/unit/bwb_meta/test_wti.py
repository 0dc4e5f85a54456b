"""Title, kind and publication date from the metadata file."""

from datetime import date
from pathlib import Path

import pytest

from protocols.bwb.wti import WrongDocument, layer_of, parse_wti
from protocols.law import Layer
from tests.kit import shared
from tests.kit.bwb_works import wti_xml

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bwb_meta"
LAW = "BWBR0099010"


def test_the_first_official_title_is_taken_trimmed_and_on_one_line() -> None:
    wti = parse_wti((FIXTURES / "wti.xml").read_bytes(), LAW)
    assert wti.title == "Regeling uitleen bakfietsen"
    assert wti.bwb_id == LAW


def test_the_publication_date_is_the_first_in_the_file() -> None:
    assert parse_wti((FIXTURES / "wti.xml").read_bytes(), LAW).publication_date == date(2025, 4, 20)


def test_a_ministerial_regulation_with_a_hyphen_gets_its_own_layer() -> None:
    wti = parse_wti((FIXTURES / "wti.xml").read_bytes(), LAW)
    assert (wti.layer, wti.warnings) == (Layer.MINISTERIELE_REGELING, ())


def test_in_parity_mode_the_hyphen_falls_back_to_wet_as_it_used_to() -> None:
    wti = parse_wti((FIXTURES / "wti.xml").read_bytes(), LAW, parity=True)
    assert wti.layer is Layer.WET
    assert wti.warnings == ("Unknown soort-regeling 'ministeriele-regeling', defaulting to WET",)


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        ('<citeertitel status="officieel"> </citeertitel><citeertitel status="officieel">Tweede</citeertitel>', ""),
        ('<citeertitel>Eerste</citeertitel><citeertitel status="officieel"/>', "Eerste"),
        ('<citeertitel status="officieus">Eerste</citeertitel>', "Eerste"),
        ('<citeertitel status="officieel">Wet <i>op</i> de fiets</citeertitel>', "Wet op de fiets"),
        ("", ""),
    ],
)
def test_an_empty_official_title_falls_back_to_the_first_of_all(titles: str, expected: str) -> None:
    assert parse_wti(f"<w>{titles}</w>".encode(), LAW).title == expected


def test_absent_facts_have_their_defaults() -> None:
    wti = parse_wti(b"<w/>", LAW)
    assert (wti.bwb_id, wti.title, wti.layer, wti.publication_date, wti.warnings) == (LAW, "", Layer.WET, None, ())


def test_a_publication_date_that_is_none_is_left_out_with_a_warning() -> None:
    wti = parse_wti(wti_xml(LAW, "Wet", published="../../etc"), LAW)
    assert wti.publication_date is None
    assert "publicatiedatum" in wti.warnings[0]


def test_the_file_of_another_law_is_refused() -> None:
    with pytest.raises(WrongDocument, match="BWBR0000001"):
        parse_wti(wti_xml("BWBR0000001", "Wet"), LAW)


@pytest.mark.parametrize(
    ("kind", "layer"),
    [
        ("grondwet", Layer.GRONDWET),
        ("wet", Layer.WET),
        ("Wet ", Layer.WET),
        ("rijkswet", Layer.WET),
        ("AMvB", Layer.AMVB),
        ("algemene-maatregel-van-bestuur", Layer.AMVB),
        ("ministeriële regeling", Layer.MINISTERIELE_REGELING),
        ("ministeriele-regeling", Layer.MINISTERIELE_REGELING),
        ("beleidsregel", Layer.BELEIDSREGEL),
        ("EU-verordening", Layer.EU_VERORDENING),
        ("eu-richtlijn", Layer.EU_RICHTLIJN),
        ("verdrag", Layer.VERDRAG),
        ("uitvoeringsbeleid", Layer.UITVOERINGSBELEID),
        ("gemeentelijke verordening", Layer.GEMEENTELIJKE_VERORDENING),
        ("provinciale verordening", Layer.PROVINCIALE_VERORDENING),
        ("waterschapsverordening", Layer.WATERSCHAPS_VERORDENING),
    ],
)
def test_known_kinds_map_without_a_warning(kind: str, layer: Layer) -> None:
    assert layer_of(kind) == (layer, None)


@pytest.mark.parametrize(
    ("kind", "layer"),
    [
        ("koninklijk besluit", Layer.AMVB),
        ("KB", Layer.AMVB),
        ("rijksKB", Layer.AMVB),
        ("regeling", Layer.MINISTERIELE_REGELING),
        ("zbo", Layer.MINISTERIELE_REGELING),
        ("pbo", Layer.MINISTERIELE_REGELING),
        ("reglement", Layer.MINISTERIELE_REGELING),
        ("verordening", Layer.GEMEENTELIJKE_VERORDENING),
    ],
)
def test_kinds_without_a_layer_of_their_own_map_to_the_closest_with_a_warning(kind: str, layer: Layer) -> None:
    assert layer_of(kind) == (layer, f"Mapped soort-regeling '{kind}' to {layer.value} (closest schema match)")


def test_an_unknown_kind_is_a_wet_with_a_warning_that_cannot_break_a_line() -> None:
    assert layer_of("Circulaire") == (Layer.WET, "Unknown soort-regeling 'circulaire', defaulting to WET")
    layer, warning = layer_of("x\n- y: " + "z" * 500)
    assert layer is Layer.WET
    assert warning is not None
    assert "\n" not in warning
    assert len(warning) < 200


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("ministeriele regeling", Layer.MINISTERIELE_REGELING), ("KB", Layer.AMVB), ("rijkswet", Layer.WET)],
)
def test_in_parity_mode_the_old_table_holds(kind: str, expected: Layer) -> None:
    layer, warning = layer_of(kind, parity=True)
    assert layer is expected
    assert (warning is None) == (kind == "ministeriele regeling")


@pytest.mark.parametrize(
    ("bwb_id", "title", "published"),
    [
        ("BWBR0018451", "Wet op de zorgtoeslag", date(2024, 10, 16)),
        ("BWBR0018472", "Algemene wet inkomensafhankelijke regelingen", None),
        ("BWBR0045754", "Wet open overheid", None),
    ],
)
def test_real_metadata_gives_title_and_layer(bwb_id: str, title: str, published: date | None) -> None:
    wti = parse_wti(shared.path(f"data/bwb/{bwb_id}/{bwb_id}.WTI.xml").read_bytes(), bwb_id)
    assert (wti.title, wti.layer, wti.warnings) == (title, Layer.WET, ())
    assert wti.publication_date is not None
    assert published in (None, wti.publication_date)
