"""Asking the search service page after page: one record is one version, so one page may be one law."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from attrs import frozen

from actors.ports.fetch import Fetcher, Purpose
from actors.ports.lawfiles import parsed_file

MAX_PAGES: Final = 10
"""A service that never ends its answer is not asked for ever; ten pages are a thousand records."""

Hit = TypeVar("Hit")
HitOut = TypeVar("HitOut", covariant=True)


class HitPage(Protocol[HitOut]):
    """What a page parser gives: per hit its record position, the id of its work, and itself."""

    @property
    def hits(self) -> tuple[tuple[int, str, HitOut], ...]: ...
    @property
    def total_records(self) -> int: ...
    @property
    def next_start(self) -> int | None: ...


class ParsePage(Protocol[HitOut]):
    """Reads a page that was asked for from record ``start``; runs in a thread."""

    def __call__(self, data: bytes, *, start: int) -> HitPage[HitOut]: ...


@frozen
class SearchAnswer(Generic[Hit]):
    """Works, one hit each, in the order of the service.

    ``total_records`` counts consolidated texts, not works. ``next_start`` is where to go on, ``None`` at the end.
    """

    hits: tuple[Hit, ...]
    total_records: int = 0
    next_start: int | None = None


async def search_works(
    fetcher: Fetcher, url: Callable[[int], str], parse: ParsePage[Hit], *, limit: int, start: int = 1
) -> SearchAnswer[Hit]:
    """Up to ``limit`` works from record ``start`` on, the first hit of each. ``url`` gives the address for a position.

    Raises ``SearchRefused`` with the service's own words, ``SearchFailed``, ``DownloadFailed``.
    """
    found: dict[str, Hit] = {}
    total, at = 0, start
    for _ in range(MAX_PAGES):
        page = await _page(fetcher, url, parse, at)
        total = page.total_records
        for position, work, hit in page.hits:
            if work not in found and len(found) >= limit:
                return SearchAnswer(tuple(found.values()), total, position)
            found.setdefault(work, hit)
        if page.next_start is None:
            return SearchAnswer(tuple(found.values()), total)
        at = page.next_start
    return SearchAnswer(tuple(found.values()), total, at)


async def search_records(fetcher: Fetcher, url: Callable[[int], str], parse: ParsePage[Hit]) -> tuple[Hit, ...]:
    """Every record, not only the first of a work: the versions of one law. Raises like :func:`search_works`."""
    found: list[Hit] = []
    at = 1
    for _ in range(MAX_PAGES):
        page = await _page(fetcher, url, parse, at)
        found.extend(hit for _, _, hit in page.hits)
        if page.next_start is None:
            break
        at = page.next_start
    return tuple(found)


async def _page(fetcher: Fetcher, url: Callable[[int], str], parse: ParsePage[Hit], at: int) -> HitPage[Hit]:
    file = await fetcher.get(url(at), Purpose.SEARCH)
    return await parsed_file(fetcher, file, partial(parse, start=at))
