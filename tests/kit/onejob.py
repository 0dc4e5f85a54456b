"""One job on the mock clock, from its claim to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from actors.jobs.base import Completion, Work
from actors.runner import JobRunner
from schema.rows import Job
from tests.kit.actorhouse import ActorHouse, FunctionHandler

Body = Callable[[Work], Awaitable[Completion | None]]


async def run_one(body: Body, **house: object) -> tuple[ActorHouse, Job, JobRunner]:
    """One job with ``body``, heartbeat and progress writer beside it, to its end."""
    made = ActorHouse(FunctionHandler(body), **house)  # type: ignore[arg-type]
    job = made.add()
    async with made.running(claimer=False):
        runner = made.runner(await made.claim())
        await runner.run()
    return made, made.memory.job(job.id), runner


def raises(error: BaseException) -> Body:
    async def body(work: Work) -> None:
        raise error

    return body
