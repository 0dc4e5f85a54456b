"""From the bytes of an answer to text, in the order byte order mark, header, ``meta``, UTF-8 with replacement."""

from __future__ import annotations

import codecs
import re
from typing import Final

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LOOK_IN_BYTES: Final = 4_096
_META: Final = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE)
_DECLARATION: Final = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.+-]{1,40})")
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE)

_CODECS: Final = frozenset(
    {
        "utf-8",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "gbk",
        "gb18030",
        "big5",
        "euc_jp",
        "shift_jis",
        "iso2022_jp",
        "euc_kr",
    }
    | {"koi8-r", "koi8-u", "cp866", "mac-roman"}
    | {f"cp{number}" for number in (874, *range(1250, 1259))}
    | {f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)}
)
"""Names as ``codecs.lookup`` gives them. A list, since Python's registry also holds codecs that are no charset at all."""
_READ_AS: Final = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gbk",
}
"""What the web means by these labels is the Windows code page."""


def decode(body: bytes, content_type: str, *, look_inside: bool) -> str:
    """``body`` as text; damaged bytes become U+FFFD.

    ``look_inside``: the body is HTML, whose ``meta`` may name the charset when the header does not.
    """
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    header = _HEADER.search(content_type)
    name = _codec(header[1]) if header else None
    if name is None and look_inside:
        head = body[:_LOOK_IN_BYTES]
        inside = _META.search(head) or _DECLARATION.search(head)
        name = _codec(inside[1].decode("ascii")) if inside else None
        if name is not None and name.startswith("utf-16"):
            name = "utf-8"  # a page that can be searched byte by byte is no UTF-16, whatever it says
    return body.decode(name or "utf-8", "replace")


def _codec(label: str) -> str | None:
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    meant = _READ_AS.get(name, name)
    return meant if meant in _CODECS else None
