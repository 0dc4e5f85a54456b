"""Time for the calls of one enrich run (D44, ``enrich.md`` 6.5): the job's budget in shares.

The budget is the job timeout minus a reserve for checks, commit and the end of processes. A translation may use three
shares, each feedback round that may happen one. ``LLM_TIMEOUT_SECS`` holds where it is lower. Pure arithmetic; all
times are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from attrs import frozen

from protocols.gates.feedback import Rounds

RESERVE_S: Final = 30.0
TRANSLATE_SHARES: Final = 3
LEAST_CALL_S: Final = 1.0
LEAST_ROUND_S: Final = 20.0
"""A feedback round with less time left than this is not started."""


@frozen
class Shares:
    """``parts``: into how many shares the budget is cut. ``longest_s``: three of them, what a translation gets unless
    ``LLM_TIMEOUT_SECS`` is lower. ``translate_s`` and ``feedback_s``: the most that one call gets."""

    parts: int
    share_s: float
    longest_s: float
    translate_s: float
    feedback_s: float
    llm_timeout_s: float
    job_timeout_s: float


def shares_of(job_timeout_s: float, llm_timeout_s: float, rounds: Rounds) -> Shares:
    """The caps of a run, in whole seconds. Static: rounds count that *may* happen, also in windows that are not the last."""
    parts = TRANSLATE_SHARES + rounds.possible
    exact = (job_timeout_s - RESERVE_S) / parts
    share = max(float(math.floor(exact)), LEAST_CALL_S)
    longest = max(float(math.floor(TRANSLATE_SHARES * exact)), LEAST_CALL_S)
    return Shares(
        parts=parts,
        share_s=share,
        longest_s=longest,
        translate_s=min(llm_timeout_s, longest),
        feedback_s=min(llm_timeout_s, share),
        llm_timeout_s=llm_timeout_s,
        job_timeout_s=job_timeout_s,
    )


def time_for(cap_s: float, left_s: float) -> float:
    """What a call gets when the job's deadline is ``left_s`` away: never into the reserve, never below 0."""
    return max(0.0, min(cap_s, left_s - RESERVE_S))


def translation_fits(shares: Shares, left_s: float) -> bool:
    """Whether a translation is worth starting: with less than one share left it would only spend money."""
    return time_for(shares.translate_s, left_s) >= min(shares.share_s, shares.translate_s)


def round_fits(shares: Shares, left_s: float) -> bool:
    """Whether a feedback round is worth starting; if not it is recorded as ``time``."""
    return time_for(shares.feedback_s, left_s) >= min(LEAST_ROUND_S, shares.feedback_s)


def inert_rules(
    shares: Shares,
    *,
    idle_s: float = 0.0,
    retry_s: float = 0.0,
    first_output_s: float = 0.0,
    given: Callable[[str], bool] = lambda name: True,
) -> tuple[str, ...]:
    """One sentence for each setting that cannot have an effect at these values, with one that would (start-up warnings).

    ``given`` says whether somebody set it: a default that cannot have an effect is nobody's mistake. ``idle_s`` is ``ENRICH_AGENT_IDLE_SECS``, ``retry_s`` ``ENRICH_AGENT_RETRY_SECS``, ``first_output_s``
    ``ENRICH_AGENT_FIRST_OUTPUT_SECS``; 0 is off and never warned about.
    """
    told = []
    longest = shares.longest_s
    if shares.job_timeout_s <= RESERVE_S + shares.parts:
        told.append(
            f"the job timeout of {shares.job_timeout_s:g} s leaves nothing for {shares.parts} shares after the reserve of "
            f"{RESERVE_S:g} s: every call gets {LEAST_CALL_S:g} s. Set WORKER_JOB_TIMEOUT_SECS to 3900"
        )
    if shares.llm_timeout_s > longest and given("LLM_TIMEOUT_SECS"):
        told.append(
            f"LLM_TIMEOUT_SECS={shares.llm_timeout_s:g} has no effect: a translation gets at most {longest:g} s of a job of "
            f"{shares.job_timeout_s:g} s. Set it to {longest:g} or less, or "
            f"WORKER_JOB_TIMEOUT_SECS={_job_for(shares.llm_timeout_s, shares):g}"
        )
    silences = (
        ("ENRICH_AGENT_IDLE_SECS", idle_s),
        ("ENRICH_AGENT_RETRY_SECS", retry_s),
        ("ENRICH_AGENT_FIRST_OUTPUT_SECS", first_output_s),
    )
    for name, limit in silences:
        if limit and limit >= shares.translate_s and given(name):
            wanted = _job_for(limit + 1, shares)
            also = f" and LLM_TIMEOUT_SECS above {limit:g}" if shares.llm_timeout_s <= limit else ""
            told.append(
                f"{name}={limit:g} can never fire: the longest call ends after {shares.translate_s:g} s. It would with "
                f"WORKER_JOB_TIMEOUT_SECS={max(wanted, shares.job_timeout_s):g}{also}"
            )
    return tuple(told)


def _job_for(translate_s: float, shares: Shares) -> float:
    """The job timeout with which a translation may take ``translate_s``."""
    return math.ceil(translate_s / TRANSLATE_SHARES) * shares.parts + RESERVE_S
