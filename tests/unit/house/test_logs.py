"""Logs: JSON or readable, fields that follow tasks, and no secret in any line."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
import trio

from supervisor import logs
from supervisor.settings.areas import Logging

SECRET = 'pl"anted/p@ss wörd'


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """A stream that logs go to; the set-up of before is put back."""
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    yield io.StringIO()
    structlog.reset_defaults()
    logging.getLogger().handlers[:], logging.getLogger().level = handlers, level


def test_a_line_in_a_pod_is_one_json_object(lines: io.StringIO) -> None:
    logs.configure(Logging(), stream=lines)
    structlog.get_logger("x").info("job claimed", job_id=3, note="two\nlines")
    logging.getLogger("hypercorn.error").warning("port %s in use", 8000)
    ours, theirs = map(json.loads, lines.getvalue().splitlines())
    assert (ours["event"], ours["job_id"], ours["note"], ours["level"]) == ("job claimed", 3, "two\nlines", "info")
    assert ours["timestamp"].endswith("Z")
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("port 8000 in use", "hypercorn.error", "warning")


def test_a_line_on_a_terminal_is_readable_and_coloured_unless_it_shall_not_be(
    lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(lines, "isatty", lambda: True)
    logs.configure(Logging(), stream=lines)
    structlog.get_logger().info("job claimed", job_id=3)
    assert "job claimed" in lines.getvalue()
    assert "\x1b[" in lines.getvalue()
    before = len(lines.getvalue())
    logs.configure(Logging(format="plain"), stream=lines)
    structlog.get_logger().info("job claimed", job_id=3)
    assert "\x1b[" not in lines.getvalue()[before:]


@pytest.mark.parametrize("format_", ["json", "plain"])
def test_a_secret_is_masked_in_fields_and_tracebacks_however_it_is_quoted(lines: io.StringIO, format_: str) -> None:
    logs.configure(Logging(format=format_), secrets=[SECRET, "abc"], stream=lines)
    log = structlog.get_logger()
    log.info("plain", token=SECRET, listed=[SECRET])
    log.info("cloning", source=f"https://worker:{SECRET}@host/", other="https://ghp_unknown@host/")
    try:
        password = SECRET
        raise ValueError(f"could not use {password}")
    except ValueError:
        log.exception("failed")
        logging.getLogger("lib").exception("theirs")
    text = lines.getvalue()
    for form in ("anted", "p@ss", "wörd", "w\\u00f6rd", "w%C3%B6rd", "ghp_unknown"):
        assert form not in text, form
    assert "could not use" in text
    assert logs.Redactor([SECRET]).text("abc") == "abc"
    assert "anted" not in repr(logs.Redactor([SECRET]))


def test_a_terminal_is_not_commanded_by_what_others_wrote(lines: io.StringIO) -> None:
    logs.configure(Logging(format="plain"), stream=lines)
    structlog.get_logger().warning("download failed", error="no \x1b]0;owned\x07 law", law="\x9b2J")
    logging.getLogger("lib").warning("theirs \x1b[31m")
    assert "\x1b" not in lines.getvalue()
    assert "\x9b" not in lines.getvalue()
    assert "no \ufffd]0;owned\ufffd law" in lines.getvalue()


def test_tracebacks_never_show_the_values_of_locals(lines: io.StringIO) -> None:
    for format_ in ("json", "plain"):
        logs.configure(Logging(format=format_), stream=lines)
        try:
            password = repr(("hidden", "in", "a", "local"))
            raise ExceptionGroup("several", [ValueError(len(password)), KeyError("k")])
        except ExceptionGroup:
            structlog.get_logger().exception("failed")
    assert "several" in lines.getvalue()
    assert "KeyError" in lines.getvalue()
    assert repr(("hidden", "in", "a", "local")) not in lines.getvalue()


async def test_what_an_actor_binds_is_on_the_lines_of_its_tasks_and_on_no_others(lines: io.StringIO) -> None:
    logs.configure(Logging(), stream=lines)

    async def worker(name: str) -> None:
        structlog.contextvars.bind_contextvars(actor=name)
        async with trio.open_nursery() as inner:
            inner.start_soon(child, name)

    async def child(name: str) -> None:
        structlog.get_logger().info("hello", expected=name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker, "claimer")
        nursery.start_soon(worker, "reaper")
    structlog.get_logger().info("outside")
    *inside, outside = map(json.loads, lines.getvalue().splitlines())
    assert len(inside) == 2
    assert all(line["actor"] == line["expected"] for line in inside)
    assert "actor" not in outside


def test_the_level_filters_and_can_be_changed_while_running(lines: io.StringIO) -> None:
    logs.configure(Logging(level="warning"), stream=lines)
    log = structlog.get_logger()
    log.info("hidden")
    logging.getLogger("httpx").info("hidden too")
    assert lines.getvalue() == ""
    logs.set_level("debug")
    log.debug("shown")
    logging.getLogger("httpx").info("shown too")
    assert [json.loads(line)["event"] for line in lines.getvalue().splitlines()] == ["shown", "shown too"]


@pytest.mark.parametrize("_", range(2))
def test_what_a_test_sets_up_for_logs_ends_with_it(_: int) -> None:
    assert not structlog.is_configured()
    logs.configure(Logging(level="error"), stream=io.StringIO())
    structlog.get_logger(__name__).info("not heard")
