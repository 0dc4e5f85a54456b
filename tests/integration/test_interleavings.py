"""The same quartet as real concurrent transactions."""

from __future__ import annotations

import pytest

from actors.ports.database import Database
from tests.kit import probe
from tests.kit.jobrows import Rows
from tests.kit.quartet import Quartet
from tests.kit.queuebench import PostgresBench


@pytest.mark.parametrize("seed", range(6))
async def test_no_order_of_transactions_ends_a_claim_twice(database: Database, seed: int) -> None:
    await database.direct(probe.add_label)
    quartet = Quartet(PostgresBench(Rows(database)), seed, pause_s=0.004)
    assert quartet.problems(await quartet.play()) == []
