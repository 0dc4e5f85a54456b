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

from actors.ports.fetch import Fetched
from actors.ports.lawsource import LawRepository, check_request
from protocols.bwb.manifest import Expression, Manifest, choose
from protocols.failures import NotHarvestable
from protocols.law_ids import parse_bwb_id

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
    wti_file, wti = await laws.bwb_wti(bwb_id)
    saved = []
    for expression in wanted:
        text_file, doubts = await laws.bwb_text(bwb_id, expression)
        warnings = (*warnings, *doubts)
        saved.append(await _save(laws, folder, text_file))
    saved.append(await _save(laws, folder, wti_file))
    saved.append(await _save(laws, folder, manifest_file))
    law = MirroredLaw(bwb_id, wti.title, tuple(e.label for e in wanted), tuple(saved), warnings)
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
    path = _relative(file.url, laws.fetcher.settings.bases)
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
