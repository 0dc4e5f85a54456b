"""From the text of a law to the files that its harvest leaves: the law file, its status, and what a comparison wants.

Heavy, and nothing but computing: :mod:`actors.ports.conversion` decides where it runs.
"""

from __future__ import annotations

import hashlib
from datetime import date, datetime

from attrs import evolve, field, frozen

from protocols.bwb.loss import LossReport, loss_report
from protocols.bwb.toestand import Conversion, LawFacts, Style, convert
from protocols.cvdr import regeling
from protocols.cvdr.metadata import CvdrMetadata
from protocols.failures import JsonObject
from protocols.law_ids import CvdrId
from protocols.lawyaml import LawStatus, dump_law, dump_status, law_file, load_law, status_file
from protocols.payloads import HarvestResult


@frozen
class LocalFacts:
    """What is known of a decentral regulation beside its text; the meaning is that of :func:`regeling.convert`."""

    cvdr_id: CvdrId
    fallback_day: date
    record: CvdrMetadata | None = None
    valid_to: date | None = None
    warnings: tuple[str, ...] = ()


@frozen
class Order:
    """One text to convert. ``base`` is where laws start in the corpus, ``at`` the instant for the status file."""

    text: bytes = field(repr=False)
    facts: LawFacts | LocalFacts
    style: Style
    base: str
    at: datetime

    @property
    def law_id(self) -> str:
        return self.facts.bwb_id if isinstance(self.facts, LawFacts) else str(self.facts.cvdr_id)


@frozen
class Product:
    """The files of one harvested law; paths are relative to the corpus.

    ``result`` is the job result before anyone compared it with the last harvest. ``known_as`` are all ids under which
    the file says what it is, ``loss`` the summary of the loss report.
    """

    law_id: str
    known_as: tuple[str, ...]
    result: HarvestResult
    content: bytes = field(repr=False)
    status_path: str
    status: bytes = field(repr=False)
    loss: JsonObject

    @property
    def path(self) -> str:
        return self.result.file_path


def produce(order: Order) -> Product:
    """Convert, write, load again and compare. ConversionError says what is wrong with the text."""
    if isinstance(order.facts, LawFacts):
        conversion = convert(order.text, order.facts, order.style)
        content = dump_law(conversion.law).encode()
        report = loss_report(order.text, load_law(content))
        return _product(order, conversion, content, report, "bwb")
    conversion = _local(order.text, order.facts, order.style)
    content = dump_law(conversion.law).encode()
    report = regeling.regeling_loss(order.text, load_law(content))
    return _product(order, conversion, content, report, "cvdr")


def _local(text: bytes, facts: LocalFacts, style: Style) -> Conversion:
    conversion = regeling.convert(
        text,
        facts.cvdr_id,
        style,
        fallback_day=facts.fallback_day,
        record=facts.record,
        valid_to=facts.valid_to,
    )
    warnings = (*facts.warnings, *conversion.warnings)
    return evolve(conversion, law=evolve(conversion.law, warnings=warnings), warnings=warnings)


def _product(order: Order, conversion: Conversion, content: bytes, report: LossReport, source_type: str) -> Product:
    law = conversion.law
    path = law_file(law, order.base)
    result = HarvestResult(
        law_name=law.title,
        slug=law.slug,
        layer=law.layer.value,
        file_path=str(path),
        harvest_date=law.valid_from.isoformat(),
        article_count=len(law.articles),
        warning_count=len(law.warnings),
        warnings=law.warnings,
        referenced_bwb_ids=conversion.referenced_bwb_ids,
        source_type=source_type,
        source_sha256=hashlib.sha256(order.text).hexdigest(),
        content_sha256=hashlib.sha256(content).hexdigest(),
    )
    return Product(
        law_id=law.law_id,
        known_as=tuple(known for known in (law.bwb_id, law.cvdr_id) if known),
        result=result,
        content=content,
        status_path=str(status_file(path)),
        status=dump_status(LawStatus.of(law, order.at)).encode(),
        loss=report.summary(),
    )
