"""The status view as text: every section in 80 columns, whatever the database holds."""

from __future__ import annotations

import datetime as dt
import io
import re
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from rich.console import Console

from schema.overview import ClaudeHour, Overview
from schema.pauses import Pause, PauseScope, ProviderPause
from schema.queue.views import EndedBadly, HeldJob, QueueCount
from schema.rows import JobStatus
from supervisor.budgettext import UNKNOWN, Budget
from supervisor.statusview import budget_line, progress_words, render

NOW = dt.datetime(2026, 3, 10, 12, 0, tzinfo=dt.UTC)
JOB = HeldJob(UUID(int=0xABC), "harvest", "BWBR0018451", "pod-1:7", 1, 75.0, 3.0, None, False)
EMPTY = Overview(NOW, True, (), (), ClaudeHour(0, 13, 0, 14), (), (), ())


def text_of(seen: Overview, budget: Budget | None = None, *, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render(seen, budget or Budget(None)))
    return out.getvalue()


def test_an_empty_queue_is_told_as_one() -> None:
    text = text_of(EMPTY)
    assert "(no jobs)" in text
    assert "supervisors are there" in text
    assert "RUNNING\n" not in text
    assert "NO SUPERVISOR RUNS JOBS" in text_of(evolve(EMPTY, served=False))


def test_depth_is_told_by_type_and_status_and_what_waits_for_its_time_apart() -> None:
    counts = (
        QueueCount("enrich", JobStatus.PENDING, 12, 5),
        QueueCount("harvest", JobStatus.COMPLETED, 1_204_331, 0),
        QueueCount("harvest", JobStatus.FAILED, 8, 0),
    )
    lines = text_of(evolve(EMPTY, counts=counts)).splitlines()
    assert lines[1].split() == ["QUEUE", "PENDING", "LATER", "RUNNING", "DONE", "FAILED"]
    assert lines[2].split() == ["enrich", "7", "5", "·", "·", "·"]
    assert lines[3].split() == ["harvest", "·", "·", "·", "1,204,331", "8"]


def test_running_jobs_tell_holder_age_beat_and_progress() -> None:
    job = evolve(JOB, progress={"phase": "publish", "step": 3, "total_steps": 3}, beat_age_s=400.0)
    text = text_of(evolve(EMPTY, running=(job,), counts=(QueueCount("harvest", JobStatus.PROCESSING, 40, 0),)))
    assert "RUNNING (longest 1 of 40)" in text
    (line,) = [line for line in text.splitlines() if "BWBR0018451" in line]
    assert "pod-1:7" in line
    assert "1m15s" in line
    assert "6m40s" in line


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (None, ""),
        ("text", ""),
        ({"phase": "download", "step": 1, "total_steps": 3}, "download 1/3"),
        ({"phase": 7, "step": "x", "worker": []}, ""),
        (
            {"worker": {"call": "translate", "articles_with_machine_readable": 4, "articles_total": 60}},
            "translate 4/60 articles",
        ),
    ],
)
def test_progress_of_any_shape_becomes_a_few_words(progress: Any, words: str) -> None:
    assert progress_words(evolve(JOB, progress=progress)) == words


def test_a_later_attempt_and_a_cancel_are_told() -> None:
    assert progress_words(evolve(JOB, attempt=2, cancelling=True)) == "cancelling attempt 2"


@pytest.mark.parametrize(
    ("limit", "runs", "waiting", "expected"),
    [
        (
            None,
            3,
            9,
            (f"claude runs since 13:00 Amsterdam: 3; {UNKNOWN}, 9 jobs waiting", True),
        ),
        (5, 3, 9, ("claude runs since 13:00 Amsterdam: 3 of 5", False)),
        (5, 5, 9, ("claude runs since 13:00 Amsterdam: 5 of 5; 9 jobs waiting for next hour (14:00 Amsterdam)", True)),
        (5, 6, 0, ("claude runs since 13:00 Amsterdam: 6 of 5; next at the full hour", False)),
        (
            0,
            0,
            1,
            (
                (
                    "claude runs since 13:00 Amsterdam: 0; no claude run is allowed (ENRICH_HOURLY_LIMIT is 0 here), "
                    "1 job waiting"
                ),
                True,
            ),
        ),
    ],
)
def test_the_budget_says_when_jobs_wait_for_the_next_hour(
    limit: int | None, runs: int, waiting: int, expected: tuple[str, bool]
) -> None:
    seen = evolve(EMPTY, claude=ClaudeHour(runs, 13, waiting, 14))
    assert budget_line(seen, Budget(limit)) == expected


def test_the_night_has_its_own_limit_and_the_last_hour_of_a_day_a_next_one() -> None:
    assert "of 10" in budget_line(evolve(EMPTY, claude=ClaudeHour(1, 7, 0, 8)), Budget(5, night_multiplier=2))[0]
    assert "(00:00 Amsterdam)" in budget_line(evolve(EMPTY, claude=ClaudeHour(5, 23, 2, 0)), Budget(5))[0]
    # the night in which 02:00 comes twice
    assert (
        "since 02:00 Amsterdam: 5 of 5; 2 jobs waiting for next hour (02:00 Amsterdam)"
        in (budget_line(evolve(EMPTY, claude=ClaudeHour(5, 2, 2, 2)), Budget(5))[0])
    )


def test_pauses_and_troubles_tell_who_until_when_and_why_but_no_credential() -> None:
    seen = evolve(
        EMPTY,
        pauses=(Pause(PauseScope.JOB_TYPE, "harvest", "mirror moves", "ops", NOW, NOW + dt.timedelta(hours=2)),),
        benches=(ProviderPause("claude", "0123abcd", None, "billing", NOW),),
    )
    text = text_of(seen, width=200)
    assert "paused: harvest until 2026-03-10 14:00 UTC, by ops: mirror moves" in text
    assert "in trouble: provider:claude (one credential) until resumed: billing" in text
    assert "0123abcd" not in text


def test_everything_at_its_longest_fits_into_80_columns_and_is_no_markup() -> None:
    job = evolve(
        JOB,
        job_type="document_convert",
        law_id="lawdoc:een-traject-met-een-lange-naam-0123abcd/Beleidsregels[red].docx",
        holder="regelrecht-supervisor-6c9f7d5b8-x2x4q:1",
        progress={"phase": "translate\n[bold]", "step": 1, "total_steps": 100},
    )
    failure = EndedBadly(UUID(int=1), "document_convert", job.law_id, NOW, "[red]geen[/red] XML\n" * 20, "content")
    seen = Overview(
        NOW,
        False,
        tuple(QueueCount(name, status, 12_345_678, 0) for name in ("document_convert", "x") for status in JobStatus),
        (job,) * 20,
        ClaudeHour(99, 3, 1_000, 4),
        (Pause(PauseScope.PROVIDER, "claude", "om een lange reden " * 9, "iemand", NOW),),
        (ProviderPause("claude", "", NOW, "quota", NOW),),
        (failure,) * 5,
    )  # fmt: skip
    text = text_of(seen, Budget(5))
    assert max(map(len, text.splitlines())) <= 80
    assert "[red]" in text
    assert "waiting for next hour (04:00 Amsterdam)" in " ".join(text.split())


def test_in_80_columns_a_long_reason_leaves_room_for_what_failed_and_when() -> None:
    why = "https://repository.example/bwb/BWBR0018451/manifest.xml: the server closed the connection (attempts: 3)"
    ago = dt.timedelta(minutes=3, seconds=5)
    failures = tuple(
        EndedBadly(UUID(int=n << 96), "harvest", "BWBR0018451", NOW - ago, why, "download_failed") for n in range(3)
    )
    lines = text_of(evolve(EMPTY, failures=failures)).splitlines()[-3:]
    for number, line in enumerate(lines):
        assert line.startswith(f"harvest {number:08x}  3m05s  BWBR0018451  download_failed: https://repo")
        assert len(line) <= 80


def test_in_80_columns_a_running_job_tells_its_law_holder_ages_and_how_far_it_is() -> None:
    job = evolve(
        JOB,
        id=UUID(int=0xABC << 96),
        holder="regelrecht-supervisor-6c9f7d5b8-x2x4q:1",
        progress={"phase": "publish", "step": 3, "total_steps": 3},
    )
    (line,) = [line for line in text_of(evolve(EMPTY, running=(job,))).splitlines() if "BWBR0018451" in line]
    assert re.fullmatch(
        r"harvest 00000abc  BWBR0018451  \u20266c9f7d5b8-x2x4q:1  1m15s  3\.0s  publish 3/3", line.rstrip()
    )
    assert len(line) <= 80
