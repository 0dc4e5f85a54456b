"""Every real file there is: schema-valid, readable everywhere, nothing lost, or refused with the reason."""

from __future__ import annotations

import re
from datetime import date
from functools import cache

import pytest
from lxml import etree

from protocols.bwb.errors import ConversionError
from protocols.bwb.loss import loss_report
from protocols.bwb.toestand import Conversion, Style, convert_alone
from protocols.bwb.xml import parse_xml
from protocols.lawyaml import dump_law
from tests.kit import shared
from tests.kit.law_schema import assert_schema_valid
from tests.kit.yaml_readers import read_11, read_both

ALL = [str(path.relative_to(shared.FOLDER)) for path in shared.folder("data/bwb")]
LEGACY = [name for name in ALL if "/legacy" in name and "error" not in name]
CURRENT = [name for name in ALL if re.search(r"/BWBR[0-9]{7}_[0-9-]{10}_[0-9]", name)]
OTHER = [name for name in ALL if name not in LEGACY + CURRENT]
GARBLED = (
    "inf", "table", "noot", "nootref", "formule", "plaatje", "illustratie", "tussenkop", "redactie", "definitielijst", "sup", "sub"
)  # fmt: skip
"""What makes an article read differently in ``full`` (D32)."""


@cache
def converted(name: str, style: Style) -> Conversion:
    return convert_alone(content(name), style, day=date(2012, 10, 1) if name in LEGACY else None)


@cache
def content(name: str) -> bytes:
    return shared.path(name).read_bytes()


@cache
def written(name: str, style: Style) -> str:
    return dump_law(converted(name, style).law)


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("name", CURRENT + LEGACY)
def test_a_law_is_schema_valid_in_every_style(name: str, style: Style) -> None:
    assert_schema_valid(written(name, style).encode())


@pytest.mark.parametrize("name", CURRENT + LEGACY)
def test_no_word_is_lost(name: str) -> None:
    report = loss_report(content(name), read_11(written(name, Style.FULL)))
    assert report.lost == ()
    assert set(report.left_out) <= {"bwb-inputbestand", "label", "li.nr", "meta-data"}


@pytest.mark.parametrize("name", CURRENT)
def test_both_yaml_readers_get_the_same_values(name: str) -> None:
    assert read_both(written(name, Style.FULL))["bwb_id"] == converted(name, Style.FULL).law.bwb_id


@pytest.mark.claim("S0-035")
@pytest.mark.parametrize("name", CURRENT + LEGACY)
def test_follow_ups_equal_an_independent_scan_of_the_file(name: str) -> None:
    conversion = converted(name, Style.FULL)
    tags = re.findall(rb"<(?:ext|int)ref\b[^>]*>", content(name))
    scanned = {found.decode() for tag in tags for found in re.findall(rb"BWBR[0-9]{7}", tag)}
    assert set(conversion.referenced_bwb_ids) == scanned - {conversion.law.bwb_id}


@pytest.mark.parametrize("name", CURRENT)
def test_articles_in_which_nothing_was_lost_read_as_in_the_older_style(name: str) -> None:  # D31
    full = iter(converted(name, Style.FULL).law.articles)
    root = parse_xml(content(name), what="file")
    older = {(entry.number, entry.url): entry for entry in converted(name, Style.ARTICLE).law.articles}
    differing = {f"#Artikel{number}" for number in map(_fragment, filter(_is_garbled, root.iter("artikel")))}
    compared = 0
    for entry in full:
        known = older.get((entry.number, entry.url))
        if known is not None and not any(entry.url.endswith(fragment) for fragment in differing):
            assert entry.text == known.text
            compared += 1
    assert compared > 0


def _is_garbled(article: etree._Element) -> bool:
    if next(article.iter(*GARBLED), None) is not None:
        return True
    if any(not "".join(mark.itertext()).strip() for mark in article.iter("nadruk")):
        return True
    markers = [
        item.findtext("li.nr") or ""
        for found in article.iter("lijst")
        if found.get("type") == "ongemarkeerd"
        for item in found.iterchildren("li")
    ]
    return any(marker.strip() not in {"", "•", "–", "-", "—"} for marker in markers)


def _fragment(article: etree._Element) -> str:
    number = (article.findtext("kop/nr") or "").strip().replace(" ", "_")
    return "".join(char for char in number if char.isalnum() or char in "-_.~")


@pytest.mark.parametrize("name", OTHER)
def test_a_document_that_is_no_law_text_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConversionError) as failure:
        convert_alone(content(name))
    assert failure.value.reason in {"wrong_root", "service_error"}
