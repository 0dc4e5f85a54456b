"""Commands about pipelines, run as an operator runs them (D70)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from schema.migrate import add_job_types
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.postgres import run_on

WHO = "jan@example.org"
PAGES = {
    name: (Path(__file__).parents[3] / name).read_text(encoding="utf-8")
    for name in ("docs/api.md", "docs/pipelines.md")
}


def sql(url: str, query: str, *args: Any) -> list[dict[str, Any]]:
    async def fetch(connection: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in await connection.fetch(query, *args)]

    rows: list[dict[str, Any]] = run_on(url, fetch)
    return rows


@pytest.fixture
def url(database_url: str) -> str:
    """A database with one workspace, of an account that the command made."""
    done = cli.run("workspace", "create", "Beleid", "--owner", WHO, "--new-account", DATABASE_URL=database_url)
    assert done.code == 0, done.err
    assert done.out == "workspace 1: Beleid\n"
    return database_url


def test_a_workspace_is_made_for_an_account_that_is_known(url: str) -> None:
    assert "Beleid" in cli.run("workspace", "list", DATABASE_URL=url).out
    [listed] = cli.run("workspace", "list", "--json", DATABASE_URL=url).json
    assert listed == {"id": 1, "name": "Beleid", "owner": WHO}
    unknown = cli.run("workspace", "create", "X", "--owner", "niemand@example.org", DATABASE_URL=url)
    assert unknown.code == exitcodes.USAGE
    assert "niemand@example.org" in unknown.err
    assert "--new-account" in unknown.err
    assert len(sql(url, "SELECT permissions FROM workspace_members")[0]["permissions"]) == 4


def test_a_member_gets_the_permissions_that_are_named_and_no_invented_ones(url: str) -> None:
    sql(url, "INSERT INTO accounts (person_sub, email, name) VALUES ('p', 'piet@example.org', 'P') RETURNING id")
    done = cli.run("member", "add", "1", "piet@example.org", DATABASE_URL=url)
    assert done.code == 0, done.err
    more = ("--permission", "connectors:read", "--permission", "connectors:update")
    assert cli.run("member", "add", "1", "p", *more, DATABASE_URL=url).code == 0
    rows = sql(url, "SELECT permissions FROM workspace_members ORDER BY cardinality(permissions)")
    assert rows[0]["permissions"] == ["connectors:read", "connectors:update"]
    for bad in (("1", "p", "--permission", "everything"), ("99", "p"), ("1", "nobody")):
        assert cli.run("member", "add", *bad, DATABASE_URL=url).code == exitcodes.USAGE


def test_a_wallet_is_credited_on_record_and_shown(url: str) -> None:
    done = cli.run("wallet", "credit", WHO, "5000000", "--reason", "factuur 12", DATABASE_URL=url)
    assert done.code == 0, done.err
    assert "5000000 micros ($5.00)" in done.out
    minus = cli.run("wallet", "credit", WHO, "-1000", "--reason", "correctie", DATABASE_URL=url)
    assert "4999000 micros ($4.999)" in minus.out, minus.err
    again = cli.run("wallet", "credit", WHO, "--reason", "terug", "--", "-1000", DATABASE_URL=url)
    assert "($4.998)" in again.out, again.err
    assert cli.run("wallet", "credit", WHO, "1000", "--reason", "terug", DATABASE_URL=url).code == 0
    typo = cli.run("wallet", "credit", WHO, "--resaon", "x", "--reason", "y", DATABASE_URL=url)
    assert (typo.code, "--resaon" in typo.err) == (exitcodes.USAGE, True)
    shown = cli.run("wallet", "show", WHO, "--json", DATABASE_URL=url).json
    assert (shown["balance_micros"], shown["reserved_micros"], shown["adds_up"]) == (4_999_000, 0, True)
    entries = sql(url, "SELECT amount_micros, reason, entered_by <> '' AS signed FROM credit_entries ORDER BY id")
    assert [(row["amount_micros"], row["reason"], row["signed"]) for row in entries] == [
        (5_000_000, "factuur 12", True), (-1000, "correctie", True), (-1000, "terug", True), (1000, "terug", True),
    ]  # fmt: skip
    sql(url, "UPDATE credit_wallets SET balance_micros = 0")
    assert "does not add up" in cli.run("wallet", "show", WHO, DATABASE_URL=url).err
    assert cli.run("wallet", "credit", WHO, "0", "--reason", "x", DATABASE_URL=url).code == exitcodes.USAGE


def test_the_nightly_pipeline_is_added_once_listed_and_run_when_somebody_can(url: str) -> None:
    done = cli.run("pipelines", "daily-reharvest", "1", DATABASE_URL=url)
    assert done.code == 0, done.err
    assert "Dagelijkse herharvest" in done.out
    assert cli.run("pipelines", "daily-reharvest", "1", DATABASE_URL=url).code == exitcodes.USAGE
    listed = cli.run("pipelines", "list", DATABASE_URL=url).out
    assert "15 3 * * * Europe/Amsterdam" in listed
    sql(url, "UPDATE pipelines SET next_scheduled_at = '2026-07-02T01:15:00Z'")
    assert "2026-07-02 03:15 CEST" in cli.run("pipelines", "list", DATABASE_URL=url).out
    sql(url, "UPDATE pipelines SET schedule_timezone = '../x'")
    assert "2026-07-02 01:15 UTC" in cli.run("pipelines", "list", DATABASE_URL=url).out
    sql(url, "UPDATE pipelines SET schedule_timezone = 'Europe/Amsterdam'")
    early = cli.run("pipelines", "run", "1", DATABASE_URL=url)
    assert early.code == exitcodes.USAGE
    assert "start one first" in early.err
    run_on(url, add_job_types, ["pipeline_run", "connector_index"])
    assert cli.run("pipelines", "run", "1", DATABASE_URL=url).out.startswith("run 1, job ")
    assert cli.run("pipelines", "run", "9", DATABASE_URL=url).code == exitcodes.USAGE
    history = cli.run("pipelines", "history", "1", DATABASE_URL=url).out
    assert '#1 "Dagelijkse herharvest" | pending | manual' in history
    assert cli.run("pipelines", "history", "1", "--pipeline", "1", "--limit", "1", DATABASE_URL=url).out == history
    for args, word in ((("2",), "no workspace 2"), (("1", "--pipeline", "9"), "no pipeline 9")):
        done = cli.run("pipelines", "history", *args, DATABASE_URL=url)
        assert (done.code, done.out, word in done.err) == (exitcodes.USAGE, "", True)


def test_suppression_is_repaired_and_a_second_time_there_is_nothing_to_repair(url: str) -> None:
    cli.run("pipelines", "daily-reharvest", "1", DATABASE_URL=url)
    sql(url, "UPDATE connectors SET periodic_suppressed = false, periodic_saved = NULL")
    done = cli.run("pipelines", "repair-suppression", DATABASE_URL=url)
    assert done.out == "connector 1: suppressed\n1 connectors changed\n"
    assert cli.run("pipelines", "repair-suppression", DATABASE_URL=url).out == "0 connectors changed\n"


@pytest.mark.parametrize(
    "args",
    [
        ("member", "add", "1", "piet@example.org"),
        ("wallet", "credit", "piet@example.org", "5", "--reason", "x"),
        ("wallet", "show", "piet@example.org"),
        ("token", "create", "--workspace", "1", "--account", "piet@example.org", "--name", "x"),
    ],
)
def test_who_names_an_account_that_is_not_there_is_told_how_one_is_made(url: str, args: tuple[str, ...]) -> None:
    done = cli.run(*args, DATABASE_URL=url)
    assert (done.code, done.out) == (exitcodes.USAGE, "")
    assert "'piet@example.org'" in done.err
    assert "`workspace create` and `member add` make one with --new-account" in done.err


def test_a_member_may_be_somebody_new_and_somebody_new_has_an_address(url: str) -> None:
    added = cli.run("member", "add", "1", "piet@example.org", "--new-account", DATABASE_URL=url)
    assert added.code == 0, added.err
    assert cli.run("member", "add", "1", "piet@example.org", "--new-account", DATABASE_URL=url).code == 0
    assert len(sql(url, "SELECT FROM workspace_members")) == 2
    for who in ("jan", "@", "jan@", "jan @example.org", "jan@example.org\n"):
        done = cli.run("workspace", "create", "X", "--owner", who, "--new-account", DATABASE_URL=url)
        assert (done.code, "is no e-mail address" in done.err) == (exitcodes.USAGE, True), who
    no_workspace = cli.run("member", "add", "9", "els@example.org", "--new-account", DATABASE_URL=url)
    assert no_workspace.code == exitcodes.USAGE
    assert len(sql(url, "SELECT FROM accounts")) == 2


def test_a_list_of_tokens_has_the_addresses_of_their_accounts_and_an_empty_one_says_so(url: str) -> None:
    empty = cli.run("token", "list", DATABASE_URL=url)
    assert (empty.out, empty.err) == ("", "no tokens\n")
    made = cli.run("token", "create", "--workspace", "1", "--account", WHO, "--name", "bord", DATABASE_URL=url)
    assert made.code == 0, made.err
    heading, row = cli.run("token", "list", DATABASE_URL=url).out.splitlines()
    assert heading.split() == ["ID", "WORKSPACE", "NAME", "ACCOUNT", "STATE", "UTC", "USED", "UTC", "PERMISSIONS"]
    assert row.split() == ["1", "1", "bord", WHO, "valid", "never", "connectors:read"]


@pytest.mark.parametrize("page", ["docs/api.md", "docs/pipelines.md"])
def test_the_commands_of_the_pages_work_as_they_stand_there(empty_database_url: str, page: str) -> None:
    """All but those that go on for ever, or need what goes on for ever."""
    block = re.findall(r"^```(?:sh)?\n(regelrecht-supervisor .*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE)[0]
    commands = block.replace("\\\n", " ").splitlines()
    ran = []
    for command in commands:
        words = shlex.split(command.removeprefix("TOKEN=$(").removesuffix(")"))
        if words[0] == "regelrecht-supervisor" and words[1] != "run":
            done = cli.run(*words[1:], DATABASE_URL=empty_database_url)
            assert done.code == 0, (command, done.err)
            ran.append(words[1])
    assert ran[:2] == ["migrate", "workspace"]
    assert len(ran) == 3
