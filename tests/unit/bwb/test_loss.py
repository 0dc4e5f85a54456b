"""The loss measure: it finds what is there, and notices what is not (D32)."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import yaml

from protocols.bwb.errors import MalformedLaw
from protocols.bwb.loss import LossReport, loss_report
from protocols.bwb.toestand import Style, convert
from protocols.lawyaml import dump_law
from tests.kit import toestand as kit

BODY = (
    "<hoofdstuk><kop><label>Hoofdstuk</label><nr>1.</nr><titel>Begrippen</titel></kop>"
    "<artikel><kop><label>Artikel</label><nr>5*</nr><titel>Doel van de regeling</titel></kop><lid><lidnr>1</lidnr>"
    '<al>De <extref doc="jci1.3:c:BWBR0001840&amp;artikel=89">Grondwet [oud]</extref> telt CO<inf>2</inf>,x|y mee:</al>'
    "<lijst><li><li.nr>a.</li.nr><al>eerste geval</al></li><li><li.nr>b.</li.nr><al>tweede geval<noot><noot.nr>1</noot.nr>"
    "<noot.al>Een noot onderaan.</noot.al></noot> gaat door</al></li></lijst><meta-data><x>verborgen</x></meta-data></lid>"
    "<lijst><li><li.nr>–</li.nr><al>streepje</al></li></lijst></artikel></hoofdstuk>"
    "<artikel><kop><nr>6</nr></kop><al>Slotbepaling van de wet.</al></artikel>"
)
AFTER = (
    "<bijlage><kop><label>Bijlage</label><nr>1</nr><titel>Tarief</titel></kop><table><tgroup><tbody><row><entry><al>dag|nacht</al>"
    "</entry><entry><al>€ 2,50</al></entry></row></tbody></tgroup></table></bijlage>"
    "<wetsluiting><slotformulering><al>Lasten en bevelen.</al></slotformulering></wetsluiting>"
)
BEFORE = (
    "<intitule>Wet over ladders</intitule><citeertitel>Ladderwet</citeertitel><aanhef><wij>Wij, Koning,</wij></aanhef>"
)
XML = kit.toestand(BODY, before=BEFORE, after=AFTER)


def loaded(style: Style = Style.FULL) -> dict[str, Any]:
    found = yaml.load(dump_law(convert(XML, kit.FACTS, style).law), Loader=yaml.CSafeLoader)
    assert isinstance(found, dict)
    return found


def report(law: dict[str, Any]) -> LossReport:
    return loss_report(XML, law)


def test_nothing_is_lost_in_full_and_what_is_left_out_is_counted_by_element() -> None:
    found = report(loaded())
    assert found.lost == ()
    assert found.left_out == {"label": len("HoofdstukArtikelBijlage"), "li.nr": 1, "meta-data": len("verborgen")}
    assert found.characters_out >= found.characters_in - sum(found.left_out.values()) + len("verborgen")


def test_the_older_style_loses_what_full_keeps() -> None:
    places = [(piece.place, piece.text) for piece in report(loaded(Style.ARTICLE)).lost]
    assert ("artikel 5*/lid 1/al/inf", "2") in places
    assert any(text == "Lasten en bevelen." for _, text in places)


def test_the_summary_names_places_and_counts_for_a_job_result() -> None:
    law = loaded()
    law["articles"][1]["text"] = "Slotbepaling van wet."
    summary = report(law).summary()
    assert summary["lost"] == len("Slotbepalingvandewet.")
    assert summary["lost_places"] == ["artikel 6/al: Slotbepaling van de wet."]


def texts(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the words of the law stand in a loaded file."""
    if isinstance(node, dict):
        skipped = {
            "url",
            "references",
            "type",
            "status",
            "$id",
            "$schema",
            "regulatory_layer",
            "bwb_id",
            "publication_date",
            "valid_from",
        }
        return [found for key, value in node.items() if key not in skipped for found in texts(value, (*path, key))]
    if isinstance(node, list):
        return [found for index, value in enumerate(node) for found in texts(value, (*path, index))]
    return [path]


def at(law: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        law = law[step]
    return law


@pytest.mark.parametrize("seed", range(120))
def test_any_word_that_disappears_from_the_file_is_noticed(seed: int) -> None:
    choose = random.Random(seed)
    law = copy.deepcopy(loaded())
    path = choose.choice([path for path in texts(law) if path[0] != "structure" or path[-1] == "title"])
    words = at(law, path).split("\n[ref1]:")[0].split()
    index = choose.choice([n for n, word in enumerate(words) if any(char.isalnum() for char in word.split("][")[0])])
    at(law, path[:-1])[path[-1]] = at(law, path).replace(words[index], "", 1)
    assert report(law).lost_characters > 0, (path, words[index])


def test_swapped_articles_are_noticed() -> None:
    law = loaded()
    first, second = law["articles"]
    first["text"], second["text"] = second["text"], first["text"]
    assert report(law).lost_characters > 0


def test_a_document_that_is_no_xml_is_a_typed_error() -> None:
    with pytest.raises(MalformedLaw):
        loss_report(b"<html>", {})


def test_the_title_of_an_annex_may_look_like_a_footnote() -> None:
    annex = '<bijlage><kop><nr>3</nr><titel><nootref refid="n1"/>: tarieven</titel></kop><al>x<noot id="n1"><noot.nr>1</noot.nr>'
    xml = kit.toestand("", after=annex + "<noot.al>euro</noot.al></noot></al></bijlage>")
    written = dump_law(convert(xml, kit.FACTS, Style.FULL).law)
    assert loss_report(xml, yaml.load(written, Loader=yaml.CSafeLoader)).lost == ()
