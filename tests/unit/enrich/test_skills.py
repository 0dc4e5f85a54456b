"""Our own skill texts: whatever they show an agent passes what it will be judged by (D58)."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from attrs import frozen

from actors.ports.skillfiles import read_skills, skills_folder
from protocols import prompts
from protocols.dialects import DIALECTS
from protocols.envelope import read_envelope
from protocols.gates.reading import Surroundings
from protocols.gates.table import CHECKS_GATE, GATES, MARKING_GATE, RECONCILE_GATE, SCHEMA_GATE, evaluate
from protocols.lawschema import operation_names, shipped
from protocols.lawtree import operations_in, references_in, strings_in, walk
from protocols.lawyaml import load_yaml
from protocols.prompts import Feedback, Paths, Translation, feedback_prompt, translate_prompt
from protocols.skillset import (
    NotConfigured,
    SkillSet,
    plan_steps,
    prompt_hash,
)

SKILLS = read_skills(skills_folder(None))
CLAUDE_S = DIALECTS["claude"].granted_tools
OPENCODE_S = DIALECTS["opencode"].granted_tools
HEADER = {
    "$schema": "https://raw.githubusercontent.com/MinBZK/regelrecht/refs/tags/schema-v0.5.6/schema/v0.5.6/schema.json",
    "$id": "wet_op_de_lantaarns",
    "regulatory_layer": "WET",
    "publication_date": "2026-01-01",
    "bwb_id": "BWBR0099901",
    "url": "https://example.org/BWBR0099901",
}


@frozen
class Example:
    """A fenced block. ``kind`` is the word after ``yaml``: law, articles, operation or envelope."""

    where: str
    kind: str
    text: str

    def law(self) -> dict[str, Any]:
        value = load_yaml(self.text)
        match self.kind:
            case "law":
                return dict(value)
            case "articles":
                return {**HEADER, "articles": value}
            case _:
                return {**HEADER, "articles": [_article_with(value)]}


def _article_with(operation: Any) -> dict[str, Any]:
    """An entry that gives every name of the operation as a parameter."""
    return {
        "number": "1",
        "text": "De uitkomst volgt uit de gegevens.",
        "url": "https://example.org/1",
        "machine_readable": {
            "execution": {
                "parameters": [
                    {"name": name, "type": "number", "required": True} for name in sorted(references_in(operation))
                ],
                "output": [{"name": "uitkomst", "type": "number"}],
                "actions": [{"output": "uitkomst", "value": operation}],
            }
        },
    }


def examples() -> list[Example]:
    found = []
    for path, content in SKILLS.files.items():
        text = content.decode()
        blocks = re.findall(r"^```yaml (\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        assert text.count("```") == 2 * len(blocks), f"{path}: a fence without a kind"
        found += [Example(f"{path}#{number}", kind, block) for number, (kind, block) in enumerate(blocks)]
    return found


LAWS = [example for example in examples() if example.kind != "envelope"]


@pytest.mark.claim("S0-098", "S0-099", "S0-100")
@pytest.mark.parametrize("example", LAWS, ids=lambda example: example.where)
@pytest.mark.parametrize("gate", [SCHEMA_GATE, CHECKS_GATE, MARKING_GATE, RECONCILE_GATE], ids=lambda gate: gate.name)
def test_every_example_passes_the_gates(example: Example, gate: Any) -> None:
    source = yaml.safe_dump(example.law(), allow_unicode=True, sort_keys=False).encode()
    skipped = frozenset(str(entry["number"]) for entry in example.law()["articles"] if "machine_readable" not in entry)

    reading = evaluate(gate, source, Surroundings(skipped=skipped))

    assert [str(finding) for finding in reading.answerable] == []


def test_every_operation_has_an_example_of_its_own() -> None:
    shown = {load_yaml(example.text)["operation"] for example in LAWS if example.kind == "operation"}

    assert shown == operation_names("v0.5.6")
    assert len(shown) == 25


def test_every_unit_has_an_example() -> None:
    units = {
        value["unit"]
        for example in LAWS
        for _, value in walk(example.law())
        if isinstance(value, dict) and isinstance(value.get("unit"), str)
    }

    schema_units = next(
        set(value["enum"])
        for _, value in walk(shipped()["v0.5.6"])
        if isinstance(value, dict) and "eurocent" in value.get("enum", [])
    )
    assert units == schema_units


def test_every_key_of_a_section_that_a_law_needs_is_shown() -> None:
    shown = {
        key for example in LAWS for entry in example.law()["articles"] for key in entry.get("machine_readable", {})
    }

    assert shown >= {
        "definitions",
        "execution",
        "open_terms",
        "implements",
        "overrides",
        "untranslatables",
        "competent_authority",
        "endpoint",
    }


def test_the_worked_law_uses_operations_gaps_open_terms_and_bindings_together() -> None:
    [worked] = [example for example in LAWS if example.where.startswith("law-generate/examples.md")]
    entries = worked.law()["articles"]

    assert len(list(operations_in(entries))) > 8
    assert {"open_terms", "untranslatables", "definitions"} <= {
        key for entry in entries for key in entry.get("machine_readable", {})
    }
    assert any(text.startswith("$") for text in strings_in(entries))


@pytest.mark.parametrize(
    "example", [example for example in examples() if example.kind == "envelope"], ids=lambda example: example.where
)
def test_every_example_of_a_report_is_read_whole(example: Example) -> None:
    envelope = read_envelope(example.text.encode())

    raw = load_yaml(example.text)
    assert len(envelope.related) == len(raw["related_legislation"])
    assert len(envelope.reported) == sum(len(part) for part in raw["chunk_report"].values())


@pytest.mark.parametrize("granted", [CLAUDE_S, OPENCODE_S], ids=["claude", "opencode"])
def test_every_tool_that_skills_and_prompts_name_is_granted_by_each_provider(granted: tuple[str, ...]) -> None:
    # D58: claude has neither Grep nor Glob.
    assert set(SKILLS.tools) <= set(granted)
    for skill in ("law-generate", "law-reverse-validate"):
        assert set(SKILLS.tools_of(skill)) >= {"Read", "Edit"}
    told = [content.decode() for content in SKILLS.files.values()]
    told += [translation(), *(feedback_prompt(Feedback(gate.name, PATHS, "- x", ("1",))) for gate in GATES)]
    others = {"Bash", "WebFetch", "WebSearch", "Task", "Skill", "TodoWrite", "Grep", "Glob"} - set(granted)
    assert not re.search(rf"\\b({'|'.join(sorted(others))})\\b", "\n".join(told))


def test_what_never_to_touch_is_said() -> None:
    text = SKILLS.files["law-generate/SKILL.md"].decode()

    for word in ("`text`", "`number`", "`url`", "`references`", "`accepted`", "`.enrichment.yaml`", "header"):
        assert word in text


# --- steps and hash ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granted", [CLAUDE_S, OPENCODE_S], ids=["claude", "opencode"])
def test_research_plans_itself_away_and_the_rest_is_done_without_restrictions(granted: tuple[str, ...]) -> None:
    planned = plan_steps(SKILLS, granted)

    assert [(step.step.name, step.missing) for step in planned] == [("generate", ()), ("reverse-validate", ())]


def test_a_step_whose_skill_wants_more_is_degraded_and_one_without_its_skill_is_left_out() -> None:
    skills = SkillSet(
        {
            "law-generate/SKILL.md": b"---\nname: x\nallowed-tools: Read, Edit, Bash(git:*), WebSearch\n---\n",
            "law-mvt-research/SKILL.md": b"---\nallowed-tools: WebFetch\n---\n",
        }
    )

    assert [(step.step.name, step.missing) for step in plan_steps(skills, CLAUDE_S)] == [
        ("generate", ("Bash", "WebSearch"))
    ]
    granted = (*CLAUDE_S, "WebFetch")
    assert [step.step.name for step in plan_steps(skills, granted)] == ["research", "generate"]
    assert [step.step.name for step in plan_steps(skills, granted, first_window=False)] == ["generate"]


@pytest.mark.parametrize(("skills", "granted"), [(SkillSet({}), CLAUDE_S), (SKILLS, ("Read",))])
def test_a_required_step_that_cannot_be_done_is_a_fault_of_the_configuration(
    skills: SkillSet, granted: tuple[str, ...]
) -> None:
    with pytest.raises(NotConfigured, match="SKILLS_DIR"):
        plan_steps(skills, granted)


def test_the_prompt_hash_changes_with_every_instruction() -> None:
    hashes = {
        prompt_hash(SKILLS, "1"),
        prompt_hash(SKILLS, "2"),
        prompt_hash(SkillSet({**SKILLS.files, "law-generate/SKILL.md": b"x"}), "1"),
        prompt_hash(SkillSet({**SKILLS.files, "extra/SKILL.md": b""}), "1"),
    }

    assert len(hashes) == 4
    assert prompt_hash(SKILLS, "1") == prompt_hash(read_skills(skills_folder(None)), "1")


# --- prompts -----------------------------------------------------------------------------------------------------------

PATHS = Paths("wet/a/law.yaml", "wet/a/.enrichment-result.yaml", "/srv/checkout/wet/a/.enrichment-progress.json")


def translation(**more: Any) -> str:
    return translate_prompt(
        Translation(
            **{"law_id": "BWBR1", "paths": PATHS, "steps": plan_steps(SKILLS, CLAUDE_S), "numbers": None, **more}
        )
    )


def test_a_translate_prompt_names_file_steps_report_and_progress() -> None:
    prompt = translation(numbers=("1", "2.1"))

    for word in (
        PATHS.law,
        PATHS.envelope,
        PATHS.progress,
        ".claude/skills/law-generate/SKILL.md",
        ".claude/skills/law-reverse-validate/SKILL.md",
        "1, 2.1",
        '{"phase": "generating", "step": 1, "total_steps": 2}',
        '{"phase": "reverse_validating", "step": 2, "total_steps": 2}',
        "chunk_report",
        "eurocent",
        "neither perform them from memory nor report them",
    ):
        assert word in prompt
    assert "mvt" not in prompt
    assert "every entry" not in prompt


def test_a_whole_law_names_no_entries_and_a_continuation_says_what_is_done() -> None:
    assert "Process every entry of the law" in translation()
    assert "Earlier windows" in translation(continuation=True, numbers=("9",))
    assert "Earlier windows" not in translation(numbers=("9",))


def test_partial_work_and_the_lines_of_a_large_file_are_told() -> None:
    prompt = translation(numbers=("1", "2"), done=("1",), lines={"2": (40, 61)})

    assert "An earlier attempt finished these of them" in prompt
    assert "2: 40-61" in prompt


def test_a_degraded_step_says_which_tools_are_missing() -> None:
    skills = SkillSet({"law-generate/SKILL.md": b"---\nallowed-tools: Read, WebSearch\n---\n"})
    prompt = translation(steps=plan_steps(skills, CLAUDE_S))

    assert "you have no WebSearch" in prompt
    assert "reporting a check that was not run is worse" in prompt


def test_the_word_for_a_gap_follows_the_version_of_the_file() -> None:
    assert "`untranslatables`" in translation()
    assert "`markings`" in translation(gap_key="markings")
    for gate in ("checks", "marking", "binding"):
        told = feedback_prompt(Feedback(gate, PATHS, "- x", ("1",), gap_key="markings"))
        assert "`markings`" in told
        assert "untranslatables" not in told


@pytest.mark.claim("S0-102")
@pytest.mark.parametrize("gate", [gate.name for gate in GATES])
def test_a_feedback_prompt_holds_the_findings_verbatim_and_forbids_the_text(gate: str) -> None:
    findings = "- [definition-type] art. 2: GRENS is {braces} 'quoted'"
    prompt = feedback_prompt(Feedback(gate, PATHS, findings, ("2", "3")))

    assert findings in prompt
    assert PATHS.law in prompt
    assert "Edit only these entries: 2, 3" in prompt
    assert "Never change `text`" in prompt
    assert "read the entries concerned again" not in prompt


@pytest.mark.claim("S0-147")
def test_only_a_resumed_call_is_told_not_to_trust_its_memory() -> None:
    resumed = feedback_prompt(Feedback("checks", PATHS, "- x", None, resumed=True))

    assert resumed.startswith("First read the entries concerned again")
    assert "Edit only these entries" not in resumed


def test_every_gate_has_a_prompt() -> None:
    assert set(prompts.GATES) == {gate.name for gate in GATES}
