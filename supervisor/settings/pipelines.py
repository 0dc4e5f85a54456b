"""The settings of pipelines: runs and schedules, the crawler, where results are kept (``pipelines.md`` 14)."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

from attrs import frozen

from supervisor.settings.reader import choice, flag, http_url, path, seconds, setting, text, whole

MEBIBYTE = 1 << 20


def _ports(raw: str) -> frozenset[int]:
    ports = frozenset(int(part) for part in raw.split(",") if part.strip().isdigit())
    if not ports or len(ports) != len(raw.split(",")) or not all(0 < port < 65_536 for port in ports):
        raise ValueError("expected port numbers with commas between them: 80,443")
    return ports


def _networks(raw: str) -> tuple[str, ...]:
    networks = tuple(part.strip() for part in raw.split(",") if part.strip())
    for network in networks:
        try:
            ip_network(network)
        except ValueError:
            raise ValueError("expected networks with commas between them: 10.1.0.0/16,fd00::/8") from None
    return networks


@frozen
class Pipelines:
    """Runs of pipelines and connectors, what they cost, and their schedules."""

    concurrency: int = setting(
        "PIPELINE_CONCURRENCY",
        whole(1, 100),
        default=2,
        help="Pipeline runs at once in one supervisor; as many connector jobs in the role of connectors.",
    )
    max_urls: int = setting(
        "PIPELINE_MAX_URLS_PER_RUN",
        whole(1, 1_000_000),
        default=1000,
        help="A run with more URLs fails before it fetches one.",
    )
    run_timeout_s: float = setting(
        "PIPELINE_RUN_TIMEOUT_SECS",
        seconds(1, 604_800),
        default=28_200.0,
        help="A run that takes longer fails.",
    )
    lease_ttl_s: float | None = setting(
        "LEASE_TTL_SECS",
        seconds(1),
        default=None,
        shown_default="WORKER_ORPHAN_TIMEOUT_SECS + 60",
        help="How long pipeline and connector stay leased after the last beat of a run. More than three beats.",
    )
    on_shared_database: bool = setting(
        "PIPELINES_ON_SHARED_DATABASE",
        flag,
        default=False,
        help="Add the job types of pipelines to a database of the existing platform. Services of the platform that know only "
        "its own five job types fail when they read such a row: set this once they have been upgraded, or never list jobs.",
    )
    billing_enabled: bool = setting(
        "WEB_CRAWL_CREDIT_BILLING_ENABLED",
        flag,
        default=False,
        help="Charge successful crawls to the owner of the workspace. A run keeps the choice that it began with.",
    )
    micros_per_success: int = setting(
        "WEB_CRAWL_MICROS_PER_SUCCESS",
        whole(0, 1_000_000_000),
        default=1000,
        help="Price of one successful crawl; 1000000 are one dollar.",
    )
    tick_batch: int = setting(
        "SCHEDULE_TICK_BATCH",
        whole(1, 10_000),
        default=200,
        help="Pipelines that fire in one tick at most; the rest fires a minute later.",
    )
    tick_expiry_s: float = setting(
        "SCHEDULE_TICK_EXPIRY_SECS",
        seconds(1, 59),
        default=50.0,
        help="A tick that could not begin within this is dropped, one that takes longer is cut.",
    )
    misfire_grace_s: float | None = setting(
        "SCHEDULE_MISFIRE_GRACE_SECS",
        seconds(0),
        default=None,
        shown_default="unset: a missed fire is made up for once, however late",
        help="A fire later than this is dropped.",
    )
    retention_days: int = setting(
        "PIPELINE_RESULT_RETENTION_DAYS",
        whole(1, 36_500),
        default=30,
        help="Results of runs that do not save are deleted after so many days.",
    )
    max_result_bytes: int = setting(
        "PIPELINE_RESULT_MAX_BYTES",
        whole(1_000),
        default=2 << 30,
        help="A run whose result grows larger fails.",
    )


@frozen
class Crawl:
    """How the web is crawled."""

    workers: int = setting(
        "CRAWL_CONCURRENCY",
        whole(1, 1000),
        default=4,
        help="Pages of one run that are fetched at once.",
    )
    global_concurrency: int = setting(
        "CRAWL_GLOBAL_CONCURRENCY",
        whole(1, 1000),
        default=16,
        help="Pages that one supervisor fetches at once, over all runs.",
    )
    host_concurrency: int = setting(
        "CRAWL_HOST_CONCURRENCY",
        whole(1, 100),
        default=1,
        help="Requests to one host at once.",
    )
    host_delay_ms: int = setting(
        "CRAWL_HOST_DELAY_MS",
        whole(0, 600_000),
        default=1000,
        help="Least time between two requests to one host, in milliseconds.",
    )
    url_deadline_s: float = setting(
        "CRAWL_URL_DEADLINE_SECS",
        seconds(0.1, 3600),
        default=60.0,
        help="Limit of one URL, with all its redirects and retries; waiting for a turn at its host does not count.",
    )
    max_bytes: int = setting(
        "CRAWL_MAX_BYTES",
        whole(1_000, 1 << 30),
        default=10 * MEBIBYTE,
        help="Largest page, unpacked.",
    )
    min_content_chars: int = setting(
        "CRAWL_MIN_CONTENT_CHARS",
        whole(1, 100_000),
        default=1,
        help="A page with fewer letters and digits has no content.",
    )
    obey_robots: bool = setting(
        "CRAWL_OBEY_ROBOTS",
        flag,
        default=True,
        help="Leave out what robots.txt forbids.",
    )
    user_agent: str | None = setting(
        "CRAWL_USER_AGENT",
        text,
        default=None,
        shown_default="regelrecht-supervisor/VERSION",
        help="What the crawler calls itself; give an address where its operator can be reached.",
    )
    allowed_ports: frozenset[int] = setting(
        "CRAWL_ALLOWED_PORTS",
        _ports,
        default=frozenset({80, 443}),
        shown_default="80,443",
        help="Ports that URLs may name.",
    )
    extra_deny: tuple[str, ...] = setting(
        "CRAWL_EXTRA_DENY_CIDRS",
        _networks,
        default=(),
        shown_default="unset",
        help="Networks that are refused besides those that are not public.",
    )
    allow: tuple[str, ...] = setting(
        "CRAWL_ALLOW_CIDRS",
        _networks,
        default=(),
        shown_default="unset",
        help="Networks that may be reached although they are not public. For tests only: it opens the inside network.",
    )
    proxy_trusted: bool = setting(
        "CRAWL_PROXY_TRUSTED",
        flag,
        default=False,
        help="Where HTTPS_PROXY is set the crawler cannot check addresses itself and refuses to start, unless this says that "
        "the proxy refuses internal addresses.",
    )


@frozen
class Blobs:
    """Where results of runs that do not save are kept."""

    backend: str = setting(
        "BLOB_BACKEND",
        choice("local", "s3"),
        default="local",
        help="`local`: a folder, which several pods must share; `s3`: a store that speaks S3.",
    )
    local_root: Path = setting(
        "BLOB_LOCAL_ROOT",
        path,
        default=Path("/tmp/regelrecht-results"),
        help="The folder. Only the supervisor may write there.",
    )
    s3_endpoint: str | None = setting(
        "BLOB_S3_ENDPOINT",
        http_url,
        default=None,
        help="Address of the store; unset: that of the region.",
    )
    s3_region: str = setting("BLOB_S3_REGION", text, default="us-east-1", help="Region.")
    s3_bucket: str | None = setting("BLOB_S3_BUCKET", text, default=None, help="Bucket, which must be there.")
    s3_access_key: str | None = setting(
        "BLOB_S3_ACCESS_KEY", text, default=None, secret=True, help="Access key. Never shown."
    )
    s3_secret_key: str | None = setting(
        "BLOB_S3_SECRET_KEY", text, default=None, secret=True, help="Secret key. Never shown."
    )
    s3_path_style: bool = setting(
        "BLOB_S3_PATH_STYLE",
        flag,
        default=True,
        help="The bucket stands in the path of the address, not in the name of the host.",
    )
