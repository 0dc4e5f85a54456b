"""One law file: ``ours`` from XML to YAML, ``lxml`` parsed and nothing more, ``ruamel`` the same YAML dumped by ruamel.yaml.

Each is one thread that computes and waits for nothing, so processor time is what is measured: a neighbour costs none.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.contestants import tell
from benchmarks.contestants.memory import growth_bytes

TIMES = 5
DAY = date(2024, 1, 1)


def ours(xml: bytes) -> dict[str, float]:
    from protocols.bwb.toestand import convert, facts_of
    from protocols.lawyaml import dump_law

    gc.disable()  # as in the child process that converts large texts (actors.ports.conversion_process)

    def whole() -> bytes:
        return dump_law(convert(xml, facts_of(xml, day=DAY)).law).encode()

    growth = growth_bytes(whole)
    facts = facts_of(xml, day=DAY)
    return {"median_s": _median_s(lambda: dump_law(convert(xml, facts).law).encode()), "growth_bytes": growth}


def lxml(xml: bytes) -> dict[str, float]:
    from lxml import etree

    return {"median_s": _median_s(lambda: etree.fromstring(xml))}


def ruamel(xml: bytes) -> dict[str, float]:
    """Texts of several lines as literal blocks, lines as wide as ours; only the dump is timed."""
    import io

    from ruamel.yaml import YAML

    from protocols.bwb.toestand import convert, facts_of
    from protocols.lawyaml import dump_law, load_law

    facts = facts_of(xml, day=DAY)
    law = _with_blocks(load_law(dump_law(convert(xml, facts).law)))
    writer = YAML()
    writer.width = 115
    return {"median_s": _median_s(lambda: writer.dump(law, io.StringIO()), times=1)}


def _with_blocks(value: Any) -> Any:
    from ruamel.yaml.scalarstring import LiteralScalarString

    if isinstance(value, dict):
        return {key: _with_blocks(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_blocks(inner) for inner in value]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value


def _median_s(work: Callable[[], object], times: int = TIMES) -> float:
    found = []
    for _ in range(times):
        gc.collect()
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return statistics.median(found)


if __name__ == "__main__":
    tell(**{"ours": ours, "lxml": lxml, "ruamel": ruamel}[sys.argv[1]](Path(sys.argv[2]).read_bytes()))
