"""``status`` as text: the queue at a glance, readable in 80 columns. Everything in it comes as a value; nothing waits here."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from protocols.budget import hourly_cap
from schema.overview import Overview
from schema.queue.views import EndedBadly, HeldJob
from schema.rows import JobStatus
from supervisor.progresstext import progress_text
from supervisor.taskview import duration
from supervisor.terminaltext import harmless

_WIDEST_CELL: Final = 26
"""``document_convert 1a2b3c4d`` and a usual law id fit; the id of a conversion, which holds a path, is cut."""
_WIDEST_HOLDER: Final = 18
_LEAST_REST: Final = 12
_QUIET_BEAT_S: Final = 90
"""Three beats at the default: a holder that was silent for longer is in trouble."""


@frozen
class Budget:
    """The hourly claude limit as configured where ``status`` runs; None: not configured there."""

    hourly_limit: int | None
    night_multiplier: int = 1


def render(seen: Overview, budget: Budget, *, note: str = "") -> RenderableType:
    """All sections that have something to say. ``note`` is a line about the view itself."""
    parts: list[RenderableType] = [_headline(seen, note), _depth(seen), Text(), *_budget_lines(seen, budget)]
    parts += [Text(harmless(line), style="yellow", overflow="fold") for line in pause_lines(seen)]
    if seen.running:
        parts += [Text(), _running(seen)]
    if seen.failures:
        parts += [Text(), _failures(seen.failures, seen.at)]
    return Group(*parts)


def _headline(seen: Overview, note: str) -> Text:
    line = Text(f"queue at {seen.at:%Y-%m-%d %H:%M:%S} UTC", style="bold")
    line.append(
        "  " + ("supervisors are there" if seen.served else "NO SUPERVISOR RUNS JOBS"),
        "green" if seen.served else "red",
    )
    if note:
        line.append(f"  {note}", "red")
    return line


def _depth(seen: Overview) -> Table:
    table = _table(("QUEUE", "left"), ("PENDING", "right"), ("LATER", "right"), ("RUNNING", "right"), ("DONE", "right"), ("FAILED", "right"))  # fmt: skip
    for job_type in dict.fromkeys(count.job_type for count in seen.counts):
        by_status = {count.status: count for count in seen.counts if count.job_type == job_type}
        pending = by_status.get(JobStatus.PENDING)
        later = pending.waiting if pending else 0
        figures = [(pending.count if pending else 0) - later, later]
        figures += [
            by_status[status].count if status in by_status else 0
            for status in (JobStatus.PROCESSING, JobStatus.COMPLETED, JobStatus.FAILED)
        ]
        table.add_row(Text(job_type), *(f"{figure:,}" if figure else "·" for figure in figures))
    if not seen.counts:
        table.add_row(Text("(no jobs)"), *[""] * 5)
    return table


def _budget_lines(seen: Overview, budget: Budget) -> list[Text]:
    text, warns = budget_line(seen, budget)
    return [Text(text, style="yellow" if warns else "", overflow="fold")]


def budget_line(seen: Overview, budget: Budget) -> tuple[str, bool]:
    """The line about claude, and whether jobs wait because of it."""
    hour, waiting = seen.claude.local_hour, seen.claude.waiting
    since = f"claude runs since {hour:02}:00: {seen.claude.runs}"
    if budget.hourly_limit is None:
        return f"{since}; the limit is not known here (ENRICH_HOURLY_LIMIT)", False
    cap = hourly_cap(budget.hourly_limit, budget.night_multiplier, hour)
    jobs = "1 job" if waiting == 1 else f"{waiting:,} jobs"
    if cap == 0:
        return f"{since}; none is allowed (limit 0), {jobs} waiting", waiting > 0
    if seen.claude.runs >= cap:
        wait = f"{jobs} waiting for next hour ({seen.claude.next_hour:02}:00)" if waiting else "next at the full hour"
        return f"{since} of {cap}; {wait}", waiting > 0
    return f"{since} of {cap}", False


def pause_lines(seen: Overview) -> list[str]:
    """One for each pause and each provider in trouble."""
    lines = []
    for pause in seen.pauses:
        what = f"provider:{pause.name}" if pause.scope.value == "provider" else pause.name
        lines.append(f"paused: {what} {_until(pause.until)}" + _by(pause.paused_by, pause.reason))
    for bench in seen.benches:
        which = " (one credential)" if bench.credential_hash else ""
        lines.append(f"in trouble: provider:{bench.provider}{which} {_until(bench.until)}" + _by("", bench.reason))
    return lines


def _until(until: dt.datetime | None) -> str:
    return "until resumed" if until is None else f"until {until:%Y-%m-%d %H:%M} UTC"


def _by(who: str, why: str) -> str:
    return (f", by {who}" if who else "") + (f": {why}" if why else "")


def _running(seen: Overview) -> Table:
    total = sum(count.count for count in seen.counts if count.status is JobStatus.PROCESSING)
    title = "RUNNING" if total <= len(seen.running) else f"RUNNING (longest {len(seen.running)} of {total})"
    table = _table((title, "left"), ("LAW", "left"), ("HOLDER", "left"), ("AGE", "right"), ("BEAT", "right"), ("PROGRESS", "left"))  # fmt: skip
    for job in seen.running:
        beat = Text(duration(job.beat_age_s), style="red" if job.beat_age_s > _QUIET_BEAT_S else "")
        table.add_row(
            Text(f"{job.job_type} {str(job.id)[:8]}"),
            Text(harmless(job.law_id)),
            Text(_tail(harmless(job.holder or "(signs nothing)"))),
            duration(job.age_s),
            beat,
            Text(harmless(progress_words(job))),
        )
    return table


def _tail(holder: str) -> str:
    """The end of a holder is what tells two pods of one deployment apart."""
    return holder if len(holder) <= _WIDEST_HOLDER else f"\u2026{holder[1 - _WIDEST_HOLDER :]}"


def progress_words(job: HeldJob) -> str:
    """What is to be said of a running job, the most urgent first."""
    words = ["cancelling"] if job.cancelling else []
    words += [f"attempt {job.attempt}"] if job.attempt > 1 else []
    return " ".join([*words, progress_text(job.progress)]).rstrip()


def _failures(failures: Sequence[EndedBadly], now: dt.datetime) -> Table:
    table = _table(("FAILED", "left"), ("AGO", "right"), ("LAW", "left"), ("WHY", "left"))
    for one in failures:
        why = " ".join(one.error.split()) or "(no reason was given)"
        kind = f"{one.kind}: " if one.kind else ""
        ago = duration((now - one.at).total_seconds())
        table.add_row(
            Text(f"{one.job_type} {str(one.id)[:8]}"), ago, Text(harmless(one.law_id)), Text(harmless(kind + why))
        )
    return table


def _table(*columns: tuple[str, Any]) -> Table:
    """A left-aligned last column takes what is left of the line, and loses its end first; long cells end in dots."""
    *_, (_, last) = columns
    table = Table(
        box=None, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 2, 0, 0), expand=last == "left"
    )
    for number, (heading, justify) in enumerate(columns, start=1):
        rest = number == len(columns) and justify == "left"
        table.add_column(
            heading,
            justify=justify,
            overflow="ellipsis",
            no_wrap=True,
            ratio=1 if rest else None,
            min_width=_LEAST_REST if rest else None,
            max_width=None if rest else _WIDEST_CELL,
        )
    return table
