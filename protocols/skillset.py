"""The texts that tell an agent how to do its steps, and what a lane can do of them (D58, ``enrich.md`` 5.4)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from attrs import field, frozen

from protocols.failures import Permanent

GENERATE: Final = "law-generate"
REVERSE_VALIDATE: Final = "law-reverse-validate"
RESEARCH: Final = "law-mvt-research"
MAIN_FILE: Final = "SKILL.md"

_FRONT_MATTER: Final = re.compile(r"\A---\n(?P<body>.*?)\n---\n", re.DOTALL)
_TOOLS_LINE: Final = re.compile(r"^allowed-tools:\s*(?P<tools>.+)$", re.MULTILINE)


class NotConfigured(Permanent):
    """The lane lacks what a required step needs. No retry helps before an operator acts."""

    kind: ClassVar[str] = "not_configured"


@frozen
class SkillSet:
    """The files by path below the skills folder (``law-generate/SKILL.md``)."""

    files: Mapping[str, bytes] = field(repr=False)

    def has(self, skill: str) -> bool:
        return f"{skill}/{MAIN_FILE}" in self.files

    def tools_of(self, skill: str) -> tuple[str, ...]:
        """What the skill's front matter says it uses; a tool with arguments counts by its name."""
        text = self.files.get(f"{skill}/{MAIN_FILE}", b"").decode(errors="replace")
        front = _FRONT_MATTER.match(text)
        line = _TOOLS_LINE.search(front["body"]) if front else None
        names = re.split(r"[,\s]+", line["tools"]) if line else []
        return tuple(dict.fromkeys(name.partition("(")[0] for name in names if name))

    @property
    def tools(self) -> tuple[str, ...]:
        """Every tool that any skill names, sorted."""
        skills = {path.partition("/")[0] for path in self.files}
        return tuple(sorted({tool for skill in skills for tool in self.tools_of(skill)}))


@frozen
class Step:
    """One thing an agent does in a translation. ``needs`` is the least; a skill may want more and do with less."""

    name: str
    skill: str
    phase: str
    what: str
    needs: frozenset[str]
    required: bool
    first_window_only: bool = False


STEPS: Final = (
    Step(
        name="research",
        skill=RESEARCH,
        phase="mvt_research",
        what="read what the explanatory memorandum says about the articles",
        needs=frozenset({"WebFetch"}),
        required=False,
        first_window_only=True,
    ),
    Step(
        name="generate",
        skill=GENERATE,
        phase="generating",
        what="write the machine_readable sections",
        needs=frozenset({"Read", "Edit", "Write"}),
        required=True,
    ),
    Step(
        name="reverse-validate",
        skill=REVERSE_VALIDATE,
        phase="reverse_validating",
        what="read the sections back against the text and repair what does not hold",
        needs=frozenset({"Read", "Edit"}),
        required=False,
    ),
)
"""In order. The first one plans itself away: no lane is granted the network."""


@frozen
class PlannedStep:
    """``missing``: tools that the skill wants and the lane does not grant."""

    step: Step
    missing: tuple[str, ...] = ()


def plan_steps(skills: SkillSet, granted: Collection[str], *, first_window: bool = True) -> tuple[PlannedStep, ...]:
    """What a translation does with the tools of its lane. NotConfigured when a required step cannot be done."""
    planned = []
    for step in STEPS:
        if step.first_window_only and not first_window:
            continue
        lacking = sorted(step.needs - set(granted))
        if not lacking and skills.has(step.skill):
            planned.append(PlannedStep(step, tuple(t for t in skills.tools_of(step.skill) if t not in granted)))
        elif step.required:
            why = f"needs the tools {', '.join(lacking)}" if lacking else f"needs the skill {step.skill}/{MAIN_FILE}"
            raise NotConfigured(f"the step {step.name} {why}: check SKILLS_DIR and the tools of this lane")
    return tuple(planned)


def prompt_hash(skills: SkillSet, prompt_version: str) -> str:
    """SHA-256 (hex) over the skill files by path and the version of our prompts: changes when instructions change."""
    digest = hashlib.sha256(prompt_version.encode())
    for path in sorted(skills.files):
        digest.update(b"\0" + path.encode() + b"\0" + hashlib.sha256(skills.files[path]).digest())
    return digest.hexdigest()
