"""The time of a run in shares (D44): the table, its limits, and warnings for settings without effect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.gates.feedback import Rounds, parse_rounds
from protocols.shares import RESERVE_S, inert_rules, round_fits, shares_of, time_for, translation_fits

NO_LIMIT = 1e9


@pytest.mark.claim("S0-151", "S0-152", "S0-154", "S0-155")
@pytest.mark.parametrize(
    ("job_s", "setting", "parts", "translate_s", "feedback_s"),
    [
        (3900, "1", 9, 1290, 430),
        (3900, "2", 15, 774, 258),
        (3900, "0", 3, 3870, 1290),
        (3900, "checks=2", 11, 1055, 351),
        (1200, "1", 9, 390, 130),
        (3900, "checks=2,binding=1", 10, 1161, 387),
    ],
)
def test_the_table_of_shares(job_s: float, setting: str, parts: int, translate_s: float, feedback_s: float) -> None:
    shares = shares_of(job_s, NO_LIMIT, parse_rounds(setting)[0])
    assert (shares.parts, shares.translate_s, shares.feedback_s) == (parts, translate_s, feedback_s)


@pytest.mark.claim("S0-149", "S0-150", "S0-153")
def test_a_lower_limit_of_one_call_holds_and_a_higher_one_buys_nothing() -> None:
    low = shares_of(3900, 600, Rounds())
    assert (low.translate_s, low.feedback_s) == (600, 430)
    lower = shares_of(3900, 100, Rounds())
    assert (lower.translate_s, lower.feedback_s) == (100, 100)
    high = shares_of(3900, 3600, Rounds())
    assert (high.translate_s, high.feedback_s) == (1290, 430)


COUNTS = st.integers(0, 20)
ROUNDS = st.builds(Rounds, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | COUNTS)


@given(job_s=st.floats(31, 100_000), llm_s=st.floats(1, 100_000), rounds=ROUNDS)
def test_all_calls_together_fit_into_the_job_and_none_passes_its_limit(
    job_s: float, llm_s: float, rounds: Rounds
) -> None:
    shares = shares_of(job_s, llm_s, rounds)
    assert 0 < shares.feedback_s <= shares.share_s
    assert shares.translate_s <= shares.longest_s
    assert max(shares.translate_s, shares.feedback_s) <= llm_s
    if job_s >= RESERVE_S + shares.parts:
        assert shares.longest_s + rounds.possible * shares.share_s <= job_s - RESERVE_S


@given(job_s=st.floats(0, 100_000), llm_s=st.floats(1, 100_000), rounds=ROUNDS)
def test_more_rounds_never_make_a_share_larger(job_s: float, llm_s: float, rounds: Rounds) -> None:
    more = Rounds(rounds.schema + 1, rounds.checks, rounds.marking, rounds.reconcile, rounds.binding)
    fewer, larger = shares_of(job_s, llm_s, rounds), shares_of(job_s, llm_s, more)
    assert larger.translate_s <= fewer.translate_s
    assert larger.feedback_s <= fewer.feedback_s


def test_a_job_without_time_gives_every_call_a_second_and_a_warning() -> None:
    for job_s in (0, 30, 35):
        shares = shares_of(job_s, 600, Rounds())
        assert shares.feedback_s == 1
        assert any("leaves nothing" in rule for rule in inert_rules(shares))


def test_a_call_gets_no_more_than_the_job_has_left_before_the_reserve() -> None:
    assert time_for(430, 1000) == 430
    assert time_for(430, 100) == 70
    assert time_for(430, 20) == 0


def test_what_is_not_worth_starting_is_not_started() -> None:
    shares = shares_of(3900, 3600, Rounds())
    assert translation_fits(shares, 460)
    assert not translation_fits(shares, 459)
    assert round_fits(shares, 50)
    assert not round_fits(shares, 49)
    short = shares_of(3900, 10, Rounds())
    assert translation_fits(short, 40)
    assert round_fits(short, 40)
    assert not round_fits(short, 39)


# D44: start-up names each rule that cannot fire, with a value at which it would.
def test_rules_without_effect_are_told_with_a_value_that_would_give_them_one() -> None:
    assert inert_rules(shares_of(3900, 600, Rounds()), idle_s=300) == ()
    (told,) = inert_rules(shares_of(1200, 600, Rounds()))
    assert "LLM_TIMEOUT_SECS=600 has no effect: a translation gets at most 390 s" in told
    assert "WORKER_JOB_TIMEOUT_SECS=1830" in told
    assert "Set it to 390 or less" in told
    assert inert_rules(shares_of(1830, 600, Rounds())) == ()
    assert inert_rules(shares_of(3900, 1290, Rounds()), idle_s=600, retry_s=900) == ()
    (stall,) = inert_rules(shares_of(1200, 390, Rounds()), idle_s=600)
    assert "ENRICH_AGENT_IDLE_SECS=600 can never fire" in stall
    assert "LLM_TIMEOUT_SECS above 600" in stall
    assert inert_rules(shares_of(1200, 390, Rounds()), idle_s=0, retry_s=0) == ()
    assert len(inert_rules(shares_of(3900, 1290, Rounds()), idle_s=1290, retry_s=1300, first_output_s=2000)) == 3


def test_a_default_that_can_have_no_effect_is_nobodys_mistake() -> None:
    shares = shares_of(1200, 600, Rounds())
    assert inert_rules(shares, idle_s=600, given=lambda name: False) == ()
    (told,) = inert_rules(shares, idle_s=600, given={"ENRICH_AGENT_IDLE_SECS"}.__contains__)
    assert told.startswith("ENRICH_AGENT_IDLE_SECS=600 can never fire")
    assert any("leaves nothing" in rule for rule in inert_rules(shares_of(30, 600, Rounds()), given=lambda name: False))


@given(job_s=st.integers(1, 20_000), idle_s=st.integers(1, 5_000), rounds=ROUNDS)
def test_the_value_that_is_named_works(job_s: int, idle_s: int, rounds: Rounds) -> None:
    told = [rule for rule in inert_rules(shares_of(job_s, 1e6, rounds), idle_s=idle_s) if "IDLE" in rule]
    if told:
        named = float(told[0].rpartition("=")[2].split()[0])
        assert shares_of(named, 1e6, rounds).translate_s > idle_s
