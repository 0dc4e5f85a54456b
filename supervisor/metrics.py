"""Counts of one supervisor, in a registry of its own, exported on ``/metrics``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import trio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from schema.rows import JobType

_PREFIX = "regelrecht_supervisor"
_JOB_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200)
_TICK_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 60)


class Metrics:
    """A ``Meter`` and a ``ScheduleMeter``. One for a supervisor: names may exist only once in a registry.

    Beside the counts it keeps what the probes want to know: when the database last answered a beat and a claim, on the
    monotonic clock.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # one time series less for each counter
        self.registry = CollectorRegistry()
        self.beat_at: float | None = None
        self.claim_at: float | None = None
        self.database_answers: bool | None = None
        self._claimed = self._counter("jobs_claimed", "Jobs claimed.", "job_type")
        self._finished = self._counter("jobs_finished", "Jobs that ended, by how they ended.", "job_type", "outcome")
        self._seconds = Histogram(
            f"{_PREFIX}_job_seconds",
            "Time from claim to end.",
            ("job_type",),
            buckets=_JOB_SECONDS,
            registry=self.registry,
        )
        self._claims = self._counter("claims", "Claim statements, by whether the database answered.", "answered")
        self._beats = self._counter("beats", "Beats, by whether the database answered.", "answered")
        self._lost = self._counter("leases_lost", "Jobs that were taken from us while we held them.")
        self._fenced = self._counter("jobs_fenced", "Jobs that we gave up because no beat was confirmed.")
        self._reaped = self._counter("jobs_reaped", "Jobs taken from dead holders.", "job_type")
        self._aftercare = self._counter("reap_aftercare_failures", "Jobs that were reaped without their aftercare.")
        self._text_lost = self._counter("laws_with_lost_text", "Laws harvested without all of their text.")
        self._restarts = self._counter("actor_restarts", "Restarts after a crash.", "actor")
        self._ticks = self._counter("schedule_ticks", "Ticks of the scheduler: done, dropped, cut, failed.", "outcome")
        self._rows = self._counter("schedule_rows", "What ticks did with due pipelines and connectors.", "what")
        self._tick_seconds = Histogram(
            f"{_PREFIX}_schedule_tick_seconds",
            "Time that a tick of the scheduler took.",
            buckets=_TICK_SECONDS,
            registry=self.registry,
        )
        self._ticked_at = Gauge(
            f"{_PREFIX}_schedule_last_tick_timestamp_seconds",
            "When a tick was last done, in seconds since 1970; 0: not yet, or no scheduler here.",
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A figure that is read when somebody asks. ``read`` must not wait."""
        Gauge(f"{_PREFIX}_{name}", text, registry=self.registry).set_function(read)

    def gauges(self, name: str, text: str, label: str, read: Mapping[str, Callable[[], float]]) -> None:
        """The same for several values of one label."""
        gauge = Gauge(f"{_PREFIX}_{name}", text, (label,), registry=self.registry)
        for value, function in read.items():
            gauge.labels(value).set_function(function)

    # --- Meter ---------------------------------------------------------------------------------------------------------

    def claimed(self, job_type: JobType) -> None:
        self._claimed.labels(job_type.value).inc()

    def finished(self, job_type: JobType, outcome: str, seconds: float) -> None:
        self._finished.labels(job_type.value, outcome).inc()
        self._seconds.labels(job_type.value).observe(seconds)

    def claim_asked(self, *, answered: bool) -> None:
        self._claims.labels(_yes(answered)).inc()
        self.database_answers = answered
        if answered:
            self.claim_at = trio.current_time()

    def beaten(self, leases: int, *, at: float) -> None:
        self._beats.labels(_yes(True)).inc()
        self.database_answers = True
        self.beat_at = at

    def beat_failed(self) -> None:
        self._beats.labels(_yes(False)).inc()
        self.database_answers = False

    def lease_lost(self) -> None:
        self._lost.inc()

    def fenced(self) -> None:
        self._fenced.inc()

    def reaped(self, job_type: JobType) -> None:
        self._reaped.labels(job_type.value).inc()

    def aftercare_failed(self) -> None:
        self._aftercare.inc()

    def text_lost(self) -> None:
        self._text_lost.inc()

    def restarted(self, actor: str) -> None:
        self._restarts.labels(actor).inc()

    # --- ScheduleMeter -------------------------------------------------------------------------------------------------

    def ticked(self, outcome: str, seconds: float, rows: Mapping[str, int]) -> None:
        self._ticks.labels(outcome).inc()
        if outcome != "dropped":
            self._tick_seconds.observe(seconds)
        if outcome == "done":
            self._ticked_at.set(time.time())
        for what, count in rows.items():
            self._rows.labels(what).inc(count)


def _yes(answered: bool) -> str:
    return "yes" if answered else "no"
