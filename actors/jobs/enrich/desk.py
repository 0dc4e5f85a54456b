"""Everything that the parts of one window's work share."""

from __future__ import annotations

from pathlib import PurePosixPath

import trio
from attrs import define, field

from actors.jobs.base import Work
from actors.jobs.enrich.calls import JobCalls
from actors.jobs.enrich.draft import Draft
from actors.jobs.enrich.library import Library
from actors.jobs.enrich.settings import EnrichSettings
from actors.ports.agentfolders import AgentFileRefused, AttemptFolder, SliceFolder, read_agent_file
from protocols import enrichmentfile, envelope, progressdoc
from protocols.enrichpayload import EnrichPayload
from protocols.failures import JsonObject, ProviderTrouble
from protocols.gates.findings import Finding
from protocols.gates.reading import NoCorpus, Surroundings
from protocols.lawschema import LawSchemas, has_markings, version_of
from protocols.lawtree import MARKINGS, UNTRANSLATABLES
from protocols.prompts import ATTACH_LIMIT_BYTES, Paths
from protocols.skillset import SkillSet
from protocols.windows import Window

COMPANION_LIMIT_BYTES = 1024 * 1024


@define(eq=False)
class Desk:
    """One window at work. ``numbers`` are those of its entries, as the law writes them; ``entries`` of the whole law."""

    work: Work
    settings: EnrichSettings
    payload: EnrichPayload
    provider: str
    folder: AttemptFolder
    window: Window
    draft: Draft
    calls: JobCalls
    skills: SkillSet
    schemas: LawSchemas
    library: Library | None = None
    done: tuple[str, ...] = ()
    """Numbers that an earlier attempt finished (D43)."""
    feedback: list[JsonObject] = field(init=False, factory=list)
    note: JsonObject = field(init=False, factory=dict)
    slices: tuple[SliceFolder, ...] = field(init=False, default=())
    """While several agents translate at once: where each of them works."""
    standing: frozenset[Finding] = field(init=False, default=frozenset())
    """Breaches of the schema that the run found in sections outside its window: none of its agents may mend them (D41)."""
    trouble: ProviderTrouble | None = field(init=False, default=None)
    """What a feedback round met of its provider; the window itself went on without it (D42)."""

    @property
    def path(self) -> str:
        return self.draft.path

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath(self.path).parent

    @property
    def envelope_path(self) -> str:
        return str(self.directory / envelope.FILE_NAME)

    @property
    def enrichment_path(self) -> str:
        return str(self.directory / enrichmentfile.FILE_NAME)

    @property
    def note_path(self) -> str:
        return str(self.directory / progressdoc.FILE_NAME)

    @property
    def first(self) -> bool:
        """Whether the walk through the law begins with this window."""
        return self.window.first

    def paths(self, folder: SliceFolder) -> Paths:
        """As an agent in ``folder`` is told."""
        return Paths(self.path, self.envelope_path, str(folder.checkout / self.note_path))

    def numbers(self) -> tuple[str, ...]:
        """Of the window."""
        numbers = self.draft.opening.numbers
        return tuple(numbers[position] for position in self.window.positions)

    @property
    def gap_key(self) -> str:
        """The word of the law's schema version for a gap."""
        tree = self.draft.opening.tree
        return MARKINGS if has_markings(version_of(tree)) else UNTRANSLATABLES

    @property
    def attach(self) -> str | None:
        """The law itself goes along with a prompt while it is small (D59)."""
        return self.path if len(self.draft.on_disk) < ATTACH_LIMIT_BYTES else None

    async def read(self, name: str, *, most_bytes: int = COMPANION_LIMIT_BYTES) -> bytes | None:
        """A file that an agent left in the checkout; None when there is none, or none that we read."""
        return await read_left(self.folder, name, most_bytes=most_bytes)

    async def surroundings(self) -> Surroundings:
        """What the gates may look at beside the law."""
        reported = await trio.to_thread.run_sync(envelope.read_envelope, await self.read(self.envelope_path))
        companions = {
            name: content.decode(errors="replace")
            for name in (self.envelope_path,)
            if (content := await self.read(name)) is not None
        }
        return Surroundings(
            schemas=self.schemas,
            corpus=NoCorpus() if self.library is None else self.library,
            companions=companions,
            skipped=frozenset(entry.number for entry in reported.skipped if entry.reason),
        )


async def read_left(folder: SliceFolder, name: str, *, most_bytes: int = COMPANION_LIMIT_BYTES) -> bytes | None:
    """A file that an agent left in ``folder``; None when there is none, or it is no plain file of this size."""

    def read() -> bytes | None:
        try:
            return read_agent_file(folder.checkout, name, most_bytes=most_bytes)
        except AgentFileRefused:
            return None

    return await trio.to_thread.run_sync(read)
