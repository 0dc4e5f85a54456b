"""The site that all crawlers of the benchmark visit, in a process of its own: pages of known sizes, at once.

``python -m benchmarks.contestants.crawl_site`` prints its port and serves until its input ends.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import trio

SIZES = (25, 50, 100, 150, 200)
"""Paragraphs of a page, by its number: 5 to 36 kB, as pages of the web have."""


@functools.cache
def html(number: int) -> bytes:
    """Page ``number``: a main part with links, amounts and a table, and the usual things around it."""
    paragraphs = "".join(
        f"<p>De toeslag bedraagt € {number + row},50 per maand voor huishouden {row}. Zie <a href='/artikel/{row}'>artikel"
        f" {row}</a> van de wet, en lees <b>verder</b> voor de voorwaarden die gelden.</p>"
        for row in range(SIZES[number % len(SIZES)])
    )
    table = "".join(f"<tr><td>{2000 + row}</td><td>€ {row * 3},00</td></tr>" for row in range(5))
    return (
        f"<!doctype html><html lang='nl'><head><title>Pagina {number}</title><meta name='description' content='Uitleg'></head>"
        f"<body><nav>{'<a href=/>Home</a>' * 10}</nav><main><h1>Pagina {number}</h1>{paragraphs}<table>{table}</table></main>"
        f"<footer>Over deze site</footer></body></html>"
    ).encode()


def text(number: int) -> bytes:
    """20 kB that need no extraction."""
    return f"Regel {number} van de uitleg over de toeslag, zonder opmaak.\n".encode() * 350


_KINDS: dict[str, Callable[[int], bytes]] = {"pages": html, "texts": text}


async def _answer(stream: trio.SocketStream) -> None:
    """GET after GET; what is asked for stands in the first line: ``/pages/NUMBER`` or ``/texts/NUMBER``."""
    async with stream:
        waiting = b""
        while True:
            while b"\r\n\r\n" not in waiting:
                chunk = await stream.receive_some(65536)
                if not chunk:
                    return
                waiting += chunk
            head, _, waiting = waiting.partition(b"\r\n\r\n")
            kind, _, number = head.split(b" ", 2)[1].decode().strip("/").partition("/")
            make = _KINDS.get(kind)
            body = b"" if make is None else make(int(number))
            status = "404 Not Found" if make is None else "200 OK"
            media_type = "text/plain" if kind == "texts" else "text/html"
            head_lines = (
                f"HTTP/1.1 {status}\r\ncontent-type: {media_type}; charset=utf-8\r\ncontent-length: {len(body)}"
            )
            answer = f"{head_lines}\r\n\r\n"
            await stream.send_all(answer.encode() + body)


async def main() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        print(listeners[0].socket.getsockname()[1], flush=True)
        nursery.start_soon(trio.serve_listeners, _answer, listeners)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
