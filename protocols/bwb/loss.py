"""Is every word of the XML in the YAML? A measure that knows nothing of the converter (D32).

It walks the XML for visible text and looks for each piece in the loaded YAML, in order. What it does not find is
counted as left out on purpose where the rules say so (bookkeeping, labels that the key says already, bullets), and is
LOST otherwise. White space and Markdown escapes do not count, and raised or lowered digits count as digits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
from lxml import etree

from protocols.bwb.loss_output import Output
from protocols.bwb.loss_pieces import ArticleStart, Piece, pieces
from protocols.bwb.xml import drop_namespaces, parse_xml, tag_of

_LABEL_WORDS: Final = frozenset(
    {
        "artikel", "art.", "art", "boek", "deel", "titel", "titeldeel", "hoofdstuk", "afdeling", "paragraaf", "§",
        "sub-paragraaf", "subparagraaf", "divisie", "bijlage",
    }
)  # fmt: skip
_STEPS: Final = 8
_BULLETS: Final = frozenset("•–-—")


@attrs.frozen
class Lost:
    """A piece of visible text that is not in the YAML: where it stood, and how it begins."""

    place: str
    text: str
    characters: int


@attrs.frozen
class LossReport:
    """Counts of visible (not white) characters. ``left_out`` has, per element name, what was left out on purpose."""

    characters_in: int
    characters_out: int
    left_out: Mapping[str, int]
    lost: tuple[Lost, ...]

    @property
    def lost_characters(self) -> int:
        return sum(piece.characters for piece in self.lost)

    def summary(self) -> dict[str, Any]:
        """The report for a job result; at most ten lost places are named."""
        return {
            "characters_in": self.characters_in,
            "characters_out": self.characters_out,
            "left_out": dict(self.left_out),
            "lost": self.lost_characters,
            "lost_places": [f"{piece.place}: {piece.text}" for piece in self.lost[:10]],
        }


def loss_report(xml_bytes: bytes, loaded_yaml: Mapping[str, Any]) -> LossReport:
    """Compare a toestand with the law file made of it, as loaded by any YAML reader.

    Raises :class:`protocols.bwb.errors.ConversionError` when ``xml_bytes`` cannot be read.
    """
    root = parse_xml(xml_bytes, what="law text")
    drop_namespaces(root)
    output = Output(loaded_yaml)
    left_out: Counter[str] = Counter()
    lost: list[Lost] = []
    characters_in = 0
    for piece in pieces(root, left_out):
        if isinstance(piece, ArticleStart):
            output.enter(piece.number)
            continue
        characters_in += len(piece.text)
        reason = _replaced(piece)
        if reason is None and not output.finds(piece):
            reason = _editorial(piece)
            if reason is None:
                lost.append(Lost(_place(piece.element), piece.shown, len(piece.text)))
        if reason is not None:
            left_out[reason] += len(piece.text)
    return LossReport(characters_in, output.characters, dict(sorted(left_out.items())), tuple(lost))


def _replaced(piece: Piece) -> str | None:
    """What is not looked for: a label that the key or ``type`` says in the YAML, a bullet that Markdown has its own for."""
    tag = tag_of(piece.element)
    if tag == "label" and piece.in_heading and piece.text.casefold() in _LABEL_WORDS:
        return "label"
    return "li.nr" if tag == "li.nr" and piece.text in _BULLETS else None


def _editorial(piece: Piece) -> str | None:
    """Words of the editors may be left out, as the older styles do."""
    return next((tag_of(step) for step in _with_ancestors(piece.element) if step.tag == "redactie"), None)


def _with_ancestors(element: etree._Element) -> Iterator[etree._Element]:
    yield element
    yield from element.iterancestors()


def _place(element: etree._Element) -> str:
    """The path of an element, short: ``artikel 5/lid 2/al``."""
    steps: list[str] = []
    for step in _with_ancestors(element):
        number = step.find("kop/nr")
        if number is None:
            number = step.find("lidnr") if step.tag == "lid" else step.find("li.nr") if step.tag == "li" else None
        words = "" if number is None else " ".join((number.text or "").split())[:20]
        steps.append(f"{tag_of(step)} {words}".rstrip())
        if step.tag in ("artikel", "bijlage"):
            break
    if len(steps) > _STEPS:
        steps[_STEPS - 1 : -1] = ["..."]
    return "/".join(reversed(steps))
