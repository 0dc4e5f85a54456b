"""What is missing on this machine is met at the start, not by every job."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocols.failures import InvalidInput
from supervisor import settings
from supervisor.app import run_supervisor
from supervisor.roles import served
from supervisor.startchecks import refuse_what_cannot_work
from tests.kit import cli

URL = "postgresql://worker@db.example/regelrecht"


def _read(**more: str) -> settings.Settings:
    return settings.load({"DATABASE_URL": URL, **more})


@pytest.mark.parametrize("roles", [["harvest"], ["enrich"], ["scheduler", "harvest"]])
def test_a_corpus_without_git_is_refused_before_anything_is_started(
    roles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match="no git on the PATH"):
        run_supervisor(_read(CORPUS_REPO_URL="https://git.example/corpus"), roles)


def test_git_is_asked_only_of_those_who_write_laws_into_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refuse_what_cannot_work(_read(), served(["harvest"]))
    refuse_what_cannot_work(_read(CORPUS_REPO_URL="https://git.example/corpus"), served(["scheduler"]))


def test_the_command_says_so_with_the_exit_code_of_a_wrong_setting(tmp_path: Path) -> None:
    environ = {"DATABASE_URL": URL, "CORPUS_REPO_URL": "https://git.example/corpus", "PATH": str(tmp_path)}
    done = cli.run("run", "--roles", "harvest", **environ)
    assert (done.code, done.err) == (
        2,
        "Error: CORPUS_REPO_URL is set, and there is no git on the PATH: install git, or unset CORPUS_REPO_URL\n",
    )
