"""Progress of a window while agents work: the agent's note, the agents' view, and how far the law is (``enrich.md`` 7)."""

from __future__ import annotations

import trio
from attrs import define, field

from actors.jobs.enrich.desk import Desk, read_left
from actors.jobs.enrich.draft import LAW_LIMIT_BYTES
from actors.ports.agentfolders import SliceFolder
from protocols import progressdoc
from protocols.lawstats import LawCount, count
from protocols.lawtree import read_tree
from protocols.lawyaml import UnreadableLaw


@define(eq=False)
class ProgressWatch:
    """Reports every few seconds, and once more at the end, so that the last state stays to be seen."""

    desk: Desk
    _counts: dict[SliceFolder, LawCount] = field(init=False, factory=dict)
    _before: LawCount = field(init=False, default=LawCount(0, 0))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        before = await trio.to_thread.run_sync(_counted, self.desk.draft.law)
        if before is not None:
            self._before = before
        task_status.started()
        while True:
            await self.report()
            await trio.sleep(self.desk.settings.progress_s)

    async def report(self) -> None:
        desk = self.desk
        folders: tuple[SliceFolder, ...] = desk.slices or (desk.folder,)
        for folder in folders:
            content = await read_left(folder, desk.note_path, most_bytes=progressdoc.NOTE_LIMIT_BYTES)
            if content is not None:
                desk.note = progressdoc.read_note(content, desk.note)
                break
        agents = desk.calls.view.progress(trio.current_time())
        desk.work.report(progressdoc.progress_document(desk.note, agents, await self._law(folders), desk.window))

    async def _law(self, folders: tuple[SliceFolder, ...]) -> LawCount:
        """Over all slices: what the law had, and what each of them added. An unreadable file counts as it did last."""
        for folder in folders:
            content = await read_left(folder, self.desk.path, most_bytes=LAW_LIMIT_BYTES)
            counted = None if content is None else await trio.to_thread.run_sync(_counted, content)
            if counted is not None:
                self._counts[folder] = counted
        if len(folders) == 1:
            return self._counts.get(folders[0], self._before)
        known = [self._counts[folder] for folder in folders if folder in self._counts]
        gained = sum(max(0, one.with_section - self._before.with_section) for one in known)
        return LawCount(self._before.total, self._before.with_section + gained)


def _counted(content: bytes) -> LawCount | None:
    try:
        return count(read_tree(content))
    except UnreadableLaw:
        return None
