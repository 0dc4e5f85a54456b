"""A call of an agent from its command line to its outcome: real processes, private folders, no secret anywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from actors.agent import CallOutcome, SliceCall
from actors.agentcalls import AgentCalls
from actors.ports import landlock, proctable
from actors.ports.agentconfig import load_opencode
from actors.ports.agentfolders import SliceFolder, WorkRoot, prepare_copy
from actors.ports.agentprocess import ProcessRunner, Stop, Stopped
from actors.ports.guardian import Guardian
from actors.ports.launcher import AgentCommand
from actors.ports.spool import Spool
from protocols.agentview import AgentView
from protocols.dialects import DIALECTS
from protocols.dialects.base import AgentCall
from protocols.failures import AgentFailed, AgentTimedOut
from protocols.stall import StallLimits
from tests.kit import agentlines
from tests.kit.agentcalls import READABLE, drain, lines
from tests.kit.fake_agent import fake_cli
from tests.kit.processes import alive, pids_in, until

CANARIES = {
    "DATABASE_URL": "postgresql://u:canary-database@h/d",
    "CORPUS_GIT_TOKEN": "canary-git",
    "ANTHROPIC_API_KEY": "canary-anthropic",
    "ANTHROPIC_MODEL": "canary-model",
    "CLAUDE_CODE_OAUTH_TOKEN": "canary-oauth",
    "VLAM_API_KEY": "canary-vlam",
    "SOME_PASSWORD": "canary-password",
}
ALLOWED: dict[str, set[str]] = {"claude": {"canary-oauth"}, "opencode": set()}
"""opencode finds its key in a file of its home."""


class Workshop:
    """Makes calls as a job does, with a fake CLI in the place of the real one."""

    def __init__(self, folder: Path, provider: str, guardian: Guardian | None = None) -> None:
        self.folder = folder
        self.dialect = DIALECTS[provider]
        self.recorded: list[CallOutcome] = []
        self.environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **CANARIES}
        runner = ProcessRunner(guardian, grace_s=1.0)
        secrets = tuple(CANARIES.values())
        self.calls = AgentCalls(self.dialect, AgentView(provider), runner, self.recorded.append, StallLimits(), secrets)

    def call(self, attempt: SliceFolder, *options: str, limit_s: float = 20.0) -> SliceCall:
        cli = fake_cli(self.folder, *options)
        line = self.dialect.command(
            str(cli), AgentCall(prompt="Vul de wet in.", cwd=str(attempt.checkout), model="vlam/kimi")
        )
        command = AgentCommand(
            line.argv,
            env=self.dialect.environment(self.environ, folders=attempt.folders),
            cwd=attempt.checkout,
            writable=attempt.writable,
            readable=READABLE,
            stdin=line.stdin,
        )
        return SliceCall("translate", command, attempt.path, limit_s, asked_model="vlam/kimi")

    def script(self, *lines: bytes) -> str:
        path = self.folder / "stream.jsonl"
        path.write_bytes(b"".join(lines))
        return str(path)


@pytest.fixture(params=["claude", "opencode"])
def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, request.param)


@pytest.fixture
def work(tmp_path: Path) -> WorkRoot:
    return WorkRoot(tmp_path / "work", least_free_bytes=0)


STREAM = {
    "claude": (agentlines.init(), agentlines.tool(), agentlines.result()),
    "opencode": (agentlines.step("tool-calls", "een", 1), agentlines.step("stop", "twee", 2)),
}


@pytest.mark.claim("S0-131")
async def test_a_played_stream_comes_through_the_whole_chain(workshop: Workshop, work: WorkRoot) -> None:
    async with work.attempt("job", 1) as attempt:
        script = workshop.script(*STREAM[workshop.dialect.name])
        os.rename(script, attempt.tmp / "stream.jsonl")
        end = await workshop.calls.run(workshop.call(attempt, "--play", str(attempt.tmp / "stream.jsonl"), "--stdin"))
    (outcome,) = end.outcomes
    assert end.failure is None
    assert outcome.verdict.ok
    assert outcome.usage_complete
    assert workshop.recorded == [outcome]


async def test_no_secret_of_the_supervisor_reaches_environment_arguments_or_logs(
    workshop: Workshop, work: WorkRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    found: dict[str, str] = {}
    async with work.attempt("job", 1) as attempt:
        call = workshop.call(attempt, "--hang", "--pids", str(attempt.tmp))
        with capture_logs() as logs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(workshop.calls.run, call)
                await until(lambda: len(pids_in(attempt.tmp)) == 1)
                (cli,) = pids_in(attempt.tmp)
                session = proctable.row_of(cli)
                assert session is not None
                for row in proctable.rows():
                    if row.session == session.session:
                        found[f"{row.pid} cmdline"] = _proc(row.pid, "cmdline")
                        found[f"{row.pid} environ"] = _proc(row.pid, "environ")
                nursery.cancel_scope.cancel()
    assert len(found) >= 4
    text = json.dumps(found)
    allowed = ALLOWED[workshop.dialect.name]
    assert {value for value in CANARIES.values() if value in text} == allowed
    assert not any("canary" in value for name, value in found.items() if name.endswith("cmdline"))
    assert "canary" not in repr(logs)
    assert "canary" not in repr(call) + repr(workshop.calls) + repr(workshop.recorded)


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")


async def test_what_a_failing_cli_says_on_stderr_is_told_without_secrets(workshop: Workshop, work: WorkRoot) -> None:
    async with work.attempt("job", 1) as attempt:
        options = ("--stderr", "\x1b[31mError\x1b[0m: canary-git and canary-oauth\n", "--exit", "1")
        end = await workshop.calls.run(workshop.call(attempt, *options))
    assert isinstance(end.failure, AgentFailed)
    assert "Error: *** and ***" in end.failure.message
    assert "canary" not in end.failure.message


@pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")
async def test_the_user_s_home_is_neither_used_nor_readable(workshop: Workshop, work: WorkRoot, tmp_path: Path) -> None:
    users_home = tmp_path / "users-home"
    users_home.mkdir()
    (users_home / "auth.json").write_text("canary-login")
    workshop.environ["HOME"] = str(users_home)
    async with work.attempt("job", 1) as attempt:
        options = ("--try-write", str(attempt.home / "mine"), "--try-read", str(users_home / "auth.json"))
        call = workshop.call(attempt, *options)
        assert call.command.env["HOME"] == str(attempt.home)
        assert call.command.env["TMPDIR"] == str(attempt.tmp)
        spool = Spool(attempt.path)
        await ProcessRunner(None)(call.command, spool=spool, stop=Stop(), limit_s=20)
        answers = [said["answer"] for said in lines(await drain(spool))]
    assert answers == ["PermissionError", "done"]  # reading comes first
    assert os.listdir(users_home) == ["auth.json"]


async def test_opencode_finds_its_configuration_in_a_home_of_one_call(work: WorkRoot, tmp_path: Path) -> None:
    baked = tmp_path / "opencode.json"
    models = {"kimi": {"limit": {"context": 1000, "output": 32000}}}
    baked.write_text(json.dumps({"provider": {"vlam": {"models": models}}}))
    setup = load_opencode({"VLAM_API_URL": "http://127.0.0.1:9", "VLAM_API_KEY": "canary-vlam"}, baked=baked)
    assert setup is not None
    workshop = Workshop(tmp_path, "opencode")
    async with work.attempt("job", 1) as attempt, attempt.call_home() as own:
        await prepare_copy(attempt.checkout)
        setup.write(own.home)
        config = f"{own.home}/.config/opencode/opencode.json"
        script = workshop.script(agentlines.step())
        os.rename(script, own.tmp / "stream.jsonl")
        call = workshop.call(own, "--play", str(own.tmp / "stream.jsonl"))
        assert call.command.env["XDG_CONFIG_HOME"] == f"{own.home}/.config"
        assert os.path.exists(config)
        end = await workshop.calls.run(call)
        assert end.failure is None
    assert not os.path.exists(config)


async def test_a_call_over_its_limit_leaves_nothing_running(workshop: Workshop, work: WorkRoot) -> None:
    with Guardian() as guardian:
        workshop.calls.runner = ProcessRunner(guardian, grace_s=0.3)
        async with work.attempt("job", 1) as attempt:
            options = ("--fork", "3", "--deaf", "--escape", "--hang", "--pids", str(attempt.tmp))
            end = await workshop.calls.run(workshop.call(attempt, *options, limit_s=1.0))
            agents = pids_in(attempt.tmp)
    assert isinstance(end.failure, AgentTimedOut)
    assert len(agents) == 4
    assert not alive(agents)


async def test_slices_work_side_by_side_and_a_failure_stops_the_others(tmp_path: Path, work: WorkRoot) -> None:
    workshop = Workshop(tmp_path, "claude")
    async with work.attempt("job", 1) as attempt:
        one, two = attempt.slice(0), attempt.slice(1)
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        first, second = Workshop(tmp_path / "a", "claude"), Workshop(tmp_path / "b", "claude")
        calls = (first.call(one, "--hang"), second.call(two, "--exit", "3"))
        began = trio.current_time()
        end = await workshop.calls.run(*calls)
        assert trio.current_time() - began < 10
    assert isinstance(end.failure, AgentFailed)
    assert [outcome.stopped for outcome in end.outcomes] == [Stopped.SIBLING, None]
