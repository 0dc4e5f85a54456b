"""What a law is called: ids, dates, slugs and public addresses.

Everything here is a pure function of its arguments. The calendar day of today is always passed in, because it must
be the day in Europe/Amsterdam and this layer reads no clock.
"""

import enum
import re
import unicodedata
from datetime import date
from typing import Final

import attrs

from protocols.failures import InvalidInput

PUBLIC_BWB: Final = "https://wetten.overheid.nl"
PUBLIC_CVDR: Final = "https://lokaleregelgeving.overheid.nl"

SLUG_LIMIT_BYTES: Final = 200
"""BW-04: a file system allows 255 bytes for a name; temporary files add a prefix and a suffix."""

_BWB_ID = re.compile(r"BWBR[0-9]{7}")
_CVDR_ID = re.compile(r"(CVDR[0-9]{3,})(?:_([0-9]+))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NOT_IN_SLUG = re.compile(r"[^\w\s-]", re.ASCII)
_SLUG_SEPARATORS = re.compile(r"[-\s]+", re.ASCII)


class InvalidLawId(InvalidInput):
    """A law id of no known shape. The message names the id and the accepted patterns."""


class InvalidDate(InvalidInput):
    """A date that is not written YYYY-MM-DD, does not exist, or lies after today."""


class LawSource(enum.Enum):
    """The public repository a law comes from; the value is the ``source_type`` of job results."""

    BWB = "bwb"
    CVDR = "cvdr"


@attrs.frozen
class CvdrId:
    """A CVDR id: the work (``CVDR100394``) and the version that was asked for, ``None`` for "the newest"."""

    work: str
    version: int | None = None

    def __str__(self) -> str:
        return self.work if self.version is None else f"{self.work}_{self.version}"

    def at(self, version: int) -> "CvdrId":
        """The same work in another version."""
        return attrs.evolve(self, version=version)


def is_bwb_id(text: str) -> bool:
    """Whether ``text`` is a whole, well-formed BWB id (upper case only; treaties ``BWBV`` are none)."""
    return _BWB_ID.fullmatch(text) is not None


def parse_bwb_id(text: str) -> str:
    """Return ``text`` when it is a BWB id, else raise :class:`InvalidLawId`."""
    if not is_bwb_id(text):
        raise InvalidLawId(f"invalid BWB id {_shown(text)}: expected BWBRXXXXXXX (BWBR and seven digits)")
    return text


def parse_cvdr_id(text: str) -> CvdrId:
    """Split a CVDR id such as ``CVDR100394_2``, or raise :class:`InvalidLawId`."""
    match = _CVDR_ID.fullmatch(text)
    if match is None or len(text) > 64:
        raise InvalidLawId(f"invalid CVDR id {_shown(text)}: expected CVDRXXX or CVDRXXX_N (three or more digits)")
    return CvdrId(match[1], int(match[2]) if match[2] else None)


def law_source(law_id: str) -> LawSource:
    """Decide by the prefix where a law comes from, then check the whole id.

    Raises :class:`InvalidLawId`, with the pattern of the source where the prefix named one.
    """
    if law_id.startswith("BWBR"):
        parse_bwb_id(law_id)
        return LawSource.BWB
    if law_id.startswith("CVDR"):
        parse_cvdr_id(law_id)
        return LawSource.CVDR
    raise InvalidLawId(f"invalid law id {_shown(law_id)}: expected BWBRXXXXXXX or CVDRXXX[_N]")


def parse_date(text: str, *, today: date | None = None) -> date:
    """Read ``YYYY-MM-DD``; with ``today`` (the day in Europe/Amsterdam) a later date is refused.

    Raises :class:`InvalidDate`.
    """
    if not _DATE.fullmatch(text):
        raise InvalidDate(f"invalid date {_shown(text)}: expected YYYY-MM-DD")
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidDate(f"invalid date {_shown(text)}: no such day") from None
    if today is not None and day > today:
        raise InvalidDate(f"invalid date {_shown(text)}: it lies after today ({today.isoformat()})")
    return day


def slugify(title: str, law_id: str) -> str:
    """The ``$id`` and directory name of a law: ASCII words joined by ``_``, at most 200 bytes (BW-04).

    ``law_id`` is the BWB id, else the CVDR id. It stands in for a title without any usable character, and makes a
    title that had to be cut unique.
    """
    ascii_text = unicodedata.normalize("NFKD", title.lower()).encode("ascii", "ignore").decode("ascii")
    ascii_text = ascii_text.lower()  # ornamental letters have no lower case of their own: they become plain capitals
    slug = _SLUG_SEPARATORS.sub("_", _NOT_IN_SLUG.sub("", ascii_text)).strip("_")
    if not slug:
        return law_id.lower()
    if len(slug) <= SLUG_LIMIT_BYTES:
        return slug
    suffix = f"_{law_id.lower()}"
    head = slug[: SLUG_LIMIT_BYTES - len(suffix)]
    return (head.rpartition("_")[0] or head).rstrip("_") + suffix


def anchor_url(
    bwb_id: str,
    day: date | None = None,
    *,
    article: str | None = None,
    chapter: str | None = None,
    division: str | None = None,
    section: str | None = None,
) -> str:
    """The page of a law on wetten.overheid.nl, with at most one fragment.

    The first given of ``article``, ``chapter`` (hoofdstuk), ``division`` (afdeling) and ``section`` (paragraaf) makes
    the fragment. Numbers are taken raw, as in the XML, and sanitised here.
    """
    url = f"{PUBLIC_BWB}/{bwb_id}" if day is None else f"{PUBLIC_BWB}/{bwb_id}/{day.isoformat()}"
    for label, value in (
        ("Artikel", article),
        ("Hoofdstuk", chapter),
        ("Afdeling", division),
        ("Paragraaf", section),
    ):
        if value is not None:
            return f"{url}#{label}{_fragment(value)}"
    return url


def cvdr_url(cvdr_id: CvdrId | str) -> str:
    """The page of a decentral regulation on lokaleregelgeving.overheid.nl."""
    return f"{PUBLIC_CVDR}/{cvdr_id}"


def _fragment(value: str) -> str:
    if value.isalnum():
        return value
    return "".join(c for c in value.replace(" ", "_") if c.isalnum() or c in "-_.~")


def _shown(text: str) -> str:
    """``text`` for a message: quoted, escaped and short, because it may come from anywhere."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")
