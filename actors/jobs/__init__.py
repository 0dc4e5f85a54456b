"""The job types: one file or folder each, one line in the table below.

A role is what an operator switches on with ``run --roles``; it serves its job types in the order given, on shared slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar, cast

from attrs import field, frozen

from actors.jobs.base import JobHandler
from actors.ports.guardian import Guardian
from actors.ports.meter import Meter, NoMeter
from actors.ports.queue import QueuePort
from protocols.failures import InvalidInput
from schema.rows import JobType

T = TypeVar("T")

ENTRY_POINTS = "regelrecht_supervisor.jobs"
"""Group under which another distribution offers a job type: its name is the label of the type and of its role."""

ROLES: Mapping[str, tuple[JobType, ...]] = {
    "harvest": (JobType.TRAJECT_HARVEST, JobType.HARVEST),
    "enrich": (JobType.DOCUMENT_CONVERT, JobType.LAW_CONVERT, JobType.ENRICH),
    "pipelines": (JobType.PIPELINE_RUN,),
    "connectors": (JobType.CONNECTOR_INDEX,),
}
"""The roles of the product, with the job types they serve once those are implemented (``queue.md`` 2.3)."""

TABLE: Mapping[JobType, str] = {
    JobType.HARVEST: "actors.jobs.harvest:open_harvest",
    JobType.ENRICH: "actors.jobs.enrich:open_enrich",
    JobType.PIPELINE_RUN: "actors.jobs.pipeline_run:open_pipeline_run",
    JobType.CONNECTOR_INDEX: "actors.jobs.connector_index:open_connector_index",
}
"""Which job types are implemented, and where: ``module:factory``."""


@frozen
class Means:
    """What a supervisor gives to a job type when it starts: ports, and the settings objects of any port it asks for."""

    queue: QueuePort
    guardian: Guardian
    offered: tuple[object, ...] = field(default=(), repr=False)
    meter: Meter = field(factory=NoMeter, repr=False)

    def get(self, kind: type[T]) -> T:
        """The offered object of this class. LookupError names it when the supervisor has none."""
        for thing in self.offered:
            if isinstance(thing, kind):
                return thing
        raise LookupError(f"no {kind.__name__} is offered to job types")


HandlerFactory = Callable[[Means], AbstractAsyncContextManager[JobHandler]]
"""Opens what the job type needs (clients, checkouts), yields its handler, closes it all after the last job.

An attribute ``slots`` of a factory from outside says how many jobs of its role run at once (default 1).
"""


@frozen
class Service:
    """A role as it will be served: the job types that have an implementation, in order."""

    role: str
    factories: Mapping[JobType, HandlerFactory] = field(repr=False)

    @property
    def job_types(self) -> tuple[JobType, ...]:
        return tuple(self.factories)

    @property
    def slots(self) -> int:
        """What the factory says of itself; roles of the product have a setting instead."""
        return max(int(getattr(factory, "slots", 1)) for factory in self.factories.values())


def services(roles: Iterable[str], *, others: Iterable[str] = ()) -> tuple[Service, ...]:
    """The services of the named roles. InvalidInput names every role that has no implementation, and those that do (D23).

    ``others`` are roles without jobs, for that list.
    """
    table = factories()
    known = {role: types for role, types in all_roles().items() if any(job_type in table for job_type in types)}
    wanted = list(dict.fromkeys(role.strip() for role in roles if role.strip()))
    unknown = [role for role in wanted if role not in known]
    if unknown or not wanted:
        what = f"no implementation of role {', '.join(unknown)}" if unknown else "no role is named"
        raise InvalidInput(f"{what}: known roles are {', '.join(sorted({*known, *others})) or 'none'}")
    return tuple(
        Service(role, {job_type: load(table[job_type]) for job_type in known[role] if job_type in table})
        for role in wanted
    )


def all_roles() -> Mapping[str, tuple[JobType, ...]]:
    """Roles of the product and of other distributions, implemented or not."""
    offered = {point.name: (JobType(point.name),) for point in entry_points(group=ENTRY_POINTS)}
    return {**offered, **ROLES}


def factories() -> Mapping[JobType, str | EntryPoint]:
    """Where the implementation of each job type is; nothing is imported."""
    offered = {JobType(point.name): point for point in entry_points(group=ENTRY_POINTS)}
    return {**offered, **TABLE}


def load(where: str | EntryPoint) -> HandlerFactory:
    """Import a factory."""
    if isinstance(where, EntryPoint):
        return cast(HandlerFactory, where.load())
    module, _, name = where.partition(":")
    return cast(HandlerFactory, getattr(import_module(module), name))
