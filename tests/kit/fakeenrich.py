"""The command line with an enrich job type that calls no agent: ``python -m tests.kit.fakeenrich run --roles enrich``.

A run writes one line into the ledger and ends at once. One on claude picks its credential as the product does; with one
that ``BAD`` names it meets trouble with its login.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import define

import actors.jobs
from actors.jobs import Means
from actors.jobs.base import Completion, Work
from protocols.budget import CLAUDE
from protocols.credentials import Credential, choose, credentials_of
from protocols.failures import ProviderTrouble
from schema import pauses
from schema.connection import Connection
from schema.pauses import Usable
from schema.rows import Job, JobType

LEDGER = "FAKE_ENRICH_LEDGER"
BAD = "FAKE_ENRICH_BAD"
"""A file with the tokens that are refused, one a line."""


@define
class FakeEnrich:
    ledger: Path
    bad: Path
    job_type: JobType = JobType.ENRICH

    async def run(self, work: Work) -> Completion:
        provider = str(work.job.run_provider)
        work.started()
        credential = await self._credential(work) if provider == CLAUDE else None
        line = {"provider": provider, "law": work.job.law_id, "pid": os.getpid(), "credential": str(credential)}
        with self.ledger.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if credential is not None and credential.secret in self.bad.read_text().splitlines():
            raise ProviderTrouble(
                "claude failed (auth, exit code 1)", provider=CLAUDE, reason="auth", credential=credential.hash
            )
        return Completion({"provider": provider}, _nothing)

    async def _credential(self, work: Work) -> Credential | None:
        found: list[Usable] = []

        async def look(connection: Connection, job: Job) -> None:
            found.append(await pauses.usable_for(connection, CLAUDE, job.id))

        await work.write(look)
        ours = credentials_of(CLAUDE, os.environ)
        probed = tuple(one for one in ours if one.hash in found[-1].probes)
        return choose(probed or ours, time.time(), found[-1].benched)


async def _nothing(connection: Connection, job: Job) -> None:
    return None


def runs(ledger: Path) -> Counter[tuple[str, str]]:
    """How many runs there were, by provider and credential."""
    if not ledger.exists():
        return Counter()
    lines: list[dict[str, Any]] = [json.loads(line) for line in ledger.read_text().splitlines()]
    return Counter((line["provider"], line["credential"]) for line in lines)


@asynccontextmanager
async def open_enrich(means: Means) -> AsyncIterator[FakeEnrich]:
    yield FakeEnrich(Path(os.environ[LEDGER]), Path(os.environ[BAD]))


def main() -> None:
    """The product's own command line, with the other enrich job type in its table."""
    from supervisor.__main__ import main as command_line

    actors.jobs.TABLE = {**actors.jobs.TABLE, JobType.ENRICH: "tests.kit.fakeenrich:open_enrich"}
    command_line()


if __name__ == "__main__":
    main()
