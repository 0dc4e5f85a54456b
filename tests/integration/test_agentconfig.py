"""opencode's configuration and key in the home of a call (D48, D50; `enrich.md` 12)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from actors.ports.agentconfig import OpencodeSetup, load_opencode, output_limit
from protocols.dialects import DIALECTS
from protocols.failures import InvalidInput

BAKED: dict[str, Any] = {
    "$schema": "https://opencode.ai/config.json",
    "provider": {
        "vlam": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "VLAM",
            "options": {"timeout": 60000},
            "models": {"kimi-k3-prepaid": {"name": "Kimi K3", "limit": {"context": 131072, "output": 32000}}},
        }
    },
    "mcp": {"server": {"type": "local", "command": ["x"]}},
    "plugin": ["evil"],
}
ENVIRON = {"VLAM_API_URL": "http://127.0.0.1:9/base/", "VLAM_API_KEY": "canary-vlam-key"}


@pytest.fixture
def baked(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.json"
    path.write_text(json.dumps(BAKED))
    return path


def load(baked: Path, **environ: str) -> OpencodeSetup:
    setup = load_opencode({**ENVIRON, **environ}, baked=baked, plugins=baked.parent / "plugins")
    assert setup is not None
    return setup


@pytest.mark.claim("S0-113")
def test_without_the_image_s_file_nothing_is_configured(tmp_path: Path) -> None:
    assert load_opencode(ENVIRON, baked=tmp_path / "none") is None


@pytest.mark.claim("S0-110", "S0-145")
def test_the_endpoint_and_the_model_come_out_of_file_and_environment(baked: Path, tmp_path: Path) -> None:
    setup = load(baked)
    home = tmp_path / "home"
    setup.write(home)
    written = json.loads((home / ".config/opencode/opencode.json").read_text())
    options = written["provider"]["vlam"]["options"]
    assert options == {"timeout": 60000, "baseURL": "http://127.0.0.1:9/base/v1"}
    assert setup.model == written["model"] == written["small_model"] == "vlam/kimi-k3-prepaid"
    assert output_limit(setup) == 32_000
    assert setup.warnings == ()


@pytest.mark.claim("S0-112")
def test_the_key_is_in_a_file_that_was_private_from_its_first_moment_on(
    baked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, int] = {}
    real_open = os.open

    def spy(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        opened[os.path.basename(str(path))] = mode
        return real_open(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", spy)
    home = tmp_path / "home"
    load(baked).write(home)
    auth = home / ".local/share/opencode/auth.json"
    assert json.loads(auth.read_text()) == {"vlam": {"type": "api", "key": "canary-vlam-key"}}
    assert stat.S_IMODE(auth.stat().st_mode) == opened["auth.json"] == 0o600
    assert stat.S_IMODE(auth.parent.stat().st_mode) == 0o700


def test_nothing_asks_and_only_files_may_be_touched(baked: Path) -> None:
    # OC-05, D50
    permission = load(baked).document["permission"]
    assert '"ask"' not in json.dumps(load(baked).document)
    assert next(iter(permission)) == "*"  # the last rule that fits wins, so the general one comes first
    assert {name for name, answer in permission.items() if answer == "allow"} == {
        "read",
        "edit",
        "write",
        "grep",
        "glob",
    }
    assert {name for name, answer in permission.items() if answer == "allow"} == {
        tool.lower() for tool in DIALECTS["opencode"].granted_tools
    }
    for name in ("bash", "webfetch", "task", "skill", "external_directory", "doom_loop"):
        assert permission[name] == "deny"


def test_plugins_and_servers_of_the_file_are_left_out_and_nothing_is_fetched_or_shared(baked: Path) -> None:
    document = load(baked).document
    assert "mcp" not in document
    assert "plugin" not in document
    assert (document["autoupdate"], document["share"]) == (False, "disabled")
    assert document["enabled_providers"] == ["vlam"]


@pytest.mark.claim("S0-111")
def test_a_missing_address_is_a_warning_and_no_demo_endpoint(baked: Path) -> None:
    setup = load(baked, VLAM_API_URL="")
    assert any("VLAM_API_URL" in warning for warning in setup.warnings)
    assert "baseURL" not in setup.document["provider"]["vlam"]["options"]


@pytest.mark.claim("S0-109")
def test_the_older_name_of_the_address_is_taken_with_a_warning(baked: Path) -> None:
    environ = {"VLAM_BASE_URL": "http://127.0.0.1:9/v1/", "VLAM_API_KEY": "k"}
    setup = load_opencode(environ, baked=baked, plugins=baked.parent / "none")
    assert setup is not None
    assert setup.document["provider"]["vlam"]["options"]["baseURL"] == "http://127.0.0.1:9/v1"
    assert any("VLAM_BASE_URL" in warning for warning in setup.warnings)


@pytest.mark.claim("S0-121")
def test_an_output_limit_that_opencode_cuts_silently_is_warned_about(baked: Path) -> None:
    # OC-08
    document = json.loads(json.dumps(BAKED))
    document["provider"]["vlam"]["models"]["kimi-k3-prepaid"]["limit"]["output"] = 64_000
    baked.write_text(json.dumps(document))
    assert any("32000" in warning for warning in load(baked).warnings)
    assert load(baked, OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX="64000").warnings == ()


def test_two_models_name_none(baked: Path) -> None:
    document = json.loads(json.dumps(BAKED))
    document["provider"]["vlam"]["models"]["other"] = {}
    baked.write_text(json.dumps(document))
    assert load(baked).model is None


def test_plugins_of_the_image_are_linked_and_readable(baked: Path, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    setup = load(baked)
    home = tmp_path / "home"
    setup.write(home)
    assert (home / ".config/opencode/node_modules").resolve() == tmp_path / "plugins"
    assert setup.readable == (tmp_path / "plugins",)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"provider": {"vlam": []}}'])
def test_a_broken_file_of_the_image_is_named(baked: Path, text: str) -> None:
    baked.write_text(text)
    with pytest.raises(InvalidInput, match=r"opencode\.json"):
        load(baked)


def test_no_key_shows_in_a_representation(baked: Path) -> None:
    assert "canary" not in repr(load(baked))


@pytest.mark.parametrize("name", ["VLAM_API_URL", "VLAM_BASE_URL"])
def test_an_address_of_vlam_with_a_password_is_refused_without_showing_it(baked: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="VLAM_API_KEY") as refused:
        load(baked, **{"VLAM_API_URL": "", name: "https://worker:hunter2-pw@vlam.example/v1"})
    assert "hunter2" not in str(refused.value)
