"""From fetched documents to an order for the conversion."""

from __future__ import annotations

from datetime import UTC, datetime

from actors.ports.cvdrsource import CvdrDocuments
from actors.ports.lawsource import BwbDocuments
from protocols.bwb.toestand import LawFacts, Style
from protocols.lawproduct import LocalFacts, Order


def order_of(documents: BwbDocuments | CvdrDocuments, *, style: Style, base: str) -> Order:
    """``base`` is where laws start in the corpus."""
    if isinstance(documents, BwbDocuments):
        return Order(documents.toestand, _national(documents), style, base, datetime.now(UTC))
    facts = LocalFacts(
        documents.cvdr_id,
        documents.fallback_day,
        record=documents.record,
        valid_to=documents.valid_to,
        warnings=documents.warnings,
    )
    return Order(documents.text, facts, style, base, datetime.now(UTC))


def _national(documents: BwbDocuments) -> LawFacts:
    return LawFacts(
        bwb_id=documents.bwb_id,
        title=documents.wti.title or documents.bwb_id,
        layer=documents.wti.layer,
        publication_date=documents.wti.publication_date or documents.valid_from,
        valid_from=documents.valid_from,
        valid_to=documents.choice.valid_to,
        warnings=(*documents.warnings, *documents.wti.warnings),
    )
