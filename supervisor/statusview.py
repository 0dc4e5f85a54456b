"""``status`` as text: the queue at a glance, readable in 80 columns. Everything in it comes as a value; nothing waits here."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from schema.overview import Overview
from schema.queue.views import EndedBadly, HeldJob
from schema.rows import JobStatus
from supervisor.budgettext import UNKNOWN, Budget, hour_text, refusal
from supervisor.progresstext import progress_text
from supervisor.tables import FittedTable
from supervisor.taskview import duration
from supervisor.terminaltext import harmless

_WIDEST_HOLDER: Final = 18
_QUIET_BEAT_S: Final = 90
"""Three beats at the default: a holder that was silent for longer is in trouble."""


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


def _depth(seen: Overview) -> FittedTable:
    rows = []
    for job_type in dict.fromkeys(count.job_type for count in seen.counts):
        by_status = {count.status: count for count in seen.counts if count.job_type == job_type}
        pending = by_status.get(JobStatus.PENDING)
        later = pending.waiting if pending else 0
        figures = [(pending.count if pending else 0) - later, later]
        figures += [
            by_status[status].count if status in by_status else 0
            for status in (JobStatus.PROCESSING, JobStatus.COMPLETED, JobStatus.FAILED)
        ]
        rows.append((job_type, *(f"{figure:,}" if figure else "·" for figure in figures)))
    numbers = ("PENDING", "LATER", "RUNNING", "DONE", "FAILED")
    return FittedTable(("QUEUE", *numbers), rows or [("(no jobs)", *[""] * 5)], flexible=(), right=numbers)


def _budget_lines(seen: Overview, budget: Budget) -> list[Text]:
    text, warns = budget_line(seen, budget)
    return [Text(text, style="yellow" if warns else "", overflow="fold")]


def budget_line(seen: Overview, budget: Budget) -> tuple[str, bool]:
    """The line about claude, and whether jobs wait because of it."""
    claude = seen.claude
    cap = budget.cap(claude.local_hour)
    since = f"claude runs since {hour_text(claude.local_hour)}: {claude.runs}"
    jobs = "1 job" if claude.waiting == 1 else f"{claude.waiting:,} jobs"
    if cap is None:
        return f"{since}; {UNKNOWN}{f', {jobs} waiting' if claude.waiting else ''}", claude.waiting > 0
    if cap == 0:
        return f"{since}; {refusal(cap, claude.runs, claude.next_hour)}, {jobs} waiting", claude.waiting > 0
    if claude.runs < cap:
        return f"{since} of {cap}", False
    if claude.waiting:
        return f"{since} of {cap}; {jobs} waiting for next hour ({hour_text(claude.next_hour)})", True
    return f"{since} of {cap}; next at the full hour", False


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


def _running(seen: Overview) -> FittedTable:
    total = sum(count.count for count in seen.counts if count.status is JobStatus.PROCESSING)
    title = "RUNNING" if total <= len(seen.running) else f"RUNNING (longest {len(seen.running)} of {total})"
    rows = [
        (
            f"{job.job_type} {str(job.id)[:8]}",
            job.law_id,
            _tail(harmless(job.holder or "(signs nothing)")),
            duration(job.age_s),
            Text(duration(job.beat_age_s), style="red" if job.beat_age_s > _QUIET_BEAT_S else ""),
            progress_words(job),
        )
        for job in seen.running
    ]
    headings = (title, "LAW", "HOLDER", "AGE", "BEAT", "PROGRESS")
    return FittedTable(headings, rows, flexible=("PROGRESS", "LAW", "HOLDER"), right=("AGE", "BEAT"))


def _tail(holder: str) -> str:
    """The end of a holder is what tells two pods of one deployment apart."""
    return holder if len(holder) <= _WIDEST_HOLDER else f"\u2026{holder[1 - _WIDEST_HOLDER :]}"


def progress_words(job: HeldJob) -> str:
    """What is to be said of a running job, the most urgent first."""
    words = ["cancelling"] if job.cancelling else []
    words += [f"attempt {job.attempt}"] if job.attempt > 1 else []
    return " ".join([*words, progress_text(job.progress)]).rstrip()


def _failures(failures: Sequence[EndedBadly], now: dt.datetime) -> FittedTable:
    rows = []
    for one in failures:
        why = " ".join(one.error.split()) or "(no reason was given)"
        ago = duration((now - one.at).total_seconds())
        kind = f"{one.kind}: " if one.kind else ""
        rows.append((f"{one.job_type} {str(one.id)[:8]}", ago, one.law_id, kind + why))
    return FittedTable(("FAILED", "AGO", "LAW", "WHY"), rows, flexible=("WHY", "LAW"), right=("AGO",))
