"""Settings for those who look after a running supervisor; the rest are in ``supervisor.settings.areas``."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from supervisor.settings.reader import flag, path, setting, whole


@frozen
class Repl:
    """The debug prompt (`regelrecht-supervisor repl`), for the user of the supervisor on its own machine."""

    enabled: bool = setting(
        "SUPERVISOR_REPL",
        flag,
        default=True,
        help="Listen for the debug prompt. Where no socket can be made, the supervisor says so and goes on without.",
    )
    socket: Path | None = setting(
        "SUPERVISOR_REPL_SOCKET",
        path,
        default=None,
        shown_default="repl-{pid}.sock in a folder of its own",
        help="Unix socket of the prompt, in a folder that only this user may enter. The `repl` command reads it too.",
    )
    python: bool = setting(
        "SUPERVISOR_REPL_PYTHON",
        flag,
        default=False,
        help="Let the prompt run Python inside the supervisor, not only look. For developers.",
    )
    runtime_dir: Path | None = setting(
        "XDG_RUNTIME_DIR",
        path,
        default=None,
        shown_default="set by the system; else the folder of XDG_DATA_HOME is used",
        help="Sockets and dumps (SIGUSR1) are in the folder regelrecht-supervisor below it.",
    )


@frozen
class Retention:
    """What is cleaned up after a while."""

    jobs_days: int = setting(
        "JOBS_RETENTION_DAYS",
        whole(0, 36_500),
        default=0,
        help="Finished jobs older than this are deleted in small batches, unless something refers to them. 0: never.",
    )
