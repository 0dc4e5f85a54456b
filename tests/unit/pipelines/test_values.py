"""Values of pipelines: prices, targets, errors, history lines, configuration of law pipelines."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from attrs import evolve

from protocols.crawl import (
    CrawlOutcome,
    CrawlResult,
    CrawlStatus,
    blob_entry,
    blob_key,
    content_identity,
    document_identity,
    effective_value,
    freeze_urls,
    parse_webcrawler_urls,
)
from protocols.credits import Pricing
from protocols.failures import InvalidInput, InvalidPayload, JobEnd, LeaseLost, Transient, gravest, verdict_of
from protocols.lawpipeline import law_targets, read_law_selection
from protocols.runhistory import MAX_CHARS, RunLine, clamp_limit, plain, render_runs
from protocols.runs import (
    RunCounts,
    RunError,
    RunFailed,
    Trigger,
    connector_law_id,
    no_urls,
    pipeline_law_id,
    read_run_payload,
    shown,
    unforeseen,
)

TODAY = dt.date(2026, 6, 1)

# --- prices -----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-107")
def test_a_price_is_charged_per_success_and_only_while_billing_is_on() -> None:
    assert Pricing(True).successes_to_micros(3) == 3000
    assert Pricing(True).unit_price_micros == 1000
    assert Pricing(False).successes_to_micros(3) == 0
    assert Pricing(False).unit_price_micros is None
    assert not Pricing().billing_enabled()


@pytest.mark.parametrize("price", [-1, 1.5, "1000", True, None])
def test_a_price_that_is_no_whole_number_of_micros_is_refused(price: Any) -> None:
    with pytest.raises(InvalidInput, match="micros"):
        Pricing(True, price)


# --- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://a.example/\n\n  https://b.example/ \r\n", ["https://a.example/", "https://b.example/"]),
        (["https://a.example/", 3, None, {}, " "], ["https://a.example/"]),
        ("\n", []),
        (None, []),
        (42, []),
        ({"a": "b"}, []),
    ],
)
def test_urls_come_from_lines_or_from_the_texts_of_a_list(value: object, expected: list[str]) -> None:
    assert parse_webcrawler_urls(value) == expected


def test_what_is_truthy_in_the_pipeline_wins() -> None:
    empties: tuple[object, ...] = ("", [], None, 0)
    for empty in empties:
        assert effective_value("K", {"K": empty}, {"K": "c"}) == "c"
    assert effective_value("K", {"K": "\n"}, {"K": "c"}) == "\n"
    assert effective_value("K", {}, {}) is None


def test_frozen_urls_keep_their_order_lose_fragments_and_repeats_and_say_what_is_wrong_with_the_rest() -> None:
    frozen = freeze_urls(
        ["https://B.example/x#1", "https://a.example", "https://b.example/x", "ftp://c.example/", "x" * 3000]
    )
    assert [target.text for target in frozen[:2]] == ["https://b.example/x", "https://a.example/"]
    assert [target.fault is None for target in frozen] == [True, True, False, False]
    assert all(len(target.text) < 2000 for target in frozen)
    assert "geheim" not in freeze_urls(["https://user:geheim@site.example/"])[0].text


def test_two_refused_urls_stay_two_and_a_url_refused_twice_stays_one() -> None:
    assert len(freeze_urls(["ftp://a.example/", "ftp://b.example/", "ftp://a.example/"])) == 2


def test_hashes_depend_on_the_workspace() -> None:
    assert document_identity("https://a.example/", 1) != document_identity("https://a.example/", 2)
    assert content_identity("x", 1) != content_identity("x", 2)
    assert len(content_identity("\ud800", 1)) == 64


@pytest.mark.claim("S3-073", "S3-074")
def test_an_entry_has_content_only_when_the_crawl_succeeded() -> None:
    result = CrawlResult("# Tekst", {"source": "https://a.example/", "title": "T"})
    good = CrawlOutcome(CrawlStatus.SUCCESS, result)
    assert blob_entry("https://a.example/", good)["content"] == "# Tekst"
    for status in (CrawlStatus.EMPTY, CrawlStatus.FAILED):
        entry = blob_entry("https://a.example/", CrawlOutcome(status, result, "reason"))
        assert entry == {
            "url": "https://a.example/",
            "status": status.value,
            "content": "",
            "metadata": {},
            "error": "reason",
        }
    assert not CrawlOutcome(CrawlStatus.SUCCESS).succeeded
    assert "Tekst" not in repr(good)


def test_a_key_belongs_to_one_claim_of_one_run() -> None:
    # D65
    assert blob_key(workspace_id=3, run_id=7, claim_seq=2) == "pipeline_runs/3/7/result-2.json"


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_payload_is_read_back_as_it_was_written() -> None:
    payload = read_run_payload({"run_id": 1, "pipeline_id": 2, "workspace_id": 3, "trigger": "scheduled", "more": 1})
    assert payload.trigger is Trigger.SCHEDULED
    assert read_run_payload(payload.to_document()) == payload
    assert (pipeline_law_id(2), connector_law_id(9)) == ("pipeline:2", "connector:9")


@pytest.mark.parametrize(
    "payload",
    [None, [], "x", {}, {"run_id": True, "pipeline_id": 2, "workspace_id": 3, "trigger": "manual"},
     {"run_id": 1, "pipeline_id": 2, "workspace_id": 3, "trigger": "whim"}],
)  # fmt: skip
def test_a_payload_that_names_no_run_is_refused(payload: object) -> None:
    with pytest.raises(InvalidPayload):
        read_run_payload(payload)


def test_an_error_is_always_an_object_without_secrets_and_not_too_long() -> None:
    error = RunError("exception", "x" * 5000 + " https://u:p@h/", type="OSError")
    assert len(error.message) == 2000
    text = shown("GET https://user:pass@h.example/a?token=abc&X-Amz-Signature=def&page=2&api_key=ghi failed")
    assert text == "GET https://***@h.example/a?token=***&X-Amz-Signature=***&page=2&api_key=*** failed"
    assert no_urls().error.to_document() == {"code": "no_urls", "message": "no URLs to crawl"}
    assert unforeseen(KeyError("k")).error.to_document() == {"code": "exception", "message": "'k'", "type": "KeyError"}


def test_a_failed_run_is_never_tried_again_by_itself() -> None:
    assert verdict_of(no_urls()).job is JobEnd.TERMINAL


def test_of_a_group_the_lost_lease_counts_then_what_has_a_name_then_the_first() -> None:
    group = ExceptionGroup("g", [ValueError("v"), ExceptionGroup("h", [Transient("t"), LeaseLost("l")])])
    assert isinstance(gravest(group), LeaseLost)
    assert isinstance(gravest(ExceptionGroup("g", [ValueError("v"), Transient("t")])), Transient)
    assert isinstance(gravest(ExceptionGroup("g", [KeyError("v"), ValueError("t")])), KeyError)
    assert isinstance(gravest(RunFailed(RunError("a", "b"))), RunFailed)


def test_counts_are_summed_up_for_people_with_documents_only_where_there_are_any() -> None:
    counts = RunCounts(targets=5, success=2, empty=1, failed=1, skipped=1)
    assert (counts.attempted, counts.documents_indexed) == (4, 0)
    assert counts.to_summary() == {"urls": 5, "success": 2, "empty": 1, "failed": 1, "skipped": 1}
    saved = evolve(counts, created=1, updated=1)
    assert saved.documents_indexed == 2
    assert saved.to_summary()["documents"] == {"created": 1, "updated": 1, "unchanged": 0, "duplicate": 0}


# --- history ----------------------------------------------------------------------------------------------------------

LINE = RunLine(
    12, 3, "Beleid", "succeeded", "scheduled", "15 3 * * *", "Europe/Amsterdam",
    dt.datetime(2026, 6, 1, 1, 15, tzinfo=dt.UTC), dt.datetime(2026, 6, 1, 1, 20, tzinfo=dt.UTC), 4, 5, 4, 4000, None,
)  # fmt: skip


@pytest.mark.claim("S3-094", "S3-095")
def test_a_run_is_one_line_with_everything_one_asks_for() -> None:
    header, line = render_runs([LINE]).splitlines()
    assert "data" in header
    assert line == (
        '#12 "Beleid" | succeeded | scheduled | 15 3 * * * Europe/Amsterdam | 2026-06-01T01:15:00Z -> '
        "2026-06-01T01:20:00Z | docs 4 | crawls 4/5 | charged $0.004000 | error -"
    )
    unknown = evolve(
        LINE, schedule_cron=None, started_at=None, finished_at=None, documents_indexed=None, crawls_attempted=None,
        crawls_succeeded=None, charged_micros=None,
    )  # fmt: skip
    assert (
        unknown.render()
        == '#12 "Beleid" | succeeded | scheduled | manual | - -> - | docs - | crawls -/- | charged - | error -'
    )
    assert render_runs([]) == "no runs"


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (-1, 1), (20, 20), (100, 100), (1000, 100)])
def test_a_limit_lies_between_1_and_100_whatever_is_asked(asked: int, given: int) -> None:
    assert clamp_limit(asked) == given


def test_names_and_errors_cannot_break_out_of_their_line() -> None:
    hostile = "a\nb\r\x1b[31mrood\x1b[0m\u202ex\x00" + "z" * 500
    line = evolve(LINE, name=hostile, error=hostile).render()
    assert "\n" not in line
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert plain(hostile, 80).startswith("a b rood x")
    assert len(plain(hostile, 80)) == 80
    assert len(evolve(LINE, error=hostile).to_document()["error"]) == 160


def test_a_long_history_is_cut_and_says_how_much_is_missing() -> None:
    lines = [evolve(LINE, run_id=number, name="n" * 80, error="e" * 160) for number in range(100)]
    text = render_runs(lines)
    assert len(text) <= MAX_CHARS
    last = text.splitlines()[-1]
    shown_count = len(text.splitlines()) - 2
    assert last == f"(+{100 - shown_count} more)"


# --- law pipelines ----------------------------------------------------------------------------------------------------


def test_a_law_pipeline_has_polite_defaults() -> None:
    selection = read_law_selection({}, {}, today=TODAY)
    assert (selection.priority, selection.max_laws, selection.stagger_s) == (20, 500, 2.0)
    assert (selection.follow_references, selection.date, selection.law_ids) == (False, None, ())


def test_law_ids_are_checked_one_by_one() -> None:
    targets = law_targets(["BWBR0000001", "bwbr1", "BWBR0000001", "CVDR100394"])
    assert [(target.text, target.fault is None) for target in targets] == [
        ("BWBR0000001", True), ("bwbr1", False), ("CVDR100394", True),
    ]  # fmt: skip
