"""Which credential a run of an agent uses (``enrich.md`` 2.2, D52). Never shown: people see "2 of 3" and the kind."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Final

from attrs import field, frozen

from protocols.budget import CLAUDE, OPENCODE

ROTATION_S: Final = 100
"""So long in unix time one token is chosen, then the next: supervisors that start together agree without talking."""

TOKEN_VARIABLE: Final = "CLAUDE_CODE_OAUTH_TOKEN"
KEY_VARIABLE: Final = "VLAM_API_KEY"
_VARIABLES: Final = {CLAUDE: TOKEN_VARIABLE, OPENCODE: KEY_VARIABLE}


@frozen
class Credential:
    """``hash`` names it in the database (16 hex digits of its SHA-256); '' where there is none."""

    secret: str = field(repr=False)
    position: int
    count: int

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.secret.encode()).hexdigest()[:16] if self.secret else ""

    @property
    def kind(self) -> str:
        """For diagnostics: ``oauth``, ``api-key`` (the wrong kind for claude), ``none`` or ``unknown``."""
        if not self.secret:
            return "none"
        if self.secret.startswith("sk-ant-oat"):
            return "oauth"
        return "api-key" if self.secret.startswith("sk-ant-api") else "unknown"

    def __str__(self) -> str:
        return f"{self.position + 1} of {self.count}" if self.secret else "none"


def credentials_of(provider: str, environ: Mapping[str, str]) -> tuple[Credential, ...]:
    """Those of a provider: claude may have several tokens, separated by commas. Empty: the CLI knows its own."""
    text = environ.get(_VARIABLES.get(provider, ""), "")
    parts = text.split(",") if provider == CLAUDE else [text]
    secrets = [part.strip() for part in parts if part.strip()]
    return tuple(Credential(secret, position, len(secrets)) for position, secret in enumerate(secrets))


def choose(credentials: tuple[Credential, ...], unix_s: float, benched: Collection[str] = ()) -> Credential | None:
    """By the clock, one after the other; those in trouble (by hash) are passed over unless all are. None: there is none."""
    usable = [credential for credential in credentials if credential.hash not in benched] or list(credentials)
    return usable[int(unix_s) // ROTATION_S % len(usable)] if usable else None
