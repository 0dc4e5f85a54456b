"""One harvest: claim to completion, step by step."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import structlog
from attrs import evolve, field, frozen

from actors.jobs.base import Completion, Work
from actors.jobs.harvest.compare import JOB_TRAILER, Difference, Former, compare
from actors.jobs.harvest.produce import order_of
from actors.ports.conversion import converted
from actors.ports.cvdrsource import CvdrDocuments
from actors.ports.fetchsettings import FetchSettings
from actors.ports.guardian import Guardian
from actors.ports.lawsource import BwbDocuments, LawRepository
from actors.ports.meter import Meter, NoMeter
from protocols.bwb.errors import ConversionError
from protocols.bwb.toestand import Style
from protocols.corpus import CorpusPort, CorpusSettings, FileChange, Publication
from protocols.lawproduct import Product
from protocols.payloads import Change, HarvestPayload, HarvestResult, read_harvest_payload, to_document
from schema import harvest
from schema.connection import Connection
from schema.harvest import HarvestRules
from schema.rows import Job, JobType

MEBIBYTE = 1024 * 1024
FRESH_TIP_S = 30.0
"""How old the known state of the branch may be at the start of a harvest: waiting harvests share a fetch."""

_log = structlog.get_logger(__name__)


@frozen
class HarvestSettings:
    """``corpus`` None: files go to ``folder`` and nothing is committed. ``output_base`` is where laws start inside."""

    fetch: FetchSettings
    corpus: CorpusSettings | None
    folder: Path
    output_base: str = "regulation/nl"
    style: Style = Style.FULL
    rules: HarvestRules = field(factory=HarvestRules)


@frozen
class Harvest:
    """The handler. One for all harvests of a supervisor; it keeps no state between them."""

    settings: HarvestSettings
    repository: LawRepository
    corpus: CorpusPort
    meter: Meter = field(factory=NoMeter)
    guardian: Guardian | None = None
    job_type: JobType = JobType.HARVEST

    async def run(self, work: Work) -> Completion:
        """Fetch, convert, compare, publish. NotHarvestable, ConversionError, DownloadFailed and the corpus' own failures
        come out as they are; the table of verdicts says what they mean."""
        payload = read_harvest_payload(work.job.payload, work.job.law_id)
        work.started()
        await work.write(harvest.begin)
        base = await self.corpus.tip(max_age_s=FRESH_TIP_S)
        work.report({"phase": "download", "step": 1, "total_steps": 3})
        product = await self._produce(work, payload)
        work.report({"phase": "publish", "step": 3, "total_steps": 3, "articles_total": product.result.article_count})
        difference = await compare(work, self.corpus, product, base)
        await self._publish(work, product, base, difference.former)
        return self._completion(payload, product, difference)

    async def _produce(self, work: Work, payload: HarvestPayload) -> Product:
        day = None if payload.date is None else date.fromisoformat(payload.date)
        max_bytes = None if payload.max_size_mb is None else payload.max_size_mb * MEBIBYTE
        fetch = self.repository.fetch_bwb if payload.bwb_id else self.repository.fetch_cvdr
        documents: BwbDocuments | CvdrDocuments = await fetch(payload.law_id, day, max_bytes=max_bytes)
        work.report({"phase": "convert", "step": 2, "total_steps": 3})
        order = order_of(documents, style=self.settings.style, base=self.settings.output_base)
        try:
            return await converted(order, self.guardian)
        except ConversionError:
            await self.repository.forget(documents.sources)
            raise

    async def _publish(self, work: Work, product: Product, base: str | None, former: Former | None) -> None:
        """One commit. Unchanged content makes none; an earlier attempt's push is found and not repeated (D39)."""
        publication = Publication(
            content=(FileChange(product.path, product.content), *(former.removal if former else ())),
            bookkeeping=(FileChange(product.status_path, product.status), *(former.bookkeeping if former else ())),
            subject=f"harvest: {product.result.law_name} ({product.result.slug})",
            trailers=((JOB_TRAILER, str(work.job.id)), ("Attempt", str(work.job.attempts))),
            base=base,
        )
        # Our turn may come after another's: each is bounded by the push limit, and the fence bounds the whole (D6).
        limit_s = 2 * self.settings.corpus.push_limit_s if self.settings.corpus else 60.0
        async with work.effect("publishing", limit_s=limit_s):
            await self.corpus.publish(publication, confirm=work.confirm)

    def _completion(self, payload: HarvestPayload, product: Product, difference: Difference) -> Completion:
        change, former = difference.change, difference.former
        result = evolve(product.result, change=change, changed=change is not Change.NONE)
        if product.loss["lost"] and self.settings.style is Style.FULL:  # the other styles lose text by design
            self.meter.text_lost()
            _log.warning("text lost in conversion", law_id=product.law_id, **product.loss)

        async def settle(connection: Connection, job: Job) -> None:
            moved_from = None if former is None else former.path
            await harvest.settle(
                connection, job, payload=payload, result=result, rules=self.settings.rules, moved_from=moved_from
            )

        return Completion(_document(result, product), settle)


def _document(result: HarvestResult, product: Product) -> dict[str, object]:
    return {**to_document(result), "loss": product.loss}
