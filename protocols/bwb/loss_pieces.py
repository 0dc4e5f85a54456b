"""The input side of the loss measure: every visible piece of text in a toestand, in document order."""

import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final

import attrs
from lxml import etree

from protocols.bwb.xml import tag_of

_INVISIBLE: Final = frozenset(
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
_SHOWN: Final = 80


def _scripts() -> dict[int, str | None]:
    """Raised and lowered characters to plain ones; white space, backslashes and odd hyphens to nothing or ``-``."""
    table: dict[int, str | None] = {ord("\\"): None, 0x2212: "-", 0x200B: None, 0xFEFF: None}
    for code in (0xB2, 0xB3, 0xB9, *range(0x2070, 0x20A0)):
        kind, _, plain = unicodedata.decomposition(chr(code)).partition(" ")
        if kind in ("<super>", "<sub>"):
            char = chr(int(plain, 16))
            table[code] = "-" if char == "\u2212" else char
    return table


_PLAIN: Final = _scripts()


@attrs.frozen
class Piece:
    """One text node: ``element`` is the one it stands in, ``region`` the part of the law, ``text`` without white."""

    element: etree._Element
    text: str
    shown: str
    region: str
    annex: int
    in_note: bool
    in_heading: bool


@attrs.frozen
class ArticleStart:
    """A new article begins: what follows is looked for from its entry on, so that one loss does not look like many."""

    number: str


_REGIONS: Final = {
    "intitule": "title",
    "citeertitel": "name",
    "aanhef": "preamble",
    "circulaire.aanhef": "preamble",
    "verdrag.aanhef": "preamble",
    "preambule": "preamble",
    "bijlage": "annex",
    "artikel": "article",
    "wijzig-artikel": "article",
    "wetsluiting": "closing",
    "regeling-sluiting": "closing",
    "circulaire-sluiting": "closing",
    "circulaire.sluiting": "closing",
    "verdrag-sluiting": "closing",
    "verdrag.sluiting": "closing",
    "slotformulier": "closing",
    "slotformulering": "closing",
    "slotondertekening": "closing",
    "ondertekening": "closing",
    "ondertekenaar": "closing",
    "gegeven": "closing",
    "uitgifte": "closing",
}


@attrs.frozen
class _Scope:
    """What the elements around a text node say about it. ``hidden`` is the bookkeeping element that it stands in."""

    hidden: str = ""
    region: str = "body"
    annex: int = -1
    in_note: bool = False
    in_heading: bool = False


def pieces(root: etree._Element, left_out: Counter[str]) -> Iterator[Piece | ArticleStart]:
    """Every visible text node in document order; the size of the others goes into ``left_out`` (D36: no recursion)."""
    annexes = 0
    scopes = [_Scope()]
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            tag, around = tag_of(element), scopes[-1]
            scope = _scope_of(tag, around, annexes)
            annexes += scope.annex == annexes
            if scope.region == "article" != around.region:
                yield ArticleStart(bare(element.findtext("kop/nr") or ""))
            scopes.append(scope)
            if element.text and not element.text.isspace():
                yield from _piece(element, element.text, scope, left_out)
        else:
            scopes.pop()
            parent = element.getparent()
            if parent is not None and element.tail and not element.tail.isspace():
                yield from _piece(parent, element.tail, scopes[-1], left_out)


def _scope_of(tag: str, around: _Scope, annexes: int) -> _Scope:
    if tag in _INVISIBLE:
        return around if around.hidden else attrs.evolve(around, hidden=tag)
    if tag == "noot":
        return attrs.evolve(around, in_note=True)
    if tag == "kop":
        return attrs.evolve(around, in_heading=True)
    region = _REGIONS.get(tag)
    if region is None or around.region not in ("body", "annex"):
        return around
    if region == "annex":
        return attrs.evolve(around, region=region, annex=annexes)
    if around.region == "annex" and region != "article":
        return around  # opening and closing words of an annex are part of it
    return attrs.evolve(around, region=region)


def _piece(element: etree._Element, text: str, scope: _Scope, left_out: Counter[str]) -> Iterator[Piece]:
    squeezed = bare(text)
    if scope.hidden:
        left_out[scope.hidden] += len(squeezed)
    elif squeezed:
        shown = " ".join(text.split())[:_SHOWN]
        in_note = scope.in_note and element.tag != "noot.nr"
        yield Piece(element, squeezed, shown, scope.region, scope.annex, in_note, scope.in_heading)


def bare(text: str) -> str:
    """``text`` as it is compared: without white space and backslashes, raised and lowered characters on the line."""
    return "".join(text.split()).translate(_PLAIN)
