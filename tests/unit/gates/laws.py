"""Small laws for the gates: entries with a text and a model, put into a law that is right in everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from protocols.gates.findings import Finding
from protocols.gates.reading import LawReading, Surroundings, Unreadable
from protocols.lawtree import Tree

FIXTURE = Path(__file__).parents[2] / "fixtures" / "gates" / "stallingwet.yaml"


def schema_url(version: str = "v0.5.6") -> str:
    return (
        f"https://raw.githubusercontent.com/MinBZK/regelrecht/refs/tags/schema-{version}/schema/{version}/schema.json"
    )


def entry(number: str, text: str = "Tekst.", model: Any = ..., **more: Any) -> Tree:
    """An entry; without ``model`` it has no section."""
    made: Tree = {"number": number, "text": text, "url": f"https://example.org/w#{number}", **more}
    if model is not ...:
        made["machine_readable"] = model
    return made


def computing(output: str, value: Any, **execution: Any) -> Tree:
    """A model with one action that gives ``output``."""
    return {
        "execution": {
            **execution,
            "output": [{"name": output, "type": "number"}],
            "actions": [{"output": output, "value": value}],
        }
    }


def law(*entries: Tree, version: str = "v0.5.6", **header: Any) -> Tree:
    return {
        "$schema": schema_url(version),
        "$id": "stepwet",
        "regulatory_layer": "WET",
        "publication_date": "2024-01-02",
        "valid_from": "2024-02-01",
        "bwb_id": "BWBR0099007",
        "url": "https://example.org/w",
        **header,
        "articles": list(entries),
    }


def source(tree: Tree) -> bytes:
    """The law as a file. PyYAML quotes what would be misread, so it loads as the same tree."""
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False, width=1000).encode()


class Corpus:
    """Other laws by id."""

    def __init__(self, *laws: Tree, broken: str | None = None) -> None:
        self.laws = {tree["$id"]: tree for tree in laws}
        self.broken = broken
        self.asked: list[tuple[str, str | None]] = []

    def law_by_id(self, law_id: str, not_after: str | None) -> Tree | Unreadable | None:
        self.asked.append((law_id, not_after))
        return Unreadable("line 3 is no YAML") if law_id == self.broken else self.laws.get(law_id)


Check = Callable[[LawReading], Iterable[Finding]]


def findings(check: Check, tree: Tree, **around: Any) -> list[Finding]:
    return list(check(LawReading(tree, Surroundings(**around))))


def fired(check: Check, *entries: Tree, header: Tree | None = None, **around: Any) -> list[tuple[str, str | None]]:
    """``(check, article)`` of everything that ``check`` says about a law of these entries."""
    return [(found.check, found.article) for found in findings(check, law(*entries, **(header or {})), **around)]
