"""Converting a large law, YAML writing included: against a bare parse of the same bytes, and against ruamel.yaml."""

from __future__ import annotations

import re
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.biglaw import big_law
from benchmarks.contest import figures
from benchmarks.report import Row, alternate, median_ratio
from tests.kit import shared

INVENTED_BYTES = 5_000_000
_TOESTAND = re.compile(r"BWBR[0-9]{7}_[0-9-]{10}_[0-9]+\.xml")


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="regelrecht-bench-") as folder:
        invented = Path(folder) / "law.xml"
        invented.write_bytes(big_law(INVENTED_BYTES))
        return [row for name, path in (("invented", invented), *_largest_real()) for row in _rows(name, path)]


def _largest_real() -> Iterator[tuple[str, Path]]:
    found = [path for path in shared.folder("data/bwb") if _TOESTAND.fullmatch(path.name)]
    if found:
        path = max(found, key=lambda path: path.stat().st_size)
        yield path.name.partition("_")[0], path


def _rows(name: str, path: Path) -> list[Row]:
    size = path.stat().st_size
    growth: list[float] = []

    def ours() -> float:
        found = figures("conversion", "ours", path)
        growth.append(found["growth_bytes"])
        return found["median_s"]

    label = f"{name}, {size / 1e6:.1f} MB"
    parsed = alternate(ours, lambda: figures("conversion", "lxml", path)["median_s"], rounds=5)
    dumped = alternate(lambda: figures("conversion", "ruamel", path)["median_s"], ours, rounds=5)
    mine, parse = (statistics.median(found) for found in zip(*parsed, strict=True))
    used, dump = statistics.median(growth), statistics.median(pair[0] for pair in dumped)
    return [
        Row(f"conversion of {label} (lxml parse)", _ms(mine), _ms(parse), median_ratio(parsed), 10, at_least=False),
        Row("  the same (ruamel.yaml dump)", _ms(mine), _ms(dump), median_ratio(dumped), 5, at_least=True),
        Row("  memory (size of the file)", _mb(used), _mb(size), used / size, 12, at_least=False),
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
