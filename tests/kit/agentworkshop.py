"""Calls of the real agent CLIs, made as a job makes them: lane, private folders, launcher, one of our model servers."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from attrs import define, evolve, field

from actors.agent import CallOutcome, SliceCall
from actors.agentcalls import AgentCalls, CallsEnd
from actors.jobs.enrich.lane import Lane, Order
from actors.jobs.enrich.settings import EnrichSettings
from actors.ports import proctable
from actors.ports.agentconfig import OpencodeSetup, load_opencode
from actors.ports.agentfolders import AttemptFolder, SliceFolder, WorkRoot
from actors.ports.agentprocess import ProcessRunner
from actors.ports.fetchsettings import FetchSettings
from actors.ports.skillfiles import skills_folder
from protocols import sessions
from protocols.agentview import AgentView
from protocols.dialects.base import AgentCall
from protocols.stall import StallLimits
from tests.kit import agentbinaries
from tests.kit.models.anthropic import Anthropic
from tests.kit.models.hands import Hands
from tests.kit.models.openai import MODEL, OpenAi
from tests.kit.models.script import Calls, Step, in_order, says
from tests.kit.models.server import ModelServer

SERVERS: Final[Mapping[str, type[ModelServer]]] = {"claude": Anthropic, "opencode": OpenAi}
SECRETS: Final = {"claude": "sk-ant-oat01-canary-of-the-claude-lane", "opencode": "canary-of-the-vlam-lane"}

LAW: Final = "laws/lantaarnwet/2024-03-01.yaml"
LAW_TEXT: Final = "articles:\n- number: '1'\n  text: Elke straat heeft een lantaarn.\n  machine_readable: null\n"
EDITED: Final = LAW_TEXT.replace("null", "{}")


def environ_of(provider: str, server: ModelServer) -> dict[str, str]:
    """What a supervisor's environment has to say of ``provider`` and its model server."""
    shared = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        f"{provider.upper()}_PATH": str(agentbinaries.binary(provider)),
    }
    if provider == "claude":
        return {**shared, "CLAUDE_BASE_URL": server.url, "CLAUDE_CODE_OAUTH_TOKEN": SECRETS[provider]}
    return {**shared, "VLAM_API_URL": server.url, "VLAM_API_KEY": SECRETS[provider]}


def image_file(folder: Path) -> Path:
    """opencode's configuration as an image brings it."""
    path = folder / "image" / "opencode.json"
    path.parent.mkdir(exist_ok=True)
    models = {MODEL: {"name": "Kimi K3", "limit": {"context": 131_072, "output": 32_000}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "VLAM", "models": models}
    path.write_text(json.dumps({"provider": {"vlam": provider}}))
    return path


def opencode_setup(folder: Path, environ: Mapping[str, str]) -> OpencodeSetup:
    setup = load_opencode(environ, baked=image_file(folder))
    assert setup is not None
    return setup


@define(eq=False)
class Workshop:
    """One job's agents of one provider, against one model server."""

    provider: str
    server: ModelServer
    lane: Lane
    folder: AttemptFolder
    limits: StallLimits
    grace_s: float = 5.0
    recorded: list[CallOutcome] = field(init=False, factory=list)
    calls: AgentCalls = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.calls = AgentCalls(
            dialect=self.lane.dialect,
            view=AgentView(self.provider),
            runner=ProcessRunner(None, grace_s=self.grace_s),
            record=self.recorded.append,
            limits=self.limits,
            secrets=self.lane.secrets,
        )

    @property
    def law(self) -> Path:
        return self.folder.checkout / LAW

    def plays(self, *steps: Step) -> None:
        """The model does these one after the other, the last for ever."""
        self.server.script = in_order(*steps)

    def reads(self, path: Path | None = None) -> Calls:
        """Of the law, unless another path is given; so do the others."""
        return Hands(self.provider).reads(path or self.law)

    def edits(self, old: str = "null", new: str = "{}", path: Path | None = None) -> Calls:
        return Hands(self.provider).edits(path or self.law, old, new)

    def permit_bash(self) -> None:
        """What a conversion's configuration says of opencode; claude is told on its command line (:meth:`run`)."""
        if (setup := self.lane.opencode) is not None:
            document = {**setup.document, "permission": {"*": "allow"}}
            self.lane = evolve(self.lane, opencode=evolve(setup, document=document))

    def running(self) -> set[int]:
        """The pids of whoever works for this job, by its folders in their environment: the CLI and all it started."""
        return {row.pid for row in proctable.rows() if row.alive and _names(row.pid, self.folder.path)}

    def clis(self) -> set[int]:
        """Those of them that execute the CLI's own program."""
        program = os.path.realpath(self.lane.binary)
        return {pid for pid in self.running() if _executes(pid, program)}

    async def run(
        self,
        prompt: str = "Maak de wet af.",
        plan: sessions.Plan | None = None,
        *,
        attach: str | None = None,
        limit_s: float = 50.0,
        folders: Sequence[SliceFolder] | None = None,
        bash: bool = False,
    ) -> CallsEnd:
        """One call, or one in each of ``folders`` at once. ``bash``: it may run commands, as in a conversion."""
        orders = [Order(at, prompt, plan or sessions.Cold(), attach) for at in folders or (self.folder,)]
        credential = self.lane.credentials[0]
        async with AsyncExitStack() as stack:
            made = [
                await stack.enter_async_context(
                    self.lane.slice_call(order, label="translate", limit_s=limit_s, credential=credential)
                )
                for order in orders
            ]
            return await self.calls.run(*(self._with_bash(call, prompt) if bash else call for call in made))

    def _with_bash(self, call: SliceCall, prompt: str) -> SliceCall:
        assert self.lane.model is not None
        asked = AgentCall(prompt, str(call.command.cwd), self.lane.model, bash=True)
        return evolve(call, command=evolve(call.command, argv=self.lane.dialect.command(self.lane.binary, asked).argv))


def _names(pid: int, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _executes(pid: int, program: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/exe") == program
    except OSError:
        return False


@asynccontextmanager
async def workshop(
    provider: str, tmp_path: Path, *, limits: StallLimits | None = None, **environ: str
) -> AsyncIterator[Workshop]:
    """A workshop with a law in its checkout. ``environ`` is passed on to the CLI as ``ENRICH_AGENT_ENV`` would."""
    async with SERVERS[provider].running(in_order(says("Klaar."))) as server:
        settings = EnrichSettings(
            fetch=FetchSettings(),
            corpus=None,
            folder=tmp_path,
            work_root=tmp_path / "work",
            environ={**environ_of(provider, server), **environ},
            agent_env=tuple(environ),
        )
        lane = Lane.of(provider, settings, skills_folder(None))
        if provider == "opencode":
            setup = opencode_setup(tmp_path, settings.environ)
            lane = evolve(lane, opencode=setup, model=setup.model)
        async with WorkRoot(settings.work_root, least_free_bytes=0).attempt("job", 1) as folder:
            made = Workshop(provider, server, lane, folder, limits or StallLimits())
            lay_law(folder)
            yield made


def lay_law(folder: SliceFolder) -> None:
    path = folder.checkout / LAW
    path.parent.mkdir(parents=True)
    path.write_text(LAW_TEXT)
