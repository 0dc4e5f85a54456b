"""What benchmarks are made of: material that is always the same, honest ratios, and sides that do not mix."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.biglaw import big_law
from benchmarks.bigstream import big_stream
from benchmarks.contest import ContestantFailed, contestant, figures
from benchmarks.report import Row, alternate, median_ratio, table
from protocols.bwb.loss import loss_report
from protocols.bwb.toestand import convert_alone
from protocols.lawyaml import dump_law, load_law
from tests.kit import agentstreams

ROOT = Path(__file__).parents[3]


def test_the_invented_law_is_of_the_size_asked_for_always_the_same_and_loses_no_word() -> None:
    law = big_law(200_000)
    assert 200_000 <= len(law) < 400_000
    assert big_law(200_000) == law
    converted = convert_alone(law)
    assert len(converted.law.articles) > 20
    assert loss_report(law, load_law(dump_law(converted.law).encode())).lost == ()


def test_the_invented_stream_is_read_without_a_bad_line() -> None:
    stream = big_stream(200_000)
    assert big_stream(200_000) == stream
    read = agentstreams.read("claude", stream)
    assert (read.stream.bad_lines, read.stream.counts.unknown) == (0, 0)
    assert read.view.tool_calls > 0
    assert all(json.loads(line) for line in stream.splitlines())


def test_rounds_alternate_and_the_first_of_both_is_not_counted() -> None:
    order: list[str] = []

    def side(name: str, values: list[float]) -> float:
        order.append(name)
        return values.pop(0)

    ours, peer = [100.0, 1, 2, 4], [100.0, 2, 2, 2]
    pairs = alternate(lambda: side("ours", ours), lambda: side("peer", peer), rounds=3)
    assert order == ["ours", "peer", "ours", "peer", "peer", "ours", "ours", "peer"]
    assert pairs == [(1, 2), (2, 2), (4, 2)]
    assert median_ratio(pairs) == 1


def test_an_aim_that_was_missed_is_told() -> None:
    lines = table([Row("a", "1", "2", 0.5, 1, at_least=True), Row("b", "1", "2", 0.5, 1, at_least=False)]).splitlines()
    assert lines[1].endswith(">= 1x MISSED")
    assert lines[2].endswith("<= 1x met")


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "contestants").glob("*.py")), ids=lambda path: path.stem)
def test_no_contestant_imports_our_port_and_a_peer_in_one_process(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_import = {
        name.split(".")[0]
        for node in tree.body
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not ({"actors", "supervisor", "trio"} & at_import and {"asyncpg", "procrastinate", "pgqueuer"} & at_import)


def test_the_side_on_bare_asyncpg_loads_no_bridge() -> None:
    code = "import sys, benchmarks.contestants.claim, asyncpg; print('trio_asyncio' in sys.modules or 'trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"


def test_a_contestant_that_fails_is_told_with_its_words() -> None:
    with pytest.raises(ContestantFailed, match="IndexError"):
        figures("conversion")
    with pytest.raises(ContestantFailed), contestant("conversion") as ask:
        ask("anything")
