"""Settings: read from the environment once, checked all together, and frozen. Secrets never show.

``load`` reads what a running supervisor needs. A command that needs one area reads that area alone with ``load_area``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from attrs import evolve, field, frozen

from protocols.failures import InvalidInput
from supervisor.settings.agents import Agents
from supervisor.settings.api import Api
from supervisor.settings.areas import (
    Corpus,
    Database,
    Drain,
    Embedded,
    Enrich,
    Health,
    Logging,
    Roles,
    Sources,
    Worker,
)
from supervisor.settings.operations import Repl, Retention
from supervisor.settings.pipelines import Blobs, Crawl, Pipelines
from supervisor.settings.ports import corpus_settings
from supervisor.settings.reader import Findings, SettingsFault, read, specs

__all__ = ["AREAS", "Settings", "SettingsFault", "load", "load_area", "load_database", "secrets_of"]

T = TypeVar("T")

AREAS: tuple[type, ...] = (
    Database,
    Embedded,
    Worker,
    Roles,
    Enrich,
    Agents,
    Sources,
    Corpus,
    Drain,
    Health,
    Logging,
    Repl,
    Retention,
    Pipelines,
    Crawl,
    Blobs,
    Api,
)

LEAST_CONNECTIONS = {"none": 4, "transaction": 3}
"""One for beats, one to LISTEN (not through a pooler), and a pool of two (D16)."""

_OURS = (
    "WORKER_",
    "SUPERVISOR_",
    "HARVEST_",
    "ENRICH_",
    "JOBS_",
    "CORPUS_",
    "REGULATION_",
    "BWB_",
    "CVDR_",
    "DATABASE_",
    "PIPELINE_",
    "PIPELINES_",
    "CRAWL_",
    "BLOB_",
    "WEB_CRAWL_",
)
_NOT_OURS = frozenset({"SUPERVISOR_CHILD", "CORPUS_REGISTRY_PATH", "CORPUS_REGISTRY_LOCAL_PATH", "CORPUS_AUTH_FILE"})
"""Set inside child processes, or read by other services of the platform in a shared environment."""


AFTER_DRAIN_S = 10.0
"""From the end of the drain to the end of the process, at most (D12)."""


@frozen
class Settings:
    """Everything that was configured. ``warnings`` are for the log, once it is set up."""

    database: Database
    embedded: Embedded
    worker: Worker
    roles: Roles
    enrich: Enrich
    agents: Agents
    sources: Sources
    corpus: Corpus
    drain: Drain
    health: Health
    logging: Logging
    repl: Repl
    retention: Retention
    pipelines: Pipelines
    crawl: Crawl
    blobs: Blobs
    api: Api
    warnings: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret values themselves, for the redaction of logs. Not for printing."""
        tokens = [token.strip() for token in (self.agents.claude_tokens or "").split(",") if token.strip()]
        return tuple(
            sorted({*secrets_of(self.database, self.corpus, self.agents, self.blobs), *tokens}, key=len, reverse=True)
        )


def load(environ: Mapping[str, str], *, embedded: bool = False) -> Settings:
    """Read and check all areas. ``embedded`` is the command line's ``--embedded``.

    SettingsFault: lists everything that is wrong, not the first thing only.
    """
    findings = Findings()
    settings = Settings(
        database=read(Database, environ, findings),
        embedded=read(Embedded, environ, findings),
        worker=read(Worker, environ, findings),
        roles=read(Roles, environ, findings),
        enrich=read(Enrich, environ, findings),
        agents=read(Agents, environ, findings),
        sources=read(Sources, environ, findings),
        corpus=read(Corpus, environ, findings),
        drain=read(Drain, environ, findings),
        health=read(Health, environ, findings),
        logging=read(Logging, environ, findings),
        repl=read(Repl, environ, findings),
        retention=read(Retention, environ, findings),
        pipelines=read(Pipelines, environ, findings),
        crawl=read(Crawl, environ, findings),
        blobs=read(Blobs, environ, findings),
        api=read(Api, environ, findings),
    )
    if not any(fault.startswith("DATABASE_") for fault in findings.faults):
        findings.faults += database_faults(settings.database, settings.embedded, flag=embedded)
    findings.faults += [
        *_connection_faults(settings.database),
        *_timing_faults(settings.worker),
        *_lease_faults(settings.worker, settings.pipelines),
        *_corpus_faults(settings.corpus),
        *_drain_faults(settings.drain),
    ]
    findings.raise_faults()
    warnings = (*findings.warnings, *_timing_warnings(settings.worker), *unknown_names(environ))
    return evolve(settings, warnings=warnings)


def load_area(cls: type[T], environ: Mapping[str, str]) -> T:
    """One area alone. SettingsFault: lists everything that is wrong in it."""
    findings = Findings()
    area = read(cls, environ, findings)
    findings.raise_faults()
    return area


def load_database(environ: Mapping[str, str], *, embedded: bool = False) -> tuple[Database, Embedded]:
    """What a command needs that only uses the database. SettingsFault: lists everything that is wrong."""
    findings = Findings()
    database, server = read(Database, environ, findings), read(Embedded, environ, findings)
    if not any(fault.startswith("DATABASE_") for fault in findings.faults):
        findings.faults += database_faults(database, server, flag=embedded)
    findings.faults += _connection_faults(database)
    findings.raise_faults()
    return database, server


def database_faults(database: Database, embedded: Embedded, *, flag: bool) -> list[str]:
    """D25: a database is named, or the embedded one is asked for; never silently a private one."""
    if flag:
        return []
    if database.url is None and not embedded.enabled:
        return [
            "DATABASE_URL is not set: set it, or ask for the embedded server with --embedded (SUPERVISOR_EMBEDDED=1)"
        ]
    if database.url is not None and embedded.enabled:
        return ["DATABASE_URL and SUPERVISOR_EMBEDDED=1 are both set: which database is meant? Unset one of them"]
    return []


def _connection_faults(database: Database) -> list[str]:
    least = LEAST_CONNECTIONS[database.pooler]
    faults = []
    if database.max_connections < least:
        faults.append(
            f"DATABASE_MAX_CONNECTIONS={database.max_connections}: the least is {least} with DATABASE_POOLER={database.pooler}"
        )
    if database.pooler == "transaction" and database.url is not None and database.direct_url is None:
        faults.append(
            "DATABASE_POOLER=transaction: migrations need DATABASE_DIRECT_URL, an address that goes round the pooler"
        )
    return faults


def _corpus_faults(corpus: Corpus) -> list[str]:
    try:
        corpus_settings(corpus)
    except InvalidInput as error:
        return [str(fault) for fault in error.details.get("faults", [error.message])]
    folder = None if corpus.repo_url is None else _folder_of(corpus.repo_url)
    if folder is not None and not folder.is_dir():
        return [f"CORPUS_REPO_URL={corpus.repo_url!r}: there is no such folder; a repository elsewhere has an address"]
    return []


def _folder_of(address: str) -> Path | None:
    """The folder that git means by ``address``; None: something on another machine (``host:path`` too, D39)."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if ":" in address.partition("/")[0] else Path(address)


def _drain_faults(drain: Drain) -> list[str]:
    # SD-02: a platform that kills in the middle of the drain costs every running job an attempt.
    grace_s, most_s = drain.grace_period_s, drain.drain_s + AFTER_DRAIN_S
    if grace_s is None or most_s < grace_s:
        return []
    return [
        (
            f"SUPERVISOR_DRAIN_SECS={drain.drain_s:g} and SUPERVISOR_GRACE_PERIOD_SECS={grace_s:g}: the end may take "
            f"{most_s:g} s, which must be less than the grace period"
        )
    ]


def _lease_faults(worker: Worker, pipelines: Pipelines) -> list[str]:
    """A lease is renewed by beats: one that ends between two of them lets a second run in."""
    ttl_s = pipelines.lease_ttl_s
    if ttl_s is None or ttl_s > 3 * worker.heartbeat_interval_s:
        return []
    return [
        (
            f"LEASE_TTL_SECS={ttl_s:g} and WORKER_HEARTBEAT_INTERVAL_SECS={worker.heartbeat_interval_s:g}: a lease must "
            f"last for more than three beats"
        )
    ]


def _timing_faults(worker: Worker) -> list[str]:
    # QH-03: with less than three beats in the timeout one lost beat takes jobs from a living supervisor.
    if 3 * worker.heartbeat_interval_s > worker.orphan_timeout_s:
        return [
            (
                f"WORKER_HEARTBEAT_INTERVAL_SECS={worker.heartbeat_interval_s:g} and WORKER_ORPHAN_TIMEOUT_SECS="
                f"{worker.orphan_timeout_s:g}: three beats must fit into the orphan timeout"
            )
        ]
    return []


def _timing_warnings(worker: Worker) -> list[str]:
    if worker.max_poll_interval_s < worker.poll_interval_s:
        return [
            (
                f"WORKER_MAX_POLL_INTERVAL_SECS={worker.max_poll_interval_s:g} is below WORKER_POLL_INTERVAL_SECS="
                f"{worker.poll_interval_s:g}: polling stays at the former"
            )
        ]
    return []


def unknown_names(environ: Mapping[str, str]) -> list[str]:
    """A warning for each name that looks like a setting of ours and is none."""
    known = {name for cls in AREAS for _, spec in specs(cls) for name in (spec.name, *spec.fallbacks)}
    warnings = []
    for name in sorted(environ):
        if name in known or name in _NOT_OURS or not name.startswith(_OURS):
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.86)
        if near:
            warnings.append(f"{name} is not a setting; did you mean {near[0]}?")
        elif not name.startswith(("DATABASE_", "CORPUS_")):
            # Platforms inject names such as DATABASE_SERVICE_HOST; only a near miss is worth a word there.
            warnings.append(f"{name} is not a setting of this version and does nothing")
    return warnings


def secrets_of(*areas: object) -> tuple[str, ...]:
    """The secret values in these areas, and the passwords inside addresses, longest first."""
    found: set[str] = set()
    for area in areas:
        for attribute, spec in specs(type(area)):
            value = getattr(area, attribute.name)
            if spec.secret and isinstance(value, str):
                found.add(value)
                password = _password(value)
                if password:
                    found.add(password)
    return tuple(sorted(found, key=len, reverse=True))


def _password(value: str) -> str | None:
    return urlsplit(value).password if "://" in value else None
