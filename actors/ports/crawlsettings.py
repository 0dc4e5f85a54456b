"""Limits and manners of the crawler. Reading the environment is the composition's business."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from attrs import field, frozen
from attrs.validators import ge, gt

from protocols.failures import InvalidInput
from protocols.webpolicy import WebRules

MEBIBYTE: Final = 1 << 20
_PROXY_NAMES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")


def proxy_of(environ: Mapping[str, str]) -> str | None:
    """The proxy that this environment asks programs to use, if any. It may hold a password."""
    return next((environ[name] for name in _PROXY_NAMES if environ.get(name)), None)


def _workers() -> int:
    return min(4, max(1, len(os.sched_getaffinity(0))))


@frozen(kw_only=True)
class ExtractSettings:
    """The processes that turn pages into Markdown (D69). ``time_limit_s`` is for one page, then the process is killed.

    ``max_text_bytes`` is for what is left of a page without scripts and the like: beyond it extraction takes minutes.
    A page of at least ``shell_html_bytes`` of which less than a hundredth is visible text was not drawn yet.
    """

    workers: int = field(factory=_workers, validator=gt(0))
    time_limit_s: float = field(default=10.0, validator=gt(0))
    memory_bytes: int = field(default=512 * MEBIBYTE, validator=gt(0))
    pages_per_worker: int = field(default=500, validator=gt(0))
    max_text_bytes: int = field(default=2_000_000, validator=gt(0))
    shell_html_bytes: int = field(default=400_000, validator=gt(0))
    min_content_chars: int = field(default=1, validator=gt(0))


@frozen(kw_only=True)
class CrawlSettings:
    """Every value has the product's default (``pipelines.md`` 3 and 14).

    ``url_deadline_s`` is for one URL through all tiers and retries; waiting for a turn at the host and for its robots
    rules does not count (D71). ``max_raw_bytes`` is what may come over the wire, ``max_bytes`` what it may unpack to.
    ``longest_pause_s``: a server that asks for a longer wait before the next try is not tried again.

    Where ``proxy_url`` is set, connections are made by the proxy, so that the check of addresses is the proxy's
    business: ``proxy_trusted`` says that it does refuse internal addresses. InvalidInput without it (D71).
    """

    rules: WebRules = field(factory=WebRules)
    user_agent: str = "regelrecht-supervisor"
    obey_robots: bool = True
    host_delay_s: float = field(default=1.0, validator=ge(0))
    host_concurrency: int = field(default=1, validator=gt(0))
    global_concurrency: int = field(default=16, validator=gt(0))
    url_deadline_s: float = field(default=60.0, validator=gt(0))
    connect_timeout_s: float = field(default=10.0, validator=gt(0))
    read_timeout_s: float = field(default=20.0, validator=gt(0))
    robots_deadline_s: float = field(default=20.0, validator=gt(0))
    max_raw_bytes: int = field(default=5 * MEBIBYTE, validator=gt(0))
    max_bytes: int = field(default=10 * MEBIBYTE, validator=gt(0))
    max_expansion: int = field(default=200, validator=gt(0))
    max_header_bytes: int = field(default=64 << 10, validator=gt(0))
    max_robots_bytes: int = field(default=512 << 10, validator=gt(0))
    max_redirects: int = field(default=5, validator=ge(0))
    retry_pauses_s: tuple[float, ...] = (1.0, 4.0)
    longest_pause_s: float = field(default=30.0, validator=ge(0))
    extract: ExtractSettings = field(factory=ExtractSettings)
    proxy_url: str | None = field(default=None, repr=False)
    proxy_trusted: bool = False

    def __attrs_post_init__(self) -> None:
        if self.proxy_url is not None and not self.proxy_trusted:
            raise InvalidInput(
                "a proxy is set in the environment (HTTPS_PROXY): through it the crawler cannot see which addresses it "
                "reaches. If the proxy itself refuses internal addresses, set CRAWL_PROXY_TRUSTED=1"
            )
