"""Secrets out of texts that go to logs, job results and people (GT-09).

The text of a child process is hostile and careless: it repeats addresses with passwords, headers, tokens in other
encodings. What is replaced is the known secrets in every usual form, and whatever looks like a credential.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

MASK = "***"

_URL_USER = re.compile(r"(?<=://)[^/\s'\"@]+@")
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization)(\s*[:=]\s*)[^\r\n'\"]+")
_KNOWN_TOKENS = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{16,})"
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without ``secrets`` (plain, percent-encoded, base64 at any offset) and without what looks like one."""
    for secret in secrets:
        for form in _forms(secret):
            text = text.replace(form, MASK)
    text = _URL_USER.sub(f"{MASK}@", text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    return _KNOWN_TOKENS.sub(MASK, text)


def _forms(secret: str) -> Iterator[str]:
    if not secret:
        return
    yield secret
    yield quote(secret, safe="")
    # Inside a longer text (``user:secret``) the base64 form depends on the position modulo 3; the characters that mix
    # with the neighbours are cut off. Short secrets would leave too little to be told from other text.
    for offset in range(3) if len(secret) >= 6 else ():
        encoded = base64.b64encode(b"\0" * offset + secret.encode()).decode().rstrip("=")
        start = (0, 2, 3)[offset]
        end = len(encoded) - (1 if (offset + len(secret.encode())) % 3 else 0)
        yield encoded[start:end]
