"""A database that answers but lets nobody write, as during a failover."""

from __future__ import annotations

import signal

import pytest
import trio

from supervisor import exitcodes
from tests.kit import ledger
from tests.kit.postgres import run_on
from tests.kit.processes import until
from tests.kit.supervisors import Fleet, SupervisorProcess


@pytest.mark.time_limit(90)
async def test_a_database_that_is_read_only_for_a_while_costs_nothing(fragile_pod: Fleet) -> None:
    """Supervisors wait as they do for a database that is away, also one that starts meanwhile."""
    one = fragile_pod.start(slots=2)
    await one.ready()
    await trio.to_thread.run_sync(run_on, fragile_pod.database_url, ledger.set_read_only, "on")
    two = fragile_pod.start(slots=2)
    for waiting in (one, two):
        await until(lambda log=waiting.log: "ReadOnlySQLTransaction" in log.read_text(), limit_s=30)  # type: ignore[misc]
    await trio.to_thread.run_sync(run_on, fragile_pod.database_url, ledger.set_read_only, "off")
    await fragile_pod.add([{"seconds": 0.1}] * 8)
    await fragile_pod.wait_until({"completed": 8}, limit_s=30)
    for waiting in (one, two):
        await _ends_well(waiting)


async def _ends_well(one: SupervisorProcess) -> None:
    assert not one.said("actor crashed")
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
