"""What no bytes can do to a dialect."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocols.agentevents import AgentEvent
from protocols.agentstream import AgentStream
from protocols.agentview import CallView
from protocols.dialects import DIALECTS
from tests.kit import agentstreams

PROVIDERS = list(DIALECTS)
each_dialect = pytest.mark.parametrize("provider", PROVIDERS)
GARBAGE = [
    b"plain words",
    b"[1,2]",
    b'"text"',
    b"17",
    b'{"type":"assistant","message":',
    b'{"type":"text","part":{"text":"',
    b"\xff\xfe\x00",
    b'{"type":"result"} trailing',
    b"{",
    b'{"deep":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
]


def every_fixture(provider: str) -> bytes:
    return b"".join(
        agentstreams.fixture(provider, name) for name in agentstreams.fixture_names(provider) if name != "half_line"
    )


@each_dialect
@given(cuts=st.lists(st.integers(1, 3000), max_size=60))
def test_any_cutting_of_the_bytes_gives_the_same_events(provider: str, cuts: list[int]) -> None:
    content = every_fixture(provider)
    stream, events, start = AgentStream(DIALECTS[provider].parser()), list[AgentEvent](), 0
    for size in [*cuts, len(content)]:
        events += stream.read(stream.split(content[start : start + size]))
        start += size
    events += stream.finish()
    assert events == agentstreams.read(provider, content).events


@each_dialect
@given(places=st.lists(st.tuples(st.integers(0, 13), st.sampled_from(GARBAGE)), max_size=6))
def test_garbage_is_counted_and_changes_nothing_else(provider: str, places: list[tuple[int, bytes]]) -> None:
    lines = agentstreams.fixture(provider, "work").split(b"\n")[:-1]
    clean = agentstreams.read(provider, b"\n".join([*lines, b""]))
    for place, garbage in places:
        lines.insert(place, garbage)
    dirty = agentstreams.read(provider, b"\n".join([*lines, b""]))
    assert dirty.events == clean.events
    assert dirty.stream.bad_lines == len(places)
    assert dirty.verdict().ok


@each_dialect
@given(line=st.binary(max_size=200))
@example(b'{"type":"result","usage":{"input_tokens":1e400}}')
@example(b'{"type":"result","usage":{"input_tokens":-5,"output_tokens":123456789012345678901234567890}}')
@example(b'{"type":"step_finish","part":{"reason":"stop","tokens":{"input":123456789012345678901234567890}}}')
def test_no_line_is_fatal(provider: str, line: bytes) -> None:
    found = agentstreams.read(provider, line + b"\n")
    usage = found.view.usage
    assert usage is None or 0 <= usage.input_tokens <= 1 << 53


def known_lines(provider: str) -> list[bytes]:
    return [line for line in every_fixture(provider).split(b"\n") if line.startswith(b"{")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@each_dialect
@given(data=st.data())
def test_a_known_event_with_one_field_of_another_shape_is_read_or_counted(provider: str, data: st.DataObject) -> None:
    entries = []
    for line in known_lines(provider):
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    entry = data.draw(st.sampled_from([entry for entry in entries if isinstance(entry, dict)]))
    target = entry
    while True:
        key = data.draw(st.sampled_from(sorted(target))) if target else None
        if key is None or not isinstance(target[key], dict) or data.draw(st.booleans()):
            break
        target = target[key]
    if key is not None:
        target[key] = data.draw(JSON)
    parser, view = DIALECTS[provider].parser(), CallView()
    for event in (*parser.line(json.dumps(entry).encode()), *parser.finish()):
        view.fold(event)
    assert parser.counts.bad == 0


@each_dialect
def test_a_huge_line_is_skipped_and_counted_and_the_run_goes_on(provider: str) -> None:
    # AG-08
    lines = agentstreams.fixture(provider, "plain").split(b"\n")[:-1]
    huge = b'{"type":"text","part":{"text":"' + b"x" * (17 << 20) + b'"}}'
    found = agentstreams.read(provider, b"\n".join([lines[0], huge, *lines[1:], b""]))
    assert (found.stream.oversized_lines, found.stream.bad_lines, found.stream.lines) == (1, 1, len(lines) + 1)
    assert found.verdict().ok


@pytest.mark.parametrize("size", [65_535, 65_536, (1 << 20) + 1, 15 << 20])
def test_long_lines_are_parsed(size: int) -> None:
    # AG-08: one event can carry a whole file.
    filler = "x" * (size - 200)
    line = json.dumps(
        {"type": "assistant", "parent_tool_use_id": None, "message": {"id": "m", "model": "m", "content": [
            {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "/a/b", "content": filler}}]}}
    ).encode()  # fmt: skip
    content = line + b"\n" + agentstreams.fixture("claude", "plain")
    found = agentstreams.read("claude", content)
    assert found.view.tool_calls == 1
    assert found.stream.bad_lines == 0
    assert found.verdict().ok
