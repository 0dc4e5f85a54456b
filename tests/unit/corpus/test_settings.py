"""The branch of the corpus, and settings that cannot be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocols.corpus import CorpusSettings, is_branch_name, resolve_branch
from protocols.failures import InvalidInput

BRANCHES = {
    "nothing is set": ({}, "development"),
    "the configured branch": ({"CORPUS_BRANCH": "laws"}, "laws"),
    "an empty branch is none": ({"CORPUS_BRANCH": "", "DEPLOYMENT_NAME": "pr7"}, "pr7"),
    "a deployment names the branch": ({"DEPLOYMENT_NAME": "pr7"}, "pr7"),
    "an empty deployment is none": ({"DEPLOYMENT_NAME": ""}, "development"),
    "production has no branch of its own": ({"DEPLOYMENT_NAME": "regelrecht"}, "development"),
    "the configured branch before the deployment": ({"CORPUS_BRANCH": "laws", "DEPLOYMENT_NAME": "pr7"}, "laws"),
    "the pod of a preview before all": (
        {"HOSTNAME": "pr12-harvester-5d8f7-x2x", "CORPUS_BRANCH": "laws", "DEPLOYMENT_NAME": "pr7"},
        "pr12",
    ),
    "the pod of a preview alone": ({"HOSTNAME": "pr12-harvester-5d8f7-x2x"}, "pr12"),
    "a production pod": ({"HOSTNAME": "regelrecht-harvester-5d8f7-x2x", "CORPUS_BRANCH": "laws"}, "laws"),
    "a production pod without a branch": ({"HOSTNAME": "regelrecht-harvester-5d8f7-x2x"}, "development"),
    "a host with few dashes is no pod": ({"HOSTNAME": "pr12-harvester-x2x", "CORPUS_BRANCH": "laws"}, "laws"),
    "a host with another first word": ({"HOSTNAME": "my-own-laptop-at-home", "DEPLOYMENT_NAME": "pr7"}, "pr7"),
    "pr without digits": ({"HOSTNAME": "pr-harvester-5d8f7-x2x"}, "development"),
    "pr with letters": ({"HOSTNAME": "pr12a-harvester-5d8f7-x2x"}, "development"),
}


@pytest.mark.parametrize(("environ", "branch"), BRANCHES.values(), ids=BRANCHES)
def test_the_branch_is_resolved_in_order(environ: dict[str, str], branch: str) -> None:
    assert resolve_branch(environ) == branch


@pytest.mark.parametrize("name", ["development", "enrich/claude", "pr12", "a.b_c-d"])
def test_ordinary_branch_names_are_fine(name: str) -> None:
    assert is_branch_name(name)


@pytest.mark.parametrize(
    "name", ["", "-x", "a b", "a..b", "a//b", "/a", "a/", ".a", "a.lock", "a/.b", "a.", "a~1", "a:b", "a\nb", "x" * 201]
)
def test_names_that_git_refuses_or_could_misread_are_refused(name: str) -> None:
    assert not is_branch_name(name)


def test_all_faults_are_told_at_once_and_without_the_secret() -> None:
    with pytest.raises(InvalidInput) as caught:
        CorpusSettings(
            repo_url="https://me:hush@example.org/corpus.git",
            path=Path("relative"),
            branch="a b",
            author_name="x <y>",
            author_email="a\nb",
            token="to ken",
        )
    faults = " ".join(caught.value.details["faults"])
    for name in (
        "CORPUS_REPO_URL",
        "CORPUS_REPO_PATH",
        "CORPUS_BRANCH",
        "AUTHOR_NAME",
        "AUTHOR_EMAIL",
        "CORPUS_GIT_TOKEN",
    ):
        assert name in faults
    assert "hush" not in str(caught.value)
    assert "to ken" not in str(caught.value)


@pytest.mark.parametrize("url", ["--upload-pack=touch /tmp/x", "ext::sh -c true", "a b", "x\0y"])
def test_addresses_that_git_would_run_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="CORPUS_REPO_URL"):
        CorpusSettings(repo_url=url)


@pytest.mark.parametrize(
    "url",
    ["https://example.org/c.git", "git@example.org:laws/c.git", "ssh://git@example.org/c", "/srv/c.git", "file:///c"],
)
def test_ordinary_addresses_are_taken(url: str) -> None:
    assert CorpusSettings(repo_url=url).repo_url == url


def test_the_token_never_shows() -> None:
    assert "hush" not in repr(CorpusSettings(repo_url="https://example.org/c.git", token="hush-hush"))
