"""The real claude CLI through agent actor, launcher and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.agentworkshop import EDITED, LAW, workshop
from tests.kit.models.script import Answer, Calls, Says, Thinks, Tokens, calls, in_order, says

pytestmark = [pytest.mark.agents, pytest.mark.time_limit(55)]


async def test_a_call_that_reads_and_edits_is_told_in_full(tmp_path: Path) -> None:
    async with workshop("claude", tmp_path, lambda asked: script(asked)) as shop:
        path = str(shop.law)
        script = in_order(
            Answer((Thinks("Eerst lezen."), Says("Ik lees."), Calls("Read", {"file_path": path})), tokens=Tokens(14, 310, 0, 21000)),
            calls("Edit", Tokens(8, 520, 21000, 900), file_path=path, old_string="null", new_string="{}"),
            says("Klaar.", tokens=Tokens(8, 60, 21900, 100)),
        )
        end = await shop.run()
        (outcome,) = end.outcomes
        print(outcome)
        assert end.failure is None
        assert outcome.verdict.ok
        assert shop.law.read_text() == EDITED
        assert outcome.view.usage == shop.server.usage
        assert outcome.usage_complete
        assert outcome.view.model == "claude-opus-5-5"
        assert (outcome.view.turns, outcome.view.tool_calls, outcome.view.tool_errors) == (3, 2, 0)
        assert outcome.view.recent.summaries() == [f"Read {LAW}", f"Edit {LAW}"]
        assert shop.server.aside == 0
