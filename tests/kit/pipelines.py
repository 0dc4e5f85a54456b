"""A workspace with pipelines on a test database, a crawler that fetches nothing, and a supervisor's way to drive runs.

``pipeline_shop`` (the fixture is in ``tests/integration/pipelines/conftest.py``) gives a :class:`Shop`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import trio
from attrs import define, evolve, field

from actors.jobs.base import Completion
from actors.jobs.connector_index import ConnectorIndex
from actors.jobs.pipeline_run.engine import PipelineRun
from actors.jobs.pipeline_run.executors import Executor, WebCrawl
from actors.jobs.pipeline_run.laws import LawHarvest
from actors.jobs.pipeline_run.ports import Parts
from actors.jobs.pipeline_run.settings import PipelineSettings
from actors.ports.database import Database
from actors.ports.queue import UnitOfWork
from protocols.connectors import BWB_LAWS, WEB_CRAWLER
from protocols.crawl import CrawlOutcome, CrawlResult, CrawlStatus
from protocols.credits import Pricing
from protocols.failures import LeaseLost, SupervisorError, classify, leaves
from schema.migrate import add_job_types
from schema.pipelines import asking, history, items, manage, runs, wallet, workspaces
from schema.pipelines.manage import NewConnector, NewPipeline
from schema.pipelines.rows import Connector, Item, Pipeline, Run
from schema.pipelines.wallet import Imbalance, Wallet
from schema.rows import Job, JobType
from tests.kit.heldwork import HeldWork
from tests.kit.jobrows import Rows

LABELS = ("pipeline_run", "connector_index")
PRICE = 1000
ON = Pricing(enabled=True, micros_per_success=PRICE)
OFF = Pricing()


async def add_labels(database: Database) -> None:
    """What the first supervisor with such a role does (D23)."""
    await database.direct(add_job_types, LABELS)


def page(text: str, *, title: str = "A page", url: str = "https://site.example/") -> CrawlOutcome:
    """A successful crawl of a page that says ``text``."""
    return CrawlOutcome(
        CrawlStatus.SUCCESS, CrawlResult(text, {"source": url, "title": title}), tier="static", http_status=200,
        size_bytes=len(text), duration_ms=3,
    )  # fmt: skip


EMPTY = CrawlOutcome(CrawlStatus.EMPTY, error="no content", tier="static", http_status=200)
BROKEN = CrawlOutcome(CrawlStatus.FAILED, error="HTTP 500", tier="static", http_status=500)


@define
class FakeCrawler:
    """Answers from ``pages``; a URL that is not in it is a page of its own. ``asked`` is what it was asked for, in order.

    ``before`` is awaited in each crawl, before it answers.
    """

    pages: dict[str, CrawlOutcome | Exception] = field(factory=dict)
    asked: list[str] = field(factory=list)
    before: Callable[[str], Awaitable[None]] | None = None

    async def crawl_url(self, url: str) -> CrawlOutcome:
        self.asked.append(url)
        if self.before is not None:
            await self.before(url)
        await trio.lowlevel.checkpoint()
        answer = self.pages.get(url, page(f"content of {url}", url=url))
        if isinstance(answer, Exception):
            raise answer
        return answer


@define
class MemoryBlobs:
    """A blob store in a dictionary. ``fails`` is raised by the next upload, after its last byte."""

    blobs: dict[str, bytes] = field(factory=dict)
    fails: Exception | None = None
    backend_name: str = "local"

    async def put_stream(self, key: str, parts: Parts, content_type: str = "application/json") -> int:
        assert content_type == "application/json"
        data = b""
        while True:
            try:
                data += await parts.receive()
            except trio.EndOfChannel:
                break
        if self.fails is not None:
            raise self.fails
        self.blobs[key] = data
        return len(data)


@define
class HandWork(HeldWork):
    """Whose writes can be counted and interrupted."""

    writes: int = 0
    before_write: Callable[[int], Awaitable[None]] | None = None
    """Awaited before each fenced write, with its number: where a test takes the lease away, or dies."""

    async def write(self, unit: UnitOfWork) -> None:
        self.writes += 1
        if self.before_write is not None:
            await self.before_write(self.writes)
        await super().write(unit)


@define
class Shop:
    """One workspace, its owner, and a supervisor's handlers over fakes. Amounts are micros."""

    rows: Rows
    owner: UUID
    actor: UUID
    workspace: int
    crawler: FakeCrawler = field(factory=FakeCrawler)
    blobs: MemoryBlobs = field(factory=MemoryBlobs)
    settings: PipelineSettings = field(factory=lambda: PipelineSettings(workers=2))
    _names: int = 0

    @classmethod
    async def open(cls, database: Database) -> Shop:
        await add_labels(database)
        people = [
            await database.run(
                workspaces.create_account, subject=uuid4().hex, email=f"{uuid4().hex}@example.org", name="N. N."
            )
            for _ in range(2)
        ]
        made = await database.transact(workspaces.create_workspace, "Werkplaats", people[0])
        return cls(Rows(database), people[0], people[1], made.id)

    @property
    def database(self) -> Database:
        return self.rows.database

    def billing(self, pricing: Pricing) -> None:
        self.settings = evolve(self.settings, pricing=pricing)

    async def another(self) -> Shop:
        """A second workspace of the same owner on the same database, with the same crawler."""
        made = await self.database.transact(workspaces.create_workspace, "Nog een", self.owner)
        return evolve(self, workspace=made.id)

    async def credit(self, amount: int) -> None:
        await self.database.transact(wallet.credit, self.owner, amount, reason="test", entered_by="test")

    async def wallet(self) -> Wallet:
        return await self.database.run(wallet.wallet_of, self.owner)

    async def imbalances(self) -> Sequence[Imbalance]:
        return await self.database.run(wallet.imbalances)

    # --- things --------------------------------------------------------------------------------------------------------

    async def connector(
        self, urls: object = ("https://site.example/a",), kind: str = WEB_CRAWLER, **more: Any
    ) -> Connector:
        config = {"INITIAL_URLS": list(urls) if isinstance(urls, tuple) else urls} if kind == WEB_CRAWLER else {}
        config = more.pop("config", config)
        self._names += 1
        new = NewConnector(self.workspace, self.owner, f"bron {self._names}", kind, config=config, **more)
        return await self.database.transact(manage.create_connector, new)

    async def pipeline(self, connector: Connector | None = None, *, urls: object = None, **more: Any) -> Pipeline:
        """Over ``connector``, or a new web connector with ``urls``."""
        if connector is None and more.pop("uploads", False) is False:
            connector = await self.connector(("https://site.example/a",) if urls is None else urls)
        more.setdefault("created_by_id", self.actor)
        new = NewPipeline(self.workspace, "Pijplijn", None if connector is None else connector.id, **more)
        pipeline, _ = await self.database.transact(manage.create_pipeline, new)
        return pipeline

    async def folder(self, name: str = "Map") -> int:
        return int(
            await self.rows.value(
                "INSERT INTO folders (workspace_id, name) VALUES ($1, $2) RETURNING id", self.workspace, name
            )
        )

    async def run_of(self, pipeline: Pipeline, **more: Any) -> Run:
        return await self.database.transact(asking.request_run, pipeline.id, triggered_by=self.actor, **more)

    async def run(self, run_id: int) -> Run:
        return await self.database.run(runs.get_run, run_id)

    async def items(self, run_id: int) -> list[Item]:
        return await self.database.run(items.page_of, run_id, limit=10_000)

    async def documents(self) -> list[Mapping[str, Any]]:
        return list(
            await self.rows.sql("SELECT *, state::text AS state, metadata::text AS metadata FROM documents ORDER BY id")
        )

    async def usage(self) -> list[Mapping[str, Any]]:
        return list(await self.rows.sql("SELECT *, call_details::text AS call_details FROM token_usage ORDER BY id"))

    async def leases(self) -> int:
        return int(await self.rows.value("SELECT count(*) FROM leases"))

    async def history(self, pipeline: Pipeline) -> Sequence[Run]:
        found, _ = await self.database.run(history.runs_of, pipeline.id)
        return found

    # --- driving -------------------------------------------------------------------------------------------------------

    def handler(self) -> PipelineRun:
        executors: dict[str, Executor] = {
            WEB_CRAWLER: WebCrawl(self.settings, self.crawler, self.blobs),
            BWB_LAWS: LawHarvest(),
        }
        return PipelineRun(self.settings, executors)

    async def claimed(self, job_type: JobType = JobType.PIPELINE_RUN) -> HandWork:
        """The next job of the type, as a runner holds it."""
        return HandWork(self.rows, await self.rows.claimed(job_type))

    async def drive(self, run: Run) -> Run:
        """Claim the next run, drive it to its end as a runner does, and look at ``run``."""
        await self.work_off(await self.claimed())
        return await self.run(run.id)

    async def perform(self, pipeline: Pipeline, **more: Any) -> Run:
        """Ask for a run of ``pipeline`` and drive it."""
        return await self.drive(await self.run_of(pipeline, **more))

    async def index(self, connector: Connector, *, priority: int = 60) -> Job:
        """Ask for a connector to index itself and do that; its job afterwards."""
        from schema.pipelines import indexing

        job = await self.database.transact(indexing.request_index, connector, priority=priority)
        assert job is not None
        work = await self.claimed(JobType.CONNECTOR_INDEX)
        await self.work_off(work, ConnectorIndex(self.settings, self.crawler).run)
        return await self.rows.job(job.id)

    async def work_off(
        self, work: HandWork, run: Callable[[HandWork], Awaitable[Completion]] | None = None
    ) -> SupervisorError | None:
        """Run the handler and write its end. The failure that it ended with, if any; a lost lease is left to the reaper."""
        try:
            done = await (run or self.handler().run)(work)
        except Exception as error:
            failure = classify(error)
            if not isinstance(failure, LeaseLost):
                await self.rows.queue.fail(work.lease, failure)
            return failure
        await self.rows.queue.complete(work.lease, done.result, done.settle)
        return None

    async def lose_worker(self, work: HandWork) -> None:
        """The worker of this claim died long ago; the reaper takes its job."""
        await self.rows.age(work.job.id, 10_000)
        with trio.fail_after(10):
            while not await self.rows.reap_all():  # noqa: ASYNC110 - the reaper leaves a row alone while its holder writes
                await trio.sleep(0.01)

    def urls(self, count: int) -> tuple[str, ...]:
        return tuple(f"https://site.example/{number}" for number in range(count))


def only(error: BaseException) -> BaseException:
    """The one leaf of an exception group."""
    [leaf] = leaves(error)
    return leaf
