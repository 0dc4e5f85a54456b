"""Paths, commit messages, redaction and the input of fast-import: all fed with text from law names and children."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.corpus import FileChange, commit_message, corpus_path
from protocols.failures import InvalidInput
from protocols.fastimport import NewCommit, import_stream
from protocols.redaction import redact

TOKEN = "s3cr3t/t0ken+x"


@pytest.mark.parametrize("path", ["a.yaml", "regulation/nl/wet/zorgwet/2025-01-01.yaml", ".enrichment.yaml", "a-b_c/d"])
def test_ordinary_paths_are_fine(path: str) -> None:
    assert corpus_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/etc/passwd",
            "a/../b",
            "..",
            "./a",
            "a/./b",
            "a//b",
            "a/",
            "-rf/a",
            "a/-b",
            ".git/config",
            "a/.GIT/hooks",
        ),
        *(".gitattributes", "a b", "a\nb", "a\\b", "wet/\u00e9.yaml", "a\0b", 'a"b', "x" * 513),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="no path in the corpus"):
        corpus_path(path)
    with pytest.raises(InvalidInput):
        FileChange(path, b"")


def test_a_commit_message_is_one_line_and_its_trailers() -> None:
    text = commit_message("harvest:  Wet\r\n op\tde\x00 zorg\x1b[0m " + "x" * 300, (("Job-Id", "1\nForged: yes"),))
    subject, empty, trailer = text.removesuffix("\n").split("\n")
    assert subject.startswith("harvest: Wet op de zorg [0m xxx")
    assert len(subject) == 200
    assert empty == ""
    assert trailer == "Job-Id: 1 Forged: yes"


def test_an_empty_subject_still_makes_a_commit() -> None:
    assert commit_message(" \n\x07 ") == "update\n"


def test_a_trailer_needs_a_plain_name() -> None:
    with pytest.raises(InvalidInput, match="trailer"):
        commit_message("x", (("Job Id", "1"),))


@given(st.text())
def test_no_subject_brings_a_second_line(subject: str) -> None:
    assert commit_message(subject).splitlines() == [commit_message(subject).removesuffix("\n")]


FORMS = {
    "plain": TOKEN,
    "percent-encoded": quote(TOKEN, safe=""),
    "base64": base64.b64encode(TOKEN.encode()).decode(),
    "base64 behind a user": base64.b64encode(f"u:{TOKEN}".encode()).decode(),
    "base64 behind another user": base64.b64encode(f"tok:{TOKEN}".encode()).decode(),
    "base64 behind a third": base64.b64encode(f"token:{TOKEN}".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_known_secret_is_taken_out_in_every_form(form: str) -> None:
    # GT-09
    shown = redact(f"fatal: x{form}x failed", [TOKEN])
    assert TOKEN not in shown
    assert form not in shown
    assert "***" in shown
    assert shown.startswith("fatal: ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fetch https://me:hush@example.org/x.git failed", "fetch https://***@example.org/x.git failed"),
        ("Authorization: Basic aHVzaA==\nnext", "Authorization: ***\nnext"),
        ("authorization=Bearer hush", "authorization=***"),
        ("found ghp_0123456789abcdefghij here", "found *** here"),
        ("found github_pat_0123456789abcdefghij", "found ***"),
        ("mail a@b.nl about https://example.org/a@b", "mail a@b.nl about https://example.org/a@b"),
    ],
)
def test_what_looks_like_a_credential_is_taken_out_and_the_rest_stays(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_an_empty_secret_changes_nothing() -> None:
    assert redact("text", [""]) == "text"


def test_no_content_can_be_taken_for_a_command() -> None:
    hostile = b"\ncommit refs/heads/evil\ndata 0\n"
    stream = import_stream("a <b>", 7, "f" * 40, [NewCommit("m\n", (FileChange("x", hostile), FileChange("y", None)))])
    assert stream == (
        b"feature done\ncommit refs/regelrecht/made\nmark :1\nauthor a <b> 7 +0000\ncommitter a <b> 7 +0000\n"
        b"data 2\nm\n\nfrom "
        + b"f" * 40
        + b"\nM 100644 inline x\ndata %d\n%b\nD y\nget-mark :1\ndone\n" % (len(hostile), hostile)
    )
