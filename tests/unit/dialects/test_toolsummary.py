"""What people see of a tool call."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.toolsummary import LONGEST_SUMMARY, shown_name, summary, target_of

CWD = "/home/agent/corpus"
LAW_TEXT = "Artikel 1 KANARIE"


def line(name: str, arguments: dict[str, object], cwd: str | None = CWD) -> str:
    return summary(shown_name(name), target_of(name, json.dumps(arguments).encode(), cwd))


@pytest.mark.claim("S0-085")
@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("Read", {"file_path": f"{CWD}/laws/x/law.yaml"}, "Read laws/x/law.yaml"),
        ("edit", {"filePath": f"{CWD}/laws/x/law.yaml", "oldString": LAW_TEXT}, "edit laws/x/law.yaml"),
        ("Write", {"file_path": "laws/x/law.yaml", "content": LAW_TEXT}, "Write laws/x/law.yaml"),
        ("NotebookEdit", {"notebook_path": f"{CWD}/a.ipynb", "new_source": LAW_TEXT}, "NotebookEdit a.ipynb"),
        ("Read", {"file_path": "/etc/ssl/private/key.pem"}, "Read private/key.pem"),
        ("Read", {"file_path": f"{CWD}/../../other/secret.txt"}, "Read other/secret.txt"),
        ("Read", {"file_path": "../../etc/passwd"}, "Read etc/passwd"),
        ("Read", {"file_path": f"{CWD}-other/x"}, "Read corpus-other/x"),
        ("Read", {"file_path": CWD}, "Read ."),
        ("Read", {"file_path": "a\x1b[31m\n\u2028\u202eb"}, "Read a[31mb"),
        ("Read", {"file_path": ["a"]}, "Read"),
        ("Read", {}, "Read"),
        ("Grep", {"pattern": LAW_TEXT, "path": f"{CWD}/laws"}, "Grep laws"),
        ("glob", {"pattern": LAW_TEXT}, "glob"),
        ("Bash", {"command": f"grep '{LAW_TEXT}' x", "description": LAW_TEXT}, "Bash grep"),
        ("bash", {"command": f"TEXT='{LAW_TEXT}' env"}, "bash"),
        ("bash", {"command": f"'{LAW_TEXT}'"}, "bash"),
        ("bash", {"command": f"cat<<{LAW_TEXT}"}, "bash cat"),
        ("bash", {"command": "   "}, "bash"),
        ("WebFetch", {"url": "https://user:pw@wetten.example/a?b#c", "prompt": LAW_TEXT}, "WebFetch wetten.example"),
        ("webfetch", {"url": "http://[broken"}, "webfetch"),
        ("webfetch", {"url": f"http://{LAW_TEXT}/"}, "webfetch"),
        ("Task", {"description": LAW_TEXT, "prompt": LAW_TEXT}, "Task"),
        ("TodoWrite", {"todos": [{"content": LAW_TEXT}]}, "TodoWrite"),
        ("invalid", {"tool": "write", "error": LAW_TEXT}, "invalid"),
        (LAW_TEXT, {"file_path": "x"}, "unknown"),
        ("", {}, "unknown"),
        ("mcp__server__tool", {"path": LAW_TEXT}, "mcp__server__tool"),
    ],
)
def test_a_summary_is_name_and_target_and_never_content(name: str, arguments: dict[str, object], shown: str) -> None:
    assert line(name, arguments) == shown


def test_without_a_working_directory_a_path_is_shown_by_its_last_two_parts() -> None:
    assert line("read", {"filePath": "/srv/a/b/law.yaml"}, None) == "read b/law.yaml"


def test_a_failed_call_is_marked_after_the_cut() -> None:
    long = summary("Read", "x" * 300, failed=True)
    assert long.endswith("… (error)")
    assert len(long) == LONGEST_SUMMARY + len(" (error)")


@pytest.mark.parametrize("arguments", [b"", b"null", b"[]", b'"text"', b"{", b'{"file_path":' + b"[" * 9999])
def test_arguments_that_are_no_object_name_no_target(arguments: bytes) -> None:
    assert target_of("Read", arguments, CWD) == ""


@given(name=st.text(max_size=80), path=st.text(max_size=400), cwd=st.none() | st.text(max_size=20))
def test_a_summary_is_one_short_printable_line(name: str, path: str, cwd: str | None) -> None:
    for tool in (name, "Read", "Bash", "WebFetch", "Grep"):
        shown = line(tool, {"file_path": path, "path": path, "command": path, "url": path}, cwd)
        assert shown.isprintable()
        assert len(shown) <= LONGEST_SUMMARY
