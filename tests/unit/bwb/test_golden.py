"""Whole laws to the byte: an invented one in every style, and the real one that other writers were checked with."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from protocols.bwb.loss import loss_report
from protocols.bwb.toestand import LawFacts, Style, convert, convert_alone
from protocols.bwb.wti import parse_wti
from protocols.lawyaml import dump_law
from tests.kit import shared
from tests.kit.law_schema import assert_schema_valid
from tests.kit.yaml_readers import read_both

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bwb"
XML = FIXTURES / "lantaarnwet.xml"


@pytest.mark.claim("S0-030")
@pytest.mark.parametrize("style", Style)
def test_an_invented_law_with_a_bit_of_everything_is_written_to_the_byte(style: Style) -> None:
    expected = FIXTURES / f"lantaarnwet.{style.value}.yaml"
    assert dump_law(convert_alone(XML.read_bytes(), style).law) == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("style", Style)
def test_the_invented_law_is_schema_valid_and_reads_the_same_everywhere(style: Style) -> None:
    written = dump_law(convert_alone(XML.read_bytes(), style).law)
    assert read_both(written)["articles"]
    assert_schema_valid(written.encode())


def test_the_invented_law_loses_nothing_in_full() -> None:
    xml = XML.read_bytes()
    report = loss_report(xml, read_both(dump_law(convert_alone(xml).law)))
    assert report.lost == ()
    assert set(report.left_out) == {"bwb-inputbestand", "label", "meta-data"}


def test_the_invented_law_cites_what_its_text_cites() -> None:
    conversion = convert_alone(XML.read_bytes())
    assert conversion.referenced_bwb_ids == ("BWBR0001840", "BWBR0002399", "BWBR0006622")


@pytest.mark.claim("S0-030")
def test_the_healthcare_allowance_act_in_leaf_style_equals_the_file_of_the_older_writer() -> None:
    folder = shared.path("data/bwb/BWBR0018451")
    wti = parse_wti((folder / "BWBR0018451.WTI.xml").read_bytes(), "BWBR0018451")
    assert wti.publication_date is not None
    facts = LawFacts(wti.bwb_id, wti.title, wti.layer, wti.publication_date, date(2025, 1, 1), warnings=wti.warnings)
    conversion = convert((folder / "BWBR0018451_2025-01-01_0.xml").read_bytes(), facts, Style.LEAF)
    assert dump_law(conversion.law).encode() == (folder / "expected/2025-01-01.leaf.yaml").read_bytes()
    assert conversion.referenced_bwb_ids == (
        "BWBR0002638", "BWBR0011353", "BWBR0018450", "BWBR0018472", "BWBR0035917"
    )  # fmt: skip
