"""A CVDR text in the vocabulary of a toestand, so that one converter reads both.

The two schemas share most names. What differs: emphasis has elements of its own, item markers are attributes, links
point at ``CVDR://``, explanations stand beside the text, and articles may have no number.
"""

import re
from typing import Final

from lxml import etree

from protocols.law_ids import PUBLIC_CVDR

_EMPHASIS: Final = {"vet": "vet", "cursief": "cur", "onderstreept": "ondstr", "schuin": "cur", "vetcursief": "vet"}
_EXPLANATIONS: Final = frozenset(
    {
        "nota-toelichting",
        "toelichting",
        "algemene-toelichting",
        "artikelgewijze-toelichting",
        "artikelsgewijze-toelichting",
    }
)
_CVDR_LINK = re.compile(r"(?:[0-9.]+:)?CVDR:?/{0,2}(?:CVDR)?([0-9]{3,}(?:_[0-9]+)?)")
_ARTICLE_ON_PAGE = re.compile(r"^https?://wetten\.overheid\.nl/(BWBR[0-9]{7})[^#]*#Artikel([^&/]+)$")


def to_toestand(root: etree._Element) -> None:
    """Rewrite a ``cvdr`` tree without namespaces in place; no word of the text is added, dropped or moved.

    ``meta`` goes: it is read by :func:`protocols.cvdr.metadata.read_metadata` before.
    """
    for meta in root.findall("meta"):
        root.remove(meta)
    for element in list(root.iter(etree.Element)):
        tag = str(element.tag)
        if tag in _EMPHASIS:
            element.set("type", _EMPHASIS[tag])
            element.tag = "nadruk"
        elif tag == "li":
            _marker(element)
        elif tag in ("extref", "intref"):
            element.set("doc", link_target(element.get("doc", "")))
        elif tag == "br":
            _replace_by_space(element)
        elif tag in _EXPLANATIONS:
            _annex(element)


def without_annex_prefix(root: etree._Element) -> None:
    """The older converter knew no annexes here: their articles are numbered like all others (``harvester.md`` 14)."""
    for element in list(root.iter("bijlage")):
        element.tag = "bijlage-tekst"


def number_articles(root: etree._Element) -> int:
    """Give articles without any number ``_1``, ``_2``, ... as their label; returns how many there were."""
    count = 0
    for article in root.iter("artikel"):
        number = article.find("kop/nr")
        written = "" if number is None else (number.text or "").strip()
        if written or article.get("label", "").strip():
            continue
        count += 1
        if number is not None and number.getparent() is not None:
            number.tag = "nr-leeg"  # an empty number would hide the label
        article.set("label", f"Artikel _{count}")
    return count


def link_target(doc: str) -> str:
    """A citation as an address that works, or as the jci citation it stands for.

    ``CVDR://90762_1`` is the page of that regulation; a page of wetten.overheid.nl with an article anchor is a citation.
    """
    own = _CVDR_LINK.fullmatch(doc.strip())
    if own is not None:
        return f"{PUBLIC_CVDR}/CVDR{own[1]}"
    page = _ARTICLE_ON_PAGE.match(doc.strip())
    return f"jci1.3:c:{page[1]}&artikel={page[2]}" if page is not None else doc


def _marker(item: etree._Element) -> None:
    """``<li nr="a.">`` becomes ``<li><li.nr>a.</li.nr>``; a marker that stands there already is kept."""
    number = item.get("nr", "").strip()
    if not number or item.find("li.nr") is not None:
        return
    marker = etree.Element("li.nr")
    marker.text = number
    marker.tail, item.text = item.text, None
    item.insert(0, marker)


def _replace_by_space(element: etree._Element) -> None:
    parent, previous = element.getparent(), element.getprevious()
    if parent is None:
        return
    words = f" {element.tail or ''}"
    if previous is None:
        parent.text = (parent.text or "") + words
    else:
        previous.tail = (previous.tail or "") + words
    element.tail = None
    parent.remove(element)


def _annex(element: etree._Element) -> None:
    """An explanation of the whole is an annex; one inside an article or another annex is part of that."""
    if next(element.iterancestors("artikel", "bijlage"), None) is not None:
        return
    if element.find("kop") is None:
        heading = etree.Element("kop")
        etree.SubElement(heading, "titel").text = str(element.tag).replace("-", " ").capitalize()
        heading.tail, element.text = element.text, None
        element.insert(0, heading)
    element.tag = "bijlage"
