"""The enrich job: one window of a law through an agent CLI, gates and a branch or review tasks (``enrich.md``).

``job`` is the handler. ``flows`` says where a law comes from and goes, ``lane`` how a provider is called, ``desk`` is what
one window works with, ``draft`` the law on it; ``translate`` and ``rounds`` are the work, ``product`` what comes of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
import trio
from attrs import evolve

from actors.jobs import Means
from actors.jobs.base import JobHandler
from actors.jobs.enrich.flows import CorpusFlow
from actors.jobs.enrich.job import Enrich
from actors.jobs.enrich.lane import Lane
from actors.jobs.enrich.settings import EnrichSettings
from actors.ports.agentfolders import WorkRoot
from actors.ports.agentprocess import MemoryWatch, ProcessRunner
from actors.ports.corpus import open_corpus
from actors.ports.fetch import open_fetcher
from actors.ports.foldercorpus import FolderCorpus
from actors.ports.guardian import Guardian
from actors.ports.launcher import log_confinement
from actors.ports.lawsource import LawRepository
from actors.ports.schemafiles import load_schemas
from actors.ports.skillfiles import read_skills, skills_folder
from protocols.budget import PROVIDERS
from protocols.bwb.search import BwbHit
from protocols.corpus import DEFAULT_BRANCH, CorpusSettings
from protocols.dialects import DIALECTS
from protocols.lawschema import LawSchemas
from protocols.shares import inert_rules
from protocols.stall import SHORT_IDLE_S

_log = structlog.get_logger(__name__)

HISTORY_DEPTH = 100
"""Commits of an enrich branch that are looked through for our own (D53)."""


@asynccontextmanager
async def open_enrich(means: Means) -> AsyncIterator[JobHandler]:
    """The handler with its lanes, corpora, search client and work folder, shared by all enrichments of this supervisor.

    InvalidInput when a setting of a provider cannot be used.
    """
    settings = means.get(EnrichSettings)
    _warn(settings)
    log_confinement()
    folder = skills_folder(settings.skills_dir)
    root = WorkRoot(settings.work_root, settings.least_free_bytes)
    async with AsyncExitStack() as stack:
        repository = LawRepository(await stack.enter_async_context(open_fetcher(settings.fetch)))
        schemas = await trio.to_thread.run_sync(load_schemas, settings.schema_dir)
        flows = await _flows(stack, settings, schemas, means.guardian)
        nursery = await stack.enter_async_context(trio.open_nursery())
        await nursery.start(root.run)

        async def search_name(name: str) -> Sequence[BwbHit]:
            return (await repository.search_bwb(name)).hits

        lanes = {name: Lane.of(name, settings, folder) for name in PROVIDERS}
        _warn_of_lanes(lanes.values())
        yield Enrich(
            settings=settings,
            lanes=lanes,
            flows=flows,
            root=root,
            skills=await trio.to_thread.run_sync(read_skills, folder),
            schemas=schemas,
            runner=lambda: ProcessRunner(
                means.guardian, MemoryWatch(settings.max_rss_bytes), max_output_bytes=settings.max_output_bytes
            ),
            search_name=search_name,
        )
        nursery.cancel_scope.cancel(reason="no more enrichments")


def _warn(settings: EnrichSettings) -> None:
    """What is set and can have no effect, or hardly the one that is meant (D44, D45, ``enrich.md`` 2.5)."""
    stall = settings.stall
    hints = list(
        inert_rules(
            settings.shares,
            idle_s=stall.idle_s,
            retry_s=stall.retry_s,
            first_output_s=stall.first_output_s,
            given=lambda name: bool(settings.environ.get(name)),
        )
    )
    if 0 < stall.idle_s < SHORT_IDLE_S:
        hints.append(f"ENRICH_AGENT_IDLE_SECS={stall.idle_s:g}: a model may well think for longer before it writes")
    named = {name for dialect in DIALECTS.values() for name in dialect.model_settings if settings.environ.get(name)}
    if named == {"LLM_MODEL"}:
        hints.append("LLM_MODEL alone is wrong for one of the providers: set CLAUDE_MODEL and OPENCODE_MODEL")
    for hint in hints:
        _log.warning("settings", hint=hint)


def _warn_of_lanes(lanes: Collection[Lane]) -> None:
    """Providers that are meant to run and cannot, and that none can: else jobs would be the first to tell, and end of it."""
    for lane in lanes:
        for hint in lane.lacks if lane.wanted else ():
            _log.warning("settings", hint=hint, provider=lane.dialect.name)
    if all(lane.lacks for lane in lanes):
        names = " nor ".join(lane.dialect.name for lane in lanes)
        paths = " or ".join(lane.dialect.binary_settings[0] for lane in lanes)
        _log.warning(
            "settings",
            hint=f"no provider can be run here, neither {names}: every enrich job that this supervisor takes will fail. "
            f"Install one or name its program with {paths}, give it a model and a login, or leave the role enrich out",
        )


async def _flows(
    stack: AsyncExitStack, settings: EnrichSettings, schemas: LawSchemas, guardian: Guardian | None
) -> dict[str, CorpusFlow]:
    """By provider. Each branch has a checkout of its own beside that of the corpus."""
    if settings.corpus is None:
        both = FolderCorpus(settings.folder)
        return {name: CorpusFlow(settings, both, both, schemas) for name in PROVIDERS}
    base = await stack.enter_async_context(open_corpus(settings.corpus, guardian))
    return {
        name: CorpusFlow(
            settings,
            await stack.enter_async_context(open_corpus(branch_of(name, settings.corpus), guardian)),
            base,
            schemas,
        )
        for name in PROVIDERS
    }


def branch_of(provider: str, corpus: CorpusSettings) -> CorpusSettings:
    """The corpus settings of ``enrich/{provider}``: it starts from development, wherever harvests go."""
    return evolve(
        corpus,
        branch=f"enrich/{provider}",
        base_branch=DEFAULT_BRANCH,
        path=corpus.path.with_name(f"{corpus.path.name}-enrich-{provider}"),
        clone_depth=HISTORY_DEPTH,
    )
