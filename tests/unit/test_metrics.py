"""What is exported of ticks: in the text that Prometheus reads."""

from __future__ import annotations

import time

from prometheus_client import generate_latest

from supervisor.metrics import Metrics


def exported(metrics: Metrics) -> list[str]:
    text = generate_latest(metrics.registry).decode()
    return [
        line.removeprefix("regelrecht_supervisor_")
        for line in text.splitlines()
        if line.startswith("regelrecht_supervisor_schedule")
    ]


def test_ticks_are_exported_by_how_they_ended_and_by_what_they_did() -> None:
    metrics = Metrics()
    assert "schedule_last_tick_timestamp_seconds 0.0" in exported(metrics)
    begun = time.time()
    metrics.ticked("done", 0.2, {"fired": 2, "suppressed": 1})
    metrics.ticked("done", 0.4, {"fired": 1, "disabled": 1})
    metrics.ticked("cut", 50, {})
    metrics.ticked("dropped", 0, {})
    lines = exported(metrics)
    for line in (
        'schedule_ticks_total{outcome="done"} 2.0',
        'schedule_ticks_total{outcome="cut"} 1.0',
        'schedule_ticks_total{outcome="dropped"} 1.0',
        'schedule_rows_total{what="fired"} 3.0',
        'schedule_rows_total{what="suppressed"} 1.0',
        'schedule_rows_total{what="disabled"} 1.0',
        "schedule_tick_seconds_count 3.0",
    ):
        assert line in lines, line
    [stamp] = [line.split()[1] for line in lines if line.startswith("schedule_last_tick_timestamp_seconds")]
    assert begun <= float(stamp) <= time.time()


def test_a_tick_that_failed_leaves_the_time_of_the_last_good_one() -> None:
    metrics = Metrics()
    metrics.ticked("failed", 0.1, {})
    assert "schedule_last_tick_timestamp_seconds 0.0" in exported(metrics)
