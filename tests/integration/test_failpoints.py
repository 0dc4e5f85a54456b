"""Failpoints do what they say, at the passage that they say, and nothing when they are off."""

from __future__ import annotations

import pytest

from actors.ports.database import Database, DatabaseSettings, open_database
from protocols.failures import InvalidInput, OutcomeUnclear
from tests.kit import ledger

WRITE = "ledger.write"


@pytest.mark.parametrize(("moment", "kept"), [("before", [1]), ("after", [1, 2])])
@pytest.mark.parametrize("way", ["run", "transact", "beat", "direct"])
async def test_a_cut_at_a_commit_leaves_its_outcome_unclear(
    database_url: str, way: str, moment: str, kept: list[int]
) -> None:
    # D7: what really happened differs, what the caller hears does not
    async with open_database(DatabaseSettings(url=database_url)) as plain:
        await plain.run(ledger.make)
        settings = DatabaseSettings(url=database_url, failpoint=f"{WRITE}.{moment}:2:cut")
        async with open_database(settings) as hurt:
            call = getattr(hurt, way)
            assert await call(ledger.write, 1) == 1
            with pytest.raises(OutcomeUnclear):
                await call(ledger.write, 2)
            assert await plain.run(ledger.ids) == kept
            assert await call(ledger.write, 3) == 3
            assert hurt.statistics.pool_in_use == 0


async def test_other_units_pass_it_by(database_url: str) -> None:
    async with open_database(DatabaseSettings(url=database_url, failpoint="ledger.ids.before:1:cut")) as hurt:
        await hurt.run(ledger.make)
        await hurt.transact(ledger.write, 1)
        with pytest.raises(OutcomeUnclear):
            await hurt.run(ledger.ids)


@pytest.mark.parametrize(
    "text", ["claim", "claim.claim:1", "claim.claim.during:1", "claim.claim.after:0", "a.b.after:1:x"]
)
async def test_a_failpoint_that_cannot_be_read_is_refused(database: Database, text: str) -> None:
    with pytest.raises(InvalidInput, match="it looks like"):
        async with open_database(DatabaseSettings(url="postgresql:///none", failpoint=text)):
            pass
