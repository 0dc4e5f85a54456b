"""Settings: strict, complete, all faults at once, no secret in any text."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor import settings
from supervisor.drain import DrainRule
from supervisor.settings import areas, pages, ports
from supervisor.settings.reader import specs

URL = "postgresql://worker:s3cr3t-pw@db.example/regelrecht"
ROOT = Path(__file__).parents[3]


def faults(environ: dict[str, str], **kwargs: bool) -> list[str]:
    with pytest.raises(settings.SettingsFault) as caught:
        settings.load(environ, **kwargs)
    return caught.value.faults


def test_the_defaults_are_the_documented_ones() -> None:
    read = settings.load({"DATABASE_URL": URL})
    assert read.database.max_connections == 5
    assert (read.worker.heartbeat_interval_s, read.worker.orphan_timeout_s, read.worker.reap_interval_s) == (
        30,
        300,
        60,
    )
    assert (read.worker.poll_interval_s, read.worker.max_poll_interval_s, read.worker.job_timeout_s) == (5, 60, 1200)
    assert (read.roles.harvest_concurrency, read.roles.enrich_concurrency) == (4, 1)
    assert (read.worker.exhausted_threshold, read.worker.max_resource_failures) == (10, 5)
    assert read.drain.drain_s == 25
    assert read.health.port is None
    assert read.corpus.output_base == "regulation/nl"
    assert read.retention.jobs_days == 0
    assert read.warnings == ()


@pytest.mark.claim("S0-033")
def test_auto_enrichment_is_off_unless_switched_on() -> None:
    assert settings.load({"DATABASE_URL": URL}).enrich.auto_enqueue is False
    for word in ("1", "true", "YES", " on "):
        assert settings.load({"DATABASE_URL": URL, "ENRICH_AUTO_ENQUEUE": word}).enrich.auto_enqueue is True


@pytest.mark.claim("S1-057", "S1-067")
def test_a_database_must_be_named_and_both_ways_are_told() -> None:
    [line] = faults({})
    assert "DATABASE_URL" in line
    assert "--embedded" in line
    assert settings.load({}, embedded=True).database.url is None
    assert settings.load({"SUPERVISOR_EMBEDDED": "1"}).embedded.enabled
    assert settings.load({"DATABASE_SERVER_FULL": URL}).database.url == URL
    assert settings.load({"DATABASE_URL": URL, "DATABASE_SERVER_FULL": "postgres://other/x"}).database.url == URL


def test_two_databases_at_once_are_refused_but_the_flag_on_the_command_line_wins() -> None:
    [line] = faults({"DATABASE_URL": URL, "SUPERVISOR_EMBEDDED": "1"})
    assert "which database is meant" in line
    assert settings.load({"DATABASE_URL": URL}, embedded=True).database.url == URL


@pytest.mark.claim("S1-068")
@pytest.mark.parametrize(("pooler", "least"), [("none", 4), ("transaction", 3)])
def test_too_few_connections_are_refused_with_the_least_number(pooler: str, least: int) -> None:
    environ = {"DATABASE_URL": URL, "DATABASE_DIRECT_URL": URL, "DATABASE_POOLER": pooler}
    [line] = faults({**environ, "DATABASE_MAX_CONNECTIONS": str(least - 1)})
    assert f"the least is {least}" in line
    read = settings.load({**environ, "DATABASE_MAX_CONNECTIONS": str(least)})
    assert read.database.max_connections == least


def test_a_pooler_needs_a_way_round_it_for_migrations() -> None:
    [line] = faults({"DATABASE_URL": URL, "DATABASE_POOLER": "transaction"})
    assert "DATABASE_DIRECT_URL" in line


# QH-03
def test_fewer_than_three_beats_in_the_orphan_timeout_are_refused_naming_both_settings() -> None:
    beat = {"DATABASE_URL": URL, "WORKER_HEARTBEAT_INTERVAL_SECS": "100"}
    assert settings.load({**beat, "WORKER_ORPHAN_TIMEOUT_SECS": "300"}).worker.heartbeat_interval_s == 100
    [line] = faults({**beat, "WORKER_ORPHAN_TIMEOUT_SECS": "299.9"})
    assert "WORKER_HEARTBEAT_INTERVAL_SECS=100" in line
    assert "WORKER_ORPHAN_TIMEOUT_SECS=299.9" in line


# SD-02
def test_a_drain_that_does_not_fit_into_the_grace_period_of_the_platform_is_refused() -> None:
    grace = {"DATABASE_URL": URL, "SUPERVISOR_DRAIN_SECS": "25"}
    assert settings.load(grace).drain.grace_period_s is None
    assert settings.load({**grace, "SUPERVISOR_GRACE_PERIOD_SECS": "45"}).drain.grace_period_s == 45
    [line] = faults({**grace, "SUPERVISOR_GRACE_PERIOD_SECS": "35"})
    assert "SUPERVISOR_DRAIN_SECS=25 and SUPERVISOR_GRACE_PERIOD_SECS=35" in line
    assert "35 s, which must be less" in line
    assert DrainRule().after_drain_s == settings.AFTER_DRAIN_S


@pytest.mark.parametrize("garbage", ["5 ", " 5", "1_000", "-1", "+5", "1.5", "٣", "five", "0x10", "99999999999"])
def test_whole_numbers_are_strict(garbage: str) -> None:
    [line] = faults({"DATABASE_URL": URL, "EXHAUSTED_THRESHOLD": garbage})
    assert line.startswith(f"EXHAUSTED_THRESHOLD={garbage!r}: ")


@pytest.mark.parametrize("garbage", ["nan", "inf", "1e3", "-1", "5s", ".5", "5.", "1,5"])
def test_durations_are_strict_and_finite(garbage: str) -> None:
    [line] = faults({"DATABASE_URL": URL, "WORKER_JOB_TIMEOUT_SECS": garbage})
    assert line.startswith("WORKER_JOB_TIMEOUT_SECS=")
    assert settings.load({"DATABASE_URL": URL, "WORKER_JOB_TIMEOUT_SECS": "1.5"}).worker.job_timeout_s == 1.5


def test_all_faults_are_told_together() -> None:
    lines = faults(
        {
            "WORKER_POLL_INTERVAL_SECS": "soon",
            "HEALTH_PORT": "65536",
            "LOG_FORMAT": "xml",
            "DATABASE_MAX_CONNECTIONS": "2",
            "REGULATION_OUTPUT_BASE": "../out",
            "BWB_REPOSITORY_URL": "ftp://x",
        }
    )
    for name in (
        "WORKER_POLL_INTERVAL_SECS",
        "HEALTH_PORT",
        "LOG_FORMAT",
        "DATABASE_MAX_CONNECTIONS",
        "REGULATION_OUTPUT_BASE",
        "BWB_REPOSITORY_URL",
        "DATABASE_URL",
    ):
        assert sum(line.startswith(name) for line in lines) == 1, name


# The budget fails closed: a value nobody can read must not become a run, and must not stop other work either.
def test_an_unreadable_hourly_limit_means_no_claude_run_and_is_warned_about() -> None:
    for garbage in ("-1", "four", "4 "):
        read = settings.load({"DATABASE_URL": URL, "ENRICH_HOURLY_LIMIT": garbage})
        assert read.enrich.hourly_limit == 0
        assert any("ENRICH_HOURLY_LIMIT" in line for line in read.warnings)
    assert settings.load({"DATABASE_URL": URL, "ENRICH_HOURLY_LIMIT": ""}).warnings == ()


def test_an_empty_value_counts_as_unset() -> None:
    read = settings.load({"DATABASE_URL": URL, "CORPUS_REPO_URL": "", "HEALTH_PORT": "", "WORKER_JOB_TIMEOUT_SECS": ""})
    assert (read.corpus.repo_url, read.health.port, read.worker.job_timeout_s) == (None, None, 1200)


def test_no_secret_shows_in_repr_or_faults() -> None:
    token = "ghp_planted-token"
    read = settings.load({"DATABASE_URL": URL, "CORPUS_GIT_TOKEN": token})
    assert read.corpus.git_token == token
    assert "s3cr3t-pw" not in repr(read)
    assert token not in repr(read)
    assert {token, "s3cr3t-pw", URL} <= set(read.secrets)
    lines = faults(
        {
            "DATABASE_URL": f"mysql://u:{token}@h/x",
            "DATABASE_DIRECT_URL": f"postgres://u:{token}@h:port/x",
            "CORPUS_GIT_TOKEN": f"{token} {token}",
            "CORPUS_REPO_URL": f"https://u:{token}@git.example/corpus",
            "BWB_REPOSITORY_URL": f"https://u:{token}@mirror.example",
        }
    )
    assert len(lines) == 5
    assert token not in "\n".join(lines)


def test_a_misspelt_name_is_answered_with_the_right_one_and_platform_names_are_left_alone() -> None:
    read = settings.load(
        {
            "DATABASE_URL": URL,
            "WORKER_JOB_TIMOUT_SECS": "1",
            "HARVEST_SOMETHING_ELSE": "1",
            "DATABASE_SERVICE_HOST": "10.0.0.1",
            "CORPUS_AUTH_MAIN_TOKEN": "x",
            "PATH": "/bin",
        }
    )
    assert read.warnings == (
        "HARVEST_SOMETHING_ELSE is not a setting of this version and does nothing",
        "WORKER_JOB_TIMOUT_SECS is not a setting; did you mean WORKER_JOB_TIMEOUT_SECS?",
    )


def test_the_level_of_a_rust_log_filter_is_understood() -> None:
    for raw, level in (("info,sqlx=warn", "info"), ("sqlx=debug,warn", "warning"), ("TRACE", "debug")):
        assert settings.load_area(areas.Logging, {"RUST_LOG": raw}).level == level
    with pytest.raises(settings.SettingsFault):
        settings.load_area(areas.Logging, {"SUPERVISOR_LOG": "sqlx=warn"})


def test_the_corpus_branch_comes_from_the_pod_then_the_setting_then_the_deployment() -> None:
    base = {"DATABASE_URL": URL, "CORPUS_REPO_URL": "https://git.example/corpus.git"}
    for environ, branch in (
        ({}, "development"),
        ({"DEPLOYMENT_NAME": "acceptance"}, "acceptance"),
        ({"DEPLOYMENT_NAME": "regelrecht"}, "development"),
        ({"CORPUS_BRANCH": "main", "DEPLOYMENT_NAME": "acceptance"}, "main"),
        ({"CORPUS_BRANCH": "main", "HOSTNAME": "pr12-harvester-5d8f-x2x"}, "pr12"),
    ):
        corpus = ports.corpus_settings(settings.load({**base, **environ}).corpus)
        assert corpus is not None
        assert corpus.branch == branch
    assert ports.corpus_settings(settings.load({"DATABASE_URL": URL}).corpus) is None


def test_every_word_is_kept_unless_an_older_style_is_asked_for() -> None:
    assert settings.load({"DATABASE_URL": URL}).sources.style == "full"
    assert settings.load({"DATABASE_URL": URL, "HARVEST_STYLE": "leaf"}).sources.style == "leaf"


def test_downloads_are_kept_below_the_cache_home_unless_another_folder_or_none_is_named(tmp_path: Path) -> None:
    def folder(**environ: str) -> Path | None:
        sources = settings.load({"DATABASE_URL": URL, "XDG_CACHE_HOME": str(tmp_path), **environ}).sources
        return ports.fetch_settings(sources).cache_folder

    assert folder() == tmp_path / "regelrecht-supervisor" / "downloads"
    assert (tmp_path / "regelrecht-supervisor" / "downloads").is_dir()
    assert folder(HARVEST_CACHE_DIR="/var/cache/laws") == Path("/var/cache/laws")
    assert folder(HARVEST_CACHE_DIR="off") is None


def test_a_cache_home_that_cannot_be_used_gives_way_to_a_private_folder_of_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    taken = tmp_path / "home"
    taken.write_text("a file where a folder should be")
    sources = settings.load({"DATABASE_URL": URL, "XDG_CACHE_HOME": str(taken)}).sources
    found = ports.fetch_settings(sources).cache_folder
    assert found is not None
    assert found.is_relative_to(tmp_path)
    assert found.stat().st_mode & 0o777 == 0o700
    found.parent.chmod(0o777)  # somebody else may have put files into it
    assert ports.fetch_settings(sources).cache_folder is None


def test_programs_and_user_of_the_embedded_server_can_be_named() -> None:
    named = {"SUPERVISOR_PG_BINDIR": "/opt/pg/bin", "SUPERVISOR_PG_USER": "law"}
    embedded = ports.embedded_settings(settings.load(named, embedded=True).embedded)
    assert (embedded.bindir, embedded.user) == (Path("/opt/pg/bin"), "law")
    plain = ports.embedded_settings(settings.load({}, embedded=True).embedded)
    assert (plain.bindir, plain.user) == (None, None)


def test_a_worker_of_the_existing_platform_gets_at_least_half_an_hour() -> None:
    read = settings.load({"DATABASE_URL": URL})
    assert read.worker.foreign_orphan_s == 1800
    assert settings.load({"DATABASE_URL": URL, "WORKER_JOB_TIMEOUT_SECS": "3900"}).worker.foreign_orphan_s == 4500
    assert settings.load({"DATABASE_URL": URL, "WORKER_FOREIGN_ORPHAN_SECS": "60"}).worker.foreign_orphan_s == 60


def test_names_are_unique_and_every_setting_explains_itself() -> None:
    names = [name for cls in settings.AREAS for _, spec in specs(cls) for name in (spec.name, *spec.fallbacks)]
    assert len(names) == len(set(names))
    for cls in settings.AREAS:
        assert cls.__doc__
        for _, spec in specs(cls):
            assert spec.help.endswith(".")


@pytest.mark.parametrize("name", sorted(pages.PAGES))
def test_the_generated_pages_are_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == pages.PAGES[name](), "run `make docs`"


@pytest.mark.claim("S1-069")
def test_the_example_environment_names_every_setting_and_is_itself_valid() -> None:
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    for cls in settings.AREAS:
        for _, spec in specs(cls):
            assert f"{spec.name}=" in text
    environ = dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))
    assert settings.load(environ).warnings == ()


ADDRESSES = sorted(
    spec.name
    for cls in settings.AREAS
    for _, spec in specs(cls)
    if spec.name.endswith(("_URL", "_ENDPOINT")) and not spec.name.startswith("DATABASE_")
)


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_address_takes_a_password_which_would_stand_in_logs(name: str) -> None:
    [line] = faults({"DATABASE_URL": URL, name: "https://worker:hunter2-pw@host.example/path"})
    assert name in line
    assert "hunter2" not in line


@pytest.mark.parametrize("name", ["BLOB_S3_ENDPOINT", "CLAUDE_BASE_URL", "VLAM_API_URL"])
@pytest.mark.parametrize(
    "address", ["host.example", "ftp://host.example", "https://", "http://host:port", "http://[::1"]
)
def test_the_address_of_a_service_says_how_it_is_spoken_to(name: str, address: str) -> None:
    [line] = faults({"DATABASE_URL": URL, name: address})
    assert name in line


def test_all_addresses_are_known_to_the_rule_about_passwords() -> None:
    assert {"BLOB_S3_ENDPOINT", "BWB_REPOSITORY_URL", "CLAUDE_BASE_URL", "CORPUS_REPO_URL", "VLAM_API_URL"} <= set(
        ADDRESSES
    )
