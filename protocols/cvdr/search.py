"""Search in the CVDR: by words, by id, and for all versions of a work (``harvester.md`` 14).

One record is one version. Pages, diagnostics and broken answers are those of :mod:`protocols.sru`.
"""

from typing import Final
from urllib.parse import urlsplit

import attrs
from lxml import etree

from protocols.cvdr.metadata import CvdrMetadata, read_metadata
from protocols.law_ids import CvdrId, InvalidLawId, cvdr_url, parse_cvdr_id
from protocols.sru import first_text, is_too_short, parse_page, plain_words, search_url

CONNECTION: Final = "CVDR"


@attrs.frozen
class CvdrHit:
    """A version found. ``metadata.cvdr_id`` carries the version. ``xml_url`` is where the record says the text is."""

    cvdr_id: CvdrId
    metadata: CvdrMetadata
    xml_url: str | None = None

    @property
    def title(self) -> str:
        return self.metadata.title

    @property
    def url(self) -> str:
        """The public page of this version."""
        return cvdr_url(self.cvdr_id)


@attrs.frozen
class CvdrPage:
    """The versions of one page in the order of the answer: position (from 1) of the record, its work, the hit."""

    hits: tuple[tuple[int, str, CvdrHit], ...]
    total_records: int
    next_start: int | None


def query_of(text: str) -> str | None:
    """The CQL for what a person typed: an id finds its versions, anything else any of its words in a title.

    ``None``: nothing is left to ask for, and the answer is empty without a request.
    """
    try:
        return versions_query(parse_cvdr_id(text.strip()))
    except InvalidLawId:
        words = plain_words(text)
        return None if is_too_short(text) or not words else f'dcterms.title any "{words}"'


def versions_query(cvdr_id: CvdrId) -> str:
    """The CQL for every version of a work, whatever version ``cvdr_id`` carries."""
    return f"workid={cvdr_id.work}"


def record_query(cvdr_id: CvdrId) -> str:
    """The CQL for exactly one version."""
    return f"dcterms.identifier=={cvdr_id}"


def page_url(base: str, query: str, *, start: int = 1) -> str:
    """The address of the page that begins at record ``start``."""
    return search_url(base, connection=CONNECTION, query=query, start=start)


def parse_hits(data: bytes, *, start: int = 1) -> CvdrPage:
    """The versions of a page; records without a whole, versioned id are left out.

    Raises what :func:`protocols.sru.parse_page` raises.
    """
    page = parse_page(data, start=start)
    hits: list[tuple[int, str, CvdrHit]] = []
    for position, record in enumerate(page.records, start):
        hit = _hit(record)
        if hit is not None:
            hits.append((position, hit.cvdr_id.work, hit))
    return CvdrPage(tuple(hits), page.total, page.next_start)


def _hit(record: etree._Element) -> CvdrHit | None:
    data = next(record.iter("{*}gzd"), None)
    if data is None:
        data = next(record.iter("{*}recordData"), None)
    if data is None:
        return None
    metadata = read_metadata(data)
    if metadata.cvdr_id is None or metadata.cvdr_id.version is None:
        return None
    return CvdrHit(metadata.cvdr_id, metadata, _xml_url(data))


def _xml_url(data: etree._Element) -> str | None:
    """The address of the XML: records name it in ``publicatieurl_xml``. Only https, for the text decides what we write."""
    url = first_text(data, "publicatieurl_xml")
    parts = urlsplit(url) if url.isascii() and url.isprintable() else None
    return url if parts is not None and parts.scheme == "https" and parts.hostname else None
