"""The make targets, the layers and the test configuration are what the documentation says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WITHOUT_DATABASE = ("tests/unit", "tests/actors")
DATABASE_FIXTURES = re.compile(r"\b(database_url|empty_database_url|private_postgres|postgres_server)\b")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def targets() -> dict[str, str]:
    """Target to its line of help."""
    return dict(re.findall(r"^([a-z-]+):.*?## (.+)$", MAKEFILE, re.MULTILINE))


def test_make_alone_lists_every_target_with_a_line_of_help() -> None:
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^  make ([a-z-]+) ", done.stdout, re.MULTILINE)) == set(targets())
    phony = set(re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[0].split())
    assert set(targets()) == phony


def test_the_promised_targets_are_there() -> None:
    promised = (
        "install demo test test-unit test-integration check bench claims docs faults soak lock clean"  # and no fewer
    )
    assert set(promised.split()) <= set(targets())


@pytest.mark.claim("S1-015", "S1-064", "S1-066", "S0-163")
def test_one_command_runs_all_tests_and_one_starts_everything_here() -> None:
    assert re.search(r"^test: test-unit test-integration ", MAKEFILE, re.MULTILINE)
    recipe = MAKEFILE.split("\ntest-integration:")[1].split("\n\n")[0]
    assert "tests/integration" in recipe
    assert re.search(r"^demo: install ", MAKEFILE, re.MULTILINE)


@pytest.mark.claim("S1-065")
def test_unit_and_actor_tests_use_no_database() -> None:
    recipe = MAKEFILE.split("\ntest-unit:")[1].split("\n\n")[0]
    assert all(folder in recipe for folder in WITHOUT_DATABASE)
    users = [
        str(path.relative_to(ROOT))
        for folder in WITHOUT_DATABASE
        for path in (ROOT / folder).rglob("test_*.py")
        if path != Path(__file__) and DATABASE_FIXTURES.search(path.read_text(encoding="utf-8"))
    ]
    assert users == []


@pytest.mark.claim("C-011")
def test_async_tests_run_on_trio_and_warnings_are_errors() -> None:
    options = project()["tool"]["pytest"]["ini_options"]
    assert options["trio_mode"] is True
    assert options["filterwarnings"] == ["error"]
    assert {"--strict-markers", "--strict-config", "--import-mode=importlib"} <= set(options["addopts"])
    assert any(
        line.startswith("pytest-trio") for line in project()["dependency-groups"]["dev"] if isinstance(line, str)
    )


@pytest.mark.claim("S0-002", "C-021")
def test_the_layers_are_a_contract_that_make_check_runs() -> None:
    contracts = project()["tool"]["importlinter"]["contracts"]
    [layers] = [contract for contract in contracts if contract["type"] == "layers"]
    assert layers["layers"] == ["supervisor", "actors", "schema", "protocols"]
    assert "lint-imports" in MAKEFILE.split("\ncheck:")[1].split("\n\n")[0]


@pytest.mark.claim("C-003")
def test_an_import_upwards_or_of_a_driver_outside_the_ports_breaks_a_contract(tmp_path: Path) -> None:
    """The contracts are tried on a copy with one sin each: a contract that cannot fail holds nothing."""
    sins = {
        "protocols/sin.py": ("import actors.ports\n", "Layers"),
        "protocols/sin2.py": ("import trio\n", "protocols is pure"),
        "schema/sin.py": ("import asyncpg\n", "schema takes a connection"),
        "actors/sin.py": ("import subprocess\n", "Only actors.ports"),
        "actors/reaper.py": ("import actors.claimer\n", "Actors do not import each other"),
    }
    for package in ("supervisor", "actors", "schema", "protocols"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "samples"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, (line, _) in sins.items():
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write(line)
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    broken = set(re.findall(r"^(.+?) BROKEN", done.stdout, re.MULTILINE))
    assert all(any(contract.startswith(start) for contract in broken) for _, start in sins.values()), done.stdout


def test_a_mark_without_a_row_in_the_checklist_is_found(tmp_path: Path) -> None:
    from tests.kit.claims import checklist, claimed

    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        'import pytest\npytestmark = pytest.mark.claim("S9-001")\n'
        '@pytest.mark.claim("S0-001", "S0-002")\nasync def test_a(): ...\n'
    )
    marks = claimed(tmp_path / "tests")
    assert marks == {
        "S9-001": ["tests/test_x.py::*"],
        "S0-001": ["tests/test_x.py::test_a"],
        "S0-002": ["tests/test_x.py::test_a"],
    }
    [row] = checklist("## S0: page\n### Part (1-2)\n| id | claim |\n|---|---|\n| S0-001 | a claim | D1 | 01 | unit |\n")
    assert (row.id, row.area, row.issue, row.needs_a_test) == ("S0-001", "S0: page / Part (1-2)", "01", True)
