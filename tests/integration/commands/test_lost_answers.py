"""Commands that watch or wait outlive a connection that is lost in the middle of a question."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from supervisor import exitcodes
from tests.kit import cli

LAW = "BWBR0990001"


def test_a_view_that_goes_on_goes_on_when_an_answer_is_lost(database_url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "supervisor", "status", "--watch", "--interval", "0.2", "--json"],
        env=cli.clean_environ(DATABASE_URL=database_url, FAILPOINT="overview.overview.after:2:cut"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        first, stale, fresh = (json.loads(process.stdout.readline())["at"] for _ in range(3))
        assert first == stale < fresh
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == exitcodes.CLEAN
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("unit", ["views.get_job", "presence.supervisors_seen"])
def test_who_waits_for_a_job_goes_on_waiting_when_an_answer_is_lost(database_url: str, unit: str) -> None:
    done = cli.run(
        "harvest", LAW, "--wait", "--timeout", "3", DATABASE_URL=database_url, FAILPOINT=f"{unit}.after:1:cut"
    )
    assert "failpoint" in done.err
    assert done.code == exitcodes.WAIT_TIMED_OUT, done.err
    assert "has not ended within 3 s" in done.err
