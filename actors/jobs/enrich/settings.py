"""All that an enrich job needs to know of its surroundings, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from actors.ports.fetchsettings import FetchSettings
from protocols.corpus import CorpusSettings
from protocols.enrichsteps import RECONCILE, WINDOW
from protocols.gates.feedback import Rounds
from protocols.related import RelatedLimits
from protocols.sessions import SessionReuse
from protocols.shares import Shares, shares_of
from protocols.stall import StallLimits
from protocols.windows import DEFAULT_LIMIT

PUSH_LIMIT_S: Final = 300.0
"""The push has this much of its own, after the job's own limit (D44)."""


@frozen
class EnrichSettings:
    """``corpus`` None: laws are read from and written to ``folder``. ``environ`` is what agents' environments are made of.

    ``job_timeout_s`` is for everything up to the push. ``max_rss_bytes`` None: no limit.
    """

    fetch: FetchSettings
    corpus: CorpusSettings | None
    folder: Path
    work_root: Path
    environ: Mapping[str, str] = field(factory=dict, repr=False)
    output_base: str = "regulation/nl"
    default_provider: str = "opencode"
    hourly_limit: int = 0
    """Claude runs an hour; above 0 somebody means claude to run. The claims keep to it, not the job."""
    window_limit: int = DEFAULT_LIMIT
    window_concurrency: int = 1
    rounds: Rounds = field(factory=Rounds)
    session_reuse: SessionReuse = SessionReuse.WINDOW
    steps: frozenset[str] = frozenset({WINDOW, RECONCILE})
    job_timeout_s: float = 1200.0
    llm_timeout_s: float = 600.0
    stall: StallLimits = field(factory=StallLimits)
    max_rss_bytes: int | None = None
    max_output_bytes: int = 1 << 30
    related: RelatedLimits = field(factory=RelatedLimits)
    max_cost_millicents: int = 0
    skills_dir: Path | None = None
    schema_dir: Path | None = None
    code_commit: str = ""
    user_home: bool = False
    """Agents work with the supervisor user's own HOME: for a developer's login (D48)."""
    agent_env: tuple[str, ...] = ()
    progress_s: float = 10.0
    least_free_bytes: int = 2 << 30

    @property
    def shares(self) -> Shares:
        return shares_of(self.job_timeout_s, self.llm_timeout_s, self.rounds)
