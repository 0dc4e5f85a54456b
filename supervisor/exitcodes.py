"""What the exit code of ``regelrecht-supervisor`` says (D20). The README and docs/exit-codes.md list the same."""

from __future__ import annotations

from typing import Final

CLEAN: Final = 0
"""Done, or drained as asked."""

ESCALATED: Final = 1
"""The supervisor gave up (restarts, breaker, heartbeat, forced end), or a command failed for a reason of its own."""

USAGE: Final = 2
"""The command line or the settings are wrong. Nothing was started."""

JOB_FAILED: Final = 3
"""The awaited job failed."""

DATABASE_UNREACHABLE: Final = 4
"""The database cannot be reached, or nobody is there: to run the awaited job, to answer the prompt."""

WAIT_TIMED_OUT: Final = 5
"""The awaited job did not end in time; it goes on, or waits for a supervisor."""

INTERRUPTED: Final = 130
"""Ctrl-C ended the command before its work was done, as shells tell it. A drained ``run`` is CLEAN."""

MEANINGS: Final = {
    CLEAN: "done, or drained as asked",
    ESCALATED: "the supervisor gave up (restart limit, resource breaker, heartbeat, forced end) or a command failed",
    USAGE: "wrong command line or settings; nothing was started",
    JOB_FAILED: "the awaited job failed",
    DATABASE_UNREACHABLE: "database unreachable, or no supervisor runs: for the awaited job, or to answer `repl`",
    WAIT_TIMED_OUT: "the awaited job did not end in time; it goes on, or waits for a supervisor",
    INTERRUPTED: "interrupted before it was done (Ctrl-C); an awaited job stays in the queue",
}
