"""A bare pool of processes that extract the same pages with trafilatura: nothing fetched, checked or repaired."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

import trafilatura

from benchmarks.contestants import tell
from benchmarks.contestants.crawl_site import html

EXTRACTORS = 2


def extract(page: bytes) -> str:
    found = trafilatura.extract(
        page,
        url="http://127.0.0.1/",
        output_format="markdown",
        include_comments=False,
        include_formatting=True,
        include_images=True,
        include_links=True,
        include_tables=True,
    )
    assert found
    return found


def main(pages: int) -> None:
    bodies = [html(number) for number in range(pages)]
    with ProcessPoolExecutor(EXTRACTORS) as pool:
        list(pool.map(extract, bodies[:20]))
        begin = time.perf_counter()
        size = sum(len(text) for text in pool.map(extract, bodies))
        tell(took_s=time.perf_counter() - begin, size_bytes=size)


if __name__ == "__main__":
    main(int(sys.argv[1]))
