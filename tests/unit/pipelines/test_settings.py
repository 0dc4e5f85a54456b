"""The settings of pipelines: names, defaults, faults, and what ports are given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.jobs import ROLES
from protocols.failures import InvalidInput
from schema.rows import JobType
from supervisor import roles
from supervisor.commands.run import command as run_command
from supervisor.roles import ACTOR_ROLES, ADDED_LATER, served
from supervisor.rules import held_for_s, slots_of
from supervisor.settings import Settings, SettingsFault, load, secrets_of
from supervisor.settings.ports import blob_settings, crawl_tools, pipeline_settings

BASE = {"DATABASE_URL": "postgresql://u@h/d"}


def read(**environ: str) -> Settings:
    return load({**BASE, **environ})


def test_defaults_are_those_of_the_page() -> None:
    settings = pipeline_settings(read())
    assert (settings.max_urls, settings.run_timeout_s, settings.workers, settings.window) == (1000, 28_200, 4, 8)
    assert (settings.lease_ttl_s, settings.retention_days, settings.max_result_bytes) == (360, 30, 2 << 30)
    assert (settings.pricing.enabled, settings.pricing.micros_per_success) == (False, 1000)
    assert read().pipelines.misfire_grace_s is None
    assert (read().pipelines.tick_batch, read().pipelines.tick_expiry_s) == (200, 50)


def test_a_lease_lasts_longer_than_the_orphan_timeout_unless_somebody_says_otherwise() -> None:
    assert pipeline_settings(read(WORKER_ORPHAN_TIMEOUT_SECS="600")).lease_ttl_s == 660
    assert pipeline_settings(read(LEASE_TTL_SECS="100")).lease_ttl_s == 100
    with pytest.raises(SettingsFault, match="more than three beats"):
        read(LEASE_TTL_SECS="90")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEB_CRAWL_MICROS_PER_SUCCESS", "-1"),
        ("WEB_CRAWL_MICROS_PER_SUCCESS", "1.5"),
        ("PIPELINE_MAX_URLS_PER_RUN", "0"),
        ("SCHEDULE_TICK_EXPIRY_SECS", "60"),
        ("BLOB_BACKEND", "ftp"),
        ("CRAWL_ALLOWED_PORTS", "80,x"),
        ("CRAWL_ALLOWED_PORTS", "70000"),
        ("CRAWL_EXTRA_DENY_CIDRS", "10.0.0.0/99"),
    ],
)
def test_a_value_that_makes_no_sense_stops_the_start_with_its_name(name: str, value: str) -> None:
    with pytest.raises(SettingsFault, match=name):
        read(**{name: value})


def test_the_crawler_gets_what_was_set() -> None:
    tools = crawl_tools(
        read(CRAWL_ALLOWED_PORTS="80,8080", CRAWL_EXTRA_DENY_CIDRS="8.8.8.0/24", CRAWL_HOST_DELAY_MS="250", CRAWL_OBEY_ROBOTS="0"),
        {},
    )  # fmt: skip
    assert tools.crawl.rules.ports == {80, 8080}
    assert [str(network) for network in tools.crawl.rules.deny] == ["8.8.8.0/24"]
    assert (tools.crawl.host_delay_s, tools.crawl.obey_robots) == (0.25, False)
    assert tools.crawl.user_agent.startswith("regelrecht-supervisor/")


def test_a_proxy_in_the_environment_must_be_trusted_by_word() -> None:
    # D71
    proxied = {"HTTPS_PROXY": "http://proxy.example:3128"}
    with pytest.raises(InvalidInput, match="CRAWL_PROXY_TRUSTED=1"):
        crawl_tools(read(), proxied)
    assert crawl_tools(read(CRAWL_PROXY_TRUSTED="1"), proxied).crawl.proxy_trusted


def test_results_are_kept_in_a_folder_or_in_a_store_whose_keys_never_show() -> None:
    assert blob_settings(read(BLOB_LOCAL_ROOT="/srv/results").blobs).local_root == Path("/srv/results")
    settings = read(
        BLOB_BACKEND="s3", BLOB_S3_BUCKET="b-cket", BLOB_S3_ACCESS_KEY="toegang", BLOB_S3_SECRET_KEY="heel-geheim"
    )
    assert blob_settings(settings.blobs).s3_secret_key == "heel-geheim"
    assert "heel-geheim" not in repr(settings)
    assert set(secrets_of(settings.blobs)) == {"toegang", "heel-geheim"}
    with pytest.raises(InvalidInput, match="BLOB_S3_BUCKET"):
        blob_settings(read(BLOB_BACKEND="s3").blobs)


@pytest.mark.claim("S3-066", "S3-067")
def test_each_role_knows_its_job_types_and_the_labels_it_needs() -> None:
    # D23
    both = tuple(job_type.value for job_type in ADDED_LATER)
    assert served(["pipelines"]).labels == ("pipeline_run",)
    assert served(["connectors"]).labels == ("connector_index",)
    assert served(["scheduler"]).labels == both
    assert served(["harvest"]).labels == ()
    assert served(["scheduler", " harvest ", "scheduler"]).names == ("harvest", "scheduler")
    assert not served(["scheduler"]).crawls
    for wrong in (["scheduler", "cook"], ["cook"], []):
        with pytest.raises(InvalidInput):
            served(wrong)


def test_the_help_of_run_names_every_role() -> None:
    [roles] = [option for option in run_command.params if option.name == "roles"]
    named = {*ROLES, *ACTOR_ROLES}
    assert named <= set(re.findall(r"\w+", getattr(roles, "help", "")))


@pytest.mark.parametrize(
    ("roles", "environ", "said"),
    [
        (["api"], {}, "role api runs here without role pipelines"),
        (["pipelines", "scheduler"], {"BLOB_LOCAL_ROOT": "/srv/r"}, "keeps results in /srv/r of this machine"),
        (["api", "pipelines"], {}, None),
        (["api"], {"BLOB_BACKEND": "s3"}, None),
        (["harvest", "connectors", "scheduler"], {}, None),
    ],
)
def test_results_in_a_folder_of_one_machine_are_warned_of_where_roles_are_split(
    roles: list[str], environ: dict[str, str], said: str | None
) -> None:
    hint = served(roles).split_hint(read(**environ).blobs)
    assert (hint is None) if said is None else (said in (hint or "") and "BLOB_BACKEND=s3" in (hint or ""))


def test_who_stores_results_deletes_them() -> None:
    assert served(["pipelines"]).keeps_results
    assert not any(served([role]).keeps_results for role in ("api", "scheduler", "connectors", "harvest"))


def test_a_run_has_time_to_end_itself_before_its_job_is_cut() -> None:
    settings = read(PIPELINE_RUN_TIMEOUT_SECS="100", PIPELINE_CONCURRENCY="7")
    assert held_for_s(settings, JobType.PIPELINE_RUN) > 100
    assert held_for_s(settings, JobType.CONNECTOR_INDEX) == 100
    assert [role.slots for role in slots_of(settings, served(["pipelines", "connectors"]).services)] == [7, 7]


@pytest.mark.parametrize(
    ("role", "needs"), [("api", True), ("connectors", True), ("pipelines", True), ("scheduler", False)]
)
def test_a_role_whose_libraries_are_not_installed_is_refused_with_the_way_to_get_them(
    role: str, needs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "find_spec", lambda name: None if name == "obstore" else object())
    if not needs:
        assert served([role]).names == (role,)
        return
    with pytest.raises(InvalidInput, match=r"install regelrecht-supervisor\[pipelines\]"):
        served([role])
