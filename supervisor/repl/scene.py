"""What the prompt sees of a running supervisor, and how it is told in words. Nothing here changes anything."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, field

from actors.ports.database import DatabaseStatistics
from protocols.messages import Phase
from supervisor import taskview
from supervisor.drain import Drain
from supervisor.metrics import Metrics
from supervisor.progresstext import progress_text
from supervisor.taskview import TaskClock, duration, folded
from supervisor.tree import Inbox, Tree
from supervisor.version import VERSION
from supervisor.watchdog import Watchdog

if TYPE_CHECKING:
    from supervisor.repl.pipelines import PipelineDesk

_PHASES: Final = {
    Phase.STARTING: "starting",
    Phase.RUNNING: "running: it claims jobs",
    Phase.DRAINING: "draining: no new jobs, running ones may finish",
    Phase.CANCELLING: "cancelling: running jobs are handed back",
    Phase.CLOSING: "closing: last writes",
    Phase.GONE: "gone",
}


def _nothing() -> tuple[str, ...]:
    return ()


@define
class Scene:
    """``count_runs`` asks the database for claude runs of this hour: used, allowed, local hour. ``paused`` is what was read
    last. ``figures`` and ``pipelines`` are None where there is no database port.
    """

    tree: Tree
    drain: Drain
    clock: TaskClock
    watchdog: Watchdog
    metrics: Metrics
    count_runs: Callable[[], Awaitable[tuple[int, int, int]]]
    set_level: Callable[[str], None]
    level: str = "info"
    figures: Callable[[], DatabaseStatistics] | None = None
    paused: Callable[[], Sequence[str]] = _nothing
    pipelines: PipelineDesk | None = None
    started_at: float = field(factory=time.monotonic)


def summary(scene: Scene) -> list[str]:
    """The first lines of every picture: what this supervisor is doing, in a few sentences."""
    house, now, metrics = scene.tree.house, trio.current_time(), scene.metrics
    busy = house.slots.busy
    roles = ", ".join(f"{role.role} {busy[role.role]} of {role.slots} slots busy" for role in house.roles)
    word = {True: "answers", False: "DOES NOT ANSWER", None: "was not asked yet"}[metrics.database_answers]
    beat = "no beat yet" if metrics.beat_at is None else f"last beat {duration(now - metrics.beat_at)} ago"
    claim = "no claim yet" if metrics.claim_at is None else f"last look for jobs {duration(now - metrics.claim_at)} ago"
    heard = "notifications arrive" if house.subscription.proven else "no notifications: it polls"
    lines = [
        f"supervisor {house.rules.claim.holder}, version {VERSION}, up {duration(time.monotonic() - scene.started_at)}",
        f"  phase     {_PHASES[house.lifecycle.phase]}",
        f"  roles     {roles}",
        f"  database  {word}, {beat}, {claim}, {heard}",
    ]
    if scene.figures is not None:
        figures = scene.figures()
        pool = f"{figures.pool_in_use} of {figures.pool_max} in use, {figures.waiting} units wait"
        lines.append(f"  pool      {pool}; unclear answers {figures.unclear}, connections dropped {figures.terminated}")
    lines.append(f"  channels  {', '.join(_held_up(scene)) or 'nothing waits in any of them'}")
    lines.append(
        f"  loop      {scene.clock.tasks} tasks, last tick {duration(scene.watchdog.lag_s)} late, "
        f"held too long {scene.watchdog.holds} times"
    )
    paused = scene.paused()
    lines += [f"  paused    {', '.join(paused)}"] if paused else []
    return [part for line in lines for part in folded(line, 12)]


def actors(scene: Scene) -> list[str]:
    rows = [
        (name, keeper.policy.value, keeper.state, str(keeper.restarts), scene.tree.about[name])
        for name, keeper in scene.tree.keepers.items()
    ]
    return table(("ACTOR", "POLICY", "STATE", "RESTARTS", "WHAT IT DOES"), rows)


def jobs(scene: Scene) -> list[str]:
    running = scene.tree.house.jobs.running
    if not running:
        return ["no job runs here"]
    rows = [
        (
            str(job.job_id)[:8],
            job.job_type.value,
            job.law_id,
            job.state,
            duration(job.age_s),
            duration(job.limit_s),
            progress_text(job.progress) or "(not told yet)",
        )
        for job in running
    ]
    return table(("JOB", "TYPE", "LAW", "STATE", "AGE", "TIME LEFT", "HOW FAR"), rows)


def leases(scene: Scene) -> list[str]:
    """Without the tokens: whoever knows one may write."""
    house = scene.tree.house
    attempts = {lease.job_id: lease.attempts for lease in house.jobs.leases}
    fence_s = house.rules.run.fence_s
    rows = [
        (
            str(job.job_id)[:8],
            str(attempts.get(job.job_id, "-")),
            f"{duration(job.beat_age_s)} ago",
            duration(fence_s - job.beat_age_s),
            job.state,
        )
        for job in house.jobs.running
    ]
    if not rows:
        return ["no lease is held here"]
    return table(("JOB", "ATTEMPT", "LAST CONFIRMED BEAT", "GIVEN UP IN", "STATE"), rows)


def _inboxes(scene: Scene) -> dict[str, Inbox[Any]]:
    """The channels between actors, as people call them."""
    house = scene.tree.house
    return {
        "heartbeat": house.heartbeat,
        "claimer": house.claimer,
        "counts -> budget": house.budget,
        "claims -> jobs": house.claims,
        "cancels -> jobs": house.cancels,
        "flushes -> progress": house.flushes,
        "alarms -> drain": house.alarms,
    }


def _held_up(scene: Scene) -> list[str]:
    """What somebody should have taken out of a channel by now, in words."""
    found = []
    for name, inbox in _inboxes(scene).items():
        state = inbox.receive.statistics()
        if state.current_buffer_used:
            found.append(f"{name}: {state.current_buffer_used} not read yet")
        if state.tasks_waiting_send:
            found.append(f"{name}: {state.tasks_waiting_send} wait to hand over")
    return found


def channels(scene: Scene) -> list[str]:
    house = scene.tree.house
    rows = []
    for name, inbox in _inboxes(scene).items():
        state = inbox.receive.statistics()
        size = "no bound" if state.max_buffer_size == float("inf") else str(int(state.max_buffer_size))
        waiting = (state.tasks_waiting_send, state.tasks_waiting_receive)
        rows.append((name, str(state.current_buffer_used), size, *map(str, waiting), str(state.open_send_channels)))
    rows.append(("progress board", str(len(house.board)), "newest per job", "-", "-", "-"))
    heard = house.subscription.wakeups.statistics()
    rows.append(("wake-ups", str(heard.current_buffer_used), "1", "-", str(heard.tasks_waiting_receive), "-"))
    return table(("CHANNEL", "BUFFERED", "SIZE", "SENDERS WAIT", "RECEIVERS WAIT", "OPEN SENDERS"), rows)


_OTHER_TASKS: Final = {
    "Supervisor.main": "opened everything, waits for the drain and sees it through",
    "BaseTrioEventLoop._main_loop": "the database driver's own loop",
    "BaseTrioEventLoop._io_task": "one database socket",
    "<locals>.forward_cancellation": "ends the driver's loop with us",
    "Listener.run": "the session that hears notifications",
    "WorkRoot.run": "sweeps folders of agents that have gone",
    "GitCorpus.run": "commits and pushes, one after the other",
    "tree:alarms": "hears of what must end this supervisor",
    "ProgressWriter._stop_at_closing": "ends it when the drain closes",
    "Claimer._stop_at_drain": "ends it when the drain begins",
    "Scheduler._stop_at_drain": "ends it when the drain begins",
    "JobSlots._obey": "hears of jobs to cancel",
    "Listener._pass_on_wakeups": "to the claimer",
    "Listener._pass_on_control": "to the jobs",
    "JobRunner._watch_lease": "hears whether the job is still ours",
    "JobRunner._watch_drain": "hands the job back when the drain says so",
    "JobRunner._watch_overstay": "when the job hangs long past its limit",
    "JobRunner._cut_at_closing": "ends the last write when the drain closes",
    "_Child._watch": "waits for the end of a child process",
    "_Child._read_pipes": "reads what a child process says",
    "_Child._feed": "feeds a child process",
    "child._read": "one pipe of a child process",
    "child._tell_cancellation": "ends the child process with the job",
    "Drain._skip_when_hurried": "ends the waiting when a second signal comes",
    "trio.serve": "the HTTP server",
    "Lifespan.handle_lifespan": "start and end of what it serves",
    "utils.raise_shutdown": "ends it with the supervisor",
    "trio.serve_listeners": "takes connections",
    "agentprocess._hear": "hears from the launcher of an agent",
    "_highlevel_serve_listeners._serve_one_listener": "waits for callers",
    "_highlevel_serve_listeners._run_handler": "one caller",
}
"""Tasks that are no actors, by the names that trio gives them: what they are there for."""


def tasks(scene: Scene) -> list[str]:
    seen = taskview.view(scene.clock)
    about = {**_OTHER_TASKS, **scene.tree.about}
    return ["the loop does not run"] if seen is None else taskview.render(seen, about)


def picture(scene: Scene) -> list[str]:
    """``tree``: enough to say what this supervisor is doing without knowing the code."""
    return [*summary(scene), "", *jobs(scene), "", *tasks(scene)]


def everything(scene: Scene) -> list[str]:
    """``dump``: all views, and the stacks of all threads."""
    parts: list[Callable[[Scene], list[str]]] = [summary, actors, jobs, leases, channels, tasks]
    lines = [line for part in parts for line in [*part(scene), ""]]
    return [*lines, *threads()]


def from_outside(scene: Scene) -> list[str]:
    """What can be told from another thread while the loop stands still."""
    return [*(scene.tree.house.jobs.names or ("no job runs here",)), "", *tasks(scene), "", *threads()]


def threads() -> list[str]:
    """The stack of each thread, innermost last; no values of locals."""
    frames = sys._current_frames()
    lines = []
    for thread in threading.enumerate():
        lines.append(f"THREAD {thread.name}")
        frame = frames.get(thread.ident or 0)
        stack = traceback.extract_stack(frame) if frame is not None else []
        lines += [f"  {entry.filename}:{entry.lineno} {entry.name}" for entry in stack]
    return lines


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Columns as wide as they need to be."""
    cells = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
