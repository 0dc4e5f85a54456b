"""Commands over data that tries to command the terminal of whoever looks at it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen

from schema.migrate import add_job_types
from schema.queue import claim_job, create_job, fail_job_terminal
from schema.rows import JobRequest, JobType
from supervisor.terminaltext import harmless
from tests.kit import cli
from tests.kit.agentstreams import FIXTURES
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.bwb_works import sru_page
from tests.kit.enrichbench import PATH, fake_claude, law
from tests.kit.postgres import run_on

HOSTILE = "\x1b]0;owned\x07 \x9b2J \u202egnol"
IN_XML = "\x9b2J \u202egnol\u2066"
"""XML knows no ESC, but what begins a sequence in eight bits, and marks of direction."""
WHO = "jan@example.org"


def shown(done: cli.Done, *, foreign: bool = True) -> str:
    """Both outputs of a command, which a terminal shows and does not obey. ``foreign``: hostile text is in there."""
    text = done.out + done.err
    assert harmless(text) == text
    assert ("\ufffd" in text) == foreign, text
    return text


def sql(url: str, query: str, *args: object) -> None:
    async def run(connection: Any) -> None:
        await connection.execute(query, *args)

    run_on(url, run)


@pytest.fixture
def url(database_url: str) -> str:
    """A database whose every name and error was written by somebody who means harm."""
    run_on(database_url, add_job_types, ("pipeline_run", "connector_index"))
    for query in (
        "INSERT INTO accounts (person_sub, email, name) VALUES ($1, 'jan@example.org', $1)",
        "INSERT INTO workspaces (name, owner_id) SELECT $1::text, id FROM accounts",
        """
        INSERT INTO connectors (workspace_id, owner_id, name, connector_type, is_indexable)
        SELECT id, owner_id, $1::text, 'WEBCRAWLER_CONNECTOR', true FROM workspaces
        """,
        """
        INSERT INTO pipelines (workspace_id, connector_id, name, schedule_error, schedule_timezone)
        SELECT workspace_id, id, $1::text, $1::text, $1::text FROM connectors
        """,
        """
        INSERT INTO pipeline_runs (pipeline_id, status, trigger, error, finished_at)
        SELECT id, 'failed', 'manual', jsonb_build_object('message', $1::text), now() FROM pipelines
        """,
    ):
        sql(database_url, query, HOSTILE)
    sql(
        database_url,
        "INSERT INTO law_entries (law_id, law_name, status) VALUES ('BWBR0990001', $1, 'harvested')",
        HOSTILE,
    )
    run_on(database_url, create_job, JobRequest(JobType.HARVEST, HOSTILE, max_attempts=1))
    run_on(
        database_url,
        fail_job_terminal,
        run_on(database_url, claim_job, JobType.HARVEST),
        {"error": HOSTILE, "kind": "permanent"},
    )
    run = partial(cli.run, DATABASE_URL=database_url)
    assert run("member", "add", 1, WHO).code == 0
    made = run("token", "create", "--workspace", 1, "--account", WHO, "--name", HOSTILE)
    assert made.code == 0, made.err
    return database_url


def test_what_stands_in_the_database_commands_no_terminal(url: str) -> None:
    run = partial(cli.run, DATABASE_URL=url, COLUMNS="300")
    for command in (
        ("pipelines", "list"), ("workspace", "list"), ("token", "list"), ("laws", "list"), ("jobs", "list"),
        ("laws", "show", "BWBR0990001"), ("status",),
    ):  # fmt: skip
        done = run(*command)
        assert done.code == 0, done.err
        shown(done)
    assert "owned" in shown(run("pipelines", "history", "1"), foreign=False)  # cleaned for an agent already
    revoked = run("token", "revoke", "1")
    assert "revoked" in shown(revoked)


def test_json_of_it_is_the_same_text_in_characters_that_a_terminal_does_not_obey(url: str) -> None:
    for command, name in (
        (("pipelines", "list"), "name"),
        (("workspace", "list"), "name"),
        (("token", "list"), "name"),
    ):
        done = cli.run(*command, "--json", DATABASE_URL=url)
        shown(done, foreign=False)
        assert done.json[0][name] == HOSTILE
    shown(cli.run("status", "--json", DATABASE_URL=url), foreign=False)


def test_what_a_command_repeats_of_its_words_does_not_command_the_terminal_either(url: str) -> None:
    run = partial(cli.run, DATABASE_URL=url)
    assert run("wallet", "credit", HOSTILE, "5", "--reason", "x").code == 0
    for command in (("wallet", "show", HOSTILE), ("member", "add", "1", HOSTILE)):
        done = run(*command)
        assert done.code == 0, done.err
        shown(done)
    assert "account" in run("wallet", "show", f"nobody {HOSTILE}").err


async def test_names_of_laws_from_the_repository_are_shown_harmlessly() -> None:
    records = [("BWBR0990001", f"Wet {IN_XML}", "wet")]
    async with fake_repository() as server:
        server.serve("/sru/Search", Reply(body=sru_page(records, total=1)))
        search = partial(cli.run, "search", "fiets", BWB_SRU_URL=f"{server.url}/sru/Search")
        shown(await trio.to_thread.run_sync(search))
        listed = await trio.to_thread.run_sync(partial(search, "--json"))
    shown(listed, foreign=False)
    assert "\x9b2J" in listed.json[0]["title"]


@frozen
class Text:
    """A law whose words and file name are hostile."""

    path: Path

    @classmethod
    def at(cls, folder: Path) -> Text:
        text = Path(__file__).parents[2] / "fixtures/bwb/lantaarnwet.xml"
        path = folder / f"x{HOSTILE}.xml"
        path.write_text(text.read_text(encoding="utf-8").replace("antaarn", f"antaarn{IN_XML}"), encoding="utf-8")
        return cls(path)


def test_a_law_as_text_is_harmless_on_a_terminal_and_as_it_is_in_a_pipe(tmp_path: Path) -> None:
    path = Text.at(tmp_path).path
    piped = cli.run("convert", path)
    assert piped.code == 0, piped.err
    assert harmless(piped.out) != piped.out
    terminal, other = pty.openpty()
    argv = [sys.executable, "-m", "supervisor", "convert", str(path)]
    with subprocess.Popen(argv, env=cli.clean_environ(), stdout=other, stderr=subprocess.PIPE):
        os.close(other)
        found = b""
        try:
            while block := os.read(terminal, 65536):
                found += block
        except OSError:  # that is how the end of a terminal reads
            pass
    os.close(terminal)
    assert found.decode().replace("\r\n", "\n") == harmless(piped.out)


def test_loss_reports_and_refusals_name_files_and_titles_harmlessly(tmp_path: Path) -> None:
    path = Text.at(tmp_path).path
    shown(cli.run("convert", "--loss-report", "--style", "article", path))
    listed = cli.run("convert", "--loss-report", "--style", "article", "--json", path)
    shown(listed, foreign=False)
    assert listed.json[0]["file"] == str(path)
    path.write_bytes(path.read_bytes()[:300])
    shown(cli.run("convert", "--loss-report", path))
    shown(cli.run("replay", path.with_name(f"absent{HOSTILE}"), "--provider", "claude"), foreign=False)


def test_a_recorded_stream_of_an_agent_is_shown_harmlessly(tmp_path: Path) -> None:
    lines = (FIXTURES / "claude/plain.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = tmp_path / "stream.jsonl"
    recorded.write_text("\n".join(_poisoned(line) for line in lines), encoding="utf-8")
    shown(cli.run("replay", recorded, "--provider", "claude"))
    shown(cli.run("replay", recorded, "--provider", "claude", "--json"), foreign=False)


def _poisoned(line: str) -> str:
    """Each text of it ends in what a terminal obeys, but for the words that say what a line is."""

    def poison(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: poison(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [poison(item) for item in value]
        poisonous = isinstance(value, str) and key not in {"type", "subtype", "role"}
        return f"{value}{HOSTILE}" if poisonous else value

    return json.dumps(poison(json.loads(line)))


def test_enrichment_on_this_machine_shows_laws_prompts_and_failures_harmlessly(tmp_path: Path) -> None:
    path = tmp_path / "corpus" / PATH
    path.parent.mkdir(parents=True)
    path.write_text(
        law(3, text="De bijdrage \u202evoor lantaarn\u2066 {n} is {n} euro.").replace(
            "number: '2'", "number: '2\u202e'"
        )
    )
    fake_claude(tmp_path / "bin")
    settings = {
        "CLAUDE_PATH": str(tmp_path / "bin/claude"), "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-canary", "HOME": str(tmp_path),
    }  # fmt: skip
    enrich = partial(cli.run, "enrich-once", "--corpus", tmp_path / "corpus", **settings)
    shown(enrich("--law", PATH, "--dry-run"))
    shown(enrich("--law", f"{PATH}\u202e.yaml"), foreign=False)
