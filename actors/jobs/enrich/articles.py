"""Laws of a folder by what other laws call them, for the plan of an enrichment by article (``enrich.md`` 13)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from actors.jobs.enrich.draft import LAW_LIMIT_BYTES
from actors.jobs.enrich.library import SIDECARS, newest
from protocols.articleplan import ArticlePlan, LawParts, plan_articles
from protocols.failures import InvalidInput
from protocols.lawtree import law_date, read_tree
from protocols.lawyaml import UnreadableLaw

_HEADER_BYTES: Final = 64 * 1024
_BWB_ID = re.compile(rb"^bwb_id:[ \t]*['\"]?(BWBR[0-9]{7})\b", re.MULTILINE)


def plan_in_folder(
    folder: Path, base: str, path: str, articles: tuple[str, ...], *, depth: int | None, most: int
) -> ArticlePlan:
    """The plan for ``articles`` of the law at ``path``; other laws are looked for below ``base`` of the folder.

    InvalidInput also for a law that cannot be read; OSError.
    """
    try:
        tree = read_tree((folder / path).read_bytes())
    except UnreadableLaw as fault:
        raise InvalidInput(f"{path} cannot be read: {fault.message}") from fault
    day = law_date(tree)
    root = folder / base if (folder / base).is_dir() else folder

    @cache
    def index() -> Mapping[str, list[str]]:
        return _by_bwb_id(folder, root)

    @cache
    def find(bwb_id: str) -> LawParts | str:
        texts = index().get(bwb_id, [])
        if not texts:
            return "is not in the corpus"
        found = newest(texts, day)
        if found is None:
            return f"has no text in the corpus that applied on {day}; the first there is {min(Path(text).stem for text in texts)}"
        try:
            return LawParts.of(found, read_tree((folder / found).read_bytes()))
        except UnreadableLaw as fault:
            return f"cannot be read ({found}: {fault.message})"

    return plan_articles(LawParts.of(path, tree), articles, depth=depth, most=most, find=find)


def _by_bwb_id(folder: Path, root: Path) -> Mapping[str, list[str]]:
    """Paths, relative to ``folder``, of all versions of each national law. Links are not followed."""
    found: dict[str, list[str]] = {}
    for file in sorted(root.rglob("*.yaml")):
        relative = file.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if hidden or file.name in SIDECARS or file.is_symlink() or file.stat().st_size > LAW_LIMIT_BYTES:
            continue
        with file.open("rb") as content:
            named = _BWB_ID.search(content.read(_HEADER_BYTES))
        if named:
            found.setdefault(named[1].decode(), []).append(str(relative))
    return found
