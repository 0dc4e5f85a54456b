"""The tools of each CLI as its model has to call them."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from tests.kit.models.script import Calls


@frozen
class Hands:
    """Tool calls in the spelling of one provider. Paths are absolute."""

    provider: str

    @property
    def _is_claude(self) -> bool:
        return self.provider == "claude"

    def reads(self, path: Path | str) -> Calls:
        return Calls("Read", {"file_path": str(path)}) if self._is_claude else Calls("read", {"filePath": str(path)})

    def edits(self, path: Path | str, old: str, new: str) -> Calls:
        if self._is_claude:
            return Calls("Edit", {"file_path": str(path), "old_string": old, "new_string": new})
        return Calls("edit", {"filePath": str(path), "oldString": old, "newString": new})

    def writes(self, path: Path | str, content: str) -> Calls:
        name, key = ("Write", "file_path") if self._is_claude else ("write", "filePath")
        return Calls(name, {key: str(path), "content": content})

    def shell(self, command: str) -> Calls:
        return Calls("Bash" if self._is_claude else "bash", {"command": command, "description": "A command"})
