"""A mirror: the raw files of laws in a folder, in the repository's own layout, to harvest from offline and again.

``BWB_REPOSITORY_URL`` may name such a folder, or a server that serves it (:mod:`actors.ports.mirrorserver`). The files
are byte for byte what the repository sent. ``index.json`` lists them for people and checks; nothing needs it to harvest.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen

from actors.ports.cvdrsource import fetch_records, fetch_version, find_versions, records_path
from actors.ports.fetch import Fetched
from actors.ports.lawfiles import check_request
from actors.ports.lawsource import LawRepository
from protocols.bwb.manifest import Expression, Manifest, choose
from protocols.downloads import NotServed
from protocols.failures import NotHarvestable
from protocols.law_ids import LawSource, law_source, parse_bwb_id, parse_cvdr_id

INDEX: Final = "index.json"


@frozen
class MirroredFile:
    """``path`` is relative to the mirror folder and has the shape of the repository's address."""

    path: str
    url: str
    sha256: str
    size_bytes: int


@frozen
class MirroredLaw:
    """What was saved of one law. ``labels`` are its texts; none for a law without text, whose manifest says why."""

    law_id: str
    title: str
    labels: tuple[str, ...]
    files: tuple[MirroredFile, ...]
    warnings: tuple[str, ...] = ()


async def mirror_law(
    laws: LawRepository, folder: Path, law_id: str, *, day: date | None = None, every_text: bool = False
) -> MirroredLaw:
    """Save one law, national or decentral; see :func:`mirror_bwb` and :func:`mirror_cvdr`."""
    source = check_request(law_source, law_id, day, laws.today())
    if source is LawSource.CVDR:
        return await mirror_cvdr(laws, folder, law_id, day=day, every_text=every_text)
    return await mirror_bwb(laws, folder, law_id, day=day, every_text=every_text)


async def mirror_bwb(
    laws: LawRepository, folder: Path, bwb_id: str, *, day: date | None = None, every_text: bool = False
) -> MirroredLaw:
    """Save one national law: manifest, metadata, and the text for ``day`` (today without), or ``every_text`` not deleted.

    Raises what fetching raises (:mod:`actors.ports.lawsource`), and ``OSError`` when the folder cannot be written. The
    manifest is written last, so that it never names a text that an interrupted run has not saved.
    """
    today = laws.today()
    check_request(parse_bwb_id, bwb_id, day, today)
    manifest_file, manifest = await laws.bwb_manifest(bwb_id)
    wanted, warnings = _wanted(manifest, day, today, every_text=every_text)
    title, files = await _metadata(laws, bwb_id, needed=bool(wanted))
    saved = []
    for expression in wanted:
        text_file, doubts = await laws.bwb_text(bwb_id, expression)
        warnings = (*warnings, *doubts)
        saved.append(await _save(laws, folder, text_file))
    saved += [await _save(laws, folder, file) for file in (*files, manifest_file)]
    law = MirroredLaw(bwb_id, title, tuple(e.label for e in wanted), tuple(saved), warnings)
    await trio.to_thread.run_sync(add_to_index, folder, law)
    return law


async def _metadata(laws: LawRepository, bwb_id: str, *, needed: bool) -> tuple[str, tuple[Fetched, ...]]:
    """The title, and the metadata file; a law without text does without, as its harvest never asks for it."""
    try:
        file, wti = await laws.bwb_wti(bwb_id)
    except NotServed:
        if needed:
            raise
        return bwb_id, ()
    return wti.title, (file,)


async def mirror_cvdr(
    laws: LawRepository, folder: Path, cvdr_id: str, *, day: date | None = None, every_text: bool = False
) -> MirroredLaw:
    """Save one decentral regulation: the version that is meant, or ``every_text``; its search records, its manifest.

    Search records and manifest are saved where there are any. Raises like :func:`mirror_bwb`.
    """
    fetcher, today = laws.fetcher, laws.today()
    asked = check_request(parse_cvdr_id, cvdr_id, day, today)
    known = await find_versions(fetcher, asked)
    choice = known.choose(asked, day, today)
    wanted = [known.choose(asked.at(v.number), None, today) for v in known.versions] if every_text else [choice]
    saved = [await _save(laws, folder, await fetch_version(fetcher, version)) for version in wanted]
    records = await fetch_records(fetcher, asked)
    if records is not None:
        saved.append(await _save_as(folder, records_path(asked.work), records))
    if known.manifest_file is not None:
        saved.append(await _save(laws, folder, known.manifest_file))
    record = choice.version.metadata
    labels = tuple(str(version.cvdr_id) for version in wanted)
    title = asked.work if record is None else record.title
    law = MirroredLaw(asked.work, title, labels, tuple(saved), choice.warnings)
    await trio.to_thread.run_sync(add_to_index, folder, law)
    return law


def add_to_index(folder: Path, law: MirroredLaw) -> None:
    """Enter ``law`` into ``index.json``; its texts saved by earlier runs stay listed. Blocks."""
    index = read_index(folder)
    entry = index["laws"].setdefault(law.law_id, {"title": law.title, "texts": []})
    entry["title"] = law.title
    entry["texts"] = sorted({*entry["texts"], *law.labels})
    for file in law.files:
        index["files"][file.path] = {"url": file.url, "sha256": file.sha256, "size_bytes": file.size_bytes}
    text = json.dumps(index, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    _write(folder / INDEX, text.encode())


def read_index(folder: Path) -> dict[str, Any]:
    """``{"laws": {id: {title, texts}}, "files": {path: {url, sha256, size_bytes}}}``; empty without a readable index."""
    try:
        index = json.loads((folder / INDEX).read_bytes())
    except (FileNotFoundError, ValueError):
        index = None
    if (
        not isinstance(index, dict)
        or not isinstance(index.get("laws"), dict)
        or not isinstance(index.get("files"), dict)
    ):
        return {"laws": {}, "files": {}}
    return index


def _wanted(
    manifest: Manifest, day: date | None, today: date, *, every_text: bool
) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    if every_text and manifest.live:
        return manifest.live, manifest.warnings
    try:
        choice = choose(manifest, requested=day, today=today)
    except NotHarvestable as absence:
        return (), (absence.message,)
    return (choice.expression,), choice.warnings


async def _save(laws: LawRepository, folder: Path, file: Fetched) -> MirroredFile:
    return await _save_as(folder, _relative(file.url, laws.fetcher.settings.bases), file)


async def _save_as(folder: Path, path: str, file: Fetched) -> MirroredFile:
    await trio.to_thread.run_sync(_write, folder / path, file.content)
    return MirroredFile(path, file.url, file.sha256, len(file.content))


def _relative(url: str, bases: Iterable[str]) -> str:
    """The part of ``url`` below its base: ids and labels were checked, so it cannot lead out of the folder."""
    for base in bases:
        if url.startswith(base + "/"):
            return url.removeprefix(base + "/")
    raise ValueError(f"{url} is below none of the configured bases")


def _write(path: Path, content: bytes) -> None:
    """Write and rename: a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
