"""Where the files of a law stand in the corpus, relative to its root."""

from pathlib import PurePosixPath
from typing import Final

from protocols.law import Law

DEFAULT_BASE: Final = "regulation/nl"


def law_file(law: Law, base: str = DEFAULT_BASE) -> PurePosixPath:
    """``{base}/{layer}/{slug}/{valid_from}.yaml``. Two laws of one title and date would share it."""
    return PurePosixPath(base) / law.layer.directory / law.slug / f"{law.valid_from.isoformat()}.yaml"


def status_file(file: PurePosixPath) -> PurePosixPath:
    """The ``status.yaml`` beside a law file; one for all dates of the law."""
    return file.with_name("status.yaml")


def draft_file(file: PurePosixPath) -> PurePosixPath:
    """The hidden name beside ``file`` that is written first, then renamed over it."""
    return file.with_name(f".{file.name}.tmp")
