"""A plot as SVG: one strip for each quantity over the minutes, and the faults as ticks below."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.soak.samples import QUANTITIES, Sample

WIDTH, STRIP, LEFT, TOP, GAP = 860, 90, 90, 30, 26


def svg(samples: Sequence[Sample], faults: Sequence[float]) -> str:
    """``faults`` are moments in seconds from the start."""
    end_s = max(one.at_s for one in samples)
    height = TOP + len(QUANTITIES) * (STRIP + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="18">the watched supervisor over {end_s / 60:.0f} minutes, {len(faults)} faults</text>',
    ]
    for number, name in enumerate(QUANTITIES):
        parts += _strip(name, samples, end_s, TOP + number * (STRIP + GAP))
    base = height - 22
    parts += [f'<path d="M{_x(at, end_s):.1f} {base}v6" stroke="#b03030"/>' for at in faults]
    parts += [
        f'<text x="{_x(60 * minute, end_s):.1f}" y="{base + 18}" text-anchor="middle">{minute}</text>'
        for minute in range(0, int(end_s / 60) + 1, max(1, int(end_s / 600)))
    ]
    return "\n".join([*parts, "</svg>", ""])


def _strip(name: str, samples: Sequence[Sample], end_s: float, top: float) -> list[str]:
    quantity = QUANTITIES[name]
    points = [(one.at_s, value) for one in samples if (value := quantity.read(one)) is not None]
    highest = max([value for _, value in points], default=1) or 1
    path = " ".join(f"{_x(at, end_s):.1f},{top + STRIP - value / highest * STRIP:.1f}" for at, value in points)
    return [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 20}" height="{STRIP}" fill="#f6f6f2" stroke="#ccc"/>',
        f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{highest:.0f}</text>',
        f'<text x="{LEFT - 8}" y="{top + STRIP}" text-anchor="end">0</text>',
        f'<text x="{LEFT - 8}" y="{top + STRIP / 2}" text-anchor="end">{escape(f"{name} {quantity.unit}".strip())}</text>',
        f'<polyline points="{path}" fill="none" stroke="#205080" stroke-width="1.2"/>',
    ]


def _x(at_s: float, end_s: float) -> float:
    return LEFT + at_s / max(end_s, 1) * (WIDTH - LEFT - 20)
