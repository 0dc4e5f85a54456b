"""Laws that an enrichment names as related: from a name or slug to a BWB id (``queue.md`` 4, D60).

The list is written by an agent, so by law text: nothing in it is trusted, every step ends in a checked id or in
nothing. The steps are pure; :mod:`actors.relatedlaws` asks between them:

    first_step(entry) -> Resolved | AskSlug | AskSearch
    after_slug(entry, law_id) -> Resolved | Unresolved | AskSearch
    after_search(entry, hits) -> Resolved | NeedsConfirmation | Unresolved
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from protocols.bwb.search import BwbHit
from protocols.law_ids import is_bwb_id, slugify

NAME_LIMIT_CHARACTERS: Final = 300
_SLUG_LIMIT_BYTES: Final = 256


@attrs.frozen
class RelatedEntry:
    """One entry of ``related_legislation``. ``relation`` and ``open_term`` are for people and decide nothing."""

    name: str
    relation: str = ""
    bwb_id: str | None = None
    slug: str | None = None
    open_term: str | None = None


@attrs.frozen
class Resolved:
    """``how`` is ``id``, ``slug``, ``only_hit`` or ``exact_title``."""

    bwb_id: str
    how: str


@attrs.frozen
class NeedsConfirmation:
    """Several laws fit. ``candidates`` are the first ten of them."""

    candidates: tuple[BwbHit, ...]


@attrs.frozen
class Unresolved:
    why: str


@attrs.frozen
class AskSlug:
    """Look ``slug`` up among the known laws; its law id, or ``None`` also when the lookup fails."""

    slug: str


@attrs.frozen
class AskSearch:
    """Search national laws for ``name``; all hits, one per work."""

    name: str


Resolution = Resolved | NeedsConfirmation | Unresolved


@attrs.frozen(kw_only=True)
class RelatedLimits:
    """``max_depth`` 0 switches the whole thing off; for the other two 0 means no limit (D60)."""

    max_depth: int = 2
    max_per_job: int = 20
    max_per_law: int = 100


@attrs.frozen
class Selection:
    """The ids to harvest, in order, and how many the reasons left out: for the one summary line of a job."""

    wanted: tuple[str, ...] = ()
    exhausted: int = 0
    own: int = 0
    over_limit: int = 0


def read_entries(document: Any) -> tuple[tuple[RelatedEntry, ...], int]:
    """The usable entries of a ``related_legislation`` value of any shape, and how many were dropped.

    Dropped: what is no mapping, has no name, or a name over 300 characters (D60). Other fields of a wrong type count as
    absent.
    """
    items = document if isinstance(document, list) else []
    entries = [entry for item in items if (entry := _entry(item)) is not None]
    return tuple(entries), len(items) - len(entries)


def first_step(entry: RelatedEntry) -> Resolved | AskSlug | AskSearch:
    """A well-formed id settles it (a malformed one is ignored); else ask for the slug, given or made from the name.

    The slug is made like the corpus makes it, so that accents agree (Q10). A name without any usable character has none.
    """
    if entry.bwb_id is not None and is_bwb_id(entry.bwb_id):
        return Resolved(entry.bwb_id, "id")
    slug = entry.slug or slugify(entry.name, "")
    return AskSlug(slug) if slug else AskSearch(entry.name)


def after_slug(entry: RelatedEntry, law_id: str | None) -> Resolution | AskSearch:
    """A known slug settles it either way: one that is no national law must not go on to a search for another law."""
    if law_id is None:
        return AskSearch(entry.name)
    if is_bwb_id(law_id):
        return Resolved(law_id, "slug")
    return Unresolved("the slug names a law that is not in the national register")


def after_search(entry: RelatedEntry, hits: Sequence[BwbHit]) -> Resolution:
    """The only law found, or the only one whose title is the name, without regard to case; several: a person must choose.

    The exact title is an extension (Q11): the service matches any word of the name, so a single hit is rare.
    """
    works = {hit.bwb_id: hit for hit in reversed(hits) if is_bwb_id(hit.bwb_id)}
    if len(works) == 1:
        return Resolved(next(iter(works)), "only_hit")
    exact = [bwb_id for bwb_id, hit in works.items() if _folded(hit.title) == _folded(entry.name)]
    if len(exact) == 1:
        return Resolved(exact[0], "exact_title")
    if works:
        return NeedsConfirmation(tuple(reversed(works.values()))[:10])
    return Unresolved("no law of this name was found")


def is_deep_enough(depth: int | None, limits: RelatedLimits) -> bool:
    """Whether an enrichment at ``depth`` follows related legislation at all; one counter with text references."""
    return (depth or 0) < limits.max_depth


def priority_at(depth: int | None) -> int:
    """The priority of a related harvest made by an enrichment at ``depth``: 39, 38, ... and never below 0."""
    return min(100, max(0, 40 - ((depth or 0) + 1)))


def select(
    resolutions: Iterable[Resolution],
    *,
    source_law_id: str,
    exhausted: Collection[str],
    active: Collection[str],
    limits: RelatedLimits,
    made_by_job: int = 0,
    made_for_law: int = 0,
) -> Selection:
    """Which resolved laws become harvests. Those in ``active`` have one already: they cost nothing of the limits.

    ``made_by_job`` and ``made_for_law`` count the related harvests that the job and its law have made before.
    """
    room = _room(limits.max_per_job, made_by_job, limits.max_per_law, made_for_law)
    wanted: list[str] = []
    counts = {"exhausted": 0, "own": 0, "over_limit": 0}
    ids = dict.fromkeys(r.bwb_id for r in resolutions if isinstance(r, Resolved))
    for bwb_id in ids:
        if bwb_id == source_law_id:
            counts["own"] += 1
        elif bwb_id in exhausted:
            counts["exhausted"] += 1
        elif bwb_id in active:
            wanted.append(bwb_id)
        elif room is not None and room <= 0:
            counts["over_limit"] += 1
        else:
            wanted.append(bwb_id)
            room = None if room is None else room - 1
    return Selection(tuple(wanted), **counts)


def _room(max_per_job: int, made_by_job: int, max_per_law: int, made_for_law: int) -> int | None:
    rooms = [limit - made for limit, made in ((max_per_job, made_by_job), (max_per_law, made_for_law)) if limit > 0]
    return min(rooms) if rooms else None


def _entry(item: Any) -> RelatedEntry | None:
    if not isinstance(item, Mapping):
        return None
    name = _string(item, "name")
    if name is None or len(name) > NAME_LIMIT_CHARACTERS:
        return None
    slug = _string(item, "slug")
    return RelatedEntry(
        name=name,
        relation=_string(item, "relation") or "",
        bwb_id=_string(item, "bwb_id"),
        slug=slug if slug is not None and len(slug.encode("utf-8", "replace")) <= _SLUG_LIMIT_BYTES else None,
        open_term=_string(item, "open_term"),
    )


def _string(item: Mapping[Any, Any], key: str) -> str | None:
    """A text without NUL (PostgreSQL refuses those), trimmed; ``None`` when absent, empty or of another type."""
    value = item.get(key)
    if not isinstance(value, str):
        return None
    return " ".join(value.replace("\0", " ").split()) or None


def _folded(title: str) -> str:
    return " ".join(title.split()).casefold()
