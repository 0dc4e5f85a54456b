"""The harvest handler on real means: repository over loopback, PostgreSQL, a bare git repository."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from actors.jobs.harvest.job import Harvest, HarvestSettings
from actors.ports.corpus import open_corpus
from actors.ports.fetch import open_fetcher
from actors.ports.fetchsettings import FetchSettings
from actors.ports.foldercorpus import FolderCorpus
from actors.ports.lawsource import LawRepository
from protocols.bwb.toestand import Style
from protocols.corpus import CorpusPort, CorpusSettings
from protocols.failures import JsonObject, LeaseLost, SupervisorError, leaves
from schema.harvest import HarvestRules
from schema.rows import Job, JobType
from supervisor.metrics import Metrics
from tests.kit.bwb_server import FakeRepository
from tests.kit.bwb_works import Work, invented_work
from tests.kit.gitrepos import Remote
from tests.kit.heldwork import HeldWork
from tests.kit.jobrows import Rows

LAW, CITED, OTHER = "BWBR0000001", "BWBR0000002", "BWBR0000003"
FILE = "regulation/nl/wet/wet_op_de_lantaarns/2024-03-01.yaml"


class CrashAfterPush(Exception):
    """The process dies between the push and the completion."""


@attrs.define
class Bench:
    """One supervisor's harvest handler and everything around it."""

    rows: Rows
    site: FakeRepository
    remote: Remote
    folder: Path
    rules: HarvestRules = attrs.field(factory=HarvestRules)
    style: Style = Style.FULL
    git: bool = True
    meter: Metrics = attrs.field(factory=Metrics)

    @asynccontextmanager
    async def handler(self) -> AsyncIterator[Harvest]:
        fetch = FetchSettings(
            bwb_repository_url=self.site.url,
            bwb_sru_url=self.site.url + "/sru",
            cvdr_repository_url=self.site.url + "/cvdr",
            cvdr_sru_url=self.site.url + "/sru",
            first_pause_s=0.01,
        )
        corpus = (
            CorpusSettings(str(self.remote.path), path=self.folder / "checkout", min_free_bytes=0) if self.git else None
        )
        settings = HarvestSettings(fetch, corpus, self.folder / "files", style=self.style, rules=self.rules)
        async with open_fetcher(fetch) as fetcher:
            repository = LawRepository(fetcher)
            port: CorpusPort
            if corpus is None:
                yield Harvest(settings, repository, FolderCorpus(settings.folder), self.meter)
            else:
                async with open_corpus(corpus) as port:
                    yield Harvest(settings, repository, port, self.meter)

    def laws_with_lost_text(self) -> float | None:
        return self.meter.registry.get_sample_value("regelrecht_supervisor_laws_with_lost_text_total")

    async def harvest(self, law_id: str = LAW, payload: JsonObject | None = None, **more: Any) -> Job:
        """Queue, claim, run and end one harvest as the runner does; the row afterwards."""
        await self.rows.add(JobType.HARVEST, law_id, payload, **more)
        return await self.work_off(HeldWork(self.rows, await self.rows.claimed(JobType.HARVEST)))

    async def work_off(self, work: HeldWork, *, crash: bool = False) -> Job:
        try:
            async with self.handler() as handler:
                done = await handler.run(work)
                if crash:
                    raise CrashAfterPush
            await self.rows.queue.complete(work.lease, done.result, done.settle)
        except ExceptionGroup as group:
            await self._fail(work, next(leaves(group)))
        except SupervisorError as failure:
            await self._fail(work, failure)
        return await self.rows.job(work.job.id)

    async def _fail(self, work: HeldWork, failure: BaseException) -> None:
        if not isinstance(failure, SupervisorError):
            raise failure
        if not isinstance(failure, LeaseLost):
            await self.rows.queue.fail(work.lease, failure)


def lanterns(**more: Any) -> Work:
    return invented_work(LAW, "Wet op de lantaarns", **more)


async def pending(bench: Bench, job_type: JobType = JobType.HARVEST) -> list[tuple[str, int, Any]]:
    found = await bench.rows.sql(
        "SELECT law_id, priority, payload FROM jobs WHERE status = 'pending' AND job_type::text = $1 ORDER BY law_id",
        job_type.value,
    )
    return [(row["law_id"], row["priority"], json.loads(row["payload"])) for row in found]
