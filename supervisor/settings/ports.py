"""From areas of the environment to what the ports take. Ports know no environment; areas know no driver."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from protocols.corpus import CorpusSettings, resolve_branch
from schema.queue.presence import SUPERVISOR_SESSION
from supervisor.settings.areas import Corpus, Database, Embedded, Sources
from supervisor.settings.pipelines import Blobs, Crawl

if TYPE_CHECKING:
    from actors.jobs.enrich.settings import EnrichSettings
    from actors.jobs.harvest.job import HarvestSettings
    from actors.jobs.pipeline_run.settings import PipelineSettings
    from actors.jobs.pipeline_run.tools import CrawlTools
    from actors.ports.blobs import BlobSettings
    from actors.ports.database.settings import DatabaseSettings
    from actors.ports.fetchsettings import FetchSettings
    from protocols.webpolicy import WebRules
    from supervisor.embedded.settings import EmbeddedSettings
    from supervisor.settings import Settings

NO_CACHE: Final = Path("off")


def database_settings(area: Database, url: str, *, session: str = SUPERVISOR_SESSION) -> DatabaseSettings:
    """``url`` is the database's, or that of the embedded server; ``session`` what the server calls our sessions.

    InvalidInput when the connections do not suffice.
    """
    from actors.ports.database.settings import DatabaseSettings

    return DatabaseSettings(
        url=url,
        direct_url=area.direct_url if url == area.url else None,
        max_connections=area.max_connections,
        pooler="transaction" if area.pooler == "transaction" and url == area.url else "none",
        application_name=session,
        generic_plans=session.startswith(SUPERVISOR_SESSION),
        statement_timeout_s=area.statement_timeout_s,
        failpoint=area.failpoint,
    )


def embedded_settings(area: Embedded) -> EmbeddedSettings:
    """One server for each data folder: commands with the same ``XDG_DATA_HOME`` share it (D25)."""
    from supervisor.embedded.settings import EmbeddedSettings, default_base

    environ = {} if area.data_home is None else {"XDG_DATA_HOME": str(area.data_home)}
    base = default_base({"HOME": str(Path.home()), **environ})
    return EmbeddedSettings(base=base, bindir=area.bindir, user=area.user)


def fetch_settings(area: Sources) -> FetchSettings:
    """The four addresses and the cache folder, which is made when it is the default; limits are the product's."""
    from actors.ports.fetchsettings import FetchSettings
    from supervisor.version import VERSION

    return FetchSettings(
        bwb_repository_url=area.bwb_repository_url,
        bwb_sru_url=area.bwb_sru_url,
        cvdr_repository_url=area.cvdr_repository_url,
        cvdr_sru_url=area.cvdr_sru_url,
        user_agent=f"regelrecht-supervisor/{VERSION}",
        cache_folder=_cache_folder(area),
    )


def _cache_folder(area: Sources) -> Path | None:
    """The folder that is named, else the first that can be ours alone, else none: then nothing is kept."""
    from actors.ports.fetchcache import private_folder

    if area.cache_dir is not None:
        return None if area.cache_dir == NO_CACHE else area.cache_dir
    temporary = Path(tempfile.gettempdir(), f"regelrecht-supervisor-{os.geteuid()}", "downloads")
    try:
        home = area.cache_home or Path.home() / ".cache"
    except RuntimeError:  # a user that the container knows by number only
        return private_folder(temporary)
    return private_folder(home / "regelrecht-supervisor" / "downloads", temporary)


def corpus_settings(area: Corpus) -> CorpusSettings | None:
    """None when no repository is configured: then files go to ``regulation_repo_path``.

    InvalidInput lists all faults in its detail ``faults``.
    """
    if area.repo_url is None:
        return None
    naming = {"HOSTNAME": area.hostname, "CORPUS_BRANCH": area.branch, "DEPLOYMENT_NAME": area.deployment_name}
    return CorpusSettings(
        repo_url=area.repo_url,
        path=area.repo_path,
        branch=resolve_branch({name: value for name, value in naming.items() if value is not None}),
        author_name=area.author_name,
        author_email=area.author_email,
        token=area.git_token,
    )


def harvest_settings(settings: Settings) -> HarvestSettings:
    """All that a harvest needs to know. InvalidInput where the corpus settings are wrong."""
    from actors.jobs.harvest.job import HarvestSettings
    from protocols.bwb.toestand import Style
    from schema.harvest import HarvestRules

    return HarvestSettings(
        fetch=fetch_settings(settings.sources),
        corpus=corpus_settings(settings.corpus),
        folder=settings.corpus.regulation_repo_path,
        output_base=settings.corpus.output_base,
        style=Style(settings.sources.style),
        rules=HarvestRules(auto_enrich=settings.enrich.auto_enqueue),
    )


def pipeline_settings(settings: Settings) -> PipelineSettings:
    """All that runs of pipelines and connectors need to know."""
    from actors.jobs.pipeline_run.settings import PipelineSettings
    from protocols.credits import Pricing

    area = settings.pipelines
    return PipelineSettings(
        max_urls=area.max_urls,
        run_timeout_s=area.run_timeout_s,
        lease_ttl_s=area.lease_ttl_s or settings.worker.orphan_timeout_s + 60,
        workers=settings.crawl.workers,
        pricing=Pricing(area.billing_enabled, area.micros_per_success),
        retention_days=area.retention_days,
        max_result_bytes=area.max_result_bytes,
    )


def crawl_tools(settings: Settings, environ: Mapping[str, str]) -> CrawlTools:
    """The crawler and the blob store, not opened yet. InvalidInput where they cannot be used as configured (D71)."""
    from actors.jobs.pipeline_run.tools import CrawlTools
    from actors.ports.crawlsettings import CrawlSettings, ExtractSettings, proxy_of
    from supervisor.version import VERSION

    area = settings.crawl
    crawl = CrawlSettings(
        rules=web_rules(area),
        user_agent=area.user_agent or f"regelrecht-supervisor/{VERSION}",
        obey_robots=area.obey_robots,
        host_delay_s=area.host_delay_ms / 1000,
        host_concurrency=area.host_concurrency,
        global_concurrency=area.global_concurrency,
        url_deadline_s=area.url_deadline_s,
        max_bytes=area.max_bytes,
        extract=ExtractSettings(min_content_chars=area.min_content_chars),
        proxy_url=proxy_of(environ),
        proxy_trusted=area.proxy_trusted,
    )
    return CrawlTools(crawl, blob_settings(settings.blobs))


def web_rules(area: Crawl) -> WebRules:
    """What may be fetched, for those who fetch and for those who write down what is to be fetched."""
    from protocols.webpolicy import WebRules

    return WebRules(ports=area.allowed_ports, deny=area.extra_deny, allow=area.allow)


def blob_settings(area: Blobs) -> BlobSettings:
    """Where results are kept. InvalidInput when something that the backend needs is missing."""
    from actors.ports.blobs import BlobSettings

    return BlobSettings(
        backend=area.backend,
        local_root=area.local_root,
        s3_endpoint=area.s3_endpoint,
        s3_region=area.s3_region,
        s3_bucket=area.s3_bucket,
        s3_access_key=area.s3_access_key,
        s3_secret_key=area.s3_secret_key,
        s3_path_style=area.s3_path_style,
    )


def enrich_settings(settings: Settings, environ: Mapping[str, str]) -> EnrichSettings:
    """All that an enrichment needs to know. ``environ``: what agents' environments are made of, by their allow-lists."""
    from actors.jobs.enrich.settings import EnrichSettings
    from protocols.related import RelatedLimits
    from protocols.stall import StallLimits

    agents = settings.agents
    return EnrichSettings(
        fetch=fetch_settings(settings.sources),
        corpus=corpus_settings(settings.corpus),
        folder=settings.corpus.regulation_repo_path,
        work_root=agents.work_path,
        environ=dict(environ),
        output_base=settings.corpus.output_base,
        default_provider=settings.enrich.default_provider,
        hourly_limit=settings.enrich.hourly_limit,
        window_limit=agents.max_articles,
        window_concurrency=agents.window_concurrency,
        rounds=agents.feedback_rounds,
        session_reuse=agents.session_reuse,
        steps=agents.steps,
        job_timeout_s=settings.worker.enrich_job_timeout_s or settings.worker.job_timeout_s,
        llm_timeout_s=agents.llm_timeout_s,
        stall=StallLimits(
            idle_s=agents.idle_s,
            retry_s=agents.retry_s,
            first_output_s=agents.first_output_s,
            max_steps=agents.max_steps,
        ),
        max_rss_bytes=agents.max_rss_mb << 20 if agents.max_rss_mb else None,
        max_output_bytes=agents.max_output_bytes,
        related=RelatedLimits(
            max_depth=settings.enrich.related_harvest_max_depth,
            max_per_job=agents.related_per_job,
            max_per_law=agents.related_per_law,
        ),
        max_cost_millicents=agents.max_cost_millicents,
        skills_dir=agents.skills_dir,
        schema_dir=agents.schema_dir,
        code_commit=agents.code_commit,
        user_home=agents.user_home,
        agent_env=agents.agent_env,
    )
