"""Search for national laws by name or id (``harvester.md`` 15): the query, and one hit per work."""

import attrs
from lxml import etree

from protocols.law_ids import is_bwb_id
from protocols.sru import is_too_short, parse_page, plain_words, search_url

CONNECTION = "BWB"


@attrs.frozen
class BwbHit:
    """A work. ``type`` is the service's own word (``wet``, ``AMvB``, ...), empty when it gives none."""

    bwb_id: str
    title: str
    type: str = ""


@attrs.frozen
class BwbPage:
    """The works of one page in the order of the answer: position (from 1) of the first record, id, hit."""

    hits: tuple[tuple[int, str, BwbHit], ...]
    total_records: int
    next_start: int | None


def query_of(text: str) -> str | None:
    """The CQL for what a person typed: an id finds that work, anything else any of its words in a title.

    ``None``: nothing is left to ask for, and the answer is empty without a request.
    """
    if is_bwb_id(text.strip()):
        return f"dcterms.identifier=={text.strip()}"
    words = plain_words(text)
    if is_too_short(text) or not words:
        return None
    return f'overheidbwb.titel any "{words}"'


def page_url(base: str, query: str, *, start: int = 1) -> str:
    """The address of the page that begins at record ``start``."""
    return search_url(base, connection=CONNECTION, query=query, start=start)


def parse_hits(data: bytes, *, start: int = 1) -> BwbPage:
    """The works of a page: records without identifier, title or a whole BWB id are left out, the first of a work stays.

    Raises what :func:`protocols.sru.parse_page` raises.
    """
    page = parse_page(data, start=start)
    hits: dict[str, tuple[int, str, BwbHit]] = {}
    for position, record in enumerate(page.records, start):
        for core in record.iter("{*}owmskern"):
            identifier, title = _child(core, "identifier"), _child(core, "title")
            if is_bwb_id(identifier) and title and identifier not in hits:
                hits[identifier] = (position, identifier, BwbHit(identifier, title, _child(core, "type")))
    return BwbPage(tuple(hits.values()), page.total, page.next_start)


def _child(core: etree._Element, name: str) -> str:
    child = core.find(f"{{*}}{name}")
    return "" if child is None else " ".join("".join(child.itertext()).split())
