"""What a supervisor may be told to do: roles that take jobs, and roles that are an actor of their own (D23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from attrs import frozen

from actors.jobs import Service, services
from actors.ports.database import Database
from protocols.failures import InvalidInput
from schema import migrate
from schema.rows import JobType
from supervisor.settings.pipelines import Blobs

OF_THE_EXTRA: Final = ("obstore", "trafilatura", "lxml_html_clean", "protego")
"""Modules that only users of the extra ``pipelines`` have. They are imported late, so they are looked for early."""

SCHEDULER = "scheduler"
API = "api"

ACTOR_ROLES: Mapping[str, tuple[JobType, ...]] = {
    SCHEDULER: (JobType.PIPELINE_RUN, JobType.CONNECTOR_INDEX),
    API: (JobType.PIPELINE_RUN, JobType.CONNECTOR_INDEX),
}
"""Roles without jobs of their own, and the job types that they create; ``supervisor.beside`` has their actors."""

ADDED_LATER = (JobType.PIPELINE_RUN, JobType.CONNECTOR_INDEX)
"""Job types whose label joins the shared enum only when a role first needs it."""


@frozen
class Served:
    """The roles of one supervisor."""

    services: tuple[Service, ...]
    actors: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return (*(service.role for service in self.services), *sorted(self.actors))

    @property
    def labels(self) -> tuple[str, ...]:
        """What the enum must have beyond the platform's own job types."""
        needed = {job_type for service in self.services for job_type in service.job_types}
        needed |= {job_type for role in self.actors for job_type in ACTOR_ROLES[role]}
        return tuple(job_type.value for job_type in ADDED_LATER if job_type in needed)

    @property
    def keeps_results(self) -> bool:
        """It stores results of runs, so it also deletes them."""
        return any(JobType.PIPELINE_RUN in service.job_types for service in self.services)

    def split_hint(self, blobs: Blobs) -> str | None:
        """What an operator should know when results are in a folder that another process has to see, too."""
        if blobs.backend != "local" or self.keeps_results == (API in self.actors):
            return None
        here, there = ("pipelines", "api") if self.keeps_results else ("api", "pipelines")
        return (
            f"role {here} runs here without role {there}, and BLOB_BACKEND=local keeps results in {blobs.local_root} of this "
            f"machine: a supervisor with role {there} elsewhere needs that folder as a shared volume, or set BLOB_BACKEND=s3"
        )

    @property
    def crawls(self) -> bool:
        return any(job_type in ADDED_LATER for service in self.services for job_type in service.job_types)


def served(roles: Iterable[str]) -> Served:
    """InvalidInput names every role that is none, and those that are."""
    wanted = list(dict.fromkeys(role.strip() for role in roles if role.strip()))
    actors = frozenset(wanted) & ACTOR_ROLES.keys()
    with_jobs = [role for role in wanted if role not in actors]
    found = Served(() if not with_jobs and actors else services(with_jobs, others=ACTOR_ROLES), actors)
    if (found.crawls or API in actors) and any(find_spec(module) is None for module in OF_THE_EXTRA):
        raise InvalidInput(
            f"the roles {', '.join(found.names)} include some that crawl or hand out results, and these need the extra: "
            "install regelrecht-supervisor[pipelines]"
        )
    return found


async def ensure_labels(database: Database, labels: tuple[str, ...], *, on_shared: bool) -> tuple[str, ...]:
    """Add the labels that are missing; which those were. InvalidInput on a database of the platform that nobody opened
    for them (D23)."""
    missing = await database.run(migrate.missing_job_types, labels) if labels else ()
    if not missing:
        return ()
    if not on_shared and await database.run(migrate.is_adopted):
        raise InvalidInput(
            f"this database belongs to the existing platform, and the job types {', '.join(missing)} are not among those "
            f"that its services know: they fail when they read such a row. Once they can, set PIPELINES_ON_SHARED_DATABASE=1"
        )
    await database.direct(migrate.add_job_types, missing)
    return missing
