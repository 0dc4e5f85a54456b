"""Numbers of articles, leden, items and annexes (``harvester.md`` 8 and 9)."""

from typing import Final

from lxml import etree

from protocols.bwb.xml import own_text

_ARTICLE: Final = "Artikel "


def clean_number(raw: str) -> str:
    """The number in ``raw`` as it is written in the YAML; empty when there is none.

    One trailing dot or degree sign goes; an asterisk, which marks a transitional article, becomes ``_bis``.
    """
    text = raw.strip()
    if text[-1:] in (".", "°"):
        text = text[:-1].rstrip()
    if text == "•":
        return ""
    return f"{text[:-1]}_bis" if text.endswith("*") else text


def written_number(article: etree._Element) -> str | None:
    """The number of an article as the XML writes it, for its address; ``None`` when it has none at all.

    A ``nr`` in the heading counts even when it is empty, else the label without the word Artikel.
    """
    number = article.find("kop/nr")
    if number is not None:
        return own_text(number)
    label = article.get("label")
    return None if label is None else label.removeprefix(_ARTICLE)


def article_number(article: etree._Element) -> str:
    """The cleaned number of an article; an empty ``nr`` gives way to a label that starts with ``Artikel``."""
    cleaned = clean_number(own_text(article.find("kop/nr")))
    if cleaned:
        return cleaned
    label = article.get("label", "")
    return clean_number(label.removeprefix(_ARTICLE)) if label.startswith(_ARTICLE) else ""


def annex_prefix(element: etree._Element) -> str:
    """``B1:`` for what stands in annex 1, else empty. Only the nearest annex counts, even when it has no number."""
    annex = next(element.iterancestors("bijlage"), None)
    number = "" if annex is None else own_text(annex.find("kop/nr"))
    return f"B{number}:" if number else ""
