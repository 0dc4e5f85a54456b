"""What people see of a tool call: its name and what it works on, never what was written, searched or printed.

Law text, prompts and file contents must not reach progress rows, logs or errors (``enrich.md`` 3.4). Name and target come
from the model, so both are hostile: names are taken only when they look like one, targets lose control characters, and
of a shell command only the program is shown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

LONGEST_SUMMARY: Final = 120
UNKNOWN_TOOL: Final = "unknown"
"""Shown for a tool whose name is no name."""

_LONGEST_PATH: Final = 4096
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]{1,60}")
_HOST = re.compile(r"[a-z0-9.-]{1,100}")


class ToolArguments(msgspec.Struct):
    """The arguments that can name a target, in the spelling of either CLI. Everything else is skipped while decoding."""

    file_path: Any = None
    filePath: Any = None  # noqa: N815 - opencode's spelling
    notebook_path: Any = None
    path: Any = None
    command: Any = None
    url: Any = None


_ARGUMENTS = msgspec.json.Decoder(ToolArguments)


def shown_name(name: str) -> str:
    """``name`` when it looks like the name of a tool, else ``unknown``: a model can call anything a tool."""
    return name if _NAME.fullmatch(name) else UNKNOWN_TOOL


def target_of(name: str, arguments: bytes, cwd: str | None) -> str:
    """What the tool ``name`` works on, "" when that is nothing to show.

    ``arguments`` is the JSON of its input; anything that is no object names no target. Paths below ``cwd`` are shown
    relative to it, others by their last two parts.
    """
    find = _TARGETS.get(name.lower())
    if find is None:
        return ""
    try:
        found = _ARGUMENTS.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return find(found, cwd)


def length_of(arguments: bytes) -> int:
    """Characters of the JSON of a tool's input, as the CLI wrote it."""
    return len(arguments) if arguments.isascii() else len(arguments.decode(errors="replace"))


def summary(name: str, target: str, *, failed: bool = False) -> str:
    """One line of at most 120 characters, before the ``(error)`` of a call that failed."""
    line = f"{name} {target}" if target else name
    if len(line) > LONGEST_SUMMARY:
        line = line[: LONGEST_SUMMARY - 1] + "…"
    return f"{line} (error)" if failed else line


def _file(found: ToolArguments, cwd: str | None) -> str:
    for value in (found.file_path, found.filePath, found.notebook_path):
        if isinstance(value, str):
            return _path(value[:_LONGEST_PATH], cwd)
    return ""


def _searched(found: ToolArguments, cwd: str | None) -> str:
    """The folder only: the pattern can quote the law or the prompt."""
    return _path(found.path[:_LONGEST_PATH], cwd) if isinstance(found.path, str) else ""


def _program(found: ToolArguments, cwd: str | None) -> str:
    words = found.command.split(maxsplit=1) if isinstance(found.command, str) else []
    match = _PROGRAM.match(words[0]) if words else None
    # ``NAME=text program``: the first word is content, and what follows cannot be told from it without a shell.
    return "" if match is None or "=" in words[0] else match[0]


def _host(found: ToolArguments, cwd: str | None) -> str:
    try:
        host = urlsplit(found.url).hostname if isinstance(found.url, str) else None
    except ValueError:
        return ""
    return host if host and _HOST.fullmatch(host) else ""


@lru_cache(maxsize=64)
def _path(path: str, cwd: str | None) -> str:
    """The same few files are worked on again and again."""
    if not path.isprintable():
        path = "".join(char for char in path if char.isprintable())
    if not path:
        return ""
    normal = posixpath.normpath(path)
    root = posixpath.normpath(cwd).rstrip("/") if cwd else ""
    if root and normal == root:
        return "."
    if root and normal.startswith(f"{root}/"):
        return normal.removeprefix(f"{root}/")
    if posixpath.isabs(normal) or normal.startswith(".."):
        return "/".join([part for part in normal.split("/") if part not in {"", ".."}][-2:])
    return normal


_TARGETS: Mapping[str, Callable[[ToolArguments, str | None], str]] = {
    **dict.fromkeys(("read", "edit", "write", "notebookedit"), _file),
    **dict.fromkeys(("grep", "glob", "list"), _searched),
    "bash": _program,
    "webfetch": _host,
}
"""By lower-case name. A tool that is not here, such as ``Task`` or opencode's ``invalid``, shows no target."""
