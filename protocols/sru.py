"""SRU, the search protocol of zoekservice.overheid.nl: requests, pages and diagnostics, for BWB and CVDR alike.

Element names are matched without namespace. An error comes as a ``diagnostics`` document with an HTTP status of 4xx,
so bodies are read whatever the status.
"""

from typing import Final
from urllib.parse import urlencode

import attrs
from lxml import etree

from protocols.bwb.xml import parse_xml
from protocols.failures import Transient

RECORDS_PER_PAGE: Final = 100
"""One record is one consolidated text, so twenty records can be twenty versions of one law (``harvester.md`` 15)."""

SHORTEST_QUERY_BYTES: Final = 3


class SearchFailed(Transient):
    """The search service gave no usable answer."""

    kind = "search_failed"


class SearchRefused(SearchFailed):
    """The search service answered with a diagnostic; the message is its own."""

    kind = "search_refused"


@attrs.frozen
class SruPage:
    """One page of an answer. ``records`` are the ``record`` elements in order.

    ``total`` counts records, not works. ``next_start`` is the position (from 1) of the next page, ``None`` at the end.
    """

    records: tuple[etree._Element, ...]
    total: int
    next_start: int | None


def search_url(base: str, *, connection: str, query: str, start: int = 1, records: int = RECORDS_PER_PAGE) -> str:
    """The address of a search; ``connection`` is ``BWB`` or ``CVDR``, ``start`` counts records from 1."""
    parameters = {
        "operation": "searchRetrieve",
        "version": "1.2",
        "x-connection": connection,
        "query": query,
        "maximumRecords": str(records),
    }
    if start > 1:
        parameters["startRecord"] = str(start)
    return f"{base}?{urlencode(parameters)}"


def plain_words(text: str) -> str:
    """``text`` with nothing left that could end a quoted term: letters, digits, spaces, hyphens and dots."""
    return "".join(c for c in text.strip() if c.isalnum() or c in " -.").strip()


def is_too_short(text: str) -> bool:
    """Fewer than three bytes give an empty answer without a request."""
    return len(text.strip().encode("utf-8", "replace")) < SHORTEST_QUERY_BYTES


def parse_page(data: bytes, *, start: int = 1) -> SruPage:
    """Read a page that was asked for from record ``start``.

    Raises :class:`SearchRefused` for a diagnostic, :class:`SearchFailed` for a document that is no SRU answer, and the
    parser's failure when ``data`` is no XML.
    """
    root = parse_xml(data, what="search result")
    name = etree.QName(root).localname
    records = tuple(root.iter("{*}record"))
    if not records and (diagnostic := next(root.iter("{*}diagnostic"), None)) is not None:
        raise SearchRefused(f"the search service refused the query: {_words(diagnostic)}")
    if name == "diagnostics":
        raise SearchRefused("the search service refused the query without saying why")
    if name != "searchRetrieveResponse":
        raise SearchFailed(f"the search service answered with <{ascii(name)[1:-1][:60]}>, not with a search result")
    total = _number(root, "numberOfRecords") or len(records)
    following = start + len(records)
    next_start = _number(root, "nextRecordPosition") or (following if following <= total else None)
    # A server that points backwards or at nothing would keep us asking for ever.
    return SruPage(records, total, next_start if records and next_start is not None and next_start > start else None)


def first_text(below: etree._Element, name: str) -> str:
    """The trimmed text of the first descendant ``name`` that has any; empty when there is none."""
    for element in below.iter(f"{{*}}{name}"):
        if text := " ".join("".join(element.itertext()).split()):
            return text
    return ""


def _number(root: etree._Element, name: str) -> int | None:
    text = first_text(root, name)
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _words(diagnostic: etree._Element) -> str:
    """Message, details and code of a diagnostic, on one line and short."""
    parts = (first_text(diagnostic, "message"), first_text(diagnostic, "details"), first_text(diagnostic, "uri"))
    text = "; ".join(part for part in parts if part) or "no reason given"
    return "".join(c if c.isprintable() else " " for c in text)[:300]
