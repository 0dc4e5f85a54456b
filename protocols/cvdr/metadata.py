"""What a CVDR document says about itself: the same ``meta`` stands in search records and in the text (``harvester.md`` 14).

Element names are matched without namespace, since every exporter prefixes them in its own way.
"""

import re
from datetime import date
from typing import Final

import attrs
from lxml import etree

from protocols.law import Layer
from protocols.law_ids import CvdrId, InvalidDate, InvalidLawId, parse_cvdr_id, parse_date
from protocols.sru import first_text

_LAYERS: Final = {
    "gemeente": Layer.GEMEENTELIJKE_VERORDENING,
    "gemeenten": Layer.GEMEENTELIJKE_VERORDENING,
    "provincie": Layer.PROVINCIALE_VERORDENING,
    "provincies": Layer.PROVINCIALE_VERORDENING,
    "waterschap": Layer.WATERSCHAPS_VERORDENING,
    "waterschappen": Layer.WATERSCHAPS_VERORDENING,
}
_BARE_ID = re.compile(r"(?:CVDR)?([0-9]{3,}(?:_[0-9]+)?)")


@attrs.frozen
class CvdrMetadata:
    """Facts about one version. ``in_force`` is its first day, ``expired`` the first day that it no longer applies.

    ``organisation_type`` is the kind of maker as the source says it (``Gemeente``, ``Provincie``, ...), empty when it does
    not. ``publication`` is the day of issue, else that of availability.
    """

    cvdr_id: CvdrId | None
    title: str = ""
    creator: str = ""
    organisation_type: str = ""
    publication: date | None = None
    in_force: date | None = None
    expired: date | None = None

    def covers(self, day: date) -> bool:
        """Whether the version applies on ``day``; unknown bounds are open."""
        return (self.in_force is None or self.in_force <= day) and (self.expired is None or day < self.expired)


def read_metadata(element: etree._Element) -> CvdrMetadata:
    """Read the metadata below ``element``: of each fact the first element that has any text."""
    return CvdrMetadata(
        cvdr_id=_identifier(first_text(element, "identifier")),
        title=first_text(element, "title"),
        creator=first_text(element, "creator"),
        organisation_type=first_text(element, "organisatietype") or _scheme_of_creator(element),
        publication=_day(element, "issued") or _day(element, "available"),
        in_force=_day(element, "inwerkingtredingDatum"),
        expired=_day(element, "uitwerkingtredingDatum"),
    )


def layer_of(organisation_type: str) -> tuple[Layer, str | None]:
    """The layer that a kind of maker stands for, and a warning when it is an unknown one."""
    kind = organisation_type.strip().lower()
    layer = _LAYERS.get(kind)
    if layer is not None:
        return layer, None
    shown = kind if len(kind) <= 60 else kind[:60] + "..."
    return (
        Layer.GEMEENTELIJKE_VERORDENING,
        f"Unknown organisation type '{shown}', defaulting to GEMEENTELIJKE_VERORDENING",
    )


def _identifier(text: str) -> CvdrId | None:
    """``CVDR100394_2``, or ``100394_2`` as older exports write it."""
    match = _BARE_ID.fullmatch(text)
    if match is None:
        return None
    try:
        return parse_cvdr_id(f"CVDR{match[1]}")
    except InvalidLawId:
        return None


def _scheme_of_creator(element: etree._Element) -> str:
    """``Gemeente`` out of ``<creator scheme="overheid:Gemeente">``."""
    creator = next(element.iter("{*}creator"), None)
    return "" if creator is None else creator.get("scheme", "").rpartition(":")[2].strip()


def _day(element: etree._Element, name: str) -> date | None:
    try:
        return parse_date(first_text(element, name)[:10])
    except InvalidDate:
        return None
