"""``enrich-once`` with the real CLIs: a developer's own login and configuration, and the rules that hold all the same."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import evolve

from protocols.lawyaml import load_law
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.agentworkshop import environ_of, image_file
from tests.kit.enrichbench import PATH, law
from tests.kit.models.anthropic import Anthropic
from tests.kit.models.hands import Hands
from tests.kit.models.lawmodel import LawModel, Task
from tests.kit.models.openai import MODEL, OpenAi
from tests.kit.models.script import Answer, Step

pytestmark = pytest.mark.agents


def corpus(folder: Path, articles: int = 4) -> Path:
    path = folder / "corpus" / PATH
    path.parent.mkdir(parents=True)
    path.write_text(law(articles))
    (folder / "home").mkdir()
    return folder / "corpus"


async def enrich(folder: Path, *args: object, **settings: str) -> cli.Done:
    run = partial(
        cli.run,
        "enrich-once",
        "--corpus",
        folder / "corpus",
        "--law",
        PATH,
        *args,
        HOME=str(folder / "home"),
        **settings,
    )
    return await trio.to_thread.run_sync(run)


def sections(folder: Path) -> int:
    return sum("machine_readable" in entry for entry in load_law((folder / "corpus" / PATH).read_bytes())["articles"])


async def test_a_shared_session_and_cold_calls_are_compared_by_what_the_provider_counted(tmp_path: Path) -> None:
    corpus(tmp_path)
    async with Anthropic.running(LawModel("claude", forgets=frozenset({"2"}))) as server:
        given = environ_of("claude", server)
        done = await enrich(tmp_path, "--session-reuse", "window,off", **given)
        assert done.code == exitcodes.CLEAN, done.out + done.err
        assert sections(tmp_path) == 4
        table = done.out[done.out.index("\nmodes") :].splitlines()[3:5]
        shared, cold = (re.split(r"\s{2,}", line.strip()) for line in table)
        assert (shared[:3], cold[:3]) == (["window", "2", "1"], ["off", "2", "0"])
        total = server.tokens
        figures = [sum(int(row[at]) for row in (shared, cold)) for at in range(3, 7)]
        assert figures == [total.input, total.output, total.cache_read, total.cache_write]
        assert re.search(r"marking +1 +1 -> 0 +0 -> 0 +yes +cleared", done.out)


async def test_opencode_works_with_a_user_s_configuration_and_never_with_its_permissions(tmp_path: Path) -> None:
    # D50: law text is no less hostile on a developer's machine
    corpus(tmp_path)
    hands = Hands("opencode")
    outside = tmp_path / "home/written"

    def change(task: Task, turn: int, step: Step) -> Step:
        if turn or not isinstance(step, Answer):
            return step
        orders = (hands.shell(f"touch {tmp_path}/home/touched"), hands.writes(outside, "x"))
        return evolve(step, parts=(*orders, *step.parts))

    model = LawModel("opencode", change=change)
    async with OpenAi.running(model) as server:
        config = json.loads(image_file(tmp_path).read_bytes())
        config["provider"]["vlam"]["options"] = {"baseURL": f"{server.url}/v1", "apiKey": "{env:VLAM_API_KEY}"}
        config["permission"] = {"*": "allow"}
        path = tmp_path / "home/.config/opencode/opencode.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(config))
        given = environ_of("opencode", server)
        done = await enrich(tmp_path, "--provider", "opencode", "--model", f"vlam/{MODEL}", "--rounds", "0", **given)
        assert done.code == exitcodes.CLEAN, done.out + done.err
        assert sections(tmp_path) == 4
        assert not outside.exists()
        assert not (tmp_path / "home/touched").exists()
        assert server.asked[0].headers["authorization"] == f"Bearer {given['VLAM_API_KEY']}"
        assert server.asked[0].tools == {"read", "edit", "write", "grep", "glob"}
