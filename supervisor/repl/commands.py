"""What can be asked at the prompt. Each command looks; only ``drain`` and ``loglevel`` with a word behind them do something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from attrs import frozen

from protocols.failures import InvalidInput
from supervisor.repl import scene as views
from supervisor.repl.pipelines import PipelineDesk
from supervisor.repl.scene import Scene

Answer = Callable[[Scene, str], Awaitable[list[str]]]


@frozen
class Command:
    """``words`` are what may follow the name: one of them, or nothing."""

    about: str
    answer: Answer
    words: tuple[str, ...] = ()


def _look(view: Callable[[Scene], list[str]]) -> Answer:
    async def answer(scene: Scene, word: str) -> list[str]:
        return view(scene)

    return answer


async def _help(scene: Scene, word: str) -> list[str]:
    rows = [(" ".join([name, *(f"[{word}]" for word in one.words)]), one.about) for name, one in COMMANDS.items()]
    return views.table(("COMMAND", "WHAT IT TELLS"), [*rows, ("quit", "ends this conversation")])


async def _budget(scene: Scene, word: str) -> list[str]:
    rule = scene.tree.house.rules.claim.budget
    used, cap, hour = await scene.count_runs()
    if cap <= 0:
        state = "none is allowed: ENRICH_HOURLY_LIMIT is 0"
    elif used >= cap:
        state = f"used up: claude jobs wait for {(hour + 1) % 24:02}:00"
    else:
        state = f"{cap - used} left"
    counted = "with conversions" if rule.includes_convert else "without conversions"
    return [
        f"claude runs in the hour from {hour:02}:00 (Amsterdam), over all supervisors: {used} of {cap}, {state}",
        f"limit {rule.hourly_limit} an hour, times {rule.night_multiplier} from 00:00 to 08:00, {counted}",
    ]


async def _leases(scene: Scene, word: str) -> list[str]:
    return (await _desk(scene).leases()).lines if word else views.leases(scene)


async def _runs(scene: Scene, word: str) -> list[str]:
    return (await _desk(scene).runs(active=word == "active")).lines


def _desk(scene: Scene) -> PipelineDesk:
    if scene.pipelines is None:
        raise InvalidInput("this supervisor has no database to ask")
    return scene.pipelines


async def _drain(scene: Scene, word: str) -> list[str]:
    lifecycle = scene.tree.house.lifecycle
    if word == "begin":
        began = scene.drain.begin("asked at the debug prompt")
        return ["draining" if began else f"it is {lifecycle.phase.name.lower()} already"]
    if word == "hurry":
        scene.drain.begin("asked at the debug prompt")
        scene.drain.hurry("asked at the debug prompt")
        return ["running jobs are given up now"]
    rule = scene.drain.rule
    return [
        f"phase {lifecycle.phase.name.lower()}; jobs here: {len(scene.tree.house.jobs.running)}",
        f"a drain lets jobs finish for {rule.drain_s:g} s, then hands them back, and ends within {rule.after_drain_s:g} s more",
        "`drain begin` is what SIGTERM does, `drain hurry` what a second one does",
    ]


async def _loglevel(scene: Scene, word: str) -> list[str]:
    if word:
        scene.set_level(word)
        scene.level = word
    return [f"log level {scene.level}"]


COMMANDS: Final[Mapping[str, Command]] = {
    "help": Command("these lines", _help),
    "tree": Command("what this supervisor does: its state, its jobs, and every task with its age and where it waits", _look(views.picture)),
    "actors": Command("each actor: its state and how often it was restarted", _look(views.actors)),
    "jobs": Command("the jobs that run here", _look(views.jobs)),
    "channels": Command("what waits between the actors", _look(views.channels)),
    "budget": Command("claude runs of this hour", _budget),
    "leases": Command("how sure we are of each job: last beat, and when it would be given up; or who works on pipelines", _leases, ("pipelines",)),
    "runs": Command("the newest 20 runs of pipelines, over all supervisors, or those that wait or run", _runs, ("active",)),
    "drain": Command("the state of the drain, or begin it", _drain, ("begin", "hurry")),
    "loglevel": Command("the least level that is logged, or another one", _loglevel, ("debug", "info", "warning", "error")),
    "dump": Command("everything above at once, and the stacks of all threads", _look(views.everything)),
}  # fmt: skip
"""In the order in which ``help`` lists them."""


def match(line: str) -> tuple[Command, str] | None:
    """The command that ``line`` is, and the word behind it; None when it is none."""
    name, *words = line.split() or [""]
    command = COMMANDS.get(name)
    if command is None or len(words) > 1 or any(word not in command.words for word in words):
        return None
    return command, "".join(words)


def refuse(line: str) -> InvalidInput:
    """Why ``line`` is no command, in words that help."""
    name = (line.split() or [""])[0]
    command = COMMANDS.get(name)
    if command is None:
        return InvalidInput(f"there is no command {name[:40]!r}: `help` lists them")
    words = f"one of {', '.join(command.words)}, or nothing" if command.words else "nothing"
    return InvalidInput(f"`{name}` is followed by {words}")
