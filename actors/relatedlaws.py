"""Asks what :mod:`protocols.related` wants to know: the database for a slug, the search service for a name.

Nothing here fails an enrichment: a lookup that fails counts as "not found" and the next step is tried, a search that
fails leaves that one entry unresolved. A lost lease is no such failure and goes up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import structlog

from protocols.bwb.search import BwbHit
from protocols.failures import Permanent, Transient
from protocols.related import (
    AskSearch,
    AskSlug,
    NeedsConfirmation,
    RelatedEntry,
    Resolution,
    Resolved,
    Unresolved,
    after_search,
    after_slug,
    first_step,
)

_log = structlog.get_logger(__name__)

LookUpSlug = Callable[[str], Awaitable[str | None]]
"""The law id that bears a slug in ``law_entries``, or None."""
SearchName = Callable[[str], Awaitable[Sequence[BwbHit]]]
"""All works that the national search finds for a name."""


async def resolve_related(
    entries: Sequence[RelatedEntry], *, look_up_slug: LookUpSlug, search_name: SearchName
) -> tuple[Resolution, ...]:
    """What each entry stands for, in order; one entry after the other, because the search service wants to be spared."""
    return tuple([await _resolve(entry, look_up_slug, search_name) for entry in entries])


def tally(resolutions: Sequence[Resolution]) -> dict[str, int]:
    """The counts of the summary line: ``total``, ``resolved``, ``needs_confirmation``, ``unresolved``."""
    kinds = Counter(type(resolution) for resolution in resolutions)
    return {
        "total": len(resolutions),
        "resolved": kinds[Resolved],
        "needs_confirmation": kinds[NeedsConfirmation],
        "unresolved": kinds[Unresolved],
    }


async def _resolve(entry: RelatedEntry, look_up_slug: LookUpSlug, search_name: SearchName) -> Resolution:
    first = first_step(entry)
    step = after_slug(entry, await _law_of(first.slug, look_up_slug)) if isinstance(first, AskSlug) else first
    if not isinstance(step, AskSearch):
        return step
    try:
        return after_search(entry, await search_name(step.name))
    except (Transient, Permanent) as failure:
        _log.warning("related law not searched", name=entry.name, error=failure.message)
        return Unresolved(f"the search failed: {failure.message}")


async def _law_of(slug: str, look_up_slug: LookUpSlug) -> str | None:
    try:
        return await look_up_slug(slug)
    except (Transient, Permanent) as failure:
        _log.warning("slug of related law not looked up", slug=slug, error=failure.message)
        return None
