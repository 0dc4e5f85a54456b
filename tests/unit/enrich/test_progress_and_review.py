"""The progress document (``enrich.md`` 7) and the diff for review tasks (``corpus-and-tasks.md`` 3.3)."""

from __future__ import annotations

import pytest

from protocols.lawstats import LawCount
from protocols.progressdoc import NOTE_LIMIT_BYTES, progress_document, read_note
from protocols.reviewdiff import changed_entries
from protocols.windows import Window

NOTE = {"phase": "generating", "step": 2, "total_steps": 3}


@pytest.mark.claim("S0-078")
def test_the_note_of_the_agent_stands_on_top_unchanged() -> None:
    note = read_note(b'{"phase": "generating", "step": 2, "total_steps": 3}', {})

    assert note == NOTE
    document = progress_document(note, {"call": "translate"}, LawCount(34, 12), Window(15, 30, 34))
    assert document == {
        **NOTE,
        "worker": {
            "call": "translate",
            "articles_with_machine_readable": 12,
            "articles_total": 34,
            "window": {"from": 15, "to": 30},
        },
    }


@pytest.mark.parametrize(
    "content",
    [None, b"", b'{"phase": "gen', b"[1]", b'"x"', b"\xff", b'{"a": "' + b"x" * NOTE_LIMIT_BYTES + b'"}', b"[" * 5000],
)
def test_a_note_that_is_absent_half_written_or_no_object_keeps_the_last_one(content: bytes | None) -> None:
    assert read_note(content, NOTE) == NOTE


def test_an_agent_does_not_speak_for_the_worker() -> None:
    assert read_note(b'{"phase": "x", "worker": {"turns": 999}}', {}) == {"phase": "x"}


SOURCE = """\
articles:
  - {number: '1', text: een}
  - {number: 2, text: twee, machine_readable: {a: 1}}
  - {number: '3', text: drie}
  - {number: '3', text: nog een drie}
"""


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("", "", ()),
        ("text: een}", "text: een, machine_readable: {}}", ("1",)),
        ("number: 2", "number: '2'", ()),
        ("a: 1", "a: 1.0", ("2",)),
        ("  - {number: '3', text: drie}\n", "", ("3",)),
        ("number: '3', text: nog", "number: '4', text: nog", ("4",)),
        ("number: '1'", "number: null", ()),
        ("articles:", "$id: a\narticles:", ()),
    ],
)
def test_entries_that_differ_or_are_new_are_named_in_the_order_of_the_proposal(
    old: str, new: str, changed: tuple[str, ...]
) -> None:
    found = changed_entries(SOURCE, SOURCE.replace(old, new, 1) if old else SOURCE)

    # The second entry of a number is compared with the first, so it shows as changed whatever is proposed.
    assert tuple(number for number in found or () if number != "3" or changed == ("3",)) == changed


@pytest.mark.parametrize(
    ("source", "proposal"),
    [(None, SOURCE), ("a: [", SOURCE), (SOURCE, "a: ["), ("a: 1", SOURCE), (SOURCE, "articles: {}"), (SOURCE, "- 1")],
)
def test_what_cannot_be_read_cannot_be_compared(source: str | None, proposal: str) -> None:
    assert changed_entries(source, proposal) is None
