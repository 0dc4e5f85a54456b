"""Where a law comes from and where its window goes: the corpus and a branch, or blobs and review tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar, Protocol

import structlog
import trio
from attrs import field, frozen

from actors.jobs.base import Completion, Work
from actors.jobs.enrich.library import Library, Shelf
from actors.jobs.enrich.settings import PUSH_LIMIT_S, EnrichSettings
from protocols import enrichmentfile, envelope
from protocols.compose import CarriedOver, carry_over
from protocols.corpus import CorpusPort, FileChange, Publication
from protocols.enrichmentfile import StoredState, read_state
from protocols.enrichpayload import EnrichPayload, law_folder
from protocols.enrichresult import is_complete
from protocols.failures import BaseDrift, ContentFailure, JsonObject, Permanent
from protocols.gates.schema_gate import faulty_sections
from protocols.lawschema import LawSchemas, shipped_schemas
from protocols.lawstats import CapturedMarking, CapturedUntranslatable, count
from protocols.lawtree import read_tree
from protocols.lawyaml import UnreadableLaw
from schema import enrich, enrichtasks
from schema.connection import Connection
from schema.enrich import CorpusOutcome
from schema.enrichblobs import load_pending_result, save_pending_result
from schema.enrichtasks import TaskOutcome
from schema.related import RelatedWish
from schema.rows import Job
from schema.tasks import Blob

JOB_TRAILER = "Job-Id"
_log = structlog.get_logger(__name__)


class LawMissing(Permanent):
    """The law file that the job names is neither on the branch nor on its base."""

    kind: ClassVar[str] = "law_missing"


@frozen
class Loaded:
    """What a window begins with. ``files`` are laid out for the agent; ``commit`` is where the work starts from."""

    law: bytes = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    state: StoredState = field(factory=StoredState)
    source_hash: str = ""
    commit: str | None = None
    restarted: CarriedOver | None = None
    library: Library | None = None

    @property
    def mark(self) -> str:
        """Equal for two loads from which the same window would begin: same law, same base, same cursor."""
        cursor = self.state.cursor
        parts = (blob_id(self.law), self.source_hash, "" if cursor is None else f"{cursor.position} {cursor.path}")
        return " ".join(parts)


@frozen
class Product:
    """A finished window. ``files`` by path, the law first; ``result`` as it goes into the row."""

    files: Mapping[str, bytes] = field(repr=False)
    result: JsonObject
    coverage: float
    first: bool
    window: str
    related: RelatedWish | None = None

    @property
    def law_complete(self) -> bool:
        return is_complete(self.result)


class Flow(Protocol):
    """One of the two ways of a law. ``pushes``: delivering has an effect outside the database."""

    @property
    def pushes(self) -> bool: ...

    async def resume(self, work: Work, payload: EnrichPayload, provider: str) -> Completion | None:
        """The completion of a window that an earlier attempt finished; None: there is none that still fits (D53)."""
        ...

    async def load(self, work: Work, payload: EnrichPayload) -> Loaded: ...

    async def deliver(
        self, work: Work, payload: EnrichPayload, provider: str, loaded: Loaded, product: Product
    ) -> Completion: ...


# --- corpus ------------------------------------------------------------------------------------------------------------


@frozen
class CorpusFlow:
    """``branch`` is ``enrich/{provider}``; ``base`` where harvests go. Without git both are one folder."""

    settings: EnrichSettings
    branch: CorpusPort
    base: CorpusPort
    schemas: LawSchemas = field(factory=shipped_schemas, repr=False)
    pushes: bool = True

    async def resume(self, work: Work, payload: EnrichPayload, provider: str) -> Completion | None:
        found: list[JsonObject | None] = []

        async def look(connection: Connection, job: Job) -> None:
            found.append(await load_pending_result(connection, job))

        await work.write(look)
        stored = found[-1]
        if stored is None or not _is_pending(stored):
            return None
        await self.branch.tip()
        job = stored.get("job", str(work.job.id))  # that of the law's last job, when this one follows it
        if await self.branch.find_commit({JOB_TRAILER: job, "Window": stored["window"]}) is not None:
            _log.info("an earlier attempt pushed this window; completing with its result")
            return _completion(payload, provider, stored["result"], stored["coverage"], None)
        loaded = await self.load(work, payload)
        if loaded.mark != stored["mark"]:
            return None
        _log.info("an earlier attempt finished this window; pushing its result again")
        files = {path: content.encode() for path, content in stored["files"].items()}
        product = Product(files, stored["result"], stored["coverage"], False, stored["window"])
        return await self.deliver(work, payload, provider, loaded, product)

    async def load(self, work: Work, payload: EnrichPayload) -> Loaded:
        """BaseDrift, LawMissing, InvalidInput for a path in the root, ContentFailure for a law that cannot be read, and the corpus' own failures."""
        directory = law_folder(payload.yaml_path)
        base_commit, commit = await self.base.tip(), await self.branch.tip()
        base_law = await self.base.read(payload.yaml_path, at=base_commit)
        files = {
            path: content
            for path in await self._own_files(directory, commit)
            if (content := await self.branch.read(path, at=commit)) is not None
        }
        enriched = files.get(payload.yaml_path)
        state = read_state(files.get(str(directory / enrichmentfile.FILE_NAME)))
        law, restarted = await trio.to_thread.run_sync(
            partial(_law_to_work_on, payload, base_law, enriched, state, self.schemas, git=base_commit is not None)
        )
        return Loaded(
            law=law,
            files={**files, payload.yaml_path: law},
            state=StoredState() if payload.restart else state,
            source_hash="" if base_commit is None or base_law is None else blob_id(base_law),
            commit=commit,
            restarted=restarted,
            library=Library((Shelf(self.branch, commit), Shelf(self.base, base_commit)), self.settings.output_base),
        )

    async def _own_files(self, directory: PurePosixPath, commit: str | None) -> list[str]:
        """The law's folder, and scenarios named for it: all that an agent gets to see of the corpus."""
        own = [*await self.branch.list_paths(str(directory), at=commit)]
        own += [str(directory / name) for name in (enrichmentfile.FILE_NAME, envelope.FILE_NAME)]
        features = await self.branch.list_paths("features", at=commit)
        return [*dict.fromkeys(own), *(path for path in features if directory.name in PurePosixPath(path).stem)]

    async def deliver(
        self, work: Work, payload: EnrichPayload, provider: str, loaded: Loaded, product: Product
    ) -> Completion:
        """Store the result for a retry, push, and complete with it (D53). PushConflict when somebody else was faster."""
        pending = {
            "job": str(work.job.id),
            "window": product.window,
            "result": product.result,
            "coverage": product.coverage,
            "mark": loaded.mark,
            "files": {path: content.decode(errors="replace") for path, content in product.files.items()},
        }
        await work.write(partial(save_pending_result, document=pending))
        publication = Publication(
            content=tuple(FileChange(path, content) for path, content in product.files.items()),
            subject=f"enrich({provider}): {payload.law_id} ({payload.yaml_path})",
            trailers=(
                (JOB_TRAILER, str(work.job.id)),
                ("Window", product.window),
                ("Attempt", str(work.job.attempts)),
            ),
            base=loaded.commit,
        )
        async with work.effect("pushing the enriched law", limit_s=PUSH_LIMIT_S):
            await self.branch.publish(publication, confirm=work.confirm)
        return _completion(payload, provider, product.result, product.coverage, product.related)


def _law_to_work_on(
    payload: EnrichPayload,
    base: bytes | None,
    enriched: bytes | None,
    state: StoredState,
    schemas: LawSchemas,
    *,
    git: bool,
) -> tuple[bytes, CarriedOver | None]:
    """The law that the run begins with: the enriched one while its base is the same, else the base (D55)."""
    if base is None and enriched is None:
        raise LawMissing(f"{payload.yaml_path} is not in the corpus: harvest {payload.law_id} first")
    if payload.restart and base is not None:
        return _restarted(base, base if enriched is None else enriched, schemas)
    if enriched is None or base is None:
        law = base if enriched is None else enriched
        assert law is not None
        return law, None
    stored = state.source_hash if state.cursor is not None and state.cursor.path == payload.yaml_path else ""
    actual = blob_id(base)
    if git and stored and stored != actual:
        raise BaseDrift(
            f"{payload.yaml_path} changed under its enrichment: `enrich {payload.law_id} --provider "
            f"{payload.provider or 'PROVIDER'} --restart` takes the new text over",
            path=payload.yaml_path,
            expected=stored,
            actual=actual,
        )
    if not stored and enriched != base and not _has_models(enriched):
        return base, None  # a new branch starts from another one than harvests go to
    return enriched, None


def _restarted(base: bytes, enriched: bytes, schemas: LawSchemas) -> tuple[bytes, CarriedOver]:
    """Sections that break the schema are not kept: no window but their own could mend them (D41, D55)."""
    try:
        carried = carry_over(base, enriched, faulty=partial(faulty_sections, schemas=schemas))
    except UnreadableLaw as fault:
        raise ContentFailure(f"the law cannot be taken over from its new base: {fault.message}") from fault
    return carried.content, carried


def _has_models(law: bytes) -> bool:
    try:
        return count(read_tree(law)).with_section > 0
    except UnreadableLaw:
        return False


def blob_id(content: bytes) -> str:
    """The id that git gives to these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _is_pending(stored: JsonObject) -> bool:
    return (
        isinstance(stored.get("result"), dict)
        and isinstance(stored.get("coverage"), int | float)
        and isinstance(stored.get("files"), dict)
        and all(isinstance(stored.get(key), str) for key in ("window", "mark"))
    )


def _completion(
    payload: EnrichPayload, provider: str, result: JsonObject, coverage: float, related: RelatedWish | None
) -> Completion:
    outcome = CorpusOutcome(
        payload=payload,
        provider=provider,
        law_complete=is_complete(result),
        coverage=coverage,
        untranslatables=tuple(CapturedUntranslatable(**row) for row in result.get("untranslatables", [])),
        markings=tuple(CapturedMarking(**_marking(row)) for row in result.get("markings", [])),
        related=related,
    )
    return Completion(result, partial(enrich.settle, outcome=outcome))


def _marking(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "target": tuple(row.get("target", ()))}


# --- tasks -------------------------------------------------------------------------------------------------------------


@frozen
class TaskFlow:
    """A law that lives in blobs and goes to the person who asked. Nothing is pushed, no law entry touched."""

    pushes: bool = False

    async def resume(self, work: Work, payload: EnrichPayload, provider: str) -> Completion | None:
        return None

    async def load(self, work: Work, payload: EnrichPayload) -> Loaded:
        """ContentFailure without an input blob; InvalidInput for a blob whose path leaves the folder."""
        found: list[Sequence[Blob]] = []

        async def read(connection: Connection, job: Job) -> None:
            found.append(await enrichtasks.load_input(connection, job))

        await work.write(read)
        files = {blob.path: blob.content.encode() for blob in found[-1]}
        if payload.yaml_path not in files:
            raise LawMissing(f"geen van de input-blobs is {payload.yaml_path}")
        directory = PurePosixPath(payload.yaml_path).parent
        state = read_state(files.get(str(directory / enrichmentfile.FILE_NAME)))
        return Loaded(law=files[payload.yaml_path], files=files, state=state)

    async def deliver(
        self, work: Work, payload: EnrichPayload, provider: str, loaded: Loaded, product: Product
    ) -> Completion:
        files = tuple(Blob(path, content.decode(errors="replace")) for path, content in product.files.items())
        outcome = TaskOutcome(payload, provider, files, product.law_complete, product.first)
        return Completion(product.result, partial(enrichtasks.settle, outcome=outcome))
