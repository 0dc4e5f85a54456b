"""From fetched documents to the files of a law. Synchronous and heavy: run it in a worker thread."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from attrs import evolve, field, frozen

from actors.ports.cvdrsource import CvdrDocuments
from actors.ports.lawsource import BwbDocuments
from protocols.bwb.loss import LossReport, loss_report
from protocols.bwb.toestand import Conversion, LawFacts, Style, convert
from protocols.cvdr import regeling
from protocols.failures import JsonObject
from protocols.law import Law
from protocols.lawyaml import LawStatus, dump_law, dump_status, law_file, load_law, status_file
from protocols.payloads import HarvestResult


@frozen
class Product:
    """The files of one harvested law. Paths are relative to the corpus; hashes are hex SHA-256."""

    law: Law
    path: str
    content: bytes = field(repr=False)
    status_path: str
    status: bytes = field(repr=False)
    referenced_bwb_ids: tuple[str, ...]
    source_sha256: str
    source_type: str
    loss: JsonObject

    @property
    def content_sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def result(self) -> HarvestResult:
        """The job result, before anyone compared it with the last harvest."""
        return HarvestResult(
            law_name=self.law.title,
            slug=self.law.slug,
            layer=self.law.layer.value,
            file_path=self.path,
            harvest_date=self.law.valid_from.isoformat(),
            article_count=len(self.law.articles),
            warning_count=len(self.law.warnings),
            warnings=self.law.warnings,
            referenced_bwb_ids=self.referenced_bwb_ids,
            source_type=self.source_type,
            source_sha256=self.source_sha256,
            content_sha256=self.content_sha256,
        )


def produce_bwb(documents: BwbDocuments, *, style: Style, base: str) -> Product:
    """Convert a national law. ConversionError says what is wrong with its text."""
    facts = LawFacts(
        bwb_id=documents.bwb_id,
        title=documents.wti.title or documents.bwb_id,
        layer=documents.wti.layer,
        publication_date=documents.wti.publication_date or documents.valid_from,
        valid_from=documents.valid_from,
        valid_to=documents.choice.valid_to,
        warnings=(*documents.warnings, *documents.wti.warnings),
    )
    conversion = convert(documents.toestand, facts, style)
    content = dump_law(conversion.law).encode()
    report = loss_report(documents.toestand, load_law(content))
    return _product(conversion, content, report, base=base, source=documents.toestand, source_type="bwb")


def produce_cvdr(documents: CvdrDocuments, *, style: Style, base: str) -> Product:
    """Convert a decentral regulation. ConversionError says what is wrong with its text."""
    conversion = regeling.convert(
        documents.text,
        documents.cvdr_id,
        style,
        fallback_day=documents.fallback_day,
        record=documents.record,
        valid_to=documents.valid_to,
    )
    warnings = (*documents.warnings, *conversion.warnings)
    conversion = evolve(conversion, law=evolve(conversion.law, warnings=warnings), warnings=warnings)
    content = dump_law(conversion.law).encode()
    report = regeling.regeling_loss(documents.text, load_law(content))
    return _product(conversion, content, report, base=base, source=documents.text, source_type="cvdr")


def _product(
    conversion: Conversion, content: bytes, report: LossReport, *, base: str, source: bytes, source_type: str
) -> Product:
    law = conversion.law
    path = law_file(law, base)
    return Product(
        law=law,
        path=str(path),
        content=content,
        status_path=str(status_file(path)),
        status=dump_status(LawStatus.of(law, datetime.now(UTC))).encode(),
        referenced_bwb_ids=conversion.referenced_bwb_ids,
        source_sha256=hashlib.sha256(source).hexdigest(),
        source_type=source_type,
        loss=report.summary(),
    )
