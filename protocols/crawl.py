"""What is crawled, what came of it, and how results are named and hashed (``pipelines.md`` 2.3, 3.1, 3.5, 3.6).

The crawler itself waits on sites and lives elsewhere; these are the values that it, the engine and the rows share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from attrs import field, frozen

from protocols.failures import JsonObject
from protocols.runs import shown
from protocols.webpolicy import UrlRefused, ascii_url

INITIAL_URLS: Final = "INITIAL_URLS"


class CrawlStatus(StrEnum):
    """As it stands in blobs and rows."""

    SUCCESS = "success"
    """Some tier produced usable content: the one that is paid for."""
    EMPTY = "empty"
    """Fetched, and nothing usable in it."""
    FAILED = "failed"


@frozen
class CrawlResult:
    """Usable content as Markdown. ``metadata`` always has ``source`` and ``title``."""

    content: str = field(repr=False)
    metadata: Mapping[str, str]
    crawler_type: str = "static"

    @property
    def title(self) -> str:
        return self.metadata.get("title") or self.metadata.get("source", "")


@frozen
class CrawlOutcome:
    """What came of one URL. ``result`` is there for a success and for nothing else; ``error`` is for people."""

    status: CrawlStatus
    result: CrawlResult | None = None
    error: str | None = None
    tier: str | None = None
    http_status: int | None = None
    size_bytes: int = 0
    duration_ms: int = 0
    block_type: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.status is CrawlStatus.SUCCESS and self.result is not None


@frozen
class Target:
    """One frozen entry of a run's list: a URL, or the id of a law. ``fault``: why it cannot be tried at all."""

    text: str
    fault: str | None = None


def effective_value(key: str, pipeline: Mapping[str, Any], connector: Mapping[str, Any]) -> Any:
    """The pipeline's own value where it is truthy, else the connector's: ``[]`` and ``""`` fall back, ``"\\n"`` does not."""
    return pipeline.get(key) or connector.get(key)


def parse_webcrawler_urls(value: object) -> list[str]:
    """A text with one URL a line, or a list (anything in it that is no text is ignored); every other type holds none."""
    if isinstance(value, str):
        lines: Iterable[object] = value.splitlines()
    elif isinstance(value, list | tuple):
        lines = value
    else:
        return []
    return [stripped for line in lines if isinstance(line, str) and (stripped := line.strip())]


def freeze_urls(urls: Iterable[str]) -> tuple[Target, ...]:
    """What will be crawled, in order, in normal form, each once: a URL named twice would be billed twice.

    A URL that can be refused by reading it keeps its place as a target with a ``fault``, so that the run says so.
    """
    found: dict[str, Target] = {}
    for url in urls:
        try:
            target = Target(ascii_url(url))
        except UrlRefused as refused:
            target = Target(recognisable(url), refused.message)
        found.setdefault(target.text, target)
    return tuple(found.values())


def recognisable(url: str) -> str:
    """Enough of a refused URL to find it in the list, without a password that it may carry."""
    text = shown(url, limit=300).replace("\n", " ")
    return text if text == url else f"{text} ({_sha256(url)[:12]})"


def blob_entry(url: str, outcome: CrawlOutcome) -> JsonObject:
    """One entry of a result blob: content and metadata are empty unless the crawl succeeded."""
    result = outcome.result if outcome.succeeded else None
    return {
        "url": url,
        "status": outcome.status.value,
        "content": "" if result is None else result.content,
        "metadata": {} if result is None else dict(result.metadata),
        "error": outcome.error,
    }


def blob_key(*, workspace_id: int, run_id: int, claim_seq: int) -> str:
    """One key a claim: object stores have no rename, and a lost claim must not overwrite a newer result (D65)."""
    return f"pipeline_runs/{workspace_id}/{run_id}/result-{claim_seq}.json"


def document_identity(url: str, workspace_id: int) -> str:
    """SHA-256 in hex: which document of a workspace a URL is."""
    return _sha256(f"CRAWLED_URL:{url}:{workspace_id}")


def content_identity(content: str, workspace_id: int) -> str:
    """SHA-256 in hex over the content alone: metadata carries times and counters that change with every fetch."""
    return _sha256(f"{workspace_id}:{content}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
