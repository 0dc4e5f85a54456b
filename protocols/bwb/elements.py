"""The names of a toestand's elements, sorted by what they mean to a reader (``harvester.md`` 7 and 10.2)."""

from typing import Final

METADATA: Final = frozenset(
    {
        "meta-data",
        "brondata",
        "jcis",
        "jci",
        "bwb-inputbestand",
        "bwb-wijzigingen",
        "redactionele-correcties",
    }
)
"""Bookkeeping, invisible on the public page; it stands inside artikel, lid, li, aanhef, intitule and citeertitel."""

ARTICLES: Final = frozenset({"artikel", "wijzig-artikel"})

DIVISIONS: Final = frozenset(
    {
        "boek",
        "deel",
        "titeldeel",
        "hoofdstuk",
        "afdeling",
        "paragraaf",
        "sub-paragraaf",
        "subparagraaf",
        "divisie",
        "wijzig-divisie",
        "circulaire.divisie",
        "verdrag.divisie",
    }
)
"""What may stand between the text of a law and its articles, each with a heading of its own (kop)."""

PREAMBLES: Final = frozenset({"aanhef", "circulaire.aanhef", "verdrag.aanhef", "preambule"})

ANNEXES: Final = frozenset({"bijlage"})

CLOSINGS: Final = frozenset(
    {
        "wetsluiting",
        "regeling-sluiting",
        "circulaire-sluiting",
        "circulaire.sluiting",
        "verdrag-sluiting",
        "verdrag.sluiting",
        "slotformulier",
        "slotformulering",
        "slotondertekening",
        "ondertekening",
        "ondertekenaar",
        "gegeven",
        "uitgifte",
    }
)
"""Formula, date, place and signatures at the end of a text; inside an annex they belong to the annex."""

REFERENCES: Final = frozenset({"extref", "intref"})

BULLETS: Final = frozenset({"", "•", "–", "-", "—"})
"""Item markers that only say "an item", so that the list counts as unmarked (``harvester.md`` 10.3)."""
