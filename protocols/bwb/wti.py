"""The metadata file (WTI) of a work: title, kind and publication date (``harvester.md`` 6, D33).

There is one per work, not per consolidated text, so a historical text bears today's title.
"""

from datetime import date
from typing import Final

import attrs
from lxml import etree

from protocols.bwb.xml import parse_xml
from protocols.failures import Transient
from protocols.law import Layer
from protocols.law_ids import InvalidDate, parse_date

_DIRECT: Final = {
    "grondwet": Layer.GRONDWET,
    "wet": Layer.WET,
    "amvb": Layer.AMVB,
    "algemene maatregel van bestuur": Layer.AMVB,
    "ministeriele regeling": Layer.MINISTERIELE_REGELING,
    "ministeriële regeling": Layer.MINISTERIELE_REGELING,
    "beleidsregel": Layer.BELEIDSREGEL,
    "eu-verordening": Layer.EU_VERORDENING,
    "eu-richtlijn": Layer.EU_RICHTLIJN,
    "verdrag": Layer.VERDRAG,
    "uitvoeringsbeleid": Layer.UITVOERINGSBELEID,
    "gemeentelijke verordening": Layer.GEMEENTELIJKE_VERORDENING,
    "provinciale verordening": Layer.PROVINCIALE_VERORDENING,
    "waterschapsverordening": Layer.WATERSCHAPS_VERORDENING,
}
_CLOSEST: Final = {
    "koninklijk besluit": Layer.AMVB,
    "kb": Layer.AMVB,
    "regeling": Layer.MINISTERIELE_REGELING,
    "verordening": Layer.GEMEENTELIJKE_VERORDENING,
}
"""Kinds that the law schema has no layer for; each use is warned about."""

_DIRECT_NOW: Final = {
    **{kind.replace("-", " "): layer for kind, layer in _DIRECT.items()},
    "rijkswet": Layer.WET,
}
_CLOSEST_NOW: Final = {
    **_CLOSEST,
    "rijkskb": Layer.AMVB,
    "zbo": Layer.MINISTERIELE_REGELING,
    "pbo": Layer.MINISTERIELE_REGELING,
    "reglement": Layer.MINISTERIELE_REGELING,
}
"""With spaces for hyphens: real files write ``ministeriele-regeling``, which the older table missed (D33)."""


class WrongDocument(Transient):
    """The server answered with the file of another law."""

    kind = "wrong_document"


@attrs.frozen
class Wti:
    """The facts of a metadata file. ``title`` is empty and ``publication_date`` is ``None`` where the file has none.

    ``publication_date`` is the first in the file, which is that of the most recent change (kept: other tools rely on
    it), so it may lie after the end of a historical text.
    """

    bwb_id: str
    title: str
    layer: Layer
    publication_date: date | None
    warnings: tuple[str, ...] = ()


def parse_wti(data: bytes, bwb_id: str, *, parity: bool = False) -> Wti:
    """Read the metadata of ``bwb_id``; ``parity`` maps kinds exactly as the older harvester did.

    Raises :class:`WrongDocument` for the file of another law, and the parser's failure when ``data`` is no XML.
    """
    root = parse_xml(data, what=f"metadata (WTI) of {bwb_id}")
    found = root.get("bwb-id") or bwb_id
    if found != bwb_id:
        raise WrongDocument(f"metadata (WTI) of {bwb_id}: it is that of {ascii(found)[:40]}", law_id=bwb_id)
    kind = next(root.iter("{*}soort-regeling"), None)
    layer, warning = (Layer.WET, None) if kind is None else layer_of(_all_text(kind), parity=parity)
    published, date_warning = _publication_date(root)
    return Wti(
        bwb_id=bwb_id,
        title=_title(root),
        layer=layer,
        publication_date=published,
        warnings=tuple(text for text in (warning, date_warning) if text is not None),
    )


def layer_of(kind: str, *, parity: bool = False) -> tuple[Layer, str | None]:
    """The layer for a ``soort-regeling`` (or the attribute ``soort`` of a text), and a warning where it is a guess.

    An unknown kind is a WET with a warning. ``parity`` neither trims nor knows the hyphenated and kingdom-wide kinds.
    """
    lowered = kind.lower()
    wanted, direct, closest = lowered, _DIRECT, _CLOSEST
    if not parity:
        wanted, direct, closest = " ".join(lowered.replace("-", " ").split()), _DIRECT_NOW, _CLOSEST_NOW
    if wanted in direct:
        return direct[wanted], None
    if wanted in closest:
        layer = closest[wanted]
        return layer, f"Mapped soort-regeling '{_shown(kind)}' to {layer.value} (closest schema match)"
    return Layer.WET, f"Unknown soort-regeling '{_shown(lowered)}', defaulting to WET"


def _title(root: etree._Element) -> str:
    """The first official title; when that is empty the first title of any status, not a second official one."""
    titles = list(root.iter("{*}citeertitel"))
    official = next((title for title in titles if title.get("status") == "officieel"), None)
    text = "" if official is None else _one_line(official)
    return text or (_one_line(titles[0]) if titles else "")


def _publication_date(root: etree._Element) -> tuple[date | None, str | None]:
    element = next(root.iter("{*}publicatiedatum"), None)
    text = "" if element is None else _one_line(element)
    if not text:
        return None, None
    try:
        return parse_date(text), None
    except InvalidDate as error:
        return None, f"Left out publicatiedatum: {error}"


def _all_text(element: etree._Element) -> str:
    return "".join(element.itertext())


def _one_line(element: etree._Element) -> str:
    return " ".join(_all_text(element).split())


def _shown(kind: str) -> str:
    return kind if len(kind) <= 80 and kind.isprintable() else ascii(kind[:80])[1:-1]
