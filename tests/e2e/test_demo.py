"""``make demo``: what a newcomer sees first must work, from an empty folder, and end by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.kit import cli

LIMIT_S = 120


def play(output: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "supervisor.demo", "--output", str(output)],
        env=cli.clean_environ(**settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.claim("S1-014", "S0-001", "S0-004", "S0-028", "S1-001")
def test_the_demo_harvests_a_law_and_those_it_refers_to_into_a_git_corpus_and_drains(tmp_path: Path) -> None:
    output = tmp_path / "out"
    # Settings of the user's shell must not leak into it: it has a database and a corpus of its own.
    done = play(output, DATABASE_URL="postgresql://nobody@127.0.0.1:9/x", CORPUS_REPO_URL="https://127.0.0.1:9/x.git")
    assert done.returncode == 0, done.stdout + done.stderr
    files = {str(path.relative_to(output / "corpus")) for path in (output / "corpus").rglob("20*.yaml")}
    assert files == {
        "regulation/nl/amvb/besluit_fietstoeslag/2024-01-01.yaml",
        "regulation/nl/ministeriele_regeling/regeling_bedragen_fietstoeslag/2025-01-01.yaml",
        "regulation/nl/wet/algemene_wet_fietsgebruik/2022-07-01.yaml",
        "regulation/nl/wet/wet_fietspaden/2025-07-01.yaml",
        "regulation/nl/wet/wet_op_de_fietstoeslag/2024-01-01.yaml",
    }
    for name in files:
        law = yaml.safe_load((output / "corpus" / name).read_text(encoding="utf-8"))
        assert law["articles"]
        assert name in done.stdout
    for words in ("not_harvestable", "no text: withdrawn", "Wet op de fietstoeslag"):
        assert words in done.stdout
    assert "draining" in done.stderr
    assert "text lost in conversion" not in done.stderr


def test_the_demo_never_removes_a_folder_that_it_did_not_make(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    done = play(tmp_path)
    assert done.returncode == 1
    assert "was not made by the demo" in done.stderr
    assert precious.read_text() == "mine"
