"""The model of a converted law."""

from datetime import date

import pytest

from protocols.law import Annex, Article, Law, Layer, Preamble, Reference, with_definitions


def a_law(**changes: object) -> Law:
    given: dict[str, object] = {
        "title": "Stepwet",
        "layer": Layer.WET,
        "publication_date": date(2024, 1, 2),
        "valid_from": date(2024, 2, 1),
        "url": "https://wetten.overheid.nl/BWBR0099007/2024-02-01",
        "bwb_id": "BWBR0099007",
        "articles": (),
    }
    return Law(**(given | changes))  # type: ignore[arg-type]


def test_the_slug_comes_from_the_title() -> None:
    assert a_law(title="Wet ’t Vliegend Hert ").slug == "wet_t_vliegend_hert"


def test_a_law_without_any_id_is_refused() -> None:
    with pytest.raises(ValueError, match="bwb_id or a cvdr_id"):
        a_law(bwb_id=None)


def test_the_directories_of_the_layers_are_their_names_in_lower_case() -> None:
    assert Layer.WATERSCHAPS_VERORDENING.directory == "waterschaps_verordening"
    assert Layer.MINISTERIELE_REGELING.directory == "ministeriele_regeling"


def test_only_local_layers_have_an_area_code() -> None:
    keys = {layer.name: layer.area_key for layer in Layer if layer.area_key}
    assert keys == {
        "GEMEENTELIJKE_VERORDENING": "gemeente_code",
        "PROVINCIALE_VERORDENING": "provincie_code",
        "WATERSCHAPS_VERORDENING": "waterschap_code",
    }


def test_definitions_follow_the_text_after_a_blank_line() -> None:
    references = (Reference("ref1", "BWBR0001840", artikel="89"), Reference("ref2", "BWBR0005537", hoofdstuk="4"))
    assert with_definitions("tekst", references) == (
        "tekst\n\n"
        "[ref1]: https://wetten.overheid.nl/BWBR0001840#Artikel89\n"
        "[ref2]: https://wetten.overheid.nl/BWBR0005537#Hoofdstuk4"
    )
    assert with_definitions("tekst", ()) == "tekst"


def test_a_reference_with_a_target_of_its_own_links_there() -> None:
    assert Reference("ref1", "BWBR0001840", target="https://wetten.overheid.nl/BWBR0001840#Bijlage1").url.endswith(
        "#Bijlage1"
    )


def test_cited_laws_are_unique_sorted_and_without_the_law_itself() -> None:
    law = a_law(
        preamble=Preamble("x", references=(Reference("ref1", "BWBR0005537"),)),
        articles=(
            Article("1", "x", "u", (Reference("ref1", "BWBR0001840"), Reference("ref2", "BWBR0099007"))),
            Article("2", "x", "u", (Reference("ref1", "BWBR0001840"),)),
        ),
        annexes=(Annex("1", "", "x", (Reference("ref1", "BWBR0001854"),)),),
    )
    assert law.referenced_bwb_ids == ("BWBR0001840", "BWBR0001854", "BWBR0005537")
