"""The settings of enrichment's agents, from the environment to what the job gets (``enrich.md`` 14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocols.gates.feedback import Rounds
from protocols.sessions import SessionReuse
from schema.rows import JobType
from supervisor.rules import held_for_s, job_timeout_s
from supervisor.settings import Settings, SettingsFault, load
from supervisor.settings.ports import enrich_settings

DATABASE = {"DATABASE_URL": "postgresql://u@localhost/d"}


def loaded(**environ: str) -> Settings:
    return load({**DATABASE, **environ})


def job_settings(**environ: str) -> Any:
    return enrich_settings(loaded(**environ), {**DATABASE, **environ})


def test_the_defaults_are_those_of_the_pipeline_page() -> None:
    settings = job_settings()

    assert (settings.window_limit, settings.window_concurrency, settings.default_provider) == (15, 1, "opencode")
    assert settings.rounds == Rounds()
    assert settings.session_reuse is SessionReuse.WINDOW
    assert (settings.job_timeout_s, settings.llm_timeout_s) == (1200, 600)
    assert (settings.stall.idle_s, settings.stall.retry_s, settings.stall.max_steps) == (600, 0, 400)
    assert settings.max_rss_bytes == 3500 << 20
    assert (settings.related.max_depth, settings.related.max_per_job, settings.related.max_per_law) == (2, 20, 100)
    assert (settings.max_cost_millicents, settings.user_home, settings.corpus) == (0, False, None)


@pytest.mark.claim("S0-103")
def test_the_provider_of_a_job_that_names_none_is_opencode_or_what_is_set() -> None:
    assert job_settings().default_provider == "opencode"
    assert job_settings(LLM_PROVIDER="claude").default_provider == "claude"


def test_every_setting_reaches_the_job() -> None:
    settings = job_settings(
        ENRICH_MAX_ARTICLES_PER_RUN="0",
        ENRICH_WINDOW_CONCURRENCY="3",
        ENRICH_FEEDBACK_ROUNDS="2,schema=1",
        ENRICH_SESSION_REUSE="repair",
        ENRICH_STEPS="reconcile",
        ENRICH_AGENT_IDLE_SECS="0",
        ENRICH_AGENT_RETRY_SECS="900",
        ENRICH_MAX_RSS_MB="0",
        ENRICH_MAX_COST_PER_LAW="7.50",
        ENRICH_AGENT_HOME="user",
        ENRICH_AGENT_ENV="FOO, BAR",
        ENRICH_WORK_PATH="/var/work",
        ENRICH_JOB_TIMEOUT_SECS="3900",
        RELATED_HARVEST_MAX_PER_JOB="1",
        LLM_TIMEOUT_SECS="3600",
        SKILLS_DIR="/opt/skills",
        CODE_COMMIT="abc",
    )

    assert (settings.window_limit, settings.window_concurrency) == (0, 3)
    assert settings.rounds == Rounds(1, 2, 2, 2)
    assert settings.session_reuse is SessionReuse.REPAIR
    assert settings.steps == {"reconcile"}
    assert (settings.stall.idle_s, settings.stall.retry_s, settings.max_rss_bytes) == (0, 900, None)
    assert settings.max_cost_millicents == 750_000
    assert (settings.user_home, settings.agent_env) == (True, ("FOO", "BAR"))
    assert (settings.work_root, settings.skills_dir) == (Path("/var/work"), Path("/opt/skills"))
    assert (settings.shares.translate_s, settings.shares.feedback_s) == (893, 297)
    assert settings.related.max_per_job == 1
    assert settings.code_commit == "abc"


@pytest.mark.claim("S0-154")
def test_sixty_five_minutes_and_one_round_give_the_shares_of_the_page() -> None:
    shares = job_settings(WORKER_JOB_TIMEOUT_SECS="3900", LLM_TIMEOUT_SECS="3600").shares

    assert (shares.translate_s, shares.feedback_s) == (1290, 430)


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("ENRICH_FEEDBACK_ROUNDS", "many", "rounds", Rounds()),
        ("ENRICH_SESSION_REUSE", "always", "session_reuse", SessionReuse.WINDOW),
        ("ENRICH_WINDOW_CONCURRENCY", "0", "window_concurrency", 1),
        ("ENRICH_STEPS", "windw", "steps", frozenset({"window", "reconcile"})),
    ],
)
def test_some_settings_fall_back_with_a_warning(name: str, value: str, attribute: str, expected: object) -> None:
    settings = loaded(**{name: value})

    assert getattr(enrich_settings(settings, {}), attribute) == expected
    assert any(warning.startswith(f"{name}={value!r}") for warning in settings.warnings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENRICH_AGENT_ENV", "MY_SECRET"),
        ("ENRICH_AGENT_ENV", "ANTHROPIC_MODEL"),
        ("LLM_EFFORT", "huge"),
        ("ENRICH_WINDOW_MODE", "layer"),
        ("ENRICH_MAX_COST_PER_LAW", "cheap"),
        ("ENRICH_MAX_COST_PER_LAW", "-1"),
    ],
)
def test_others_stop_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingsFault, match=name):
        loaded(**{name: value})


def test_tokens_and_keys_are_secret_one_by_one() -> None:
    settings = loaded(CLAUDE_CODE_OAUTH_TOKEN="sk-ant-oat-one, sk-ant-oat-two", VLAM_API_KEY="vlam-key")

    assert {"sk-ant-oat-one", "sk-ant-oat-two", "vlam-key"} <= set(settings.secrets)
    shown = repr(settings) + repr(enrich_settings(settings, {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat-one"}))
    assert "sk-ant" not in shown
    assert "vlam-key" not in shown


def test_an_enrichment_is_held_for_its_push_too() -> None:
    """D44"""
    settings = loaded(ENRICH_JOB_TIMEOUT_SECS="3900")

    assert job_timeout_s(settings, JobType.ENRICH) == 3900
    assert held_for_s(settings, JobType.ENRICH) == 4230
    assert held_for_s(settings, JobType.HARVEST) == 1200
