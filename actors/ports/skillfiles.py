"""The skill texts on disk: ours, or those of ``SKILLS_DIR`` (D58)."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from protocols.skillset import SkillSet

MOST_BYTES = 1 << 20
_SUFFIXES = {".md", ".json", ".yaml"}


def skills_folder(skills_dir: Path | None) -> Path:
    """The folder whose subfolders are skills: ``{SKILLS_DIR}/.claude/skills`` where that is there, else our own."""
    if skills_dir is not None and (given := skills_dir / ".claude" / "skills").is_dir():
        return given
    return Path(str(files("protocols") / "skills"))


def read_skills(folder: Path) -> SkillSet:
    """Every text below ``folder``, by its path there. Links are not followed; OSError from the disk."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_BYTES:
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return SkillSet(found)
