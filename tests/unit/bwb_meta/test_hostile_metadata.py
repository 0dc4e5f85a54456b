"""Damaged and invented metadata: the answer is a value or a typed failure, never anything else."""

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.bwb.manifest import Choice, Manifest, choose, parse_manifest
from protocols.bwb.search import parse_hits
from protocols.bwb.wti import parse_wti
from protocols.failures import SupervisorError
from tests.kit.bwb_works import Toestand, manifest_xml

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bwb_meta"
LAW = "BWBR0099010"
TODAY = date(2026, 11, 30)
PARSERS: dict[str, Callable[[bytes], Any]] = {
    "manifest_knowledge_versions.xml": lambda data: choose(parse_manifest(data, LAW), requested=None, today=TODAY),
    "wti.xml": lambda data: parse_wti(data, LAW),
    "sru_page.xml": parse_hits,
}


@pytest.mark.parametrize("name", PARSERS)
@given(flips=st.lists(st.tuples(st.integers(min_value=0), st.integers(0, 255)), min_size=1, max_size=20))
def test_flipped_bytes_give_a_value_or_a_typed_failure(name: str, flips: list[tuple[int, int]]) -> None:
    data = bytearray((FIXTURES / name).read_bytes())
    for position, value in flips:
        data[position % len(data)] = value
    with suppress(SupervisorError):
        PARSERS[name](bytes(data))


@pytest.mark.parametrize("name", PARSERS)
@given(cut=st.integers(min_value=0))
def test_a_file_cut_off_anywhere_is_a_typed_failure(name: str, cut: int) -> None:
    data = (FIXTURES / name).read_bytes().rstrip()
    with pytest.raises(SupervisorError):
        PARSERS[name](data[: cut % len(data)])


DAYS = st.dates(date(1990, 1, 1), date(2030, 12, 31))


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    texts = []
    for _ in range(draw(st.integers(1, 6))):
        start, end = draw(DAYS), draw(st.none() | DAYS)
        texts.append(
            Toestand(
                f"{start.isoformat()}_{draw(st.integers(0, 12))}",
                end.isoformat() if end else "9999-12-31",
                deleted=draw(st.booleans()),
                seen=("2000-01-01", draw(DAYS).isoformat()),
            )
        )
    return parse_manifest(manifest_xml(LAW, texts), LAW)


def _chosen(manifest: Manifest, requested: date | None) -> Choice | None:
    if not manifest.live:
        return None
    return choose(manifest, requested=requested, today=TODAY)


@given(manifest=manifests(), requested=st.none() | DAYS)
def test_whatever_the_manifest_the_choice_is_a_live_text_that_fits_or_is_warned_about(
    manifest: Manifest, requested: date | None
) -> None:
    choice = _chosen(manifest, requested)
    if choice is None:
        return
    day = requested or TODAY
    assert choice.expression in manifest.live
    fits = any(expression.covers(day) for expression in manifest.live)
    assert choice.expression.covers(day) == fits
    assert (choice.warnings == ()) == fits
    if choice.valid_to is not None:
        assert all(expression.start <= choice.valid_from for expression in manifest.live)
