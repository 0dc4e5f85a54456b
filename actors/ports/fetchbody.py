"""Reading the body of an answer without trusting it: bounded, unpacked piece by piece (WB-02)."""

from __future__ import annotations

import io
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Final, Protocol

import httpx
import trio

from protocols.downloads import DownloadTruncated, TooLarge, UnknownEncoding

ACCEPTED_ENCODINGS: Final = "gzip, deflate"
_PIECE_BYTES: Final = 1 << 20
"""Unpacked at a time: small enough that the loop turns in between, whatever the ratio."""
_LET_GO_S: Final = 5.0
_RATIO_FROM_BYTES: Final = 1 << 20
"""Below this the ratio means nothing: a short file of one repeated letter is no attack."""


async def read_body(
    response: httpx.Response, *, limit_bytes: int, max_expansion: int, raw_limit_bytes: int | None = None
) -> bytes:
    """The unpacked body of a streamed ``response``.

    Raises ``TooLarge`` as soon as the declared or the received size passes ``raw_limit_bytes`` (unless given, that is
    ``limit_bytes``), the unpacked size ``limit_bytes``, or the unpacked size ``max_expansion`` times the received one;
    ``DownloadTruncated`` when the body ends early or its packing is damaged; ``UnknownEncoding`` for a packing we did
    not offer.
    """
    url = str(response.url)
    raw_limit = limit_bytes if raw_limit_bytes is None else raw_limit_bytes
    unpacker = _unpacker_for(response.headers.get("content-encoding", ""), url)
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > raw_limit:
        raise TooLarge(f"{url}: {declared[:20]} bytes announced, the limit is {raw_limit}", url=url)
    body, received = io.BytesIO(), 0
    raw = response.aiter_raw()
    try:
        async for chunk in raw:
            received += len(chunk)
            if received > raw_limit:
                raise TooLarge(f"{url}: more than {raw_limit} bytes, which is the limit", url=url)
            for piece in unpacker.feed(chunk):
                body.write(piece)
                _check_size(body.tell(), received, limit_bytes, max_expansion, url)
                await trio.lowlevel.checkpoint()
        body.write(unpacker.finish())
    except zlib.error as error:
        raise DownloadTruncated(f"{url}: the compressed body is damaged or cut off ({error})", url=url) from None
    except (httpx.ReadError, httpx.RemoteProtocolError) as error:
        raise DownloadTruncated(f"{url}: the body was cut off ({error})", url=url) from error
    finally:
        await _let_go(response, raw)  # noqa: ASYNC102 - it shields itself, within its limit
    _check_size(body.tell(), received, limit_bytes, max_expansion, url)
    return body.getvalue()


async def _let_go(response: httpx.Response, raw: AsyncIterator[bytes]) -> None:
    """Close a body wherever we stopped reading it.

    The generators inside httpx do not close each other: left alone they would be finalised by the garbage collector.
    Read from after the close, they come to their end by themselves.
    """
    with trio.move_on_after(_LET_GO_S, shield=True), suppress(httpx.HTTPError, httpx.StreamError):
        await response.aclose()
        async for _ in raw:
            pass


def _check_size(size: int, received: int, limit_bytes: int, max_expansion: int, url: str) -> None:
    if size > limit_bytes:
        raise TooLarge(f"{url}: more than {limit_bytes} bytes (so far {size}), which is the limit", url=url)
    if size > _RATIO_FROM_BYTES and size > received * max_expansion:
        raise TooLarge(f"{url}: {received} bytes unpack to {size} and more: no text does that", url=url)


class _Unpacker(Protocol):
    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The pieces that ``chunk`` unpacks to, each of bounded size."""
        ...

    def finish(self) -> bytes:
        """What is left at the end of the body; ``zlib.error`` when the packing says that more should come."""
        ...


class _Plain:
    def feed(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk

    def finish(self) -> bytes:
        return b""


class _Inflate:
    """gzip (several members too) or deflate. ``wbits`` is zlib's; 0 means deflate with or without a zlib header."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits) if wbits else None
        self._unpacked_any = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        data = chunk
        while data:
            inflate = self._ready_for(data)
            if inflate is None:
                return
            piece = inflate.decompress(data, _PIECE_BYTES)
            self._unpacked_any = True
            if piece:
                yield piece
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail

    def finish(self) -> bytes:
        if self._inflate is None or not self._unpacked_any:
            return b""
        rest = self._inflate.flush()
        if not self._inflate.eof:
            raise zlib.error("its end is missing")
        return rest

    def _ready_for(self, data: bytes) -> zlib._Decompress | None:
        if self._inflate is None:
            # Servers disagree on what "deflate" means: a zlib header begins with 8 in its low bits, raw data seldom does.
            self._inflate = zlib.decompressobj(15 if data[0] & 0x0F == 8 else -15)
        elif self._inflate.eof:
            if self._wbits != _GZIP or not data.startswith(b"\x1f"):
                return None
            self._inflate = zlib.decompressobj(self._wbits)
        return self._inflate


_GZIP: Final = 31


def _unpacker_for(encoding: str, url: str) -> _Unpacker:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return _Plain()
    if name in ("gzip", "x-gzip"):
        return _Inflate(_GZIP)
    if name == "deflate":
        return _Inflate(0)
    raise UnknownEncoding(f"{url}: packed as {ascii(name)[:40]}, which was not asked for", url=url)
