"""How a download can fail, and the rules about answers that need no network (``harvester.md`` 4, D38).

Everything here derives from ``Transient``: a repository that refuses, stalls or sends nonsense now may do better at the
next attempt of the job, and the attempts are counted there.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from protocols.failures import Transient

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_XML_TYPES: Final = frozenset(
    {"", "application/xml", "text/xml", "application/octet-stream", "binary/octet-stream", "text/plain"}
)
"""Metadata files have a suffix that no server knows (``.WTI``), so vague types pass and the first bytes decide."""

_BOMS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HTML_START = re.compile(rb"\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_LATEST_RETRY_S: Final = 86_400.0


class DownloadFailed(Transient):
    """A file could not be fetched. The message names its address."""

    kind = "download_failed"


class DownloadTimedOut(DownloadFailed):
    """The whole fetch, retries included, passed its limit: a server may drip bytes for ever (WB-01)."""

    kind = "download_timeout"


class DownloadTruncated(DownloadFailed):
    """The connection ended, or the compressed stream did, before the file was complete."""

    kind = "download_truncated"


class TooLarge(DownloadFailed):
    """The file passes the size limit, or unpacks far beyond what was sent (WB-02). Both numbers are in the message."""

    kind = "response_too_large"


class HttpRefused(DownloadFailed):
    """The server answered with an error status (``details["status"]``)."""

    kind = "http_status"


class NotServed(HttpRefused):
    """404 or 410, or no such file in a mirror: it is not there. What that means depends on the file."""

    kind = "not_served"


class RedirectLoop(DownloadFailed):
    """Redirects lead round in a circle or go on too long; the repository's answer for a deleted text (BW-03)."""

    kind = "redirect_loop"


class HostNotAllowed(DownloadFailed):
    """An address, or a redirect, leads to a host that is not on the allow-list (D38)."""

    kind = "host_not_allowed"


class WrongContent(DownloadFailed):
    """The answer has status 200 and is no XML: an HTML error page, for example."""

    kind = "wrong_content"


class UnknownEncoding(WrongContent):
    """The answer is packed in a way that we did not offer to accept."""

    kind = "unknown_encoding"


def why_not_xml(content_type: str, head: bytes) -> str | None:
    """Why an answer cannot be the XML we asked for, judged by its media type and first bytes; ``None``: it may be.

    Whether it *is* XML, and in which encoding, the parser finds out.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    start = head.lstrip(b" \t\r\n")
    if media_type in _HTML_TYPES or _HTML_START.match(start.removeprefix(_BOMS[0])):
        return "an HTML page"
    if media_type not in _XML_TYPES and not media_type.endswith("+xml"):
        return f"content of type {ascii(media_type)[1:-1][:60]}"
    if not start:
        return "an empty body"
    if not start.startswith((b"<", b"<\0", b"\0<", *_BOMS)):
        return "something that does not begin like XML"
    return None


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """The wait that a ``Retry-After`` header asks for, as seconds or as a date; ``None`` when absent or unreadable."""
    if header is None:
        return None
    text = header.strip()
    if text.isdecimal():
        return min(float(text[:12]), _LATEST_RETRY_S)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max(0.0, (when - now).total_seconds()), _LATEST_RETRY_S)
