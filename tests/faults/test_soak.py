"""A soak is believed only because it would see something grow."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from attrs import evolve

from tests.faults.injuries import KINDS
from tests.soak.plot import svg
from tests.soak.run import DEADLY
from tests.soak.samples import QUANTITIES, Sample, trends

STEADY = [Sample(2.0 * n, 80 + n % 3, 20 + n % 2, 5, 5, 60 + n % 7) for n in range(100)]


def test_what_goes_up_and_down_is_flat() -> None:
    assert all(trend.flat for trend in trends(STEADY))
    assert [trend.name for trend in trends(STEADY)] == list(QUANTITIES)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("memory", {"memory_mib": 0.3}),
        ("tasks", {"tasks": 0.2}),
        ("descriptors", {"descriptors": 0.2}),
        ("threads", {"threads": 0.1}),
        ("connections", {"connections": 0.1}),
    ],
)
def test_what_grows_little_by_little_is_seen(name: str, change: dict[str, float]) -> None:
    ((field, slope),) = change.items()
    grown = [evolve(one, **{field: getattr(one, field) + slope * n}) for n, one in enumerate(STEADY)]
    assert {trend.name for trend in trends(grown) if not trend.flat} == {name}


def test_growth_of_the_first_quarter_is_warming_up() -> None:
    warm = [evolve(one, memory_mib=one.memory_mib + min(n, 20)) for n, one in enumerate(STEADY)]
    assert all(trend.flat for trend in trends(warm))


def test_a_moment_in_which_the_loop_did_not_answer_is_left_out() -> None:
    assert all(trend.flat for trend in trends([evolve(STEADY[0], tasks=None), *STEADY]))


def test_too_few_samples_show_nothing() -> None:
    with pytest.raises(ValueError, match="7 samples"):
        trends(STEADY[:7])


def test_the_plot_has_a_strip_for_each_quantity_and_a_tick_for_each_fault() -> None:
    root = ET.fromstring(svg(STEADY, [10.0, 20.0, 30.0]))
    assert len(root.findall("{*}polyline")) == len(QUANTITIES)
    assert len(root.findall("{*}path")) == 3


def test_every_deadly_kind_is_a_kind() -> None:
    assert set(KINDS) >= DEADLY
