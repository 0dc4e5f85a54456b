"""Which claims of the checklist have a test (D74): ``python -m tests.kit.claims`` or ``make claims``.

A test says ``@pytest.mark.claim("S0-042")``. The marks are read from the source, so nothing is imported or run. Where
the checklist itself is at hand, claims without a test are listed by area; without it, only the ids that tests name.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from attrs import frozen

from tests.kit import shared

TESTS = Path(__file__).parents[1]
ID = re.compile(r"[A-Z][0-9]?-[0-9]{3}")


@frozen
class Claim:
    """A row of the checklist. ``issue`` is the part of the product that builds it, ``shown_by`` the kind of test."""

    id: str
    area: str
    text: str
    issue: str
    shown_by: str

    @property
    def needs_a_test(self) -> bool:
        """False for rows that only have meaning elsewhere (shown by nothing)."""
        return self.shown_by.strip() not in {"-", "n/a", ""}


def claimed(folder: Path = TESTS) -> Mapping[str, list[str]]:
    """Claim id to the tests that bear it, as ``path::name``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for name, ids in _marks(tree):
            for id_ in ids:
                found[id_].append(f"{path.relative_to(folder.parent)}::{name}")
    return found


def _marks(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                yield node.name, _ids(decorator)
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets
        ):
            yield "*", _ids(node.value)


def _ids(node: ast.expr) -> list[str]:
    """The string arguments of every ``….claim(…)`` call inside ``node``."""
    return [
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "claim"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def checklist(text: str) -> list[Claim]:
    """The rows of the checklist: tables of id, claim, refined by, issue, shown by, under headings that name areas."""
    rows, section, area = [], "", ""
    for line in text.splitlines():
        if line.startswith("## "):
            section, area = line.removeprefix("## "), ""
        elif line.startswith("### "):
            area = line.removeprefix("### ")
        elif line.startswith("| "):
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if len(cells) >= 5 and ID.fullmatch(cells[0]):
                rows.append(Claim(cells[0], f"{section} / {area}", cells[1], cells[-2], cells[-1]))
    return rows


@click.command(help=__doc__.split("\n\n")[0] if __doc__ else None)
@click.option("--issue", help="Only rows that this part builds, such as 01.")
@click.option("--missing/--no-missing", default=True, help="List the rows without a test.")
@click.option("--strict", is_flag=True, help="Exit 1 when a test names an id that the checklist does not have.")
def main(issue: str | None, missing: bool, strict: bool) -> None:
    tests = claimed()
    text = shared.text("spec/claims.md")
    if text is None:
        click.echo(f"The checklist is not here; {len(tests)} claims are named by tests:")
        for id_, names in sorted(tests.items()):
            click.echo(f"  {id_}  {', '.join(names)}")
        return
    rows = [row for row in checklist(text) if issue is None or issue in re.split(r"[ ,]+", row.issue)]
    by_area: dict[str, list[Claim]] = defaultdict(list)
    for row in rows:
        by_area[row.area].append(row)
    for area, claims in by_area.items():
        due = [claim for claim in claims if claim.needs_a_test]
        shown = [claim for claim in due if claim.id in tests]
        click.echo(f"{len(shown):4} of {len(due):3}  {area}")
        for claim in due if missing else []:
            if claim.id not in tests:
                click.echo(f"              {claim.id}  [{claim.issue}] {claim.text[:110]}")
    due = [row for row in rows if row.needs_a_test]
    click.echo(f"{sum(row.id in tests for row in due):4} of {len(due):3}  in all")
    unknown = sorted(set(tests) - {row.id for row in checklist(text)})
    if unknown:
        click.echo(
            "Not in the checklist: " + ", ".join(f"{id_} ({', '.join(tests[id_])})" for id_ in unknown), err=True
        )
        sys.exit(1 if strict else 0)


if __name__ == "__main__":
    main()
