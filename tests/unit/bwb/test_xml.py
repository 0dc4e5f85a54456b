"""Reading XML from strangers: limits, entities, and what is no law text at all (D36, BW-12, BW-13)."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from protocols.bwb import xml
from protocols.bwb.errors import ConversionError, MalformedLaw, RefusedLaw
from protocols.bwb.toestand import Style, convert
from protocols.bwb.xml import parse_xml
from protocols.failures import JobEnd, verdict_of
from tests.kit import toestand as kit

ROOT = Path(__file__).parents[3]


def reason(data: bytes) -> str:
    with pytest.raises(ConversionError) as failure:
        parse_xml(data, what="file")
    return failure.value.reason


def test_a_document_is_read_with_text_around_comments_kept_whole() -> None:
    root = parse_xml(b"<a>een<!-- weg --> twee<?weg?> drie</a>", what="file")
    assert root.text == "een twee drie"


def test_the_encoding_line_of_a_file_is_honoured() -> None:
    root = parse_xml('<?xml version="1.0" encoding="ISO-8859-1"?><a>co\xebrdinatie</a>'.encode("latin-1"), what="file")
    assert root.text == "coërdinatie"


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"   \n ", "empty"),
        (b" " * 100, "empty"),
        (b"<!DOCTYPE html><html><body>503</body></html>", "html"),
        (b'\n<?xml version="1.0"?>\n<!-- x --><HTML>', "html"),
        (b"Service unavailable", "syntax"),
        (b"<toestand><wetgeving>", "syntax"),
        (b"<a>\xff\xfe</a>", "syntax"),
        (b"<a>&bestaatniet;</a>", "syntax"),
    ],
)
def test_what_is_no_complete_xml_is_malformed_and_may_be_fetched_again(data: bytes, word: str) -> None:
    with pytest.raises(MalformedLaw) as failure:
        parse_xml(data, what="text of BWBR0099001")
    assert failure.value.reason == word
    assert "text of BWBR0099001" in failure.value.message
    assert verdict_of(failure.value).job is JobEnd.RETRY
    assert failure.value.to_result() == {"error": failure.value.message, "kind": "malformed_law", "reason": word}


def test_a_doctype_is_read_over_without_loading_its_dtd() -> None:  # BW-13, and every dump from before 2015
    root = parse_xml(b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/never.dtd"><a>tekst</a>', what="file")
    assert root.text == "tekst"


BOMB = b"".join(
    [
        b'<!DOCTYPE a [<!ENTITY l0 "lol">',
        *(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 12)),
        b"]>",
    ]
)


@pytest.mark.parametrize(
    "data",
    [
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>',
        b'<!DOCTYPE a [<!ENTITY % x SYSTEM "file:///etc/hostname"> %x;]><a/>',
        b'<!DOCTYPE a [<!ENTITY x "y">]><a b="&x;"/>',
        b'<!DOCTYPE a SYSTEM "a.dtd"><a>&euml;</a>',
        BOMB + b"<a>&l11;</a>",
        BOMB + b'<a b="&l11;"/>',
        BOMB + b"<a>" + b"<b>" * 400 + b"&l11;" + b"</b>" * 400 + b"</a>",
        (BOMB + b"<a>&l11;</a>").decode().encode("utf-16"),
    ],
    ids=["external", "parameter", "internal", "of a dtd", "bomb", "bomb in attribute", "deep bomb", "utf-16 bomb"],
)
def test_entities_are_refused_quickly_and_nothing_of_them_is_read(data: bytes) -> None:  # BW-13
    start = time.process_time()
    with pytest.raises(RefusedLaw) as failure:
        parse_xml(data, what="file")
    assert failure.value.reason == "entities"
    assert time.process_time() - start < 1.0
    assert verdict_of(failure.value).job is JobEnd.TERMINAL


def nested(depth: int) -> bytes:
    return b"<a>" * depth + b"diep" + b"</a>" * depth


def test_nesting_within_the_parsers_limit_and_beyond_it_is_read() -> None:  # BW-12
    assert parse_xml(nested(200), what="file").tag == "a"
    assert parse_xml(nested(300), what="file").tag == "a"
    assert parse_xml(nested(1000), what="file").tag == "a"


@pytest.mark.parametrize("depth", [1001, 5000])
def test_nesting_beyond_our_own_limit_is_refused(depth: int) -> None:  # BW-12
    assert reason(nested(depth)) == "too_deep"


def test_a_text_longer_than_the_parsers_limit_is_read() -> None:  # BW-12
    root = parse_xml(b"<a>" + b"x" * 10_000_001 + b"</a>", what="file")
    assert root.text is not None
    assert len(root.text) == 10_000_001


def test_a_cut_off_document_that_is_also_deep_is_malformed() -> None:
    assert reason(b"<a>" * 400) == "syntax"


def test_a_document_beyond_the_size_limit_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MAX_BYTES", 100)
    assert reason(b"<a>" + b"x" * 100) == "too_large"


def deep_law(depth: int, opening: str, closing: str) -> bytes:
    inner = opening * depth + "<al>helemaal onderin</al>" + closing * depth
    return kit.toestand(kit.article(inner))


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize(
    ("depth", "opening", "closing"),
    [
        (480, "<lijst><li><li.nr>a.</li.nr>", "</li></lijst>"),
        (480, '<lijst type="ongemarkeerd"><li>', "</li></lijst>"),
        (960, "<lid>", "</lid>"),
        (960, "<onbekend>", "</onbekend>"),
        (960, "<al>", "</al>"),
        (960, "<nadruk>", "</nadruk>"),
        (190, "<table><tgroup><tbody><row><entry>", "</entry></row></tbody></tgroup></table>"),
        (960, "<formule>", "</formule>"),
        (960, "<math>", "</math>"),
    ],
)
def test_deep_nesting_of_any_kind_converts_without_recursion(
    style: Style, depth: int, opening: str, closing: str
) -> None:
    conversion = convert(deep_law(depth, opening, closing), kit.FACTS, style)
    if style is Style.FULL:
        assert "onderin" in conversion.law.articles[0].text


def test_divisions_nested_a_thousand_deep_end_up_in_a_structure_that_can_be_read_again() -> None:
    body = "<hoofdstuk>" * 980 + kit.article("<al>Tekst.</al>") + "</hoofdstuk>" * 980
    structure = kit.law(body).structure
    depth, division = 0, structure[0]
    while division.children:
        depth, division = depth + 1, division.children[0]
    assert depth < 25


def test_nothing_but_the_hardened_parsers_reads_markup() -> None:  # BW-13
    allowed = {"protocols/bwb/xml.py", "protocols/webpage/tree.py"}
    readers = {"fromstring", "document_fromstring", "fragment_fromstring", "iterparse", "XML", "HTML", "XMLParser"}
    parsers = {"etree", "html", "lxml", "objectify", "minidom", "ElementTree", "sax", "pulldom"}
    found = set()
    for folder in ("protocols", "schema", "actors", "supervisor"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                    continue
                if node.attr in readers or (node.attr == "parse" and node.value.id in parsers):
                    found.add(str(path.relative_to(ROOT)))
    assert found <= allowed
    assert "protocols/bwb/xml.py" in found
