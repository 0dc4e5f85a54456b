"""A model that enriches the laws of :mod:`tests.kit.enrichbench`, as its prompt tells it to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from tests.kit.enrichbench import model
from tests.kit.models.hands import Hands
from tests.kit.models.script import Answer, Asked, Calls, Step, Thinks, Tokens, says

EDITS_A_TURN: Final = 5
TRANSLATION: Final = "Make the Dutch law in"
FEEDBACK: Final = "was checked after the last edit"


@frozen
class Task:
    """What a translate prompt says. ``law`` and the others are absolute paths."""

    law: Path
    report: Path
    note: Path
    numbers: tuple[str, ...]

    @classmethod
    def read(cls, prompt: str) -> Task:
        law, note, report = (
            _found(pattern, prompt)
            for pattern in (r"law in `([^`]+)`", r"JSON object to `([^`]+)`", r"write or update `([^`]+)`")
        )
        numbers = _found(r"leave all others untouched: ([^\n]*?)\. Writing", prompt)
        done = re.search(r"their sections are in the file: ([^\n]*?)\. Go on", prompt)
        finished = set(done[1].split(", ")) if done else set()
        checkout = Path(note.removesuffix(str(Path(law).parent / Path(note).name)))
        left = tuple(number for number in numbers.split(", ") if number not in finished)
        return cls(checkout / law, checkout / report, Path(note), left)


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, f"no {pattern} in the prompt"
    return match[1]


@define(eq=False)
class LawModel:
    """A :data:`~tests.kit.models.script.Script`. ``tasks`` are what it was told, one a translation.

    Articles in ``forgets`` get their section in a feedback round only. ``change`` may put something else in the place of
    an answer of a translation.
    """

    provider: str
    forgets: frozenset[str] = frozenset()
    change: Callable[[Task, int, Step], Step] = lambda task, turn, step: step
    tasks: dict[tuple[str, ...], Task] = field(init=False, factory=dict)

    def __call__(self, asked: Asked) -> Step:
        feedback = asked.turns_since(FEEDBACK)
        turn = asked.turns_since(TRANSLATION)
        if feedback is not None and (turn is None or feedback < turn):
            return self._repair(asked, feedback)
        assert turn is not None, "a prompt that is neither translation nor feedback"
        task = Task.read([text for text in asked.prompts if TRANSLATION in text][-1])
        self.tasks.setdefault((str(task.law), *task.numbers), task)
        steps = self._steps(task)
        turn = min(turn, len(steps) - 1)
        return self.change(task, turn, steps[turn])

    def _repair(self, asked: Asked, turn: int) -> Step:
        prompt = [text for text in asked.prompts if FEEDBACK in text][-1]
        law = Path(asked.folder) / _found(r"law in `([^`]+)`", prompt)
        named = set(re.findall(r"art\. (\S+):", prompt)) & self.forgets
        hands = Hands(self.provider)
        edits = tuple(self._edit(hands, law, number) for number in sorted(named))
        steps = [Answer((hands.reads(law),)), *([Answer(edits)] if edits else []), says("Klaar.")]
        return steps[min(turn, len(steps) - 1)]

    def _steps(self, task: Task) -> list[Step]:
        hands = Hands(self.provider)
        note = '{"phase": "generating", "step": 1, "total_steps": 2}'
        first = (Thinks("Eerst lezen."), hands.writes(task.note, note), hands.reads(task.law))
        steps: list[Step] = [Answer(first, tokens=Tokens(20, 300, 0, 20_000))]
        numbers = [number for number in task.numbers if number not in self.forgets]
        for at in range(0, len(numbers), EDITS_A_TURN):
            edits = tuple(self._edit(hands, task.law, number) for number in numbers[at : at + EDITS_A_TURN])
            steps.append(Answer(edits, tokens=Tokens(8, 900, 20_000, 700)))
        reviewed = "".join(f"    - '{number}'\n" for number in numbers)
        report = f"chunk_report:\n  articles_reviewed:\n{reviewed}  articles_skipped: []\nrelated_legislation: []\n"
        steps.append(
            Answer((hands.reads(task.report),), tokens=Tokens(8, 20, 20_700))
        )  # may fail: it need not be there
        steps.append(Answer((hands.writes(task.report, report),), tokens=Tokens(8, 120, 21_000, 100)))
        return [*steps, says("Klaar.", tokens=Tokens(8, 30, 21_500))]

    def _edit(self, hands: Hands, law: Path, number: str) -> Calls:
        lines = f"bedraagt {number} euro.\n    url: https://example.org/BWBR0000001#{number}\n"
        return hands.edits(law, lines, lines + model(number))
