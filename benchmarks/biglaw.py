"""An invented law as large as wanted, made of what large real ones are made of: mostly bookkeeping, leden and lists."""

from __future__ import annotations

from random import Random
from typing import Final

BWB_ID: Final = "BWBR0099901"
DAY: Final = "2024-03-01"
ARTICLES_IN_A_CHAPTER: Final = 25

_WORDS: Final = [
    "de",
    "het",
    "een",
    "van",
    "in",
    "op",
    "voor",
    "bij",
    "door",
    "aan",
    "lantaarn",
    "paal",
    "licht",
    "pad",
    "brug",
    "sluis",
    "gemeente",
    "college",
    "besluit",
    "vergunning",
    "aanvraag",
    "termijn",
    "bedrag",
    "percentage",
    "jaar",
    "maand",
    "dag",
    "eigenaar",
    "beheerder",
    "gebruiker",
    "wordt",
    "worden",
    "kan",
    "moet",
    "stelt",
    "regels",
    "nadere",
    "verleent",
    "weigert",
    "indien",
    "tenzij",
    "voorzover",
    "bedoelde",
    "genoemde",
    "eerste",
    "tweede",
    "artikel",
    "lid",
    "onderdeel",
]
_HEAD: Final = (
    f'<?xml version="1.0" encoding="UTF-8"?><toestand bwb-id="{BWB_ID}" inwerkingtreding="{DAY}"><bwb-inputbestand/>'
    '<wetgeving soort="wet" xml:lang="nl"><intitule>Wet op alle lantaarns</intitule><citeertitel>Grote lantaarnwet'
    "</citeertitel><wet-besluit><wettekst>"
)
_TAIL: Final = "</wettekst></wet-besluit></wetgeving></toestand>"


def big_law(size_bytes: int, seed: int = 1) -> bytes:
    """A toestand of at least ``size_bytes``, and at most a chapter more. The same for the same arguments."""
    writer = _Writer(Random(seed))
    chapters: list[str] = []
    size = len(_HEAD) + len(_TAIL)
    while size < size_bytes:
        chapters.append(writer.chapter(len(chapters) + 1))
        size += len(chapters[-1].encode())
    return "".join((_HEAD, *chapters, _TAIL)).encode()


class _Writer:
    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.article_number = 0
        self.identity = 1_000_000

    def chapter(self, number: int) -> str:
        articles = "".join(self.article() for _ in range(ARTICLES_IN_A_CHAPTER))
        heading = f"<kop><label>Hoofdstuk</label><nr>{number}</nr><titel>{self.words(4)}</titel></kop>"
        return f"<hoofdstuk {self.marks(f'/Hoofdstuk{number}')}>{heading}{articles}{self.bookkeeping()}</hoofdstuk>\n"

    def article(self) -> str:
        self.article_number += 1
        number = self.article_number
        heading = f"<kop><label>Artikel</label><nr>{number}</nr><titel>{self.words(3)}</titel></kop>"
        leden = "".join(self.lid(lid + 1) for lid in range(self.dice.randint(1, 5)))
        path = f"/Artikel{number}"
        return f'<artikel label="Artikel {number}" {self.marks(path)}>{heading}{leden}{self.bookkeeping()}</artikel>\n'

    def lid(self, number: int) -> str:
        items = "" if self.dice.random() < 0.7 else self.items()
        return (
            f"<lid {self.marks(f'/Lid{number}')}><lidnr>{number}</lidnr><al>{self.sentence()}</al>{items}"
            f"{self.bookkeeping()}</lid>"
        )

    def items(self) -> str:
        made = "".join(
            f"<li {self.marks('/O')}><li.nr>{letter}.</li.nr><al>{self.words(14)};</al></li>" for letter in "abcd"
        )
        return f'<lijst level="single" nr-sluiting="." start="1" type="expliciet">{made}</lijst>'

    def sentence(self) -> str:
        cited = f"BWBR00{self.dice.randint(10_000, 99_999)}"
        article = self.dice.randint(1, 400)
        link = (
            f'<extref doc="jci1.3:c:{cited}&amp;artikel={article}&amp;z={DAY}&amp;g={DAY}" bwb-id="{cited}" status="goed">'
            f"artikel {article} van die wet</extref>"
        )
        more = "<nadruk type='cur'>dagen</nadruk> CO<inf>2</inf>" if self.dice.random() < 0.05 else ""
        return f"{self.words(24).capitalize()}, bedoeld in {link}, {self.words(6)} {more} {self.words(9)}."

    def words(self, count: int) -> str:
        return " ".join(self.dice.choices(_WORDS, k=count))

    def marks(self, path: str) -> str:
        self.identity += 7
        own = self.identity
        return (
            f'bwb-ng-variabel-deel="{path}" stam-id="{own}" versie-id="{own + 1}" id="C{own + 2}" label-id="{own + 3}"'
            ' inwerking="2004-01-01" bron="Stb.2003-375" effect="wijziging" status="goed"'
        )

    def bookkeeping(self) -> str:
        article = self.dice.randint(1, 400)
        link = f"jci1.3:c:{BWB_ID}&amp;artikel={article}&amp;z={DAY}&amp;g={DAY}"
        if self.dice.random() < 0.7:
            return f'<meta-data><jcis><jci versie="1.3" verwijzing="{link}"/></jcis></meta-data>'
        source = (
            '<publicatie effect="wijziging" soort="Stb" urlidentifier="stb-2003-375"><publicatiejaar>2003</publicatiejaar>'
            '<publicatienr>375</publicatienr><uitgiftedatum isodatum="2003-10-10">10-10-2003</uitgiftedatum></publicatie>'
        )
        return (
            f"<meta-data><brondata><oorspronkelijk>{source}</oorspronkelijk></brondata>"
            f'<jcis><jci versie="1.3" verwijzing="{link}"/></jcis></meta-data>'
        )
