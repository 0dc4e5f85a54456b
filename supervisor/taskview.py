"""The tree of tasks as people read it: who runs since when, where it waits, until when, and whether it may be cancelled.

A view is a frozen copy. Taking one only reads, so it may be done in the loop, and from another thread when the loop is stuck.
"""

from __future__ import annotations

import math
import os
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import trio
from attrs import define, field, frozen

_OURS: Final = tuple(
    f"{Path(__file__).parents[1] / name}{os.sep}" for name in ("supervisor", "actors", "schema", "tests")
)
_ROOT: Final = f"{Path(__file__).parents[1]}{os.sep}"
_DEEPEST: Final = 60
"""Nurseries nest less than this; a view must end whatever it meets."""


@define
class Steps:
    """When a task was spawned and when it last ran, on the monotonic clock."""

    spawned_s: float
    stepped_s: float


@define(eq=False)
class TaskClock(trio.abc.Instrument):
    """Notes ages. Give it to ``trio.run``. It does next to nothing and never raises, else trio would remove it.

    Tasks leave the map when they end, which trio tells for every task, so nothing piles up.
    """

    root: trio.lowlevel.Task | None = field(init=False, default=None)
    _steps: dict[trio.lowlevel.Task, Steps] = field(init=False, factory=dict)

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        now = time.monotonic()
        if task.parent_nursery is None:
            self.root = task
        self._steps[task] = Steps(now, now)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        steps = self._steps.get(task)
        if steps is not None:
            steps.stepped_s = time.monotonic()

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._steps.pop(task, None)

    @property
    def tasks(self) -> int:
        """How many there are, trio's own included."""
        return len(self._steps)

    def steps_of(self, task: trio.lowlevel.Task) -> Steps | None:
        """None for a task that is older than this clock."""
        return self._steps.get(task)


@frozen
class TaskView:
    """One task. Seconds; None: not known, or there is no deadline.

    ``shielded``: a cancellation of its parent does not reach it now. ``where`` is the innermost frame of our own code, ``waits_in`` the function that it is waiting in.
    """

    name: str
    age_s: float | None
    idle_s: float | None
    deadline_s: float | None
    shielded: bool
    cancelled: bool
    where: str
    waits_in: str
    children: tuple[TaskView, ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, TaskView]]:
        """This one and all below it, parents first."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def view(clock: TaskClock) -> TaskView | None:
    """The program's own tasks, from the main one down. None before the loop runs."""
    if clock.root is None:
        return None
    now = time.monotonic()
    # Below the root trio keeps its system tasks in one nursery and the main task in another; ours is what matters.
    mains = [task for task in _children(clock.root) if not _is_system(task)]
    views = [_view(task, clock, now, 0) for task in mains]
    return views[0] if views else None


def _is_system(task: trio.lowlevel.Task) -> bool:
    nursery = task.parent_nursery
    return (
        nursery is not None
        and nursery is getattr(task._runner, "system_nursery", None)
        and task is not task._runner.main_task
    )


def _view(task: trio.lowlevel.Task, clock: TaskClock, now: float, depth: int) -> TaskView:
    steps = clock.steps_of(task)
    where, waits_in = _position(task)
    deadline_s, shielded, cancelled = _limits(task)
    children = () if depth >= _DEEPEST else tuple(_view(child, clock, now, depth + 1) for child in _children(task))
    return TaskView(
        name=_name(task),
        age_s=None if steps is None else now - steps.spawned_s,
        idle_s=None if steps is None else now - steps.stepped_s,
        deadline_s=deadline_s,
        shielded=shielded,
        cancelled=cancelled,
        where=where,
        waits_in=waits_in,
        children=children,
    )


def _children(task: trio.lowlevel.Task) -> list[trio.lowlevel.Task]:
    """In the order in which they were started."""
    tasks = [child for nursery in tuple(task.child_nurseries) for child in tuple(nursery.child_tasks)]
    return sorted(tasks, key=lambda child: child._counter)


def _name(task: trio.lowlevel.Task) -> str:
    """As it was named; of trio's default, which is the whole path of the function, the last two words."""
    name = str(task.name)
    return ".".join(name.split(".")[-2:]) if name.count(".") > 1 and " " not in name else name


def _position(task: trio.lowlevel.Task) -> tuple[str, str]:
    """Our innermost line, and what it called there; that is '' when our own code is what runs."""
    where = waits_in = ""
    for frame, line in task.iter_await_frames():
        code = frame.f_code
        if code.co_filename.startswith(_OURS) and f"{os.sep}site-packages{os.sep}" not in code.co_filename:
            where, waits_in = f"{code.co_filename.removeprefix(_ROOT)}:{line} {code.co_name}", ""
        elif not waits_in:
            waits_in = code.co_name
    return where, waits_in


def _limits(task: trio.lowlevel.Task) -> tuple[float | None, bool, bool]:
    """Seconds to the next deadline that would cancel it, shielded from outside or not, already cancelled or not.

    There is no public way to the scopes of another task; where trio has changed, nothing is known.
    """
    status: Any = getattr(task, "_cancel_status", None)
    try:
        deadline = status.effective_deadline()
        cancelled = bool(status.effectively_cancelled)
        shielded = _is_shielded(status, getattr(task.parent_nursery, "_cancel_status", None))
        # monotonic, as trio's own clock is; its offset is random, so the clock of the run is asked
        now = task._runner.clock.current_time()
    except AttributeError:
        return None, False, False
    return (None if math.isinf(deadline) else deadline - now), shielded, cancelled


def _is_shielded(status: Any, nursery: Any) -> bool:
    """Whether there is a shield from ``status`` up to the scope of the nursery that the task was started in."""
    while status is not None:
        if status._scope.shield:
            return True
        if status is nursery:
            break
        status = status.parent
    return False


# --- as text -----------------------------------------------------------------------------------------------------------


_IN_WORDS: Final = {"__aexit__": "waits for the tasks below", "__anext__": "waits for the next message"}
LINE: Final = 80
"""Columns that a terminal has at least."""
_BESIDE: Final = 17
"""Columns for both ages."""


def render(task: TaskView, about: Mapping[str, str] | None = None) -> list[str]:
    """Tasks indented by depth, each with its ages first, so that what is too long for a line goes on below its name.

    ``about`` adds a few words to tasks of these names.
    """
    lines = [f"{'AGE':>7} {'IDLE':>7}  TASK, and where it waits"]
    for depth, one in task.walk():
        ages = f"{duration(one.age_s):>7} {duration(one.idle_s):>7}  "
        label = one.name + (f": {about[one.name]}" if about and one.name in about else "")
        lines += folded(f"{ages}{'  ' * depth}{label} · {_state(one)}", _BESIDE + 2 * depth + 4)
    return lines


def folded(text: str, indent: int) -> list[str]:
    """``text`` in lines of 80 columns, all but the first indented. No word is broken: a position in code can be copied."""
    return textwrap.wrap(
        text,
        width=max(LINE, indent + 30),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _state(one: TaskView) -> str:
    notes = [_IN_WORDS.get(one.waits_in, f"in {one.waits_in}")] if one.waits_in else []
    if one.deadline_s is not None:
        notes.append(f"deadline in {duration(one.deadline_s)}")
    notes += ["shielded"] if one.shielded else []
    notes += ["cancelled"] if one.cancelled else []
    return " · ".join([one.where or "(library)", *notes])


def duration(seconds: float | None) -> str:
    """Short and readable: 0.4s, 12s, 3m05s, 2h07m, 3d04h; - when not known."""
    if seconds is None:
        return "-"
    sign, left = ("-", -seconds) if seconds < 0 else ("", seconds)
    if left < 10:
        return f"{sign}{left:.1f}s"
    whole = int(left)
    for size, unit, small, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{sign}{whole // size}{unit}{whole % size // small:02}{part}"
    return f"{sign}{whole}s"
