"""Every setting, one class per area. Names and defaults: D16, D20 and the platform's existing environment.

Field names carry their unit; the environment names are the platform's and stay as they are.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from attrs import frozen

from actors.ports.fetchsettings import base_url, search_base
from protocols.bwb import urls
from supervisor.settings.reader import (
    choice,
    flag,
    log_level,
    path,
    postgres_url,
    relative_path,
    seconds,
    setting,
    text,
    whole,
)


@frozen
class Database:
    """The one thing that supervisors share."""

    url: str | None = setting(
        "DATABASE_URL",
        postgres_url,
        default=None,
        secret=True,
        fallbacks=("DATABASE_SERVER_FULL",),
        help="Address of PostgreSQL 13 or newer. Required unless the embedded server is asked for. "
        "Never shown. DATABASE_SERVER_FULL is read when it is unset.",
    )
    direct_url: str | None = setting(
        "DATABASE_DIRECT_URL",
        postgres_url,
        default=None,
        secret=True,
        help="Address that goes round the pooler. Migrations need it when DATABASE_POOLER is transaction.",
    )
    max_connections: int = setting(
        "DATABASE_MAX_CONNECTIONS",
        whole(0, 1000),
        default=5,
        help="All connections of one supervisor: one for heartbeats, one to LISTEN, the rest a pool. At least 4, or 3 with a pooler.",
    )
    pooler: str = setting(
        "DATABASE_POOLER",
        choice("none", "transaction"),
        default="none",
        help="`transaction` when a transaction-mode pooler stands in front of the database: no LISTEN, no session state, "
        "no statement cache.",
    )
    statement_timeout_s: float = setting(
        "SUPERVISOR_STATEMENT_TIMEOUT_SECS",
        seconds(0.1, 3600),
        default=10.0,
        help="Limit of one statement in our own sessions.",
    )
    failpoint: str | None = setting(
        "FAILPOINT",
        text,
        default=None,
        help="For fault tests only: `outcomes.complete.before:3` kills this process at the third time right before that unit of "
        "work commits, `claim.claim.after:1:cut` loses the connection right after.",
    )


@frozen
class Embedded:
    """The PostgreSQL server that the supervisor can bring along, for one machine."""

    enabled: bool = setting(
        "SUPERVISOR_EMBEDDED",
        flag,
        default=False,
        example="1",
        help="Use the embedded PostgreSQL server; the same as --embedded. Not together with DATABASE_URL.",
    )
    data_home: Path | None = setting(
        "XDG_DATA_HOME",
        path,
        default=None,
        shown_default="~/.local/share",
        help="The embedded server keeps its data in the folder regelrecht-supervisor below it. One server takes one supervisor; commands join it.",
    )
    bindir: Path | None = setting(
        "SUPERVISOR_PG_BINDIR",
        path,
        default=None,
        shown_default="the installed extra, else the newest PostgreSQL of the system",
        help="Folder with the programs postgres and initdb for the embedded server.",
    )
    user: str | None = setting(
        "SUPERVISOR_PG_USER",
        text,
        default=None,
        shown_default="postgres if there is one, else nobody",
        help="System user of the embedded server when the supervisor runs as root, which PostgreSQL refuses for itself.",
    )


@frozen
class Worker:
    """How jobs are taken, kept and given up."""

    poll_interval_s: float = setting(
        "WORKER_POLL_INTERVAL_SECS",
        seconds(0.05),
        default=5.0,
        help="How often to look for jobs while nothing wakes us.",
    )
    max_poll_interval_s: float = setting(
        "WORKER_MAX_POLL_INTERVAL_SECS",
        seconds(0.05),
        default=60.0,
        help="How far polling backs off while the wake-up by NOTIFY is proven to work. Wins over the poll interval when smaller.",
    )
    job_timeout_s: float = setting(
        "WORKER_JOB_TIMEOUT_SECS",
        seconds(1),
        default=1200.0,
        example="3900",
        help="Limit of one job of any type. Enrichment of a large law wants 3900.",
    )
    harvest_job_timeout_s: float | None = setting(
        "HARVEST_JOB_TIMEOUT_SECS",
        seconds(1),
        default=None,
        shown_default="WORKER_JOB_TIMEOUT_SECS",
        help="Limit of one harvest job.",
    )
    enrich_job_timeout_s: float | None = setting(
        "ENRICH_JOB_TIMEOUT_SECS",
        seconds(1),
        default=None,
        shown_default="WORKER_JOB_TIMEOUT_SECS",
        help="Limit of one enrich job.",
    )
    heartbeat_interval_s: float = setting(
        "WORKER_HEARTBEAT_INTERVAL_SECS",
        seconds(0.05),
        default=30.0,
        help="How often all held jobs are beaten, in one statement. Three beats must fit into the orphan timeout.",
    )
    orphan_timeout_s: float = setting(
        "WORKER_ORPHAN_TIMEOUT_SECS",
        seconds(0.2),
        default=300.0,
        help="A job without a beat for this long is taken from its dead holder.",
    )
    foreign_orphan_timeout_s: float | None = setting(
        "WORKER_FOREIGN_ORPHAN_SECS",
        seconds(1),
        default=None,
        shown_default="the greater of 1800 and WORKER_JOB_TIMEOUT_SECS + 600",
        help="The same for a job held by a worker of the existing platform, which beats differently.",
    )
    reap_interval_s: float = setting(
        "WORKER_REAP_INTERVAL_SECS",
        seconds(0.05),
        default=60.0,
        help="How often orphans are looked for.",
    )
    exhausted_threshold: int = setting(
        "EXHAUSTED_THRESHOLD",
        whole(1),
        default=10,
        help="Failures of a law after which no new job is made for it by itself.",
    )
    max_resource_failures: int = setting(
        "WORKER_MAX_CONSECUTIVE_RESOURCE_FAILURES",
        whole(1),
        default=5,
        help="Jobs in a row that failed because this machine is out of memory, processes or files; then the supervisor "
        "drains and exits 1, so that the platform restarts the pod.",
    )

    @property
    def foreign_orphan_s(self) -> float:
        """``WORKER_FOREIGN_ORPHAN_SECS`` with its computed default (D3)."""
        if self.foreign_orphan_timeout_s is not None:
            return self.foreign_orphan_timeout_s
        return max(1800.0, self.job_timeout_s + 600.0)


@frozen
class Roles:
    """How many jobs of a role run at once."""

    harvest_concurrency: int = setting(
        "HARVEST_CONCURRENCY",
        whole(1, 1000),
        default=4,
        help="Harvest jobs at once.",
    )
    enrich_concurrency: int = setting(
        "ENRICH_CONCURRENCY",
        whole(1, 100),
        default=1,
        help="Enrich jobs at once.",
    )


@frozen
class Drain:
    """What SIGTERM does."""

    drain_s: float = setting(
        "SUPERVISOR_DRAIN_SECS",
        seconds(0, 86_400),
        default=25.0,
        help="How long running jobs may go on after SIGTERM. After it they are handed back, and the process ends within ten "
        "more seconds: give the platform's grace period at least that much more.",
    )
    grace_period_s: float | None = setting(
        "SUPERVISOR_GRACE_PERIOD_SECS",
        seconds(0, 90_000),
        default=None,
        shown_default="unset: not checked",
        help="The platform's grace period (terminationGracePeriodSeconds, docker stop --time). Where it is given, a "
        "supervisor does not start with a drain that does not fit into it.",
    )


@frozen
class Health:
    """Probes and metrics."""

    port: int | None = setting(
        "HEALTH_PORT",
        whole(0, 65_535),
        default=None,
        shown_default="unset: no server; 8000 in the image",
        help="Serve /healthz, /readyz and /metrics on this port. 0 lets the system choose one.",
    )


def _repository(raw: str) -> str:
    """A folder is looked for at once: a mirror that is not there would cost each law its attempts."""
    base = base_url(raw)
    parts = urlsplit(base)
    if parts.scheme == "file" and not Path(url2pathname(parts.path)).is_dir():
        raise ValueError("there is no such folder; a mirror is an http(s) address or a folder that exists")
    return base


@frozen
class Sources:
    """Where law comes from. The addresses are the allow-list: redirects elsewhere are refused (D38)."""

    bwb_repository_url: str = setting(
        "BWB_REPOSITORY_URL",
        _repository,
        default=urls.BWB_REPOSITORY,
        help="Files of national law: below it bwb/{id}/manifest.xml and so on. A mirror: an address or a folder that exists.",
    )
    bwb_sru_url: str = setting(
        "BWB_SRU_URL",
        search_base,
        default=urls.SRU_SEARCH,
        help="Search of national law.",
    )
    cvdr_repository_url: str = setting(
        "CVDR_REPOSITORY_URL",
        _repository,
        default=urls.CVDR_REPOSITORY,
        help="Files of local regulations.",
    )
    cvdr_sru_url: str = setting(
        "CVDR_SRU_URL",
        search_base,
        default=urls.SRU_SEARCH,
        help="Search of local regulations.",
    )
    style: str = setting(
        "HARVEST_STYLE",
        choice("full", "article", "leaf"),
        default="full",
        help="`full` keeps every visible word. The other two write what the older harvester wrote, with its losses: "
        "`article` an entry for each article, `leaf` for each of its parts.",
    )
    cache_dir: Path | None = setting(
        "HARVEST_CACHE_DIR",
        path,
        default=None,
        shown_default="regelrecht-supervisor/downloads below XDG_CACHE_HOME; below /tmp where that cannot be written",
        help="Downloaded files, so that the next harvest only asks whether they changed. At most 512 MiB; several "
        "supervisors may share it. `off`: keep none.",
    )
    cache_home: Path | None = setting(
        "XDG_CACHE_HOME",
        path,
        default=None,
        shown_default="~/.cache",
        help="Where the downloads go when HARVEST_CACHE_DIR is unset.",
    )


@frozen
class Corpus:
    """Where law files go: a git repository, or without one a plain folder."""

    repo_url: str | None = setting(
        "CORPUS_REPO_URL",
        text,
        default=None,
        help="Git repository of the corpus; a folder must exist. Unset: files go to REGULATION_REPO_PATH and nothing is committed.",
    )
    repo_path: Path = setting(
        "CORPUS_REPO_PATH",
        path,
        default=Path("/tmp/corpus-repo"),
        help="Checkout of the corpus. One that is there is taken over, and its `.git/config` written anew.",
    )
    branch: str | None = setting(
        "CORPUS_BRANCH",
        text,
        default=None,
        shown_default="derived from HOSTNAME and DEPLOYMENT_NAME, else development",
        help="Branch to push to.",
    )
    deployment_name: str | None = setting(
        "DEPLOYMENT_NAME",
        text,
        default=None,
        help="Set by the platform; names the branch when CORPUS_BRANCH is unset and this is not `regelrecht`.",
    )
    hostname: str | None = setting(
        "HOSTNAME",
        text,
        default=None,
        shown_default="set by the platform",
        help="A pod of a preview deployment (pr123-…) works on the branch of that name.",
    )
    author_name: str = setting(
        "CORPUS_GIT_AUTHOR_NAME",
        text,
        default="regelrecht-harvester",
        help="Author of commits.",
    )
    author_email: str = setting(
        "CORPUS_GIT_AUTHOR_EMAIL",
        text,
        default="noreply@minbzk.nl",
        help="Their address.",
    )
    git_token: str | None = setting(
        "CORPUS_GIT_TOKEN",
        text,
        default=None,
        secret=True,
        help="Token for clone and push over https. Reaches git through an askpass script only; never shown.",
    )
    regulation_repo_path: Path = setting(
        "REGULATION_REPO_PATH",
        path,
        default=Path("./regulation-repo"),
        shown_default="./regulation-repo; /tmp/regulation-repo in the image",
        help="Folder for law files when there is no corpus repository.",
    )
    output_base: str = setting(
        "REGULATION_OUTPUT_BASE",
        relative_path,
        default="regulation/nl",
        help="Where law files start inside repository or folder.",
    )


@frozen
class Enrich:
    """What harvesting and claiming need to know of enrichment."""

    auto_enqueue: bool = setting(
        "ENRICH_AUTO_ENQUEUE",
        flag,
        default=False,
        help="Make an enrich job per provider after each harvest that changed the text of a law.",
    )
    hourly_limit: int = setting(
        "ENRICH_HOURLY_LIMIT",
        whole(),
        default=0,
        on_garbage=0,
        help="Claude runs per clock hour in Amsterdam, over all supervisors. 0 (and anything unreadable): none, so that a "
        "forgotten variable spends nothing.",
    )
    night_multiplier: int = setting(
        "ENRICH_NIGHT_MULTIPLIER",
        whole(1),
        default=1,
        help="The limit is multiplied by this between 00:00 and 08:00.",
    )
    budget_includes_convert: bool = setting(
        "ENRICH_BUDGET_INCLUDES_CONVERT",
        flag,
        default=True,
        help="Document and law conversions on claude count as runs.",
    )
    default_provider: str = setting(
        "LLM_PROVIDER",
        choice("opencode", "claude"),
        default="opencode",
        help="Provider of jobs that name none.",
    )
    related_harvest_max_depth: int = setting(
        "RELATED_HARVEST_MAX_DEPTH",
        whole(),
        default=2,
        help="How many steps away from a requested law related legislation is harvested.",
    )


@frozen
class Logging:
    """What is printed, and how."""

    level: str = setting(
        "SUPERVISOR_LOG",
        log_level,
        default="info",
        fallbacks=("RUST_LOG",),
        help="Least level that is printed: debug, info, warning or error. RUST_LOG is read when it is unset; of a filter "
        "such as `info,sqlx=warn` the part without a name counts.",
    )
    format: str = setting(
        "LOG_FORMAT",
        choice("text", "plain", "json"),
        default="",
        shown_default="text on a terminal, json elsewhere",
        help="`text` is coloured on a terminal, `plain` never, `json` is one object a line.",
    )
