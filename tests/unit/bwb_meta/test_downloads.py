"""Rules about answers that need no network."""

from datetime import UTC, datetime

import pytest

from protocols.downloads import retry_after_s, why_not_xml

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "content_type",
    ["application/xml", "text/xml; charset=utf-8", "", "application/octet-stream", "text/plain", "application/rdf+xml"],
)
@pytest.mark.parametrize(
    "head", [b"<a/>", b"\xef\xbb\xbf<?xml version='1.0'?><a/>", b"\n <a/>", "<a/>".encode("utf-16")]
)
def test_xml_passes_whatever_vague_type_and_encoding_it_has(content_type: str, head: bytes) -> None:
    assert why_not_xml(content_type, head) is None


@pytest.mark.parametrize(
    ("content_type", "head", "word"),
    [
        ("text/html", b"<a/>", "HTML"),
        ("application/xhtml+xml", b"<a/>", "HTML"),
        ("application/xml", b"<!DOCTYPE html><html>", "HTML"),
        ("", b"  <!-- x --><HTML>", "HTML"),
        ("", b"\xef\xbb\xbf<html>", "HTML"),
        ("application/json", b"{}", "application/json"),
        ("application/pdf", b"%PDF", "application/pdf"),
        ("text/xml", b"", "empty"),
        ("text/xml", b" \n", "empty"),
        ("text/plain", b"Not found", "does not begin like XML"),
    ],
)
def test_what_cannot_be_the_xml_says_why(content_type: str, head: bytes, word: str) -> None:
    assert word in (why_not_xml(content_type, head) or "")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("3", 3.0),
        (" 120 ", 120.0),
        ("Mon, 30 Nov 2026 12:00:30 GMT", 30.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("9" * 400, 86400.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, expected: float | None) -> None:
    assert retry_after_s(header, NOW) == expected
