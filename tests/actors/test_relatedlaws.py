"""The steps from a name to a law, asked in order, with lookups that may fail."""

from collections.abc import Sequence

import attrs
import pytest

from actors.relatedlaws import resolve_related, tally
from protocols.bwb.search import BwbHit
from protocols.failures import DatabaseUnavailable, LeaseLost, SupervisorError
from protocols.related import NeedsConfirmation, RelatedEntry, Resolved, Unresolved
from protocols.sru import SearchFailed


@attrs.define
class Lookups:
    """Known slugs and search results; an exception stands for a lookup that fails. ``asked`` keeps the questions."""

    slugs: dict[str, str | SupervisorError] = attrs.field(factory=dict)
    names: dict[str, list[BwbHit] | SupervisorError] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)

    async def slug(self, slug: str) -> str | None:
        self.asked.append(f"slug {slug}")
        found = self.slugs.get(slug)
        if isinstance(found, SupervisorError):
            raise found
        return found

    async def name(self, name: str) -> Sequence[BwbHit]:
        self.asked.append(f"name {name}")
        found = self.names.get(name, [])
        if isinstance(found, SupervisorError):
            raise found
        return found


async def test_each_entry_goes_only_as_far_as_it_must() -> None:
    lookups = Lookups(
        slugs={"wet_b": "BWBR0000002", "verordening_c": "CVDR123456_1"},
        names={
            "Wet D": [BwbHit("BWBR0000004", "Wet D")],
            "Wet E": [BwbHit("BWBR0000005", "X"), BwbHit("BWBR0000006", "Y")],
        },
    )
    entries = [
        RelatedEntry("Wet A", bwb_id="BWBR0000001"),
        RelatedEntry("Wet B"),
        RelatedEntry("Verordening C"),
        RelatedEntry("Wet D", bwb_id="BWBR12"),
        RelatedEntry("Wet E"),
        RelatedEntry("Wet F"),
    ]
    found = await resolve_related(entries, look_up_slug=lookups.slug, search_name=lookups.name)
    assert found[:2] == (Resolved("BWBR0000001", "id"), Resolved("BWBR0000002", "slug"))
    assert isinstance(found[2], Unresolved)
    assert found[3] == Resolved("BWBR0000004", "only_hit")
    assert isinstance(found[4], NeedsConfirmation)
    assert isinstance(found[5], Unresolved)
    assert lookups.asked == [
        "slug wet_b",
        "slug verordening_c",
        "slug wet_d",
        "name Wet D",
        "slug wet_e",
        "name Wet E",
        "slug wet_f",
        "name Wet F",
    ]
    assert tally(found) == {"total": 6, "resolved": 3, "needs_confirmation": 1, "unresolved": 2}


async def test_a_failing_lookup_goes_on_to_the_search() -> None:
    lookups = Lookups(slugs={"wet_a": DatabaseUnavailable("down")}, names={"Wet A": [BwbHit("BWBR0000001", "Wet A")]})
    found = await resolve_related([RelatedEntry("Wet A")], look_up_slug=lookups.slug, search_name=lookups.name)
    assert found == (Resolved("BWBR0000001", "only_hit"),)


async def test_a_failing_search_leaves_its_entry_alone_unresolved() -> None:
    lookups = Lookups(names={"Wet A": SearchFailed("busy"), "Wet B": [BwbHit("BWBR0000002", "Wet B")]})
    entries = [RelatedEntry("Wet A"), RelatedEntry("Wet B")]
    found = await resolve_related(entries, look_up_slug=lookups.slug, search_name=lookups.name)
    assert found == (Unresolved("the search failed: busy"), Resolved("BWBR0000002", "only_hit"))


async def test_a_lost_lease_goes_up() -> None:
    lookups = Lookups(slugs={"wet_a": LeaseLost("gone")})
    with pytest.raises(LeaseLost):
        await resolve_related([RelatedEntry("Wet A")], look_up_slug=lookups.slug, search_name=lookups.name)
