"""Small invented laws for tests of the conversion: wrap a fragment into a toestand, convert it, look at one text."""

from __future__ import annotations

from datetime import date

from protocols.bwb.toestand import Conversion, LawFacts, Style, convert
from protocols.law import Law, Layer

BWB_ID = "BWBR0099001"
DAY = date(2024, 3, 1)
PAGE = "https://wetten.overheid.nl/BWBR0099001/2024-03-01"
FACTS = LawFacts(BWB_ID, "Ladderwet", Layer.WET, date(2024, 1, 15), DAY)


def toestand(body: str, *, before: str = "", after: str = "", soort: str = "wet", kind: str = "wet-besluit") -> bytes:
    """A toestand of the current format. ``body`` stands in the text, ``before`` and ``after`` around it."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<toestand bwb-id="{BWB_ID}" inwerkingtreding="{DAY.isoformat()}">'
        f'<bwb-inputbestand/><wetgeving soort="{soort}" xml:lang="nl">'
        f"<{kind}>{before}<wettekst>{body}</wettekst>{after}</{kind}></wetgeving></toestand>"
    ).encode()


def article(content: str, number: str = "1") -> str:
    return f'<artikel label="Artikel {number}"><kop><label>Artikel</label><nr>{number}</nr></kop>{content}</artikel>'


def converted(body: str, style: Style = Style.FULL, *, before: str = "", after: str = "") -> Conversion:
    return convert(toestand(body, before=before, after=after), FACTS, style)


def law(body: str, style: Style = Style.FULL, *, before: str = "", after: str = "") -> Law:
    return converted(body, style, before=before, after=after).law


def text(content: str, style: Style = Style.FULL) -> str:
    """The text of the only entry of an article that holds ``content``."""
    (entry,) = law(article(content), style).articles
    return entry.text


def classic(content: str) -> str:
    return text(content, Style.ARTICLE)
