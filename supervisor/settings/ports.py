"""From areas of the environment to what the ports take. Ports know no environment; areas know no driver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from protocols.corpus import CorpusSettings, resolve_branch
from schema.queue.presence import SUPERVISOR_SESSION
from supervisor.settings.areas import Corpus, Database, Embedded, Sources

if TYPE_CHECKING:
    from actors.jobs.harvest.job import HarvestSettings
    from actors.ports.database.settings import DatabaseSettings
    from actors.ports.fetchsettings import FetchSettings
    from supervisor.embedded.settings import EmbeddedSettings
    from supervisor.settings import Settings


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
        generic_plans=session == SUPERVISOR_SESSION,
        statement_timeout_s=area.statement_timeout_s,
        failpoint=area.failpoint,
    )


def embedded_settings(area: Embedded) -> EmbeddedSettings:
    """One server for each data folder: commands with the same ``XDG_DATA_HOME`` share it (D25)."""
    from supervisor.embedded.settings import EmbeddedSettings, default_base

    environ = {} if area.data_home is None else {"XDG_DATA_HOME": str(area.data_home)}
    return EmbeddedSettings(base=default_base({"HOME": str(Path.home()), **environ}))


def fetch_settings(area: Sources) -> FetchSettings:
    """The four addresses; limits are the product's."""
    from actors.ports.fetchsettings import FetchSettings
    from supervisor.version import VERSION

    return FetchSettings(
        bwb_repository_url=area.bwb_repository_url,
        bwb_sru_url=area.bwb_sru_url,
        cvdr_repository_url=area.cvdr_repository_url,
        cvdr_sru_url=area.cvdr_sru_url,
        user_agent=f"regelrecht-supervisor/{VERSION}",
    )


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
