"""The entry point: facts that come from outside, facts of a text itself (D37), and documents that are no law text."""

from __future__ import annotations

from datetime import date

import attrs
import pytest

from protocols.bwb.errors import ConversionError, MalformedLaw, RefusedLaw
from protocols.bwb.toestand import Style, convert, convert_alone, facts_of
from protocols.failures import JobEnd, verdict_of
from protocols.law import Layer
from tests.kit import toestand as kit


def test_facts_from_outside_make_the_head_of_the_law() -> None:
    facts = attrs.evolve(kit.FACTS, valid_to=date(2025, 1, 1), warnings=("eerst",))
    conversion = convert(kit.toestand("<artikel><al>x</al></artikel>"), facts)
    law = conversion.law
    assert (law.title, law.layer, law.slug) == ("Ladderwet", Layer.WET, "ladderwet")
    assert (law.publication_date, law.valid_from, law.valid_to) == (date(2024, 1, 15), kit.DAY, date(2025, 1, 1))
    assert (law.bwb_id, law.url) == (kit.BWB_ID, kit.PAGE)
    assert conversion.warnings == law.warnings
    assert conversion.warnings[0] == "eerst"


def test_a_text_alone_states_its_own_title_kind_and_first_day() -> None:  # D37
    head = "<citeertitel>Ladderregeling </citeertitel>"
    facts = facts_of(kit.toestand("", before=head, soort="rijksKB"))
    assert (facts.title, facts.layer, facts.valid_from, facts.publication_date) == (
        "Ladderregeling", Layer.AMVB, kit.DAY, kit.DAY
    )  # fmt: skip
    assert facts.warnings == (
        "No metadata file (WTI): publication_date is set to valid_from (2024-03-01)",
        "Mapped soort-regeling 'rijksKB' to AMVB (closest schema match)",
    )


def test_a_text_without_a_short_title_is_called_by_its_long_one_or_its_id() -> None:
    assert facts_of(kit.toestand("", before="<intitule>Wet x</intitule>")).title == "Wet x"
    assert facts_of(kit.toestand("")).title == kit.BWB_ID


def test_a_given_day_goes_before_the_texts_own() -> None:
    conversion = convert_alone(kit.toestand(""), Style.ARTICLE, day=date(2020, 2, 2))
    assert (conversion.law.valid_from, conversion.law.publication_date) == (date(2020, 2, 2), date(2020, 2, 2))


def failure(xml: bytes) -> ConversionError:
    with pytest.raises(ConversionError) as caught:
        convert(xml, kit.FACTS)
    return caught.value


@pytest.mark.parametrize(
    ("xml", "reason", "says"),
    [
        (b"<error><msg>Geen  elementen</msg></error>", "service_error", "Geen elementen"),
        (b"<cvdr xmlns='x'/>", "wrong_root", "<cvdr>"),
        (b"<artikel/>", "wrong_root", "<artikel>"),
        (b"<toestand bwb-id='BWBR0099001'/>", "incomplete", "<wetgeving>"),
        (b"<wetgeving bwb-id='BWBR0000001'/>", "wrong_law", "BWBR0000001"),
    ],
)
def test_other_documents_are_refused_by_name(xml: bytes, reason: str, says: str) -> None:
    caught = failure(xml)
    assert isinstance(caught, MalformedLaw)
    assert (caught.reason, says in caught.message) == (reason, True)


def test_a_text_without_a_first_day_needs_one_and_says_how() -> None:
    with pytest.raises(RefusedLaw, match="--date YYYY-MM-DD") as caught:
        facts_of(f"<wetgeving bwb-id='{kit.BWB_ID}'/>".encode())
    assert verdict_of(caught.value).job is JobEnd.TERMINAL


@pytest.mark.parametrize(
    "attributes", ["", "bwb-id='BWBV0001000'", f"bwb-id='{kit.BWB_ID}' inwerkingtreding='gisteren'"]
)
def test_a_text_without_a_usable_id_or_day_is_incomplete(attributes: str) -> None:
    with pytest.raises(MalformedLaw) as caught:
        facts_of(f"<toestand {attributes}><wetgeving/></toestand>".encode())
    assert caught.value.reason == "incomplete"


def test_a_namespace_around_the_whole_text_changes_nothing() -> None:
    plain = kit.toestand(kit.article("<al>x</al>"))
    spaced = plain.replace(b"<toestand ", b'<toestand xmlns="urn:x" ', 1)
    assert convert(spaced, kit.FACTS) == convert(plain, kit.FACTS)
