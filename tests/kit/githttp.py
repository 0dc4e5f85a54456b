"""A git server over HTTP on loopback that wants a password, with git's own CGI program behind it."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from attrs import define, field

from tests.kit.gitrepos import ENV


@define
class GitServer:
    """``url`` leads to the repositories below ``root``. ``seen`` has the credentials of each request."""

    root: Path
    password: str
    port: int = 0
    redirect_to: str | None = None
    seen: list[str | None] = field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(root: Path, password: str, redirect_to: str | None = None) -> Iterator[GitServer]:
    server = GitServer(root, password, redirect_to=redirect_to)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, server)

        do_POST = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
            """Silent."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.port = httpd.server_address[1]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def _answer(request: BaseHTTPRequestHandler, server: GitServer) -> None:
    body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
    if server.redirect_to is not None:
        _send(request, 302, {"Location": server.redirect_to + request.path}, b"")
        return
    given = request.headers.get("Authorization", "")
    user = base64.b64decode(given.removeprefix("Basic ")).decode() if given else None
    server.seen.append(user)
    if user is None or user.partition(":")[2] != server.password:
        _send(request, 401, {"WWW-Authenticate": 'Basic realm="git"'}, b"who are you?")
        return
    parts = urlsplit(request.path)
    cgi = subprocess.run(
        ["git", "http-backend"],
        env={
            **ENV,
            "GIT_PROJECT_ROOT": str(server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",
            "REQUEST_METHOD": request.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        },
        input=body,
        capture_output=True,
        check=True,
    )
    head, _, content = cgi.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    _send(request, int(headers.pop("Status", "200").split()[0]), headers, content)


def _send(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)
