"""An owner of an embedded server in a process of its own: ``python -m tests.kit.embedded_child BASE [BINDIR]``.

Prints the URL when the server is up, waits for its standard input to end, prints ``leaving`` and leaves.
"""

from __future__ import annotations

import sys
from pathlib import Path

from supervisor.embedded import EmbeddedSettings, embedded_server


def main(base: str, bindir: str | None = None) -> None:
    settings = EmbeddedSettings(base=Path(base), bindir=Path(bindir) if bindir else None, durable=False)
    with embedded_server(settings) as server:
        print(server.url, server.pid, flush=True)
        sys.stdin.read()
        print("leaving", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
