"""The enrich job on real means: PostgreSQL, a bare git repository, and an agent that is a function of the test."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.jobs.base import Completion
from actors.jobs.enrich import branch_of
from actors.jobs.enrich.flows import CorpusFlow
from actors.jobs.enrich.job import Enrich
from actors.jobs.enrich.lane import Lane
from actors.jobs.enrich.settings import EnrichSettings
from actors.ports.agentfolders import WorkRoot
from actors.ports.agentprocess import AgentEnd, AgentRunner, Stop, Stopped
from actors.ports.corpus import open_corpus
from actors.ports.fetchsettings import FetchSettings
from actors.ports.foldercorpus import FolderCorpus
from actors.ports.launcher import AgentCommand
from actors.ports.skillfiles import read_skills, skills_folder
from actors.ports.spool import Spool
from protocols.corpus import CorpusPort, CorpusSettings
from protocols.failures import HandedBack, LeaseLost, SupervisorError, classify
from protocols.lawschema import shipped_schemas
from schema.rows import Job, JobType
from tests.kit import agentlines
from tests.kit.gitrepos import Remote, Rival
from tests.kit.heldwork import HeldWork
from tests.kit.jobrows import LAW, Rows

FOLDER = "regulation/nl/wet/wet_op_de_lantaarns"
PATH = f"{FOLDER}/2025-01-01.yaml"

HEADER = """\
---
$schema: https://raw.githubusercontent.com/MinBZK/regelrecht/refs/tags/schema-v0.5.6/schema/v0.5.6/schema.json
$id: wet_op_de_lantaarns
regulatory_layer: WET
publication_date: '2025-01-01'
valid_from: '2025-01-01'
bwb_id: BWBR0000001
url: https://example.org/BWBR0000001
articles:
"""


def law(count: int, text: str = "De bijdrage voor lantaarn {n} bedraagt {n} euro.") -> str:
    """A law of so many articles, as the harvester lays it out."""
    return HEADER + "".join(
        f"  - number: '{n}'\n    text: {text.format(n=n)}\n    url: https://example.org/BWBR0000001#{n}\n"
        for n in range(1, count + 1)
    )


def model(number: str, extra: str = "") -> str:
    """The section of one article, with the indent of :func:`law`."""
    return (
        "    machine_readable:\n"
        "      definitions:\n"
        f"        BIJDRAGE_{number}: {{value: {number}00, type: amount, type_spec: {{unit: eurocent}}}}\n"
        "      execution:\n"
        f"        output:\n          - {{name: bijdrage_{number}, type: amount, type_spec: {{unit: eurocent}}}}\n"
        f"        actions:\n          - {{output: bijdrage_{number}, value: $BIJDRAGE_{number}}}\n{extra}"
    )


_CLI = '''\
#!/usr/bin/python3
import json, os, re, sys

prompt = sys.argv[sys.argv.index("-p") + 1]
law = re.search(r"law in `([^`]+)`", prompt)[1]
text = open(law).read()
for number in re.search(r"untouched: ([^.]*)\\.", prompt)[1].split(", "):
    line = "    url: https://example.org/BWBR0000001#%s\\n" % number
    text = text.replace(line, line + """\\
    machine_readable:
      definitions:
        BIJDRAGE: {value: 100, type: amount, type_spec: {unit: eurocent}}
      execution:
        output: [{name: bijdrage, type: amount, type_spec: {unit: eurocent}}]
        actions: [{output: bijdrage, value: $BIJDRAGE}]
""")
assert os.path.exists(".claude/skills/law-generate/SKILL.md")
open(law, "w").write(text)
say = lambda **fields: print(json.dumps(fields), flush=True)
say(type="system", subtype="init", cwd=os.getcwd(), session_id="s", model="claude-opus-5-5", tools=[],
    secret=os.environ.get("DATABASE_URL"))
say(type="result", subtype="success", is_error=False, result="done", session_id="s", total_cost_usd=0.5,
    terminal_reason="completed",
    usage={"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4})
'''


def fake_claude(folder: Path) -> Path:
    """A program that takes claude's command line and enriches what its prompt names."""
    folder.mkdir(exist_ok=True)
    cli = folder / "claude"
    cli.write_text(_CLI)
    cli.chmod(0o755)
    return cli


@attrs.define
class Scene:
    """One call, as its agent sees it. ``say`` is what it prints; ``code`` its end."""

    prompt: str
    cwd: Path
    argv: tuple[str, ...]
    call: int
    stop: Stop
    lines: list[bytes] = attrs.field(factory=list)
    code: int = 0
    hang: bool = False

    @property
    def translates(self) -> bool:
        return self.prompt.startswith("Make the Dutch law")

    @property
    def law(self) -> Path:
        named = re.search(r"law in `([^`]+)`", self.prompt)
        return self.cwd / (named[1] if named else PATH)

    @property
    def numbers(self) -> list[str]:
        """The entries that the prompt names; all of the law where it names none."""
        named = re.search(r"(?:leave all others untouched|Edit only these entries): ([^\n]*?)\.( |\n|$)", self.prompt)
        if named is None:
            return re.findall(r"^  - number: '([^']+)'", self.law.read_text(), re.MULTILINE)
        return named[1].split(", ")

    def write_models(self, *numbers: str, extra: str = "") -> None:
        """Add a section to each of these entries that has none."""
        text = self.law.read_text()
        for number in numbers or self.numbers:
            line = f"    url: https://example.org/BWBR0000001#{number}\n"
            if line + "    machine_readable" not in text:
                text = text.replace(line, line + model(number, extra))
        self.law.write_text(text)

    def edit(self, old: str, new: str) -> None:
        text = self.law.read_text()
        assert old in text, f"{old!r} is not in the law"
        self.law.write_text(text.replace(old, new))

    def report(self, text: str) -> None:
        (self.law.parent / ".enrichment-result.yaml").write_text(text)


Agent = Callable[[Scene], None]


def obedient(scene: Scene) -> None:
    """Does what it is told."""
    if scene.translates:
        scene.write_models()


@attrs.define
class ScriptedRunner:
    """An ``AgentRunner`` without a process. Keeps every scene that it played."""

    agent: Agent
    scenes: list[Scene] = attrs.field(factory=list)
    opencode: bool = False

    async def __call__(self, command: AgentCommand, *, spool: Spool, stop: Stop, limit_s: float) -> AgentEnd:
        prompt = command.stdin.decode() if command.stdin else _prompt_in(command.argv)
        scene = Scene(prompt, command.cwd, command.argv, len(self.scenes), stop)
        self.scenes.append(scene)
        try:
            await trio.lowlevel.checkpoint()
            if not self.opencode:
                spool.put(agentlines.init())
            self.agent(scene)
            for line in scene.lines:
                spool.put(line)
            if scene.hang:
                with trio.move_on_after(limit_s):
                    await stop.event.wait()
                stop.request(Stopped.LIMIT)
                return AgentEnd(None, 15, limit_s, stopped=stop.reason)
            if not scene.lines:
                spool.put(agentlines.step() if self.opencode else agentlines.result())
        finally:
            spool.close()
        return AgentEnd(scene.code, None, 1.0)


def _prompt_in(argv: tuple[str, ...]) -> str:
    return next((word for word in argv if "machine" in word or "law in `" in word), "")


@attrs.define
class EnrichBench:
    """One supervisor's enrich handler and everything around it."""

    rows: Rows
    folder: Path
    remote: Remote
    rival: Rival
    agent: Agent = obedient
    runner: ScriptedRunner = attrs.field(init=False)
    real_runner: Callable[[], AgentRunner] | None = None
    more: dict[str, Any] = attrs.field(factory=dict)
    git: bool = True
    works: list[HeldWork] = attrs.field(factory=list)

    @classmethod
    def create(cls, rows: Rows, folder: Path, files: dict[str, str] | None = None, **more: Any) -> EnrichBench:
        remote = Remote.create(folder / "remote.git")
        rival = Rival.of(remote, folder / "rival")
        rival.push(dict(files if files is not None else {PATH: law(3)}), "harvest")
        return cls(rows, folder, remote, rival, **more)

    def __attrs_post_init__(self) -> None:
        self.runner = ScriptedRunner(self._act)

    def _act(self, scene: Scene) -> None:
        self.agent(scene)

    def settings(self) -> EnrichSettings:
        corpus = (
            CorpusSettings(str(self.remote.path), path=self.folder / "checkout", min_free_bytes=0, retry_base_s=0.01)
            if self.git
            else None
        )
        values: dict[str, Any] = {
            "fetch": FetchSettings(),
            "corpus": corpus,
            "folder": self.folder / "files",
            "work_root": self.folder / "work",
            "default_provider": "claude",
            "job_timeout_s": 3900.0,
            "llm_timeout_s": 3600.0,
            "progress_s": 0.05,
            "least_free_bytes": 0,
            **self.more,
        }
        return EnrichSettings(**values)

    @asynccontextmanager
    async def handler(self) -> AsyncIterator[Enrich]:
        settings = self.settings()
        skills = skills_folder(settings.skills_dir)
        async with _flows(settings) as flows:
            yield Enrich(
                settings=settings,
                lanes={name: Lane.of(name, settings, skills) for name in ("claude", "opencode")},
                flows=flows,
                root=WorkRoot(settings.work_root, settings.least_free_bytes),
                skills=read_skills(skills),
                schemas=shipped_schemas(),
                runner=self.real_runner or (lambda: self.runner),
            )

    async def add(self, provider: str = "claude", **payload: Any) -> Job:
        document = {"law_id": LAW, "yaml_path": PATH, "provider": provider, **payload}
        return await self.rows.add(JobType.ENRICH, LAW, document)

    async def enrich(self, provider: str = "claude", **payload: Any) -> Job:
        """Queue, claim, run and end one window as the runner does; the row afterwards."""
        await self.add(provider, **payload)
        return await self.work_off()

    async def work_off(
        self, *, before_complete: Callable[[], None] | None = None, drain: trio.Event | None = None
    ) -> Job:
        """Claim the next enrich job and run it to its end. ``drain``: when set, the job is cancelled and handed back."""
        job = await self.rows.claimed(JobType.ENRICH, count_budget=False)
        work = HeldWork(self.rows, job)
        self.works.append(work)
        end = await self._run(work, drain)
        if before_complete is not None:
            before_complete()
        await self._settle(work, end)
        return await self.rows.job(job.id)

    async def _run(self, work: HeldWork, drain: trio.Event | None) -> Completion | SupervisorError:
        outcome: Completion | SupervisorError = HandedBack("drain")
        try:
            async with self.handler() as handler, trio.open_nursery() as nursery:

                async def cut() -> None:
                    assert drain is not None
                    await drain.wait()
                    nursery.cancel_scope.cancel()

                if drain is not None:
                    nursery.start_soon(cut)
                outcome = await handler.run(work)
                nursery.cancel_scope.cancel()
        except Exception as error:
            outcome = classify(error)
            if outcome.kind == "crashed":
                raise
        return outcome

    async def _settle(self, work: HeldWork, end: Completion | SupervisorError) -> None:
        if isinstance(end, LeaseLost):
            return
        try:
            match end:
                case Completion():
                    await self.rows.queue.complete(work.lease, end.result, end.settle)
                case HandedBack():
                    await self.rows.queue.hand_back(work.lease, why=end.message)
                case _:
                    await self.rows.queue.fail(work.lease, end)
        except SupervisorError as refused:
            if isinstance(end, Completion):
                await self.rows.queue.fail(work.lease, refused)
            else:
                raise


@asynccontextmanager
async def _flows(settings: EnrichSettings) -> AsyncIterator[dict[str, CorpusFlow]]:
    names = ("claude", "opencode")
    if settings.corpus is None:
        both = FolderCorpus(settings.folder)
        yield {name: CorpusFlow(settings, both, both) for name in names}
        return
    base: CorpusPort
    async with (
        open_corpus(settings.corpus) as base,
        open_corpus(branch_of("claude", settings.corpus)) as claude,
        open_corpus(branch_of("opencode", settings.corpus)) as opencode,
    ):
        yield {
            "claude": CorpusFlow(settings, claude, base),
            "opencode": CorpusFlow(settings, opencode, base),
        }
