"""What the image brings for enrichment: the pinned CLIs, opencode's configuration, and the start before the start."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from actors.ports import agentconfig

ROOT = Path(__file__).parents[3]
IMAGE = ROOT / "deploy" / "image"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
CLAUDE = "@anthropic-ai/claude-code-linux-x64"


def lock(folder: str) -> dict[str, Any]:
    """The packages of an npm lock, without the entry of the folder itself."""
    packages: dict[str, Any] = json.loads((IMAGE / folder / "package-lock.json").read_text(encoding="utf-8"))[
        "packages"
    ]
    return {name.removeprefix("node_modules/"): facts for name, facts in packages.items() if name}


@pytest.mark.claim("S0-135", "S0-136")
def test_the_image_has_the_very_clis_that_are_tested_by_hash_and_without_install_scripts() -> None:
    pins = json.loads((ROOT / "tests" / "agents" / "pins.json").read_text(encoding="utf-8")).values()
    assert {(pin["package"], pin["version"], f"sha512-{pin['sha512']}") for pin in pins} == {
        (name, facts["version"], facts["integrity"]) for name, facts in lock("agents").items()
    }
    assert lock("agents")[CLAUDE]["version"] == "2.1.303"
    installs = re.findall(r"npm ci .*", DOCKERFILE)
    assert len(installs) == 2
    assert all("--ignore-scripts" in line for line in installs)
    for pin in pins:
        binary = f"/opt/agents/node_modules/{pin['package']}/{pin['file'].removeprefix('package/')}"
        assert re.search(rf"ln -s {re.escape(binary)} /usr/local/bin/\w+", DOCKERFILE), binary


def test_every_package_of_the_image_is_pinned_by_hash_and_names_no_place_to_fetch_it_from() -> None:
    for folder in ("agents", "opencode-plugins"):
        assert all(facts["integrity"].startswith("sha512-") for facts in lock(folder).values())
        assert "://" not in (IMAGE / folder / "package-lock.json").read_text(encoding="utf-8")
    assert lock("opencode-plugins")[agentconfig.PLUGIN]["version"] == "2.0.35"


@pytest.mark.claim("S0-108")
def test_the_configuration_of_the_image_names_the_model_and_its_output_limit() -> None:
    setup = agentconfig.load_opencode({"VLAM_API_URL": "https://vlam.example"}, baked=IMAGE / "opencode.json")
    assert setup is not None
    assert (setup.model, setup.warnings) == ("vlam/kimi-k3-prepaid", ())
    assert agentconfig.output_limit(setup) == 32000
    assert f"COPY deploy/image/opencode.json {agentconfig.BAKED_FILE}\n" in DOCKERFILE
    assert str(agentconfig.PLUGIN_FOLDER) in DOCKERFILE


def started(folder: Path, *arguments: str, check_fails: bool = False) -> list[str]:
    """The calls of ``regelrecht-supervisor`` that the entry point makes, in order."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "regelrecht-supervisor"
    failing = 'if [ "$1" = vlam-check ]; then exit 1; fi' if check_fails else ""
    program.write_text(f'#!/bin/sh\necho "$*" >> "{folder}/calls"\n{failing}\n')
    program.chmod(0o755)
    environ = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder / "tmp" / "home"),
        "REGULATION_REPO_PATH": str(folder / "tmp" / "laws"),
    }
    subprocess.run([IMAGE / "entrypoint.sh", *arguments], env=environ, check=True, timeout=20)
    assert (folder / "tmp" / "home").is_dir()
    assert (folder / "tmp" / "laws").is_dir()
    return (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_service_is_asked_before_an_enriching_supervisor_starts_whatever_it_says(
    tmp_path: Path, fails: bool
) -> None:
    calls = started(tmp_path, "run", "--roles", "harvest,enrich", check_fails=fails)
    assert calls == ["vlam-check", "run --roles harvest,enrich"]


@pytest.mark.parametrize(
    "arguments", [("run", "--roles", "harvest"), ("enrich", "BWBR0018451", "--provider", "claude")]
)
def test_nothing_is_asked_before_anything_else(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert started(tmp_path, *arguments) == [" ".join(arguments)]


def test_the_commit_of_the_code_can_be_built_in() -> None:
    assert re.search(r'^ARG CODE_COMMIT=""$', DOCKERFILE, re.MULTILINE)
    assert "CODE_COMMIT=$CODE_COMMIT" in DOCKERFILE
