"""Enriching a law in a folder, for ``enrich-once``: the same windows, gates and rounds, without queue, database or git.

Agents work in a copy, with the user's own HOME, login and configuration (D48); the folder gets the law, its cursor and its
report when a window is done.
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Final
from uuid import uuid4

import trio
from attrs import field, frozen

from actors.jobs.base import Work
from actors.jobs.enrich.desk import Desk
from actors.jobs.enrich.flows import CorpusFlow, Loaded, Product
from actors.jobs.enrich.job import Enrich
from actors.jobs.enrich.lane import Lane
from actors.jobs.enrich.library import SIDECARS
from actors.jobs.enrich.rounds import look
from actors.jobs.enrich.settings import EnrichSettings
from actors.jobs.enrich.translate import assignments_of, folders_of, prompt_of
from actors.ports.agentfolders import WorkRoot
from actors.ports.agentprocess import ProcessRunner
from actors.ports.foldercorpus import FolderCorpus
from actors.ports.guardian import Guardian
from actors.ports.queue import UnitOfWork
from actors.ports.schemafiles import load_schemas
from actors.ports.skillfiles import read_skills, skills_folder
from protocols.dialects.base import secret_name
from protocols.enrichpayload import EnrichPayload, law_folder, law_path, payload_document
from protocols.failures import InvalidInput, JsonObject
from protocols.gates.findings import Reading
from protocols.gates.table import GATES
from protocols.lawschema import LawSchemas
from protocols.lawtree import read_tree
from protocols.lawyaml import UnreadableLaw
from protocols.skillset import NotConfigured, plan_steps
from protocols.windows import Cursor, Window, plan_window
from schema.pauses import Usable
from schema.rows import Job, JobStatus, JobType, Lease

MASK: Final = "***"

Report = Callable[[JsonObject], None]
"""Takes the progress document of a running window."""


def _nobody(document: JsonObject) -> None:
    """Hears the progress of a window and does nothing with it."""


@frozen
class LocalWork:
    """The :class:`~actors.jobs.base.Work` of a window that no queue knows of: what a job stores is stored nowhere."""

    job: Job
    tell: Report = field(repr=False)

    @property
    def lease(self) -> Lease:
        return Lease(self.job.id, self.job.id, self.job.attempts)

    def report(self, document: JsonObject) -> None:
        self.tell(document)

    async def confirm(self) -> None:
        """Nobody else can have it."""

    @asynccontextmanager
    async def effect(self, what: str, *, limit_s: float) -> AsyncIterator[None]:
        yield

    async def write(self, unit: UnitOfWork) -> None:
        """There is no database to run ``unit`` on."""

    def started(self) -> None:
        """No budget counts it."""


@frozen
class SlicePreview:
    """One agent of a window: which entries it gets, what it is told, how its CLI is started. No secret is in ``env``."""

    numbers: tuple[str, ...]
    prompt: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    on_stdin: bool


@frozen
class WindowPreview:
    """``findings`` by gate, of the law as it is: of the window's entries, and for the closing gates of the whole law."""

    window: Window
    slices: tuple[SlicePreview, ...]
    findings: Mapping[str, Reading]


@frozen
class LocalLaw:
    """One law in a folder, with an agent for it. ``path`` is relative to ``settings.folder``.

    ``chosen``: it works on these entries, by position, and leaves the cursor where it is.
    """

    settings: EnrichSettings
    payload: EnrichPayload
    handler: Enrich
    tell: Report = field(repr=False)
    chosen: tuple[int, ...] | None = None

    @classmethod
    def at(
        cls,
        settings: EnrichSettings,
        path: str,
        provider: str,
        *,
        guardian: Guardian | None = None,
        tell: Report = _nobody,
        beside: Path | None = None,
    ) -> LocalLaw:
        """``beside``: an empty folder that takes the results instead of ``settings.folder``, which stays as it is.

        InvalidInput for a path that leads nowhere or to no law, or skills that are not there; OSError from the disk.
        """
        path = law_path(path)
        file = settings.folder / path
        if not file.is_file():
            raise InvalidInput(f"{file} is no file: give the path of a law below {settings.folder}")
        if file.name in SIDECARS or file.name.startswith("."):
            raise InvalidInput(f"{path} stands beside a law and is none: give the file of the law itself")
        law_folder(path)
        skills, schemas = skills_folder(settings.skills_dir), load_schemas(settings.schema_dir)
        handler = Enrich(
            settings=settings,
            lanes={provider: Lane.of(provider, settings, skills)},
            flows={provider: _flow(settings, path, schemas, beside)},
            root=WorkRoot(settings.work_root, least_free_bytes=0),
            skills=read_skills(skills),
            schemas=schemas,
            runner=lambda: ProcessRunner(guardian, max_output_bytes=settings.max_output_bytes),
        )
        try:
            plan_steps(handler.skills, handler.lanes[provider].dialect.granted_tools)
        except NotConfigured as lack:
            raise InvalidInput(lack.message) from lack
        payload = EnrichPayload(law_id=_law_id(file), yaml_path=path, provider=provider)
        return cls(settings, payload, handler, tell)

    @property
    def provider(self) -> str:
        assert self.payload.provider is not None
        return self.payload.provider

    @property
    def lane(self) -> Lane:
        return self.handler.lanes[self.provider]

    @property
    def flow(self) -> CorpusFlow:
        return self.handler.flows[self.provider]

    async def enrich(self) -> Product:
        """Work one window off, from the cursor in the folder, and write what came of it. Raises how it failed."""
        async with self._laid_out() as (work, loaded, desk):
            product = await self.handler.work_off(desk, loaded, self.lane)
        await self.flow.deliver(work, self.payload, self.provider, loaded, product)
        return product

    async def next_window(self) -> Window:
        """The next one; an empty one when the law is done."""
        async with self._laid_out() as (_, _, desk):
            return desk.window

    async def findings(self) -> Mapping[str, Reading]:
        """What the gates find in the law as it is, by gate."""
        async with self._laid_out() as (_, _, desk):
            return {gate.name: (await look(desk, gate, None)).reading for gate in GATES}

    async def preview(self, windows: int) -> list[WindowPreview]:
        """The next windows, at most so many, as they would be worked off. Nothing is called and nothing is written."""
        async with self._laid_out() as (_, _, desk):
            found: list[WindowPreview] = []
            while len(found) < windows and not desk.window.empty:
                found.append(await self._preview(desk))
                cursor = Cursor(desk.window.next_position, desk.path)
                if desk.window.law_complete or self.chosen is not None:
                    break
                desk.window = plan_window(self.settings.window_limit, desk.window.total, cursor, desk.path)
            return found

    async def _preview(self, desk: Desk) -> WindowPreview:
        parts = await assignments_of(desk)
        folders = await folders_of(desk, len(parts))
        prompts = [prompt_of(desk, folder, part) for folder, part in zip(folders, parts, strict=True)]
        numbers = desk.draft.opening.numbers
        slices = []
        for order, part in zip(desk.calls.translations(folders, prompts, desk.attach), parts, strict=True):
            async with self.lane.slice_call(order, label="translate", limit_s=math.inf, credential=None) as call:
                command = call.command
                slices.append(
                    SlicePreview(
                        tuple(numbers[position] for position in part),
                        order.prompt,
                        command.argv,
                        {name: MASK if secret_name(name) else value for name, value in sorted(command.env.items())},
                        on_stdin=command.stdin is not None,
                    )
                )
        own = desk.numbers()
        findings = {gate.name: (await look(desk, gate, None if gate.closing else own)).reading for gate in GATES}
        return WindowPreview(desk.window, tuple(slices), findings)

    @asynccontextmanager
    async def _laid_out(self) -> AsyncIterator[tuple[Work, Loaded, Desk]]:
        work = LocalWork(_job(self.payload), self.tell)
        deadline = trio.current_time() + self.settings.job_timeout_s
        arguments = (work, self.payload, self.flow, self.lane, Usable(), deadline)
        async with self.handler.laid_out(*arguments, chosen=self.chosen) as (loaded, desk):
            yield work, loaded, desk


def _flow(settings: EnrichSettings, path: str, schemas: LawSchemas, beside: Path | None) -> CorpusFlow:
    folder = FolderCorpus(settings.folder, "--corpus")
    if beside is None:
        return CorpusFlow(settings, folder, folder, schemas)
    directory = PurePosixPath(path).parent
    shutil.copytree(settings.folder / directory, beside / directory, symlinks=True)
    return CorpusFlow(settings, FolderCorpus(beside), folder, schemas)


def _law_id(file: Path) -> str:
    """As the law says; what cannot be read is told when the window is laid out. InvalidInput for what is no law."""
    try:
        tree = read_tree(file.read_bytes())
    except UnreadableLaw:
        return file.stem
    if "articles" not in tree:
        raise InvalidInput(f"{file} is no law file: it has no articles")
    found = tree.get("bwb_id") or tree.get("$id")
    return found if isinstance(found, str) else file.stem


def _job(payload: EnrichPayload) -> Job:
    now = dt.datetime.now(dt.UTC)
    return Job(
        id=uuid4(),
        job_type=JobType.ENRICH,
        law_id=payload.law_id,
        status=JobStatus.PROCESSING,
        priority=0,
        attempts=1,
        max_attempts=1,
        created_at=now,
        updated_at=now,
        payload=payload_document(payload),
    )
