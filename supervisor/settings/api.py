"""The settings of role ``api``."""

from __future__ import annotations

import re

from attrs import frozen

from supervisor.settings.reader import flag, setting, text, whole

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def _hosts(raw: str) -> tuple[str, ...]:
    hosts = tuple(part.strip().lower() for part in raw.split(",") if part.strip())
    if not hosts or not all(re.fullmatch(r"[a-z0-9.-]{1,253}|\[[0-9a-f:]+\]", host) for host in hosts):
        raise ValueError("expected names of hosts with commas between them: pipelines.example.org")
    return hosts


@frozen
class Api:
    """The HTTP interface of pipelines: `run --roles api`."""

    port: int = setting(
        "API_PORT",
        whole(0, 65_535),
        default=8080,
        help="Serve the HTTP interface on this port. 0 lets the system choose one.",
    )
    host: str = setting(
        "API_HOST",
        text,
        default="127.0.0.1",
        help="Address to listen on. 0.0.0.0 in a pod, behind something that does TLS: tokens are sent with every request.",
    )
    mcp: bool = setting(
        "API_MCP",
        flag,
        default=False,
        help="Serve the run history to chat agents at /mcp, too. Needs the extra `mcp`, and 60 MB of memory.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        "API_ALLOWED_HOSTS",
        _hosts,
        default=LOOPBACK_NAMES,
        shown_default="127.0.0.1,localhost,[::1]",
        help="Names by which /mcp is reached. Requests with another Host, or from a page of another origin, are refused.",
    )
