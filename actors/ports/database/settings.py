"""What the database port needs to know."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from protocols.failures import InvalidInput


@frozen(kw_only=True)
class DatabaseSettings:
    """Limits are seconds. InvalidInput when the connections do not suffice (D16)."""

    url: str = field(repr=False)
    direct_url: str | None = field(default=None, repr=False)
    """Round the pooler, for migrations."""
    max_connections: int = 5
    """All of this process: one for beats, one to LISTEN (not through a pooler), the rest a pool."""
    pooler: Literal["none", "transaction"] = "none"
    application_name: str = "regelrecht-supervisor"
    """What the server calls our sessions, in its list of them."""
    generic_plans: bool = True
    """Plan each statement once per session, whatever its arguments; the server does so again when statistics change. Not
    for sessions that ask each question once, where the arguments make the better plan."""
    statement_timeout_s: float = 10
    """The client gives up after this and throws the connection away; the server stops the statement a little earlier."""
    idle_in_transaction_timeout_s: float = 15
    connect_timeout_s: float = 10
    acquire_timeout_s: float = 30
    """For a connection of the pool to become free."""
    go_home_limit_s: float = 2
    """For a cancelled unit to roll back and give its connection back, before that connection is terminated (DB-04)."""
    keepalive_idle_s: int = 30
    keepalive_interval_s: int = 10
    keepalive_probes: int = 3
    probe_s: float = 60
    """How often the LISTEN connection proves that a notification still arrives (DB-01)."""
    failpoint: str | None = None
    """For fault tests; see ``actors.ports.database.failpoint``."""

    def __attrs_post_init__(self) -> None:
        least = 3 if self.through_pooler else 4
        if self.max_connections < least:
            raise InvalidInput(
                f"{self.max_connections} database connections are too few: at least {least} are needed "
                f"({'one for beats' if self.through_pooler else 'one for beats, one to LISTEN'} and a pool of two)"
            )

    @property
    def through_pooler(self) -> bool:
        return self.pooler == "transaction"

    @property
    def pool_size(self) -> int:
        return self.max_connections - (1 if self.through_pooler else 2)

    @property
    def session(self) -> dict[str, str]:
        """Server settings of our sessions. The statement limit is a little below the client's, so that a healthy server
        ends a slow statement itself and the connection survives. The queue asks the same few questions over and over:
        planning them anew takes longer than answering them (measured: a claim 1.7 ms instead of 0.7 ms), and compiling
        them would cost 50 ms where a long queue makes them look expensive.
        """
        plans = {"plan_cache_mode": "force_generic_plan", "jit": "off"} if self.generic_plans else {}
        return {
            "statement_timeout": str(int(self.statement_timeout_s * 950)),
            "idle_in_transaction_session_timeout": str(int(self.idle_in_transaction_timeout_s * 1000)),
            **plans,
        }
