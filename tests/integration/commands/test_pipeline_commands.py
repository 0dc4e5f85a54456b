"""Commands about pipelines, run as an operator runs them (D70)."""

from __future__ import annotations

from typing import Any

import pytest

from schema.migrate import add_job_types
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.postgres import run_on

WHO = "jan@example.org"


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
    assert cli.run("wallet", "credit", WHO, "--reason", "correctie", "--", "-1000", DATABASE_URL=url).code == 0
    shown = cli.run("wallet", "show", WHO, "--json", DATABASE_URL=url).json
    assert (shown["balance_micros"], shown["reserved_micros"], shown["adds_up"]) == (4_999_000, 0, True)
    entries = sql(url, "SELECT amount_micros, reason, entered_by <> '' AS signed FROM credit_entries ORDER BY id")
    assert [(row["amount_micros"], row["reason"], row["signed"]) for row in entries] == [
        (5_000_000, "factuur 12", True), (-1000, "correctie", True),
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
    early = cli.run("pipelines", "run", "1", DATABASE_URL=url)
    assert early.code == exitcodes.USAGE
    assert "start one first" in early.err
    run_on(url, add_job_types, ["pipeline_run", "connector_index"])
    assert cli.run("pipelines", "run", "1", DATABASE_URL=url).out.startswith("run 1, job ")
    assert cli.run("pipelines", "run", "9", DATABASE_URL=url).code == exitcodes.USAGE
    history = cli.run("pipelines", "history", "1", DATABASE_URL=url).out
    assert '#1 "Dagelijkse herharvest" | pending | manual' in history
    assert cli.run("pipelines", "history", "2", DATABASE_URL=url).out == "no runs\n"


def test_suppression_is_repaired_and_a_second_time_there_is_nothing_to_repair(url: str) -> None:
    cli.run("pipelines", "daily-reharvest", "1", DATABASE_URL=url)
    sql(url, "UPDATE connectors SET periodic_suppressed = false, periodic_saved = NULL")
    done = cli.run("pipelines", "repair-suppression", DATABASE_URL=url)
    assert done.out == "connector 1: suppressed\n1 connectors changed\n"
    assert cli.run("pipelines", "repair-suppression", DATABASE_URL=url).out == "0 connectors changed\n"
