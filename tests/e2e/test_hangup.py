"""The terminal of a supervisor is closed: it ends in order, and does not mind that nobody can read what it says."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from supervisor import exitcodes
from tests.kit.processes import own_terminal, until
from tests.kit.supervisors import Fleet, SupervisorProcess


@pytest.mark.time_limit(60)
async def test_a_closed_terminal_lets_running_jobs_finish_and_the_end_is_clean(pod: Fleet) -> None:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "supervisor", "run", "--roles", "probe"]
    with subprocess.Popen(  # noqa: ASYNC220
        argv,
        env=pod.environ(SUPERVISOR_DRAIN_SECS="10", SUPERVISOR_LOG="debug"),
        cwd=pod.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=own_terminal,
    ) as process:
        os.close(theirs)
        one = SupervisorProcess(process, pod.folder / "none")
        pod.processes.append(one)
        await pod.add([{"seconds": 2}] * 2)
        await until(lambda: len(pod.entries()) == 2, limit_s=30)
        os.close(ours)
        assert await one.exit_code() == exitcodes.CLEAN
    assert await pod.statuses() == {"completed": 2}
