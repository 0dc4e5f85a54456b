"""Results too large for a row: written once as a stream, published as a whole or not at all (``pipelines.md`` 7, D65).

On a disk or in an S3-compatible store, through obstore's synchronous calls in threads: its asynchronous ones want
asyncio. Keys are never overwritten by another claim, and what becomes of a key is decided in the database.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

import structlog
import trio
from attrs import define, field, frozen

from protocols.failures import InvalidInput, Transient

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")
_log = structlog.get_logger(__name__)

PART_BYTES: Final = 8 << 20
BLOCK_BYTES: Final = 1 << 20
READ_BYTES: Final = 4 << 20
STALE_PART_S: Final = 86_400.0
_PARTS_AT_ONCE: Final = 2
_UPLOADS_AT_ONCE: Final = 16
_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_PART_NAME: Final = re.compile(r".+#[0-9]+")


class BlobFailed(Transient):
    """The blob store does not do what it should. Nothing was published."""

    kind = "blob_failed"


class BlobMissing(BlobFailed):
    """There is no blob of this key: expired, deleted, or never published."""

    kind = "blob_missing"


@frozen(kw_only=True)
class BlobSettings:
    """``BLOB_*``. ``local_root`` is ours alone: it is made with mode 0700, and nobody else may write there.

    A store for several pods needs a shared volume, or S3. InvalidInput when something that the backend needs is missing.
    """

    backend: str = "local"
    local_root: Path | None = None
    s3_endpoint: str | None = None
    s3_region: str = "us-east-1"
    s3_bucket: str | None = None
    s3_access_key: str | None = field(default=None, repr=False)
    s3_secret_key: str | None = field(default=None, repr=False)
    s3_path_style: bool = True
    timeout_s: float = 60.0
    """Of one request; a part is one."""
    retries: int = 3

    def __attrs_post_init__(self) -> None:
        if self.backend not in ("local", "s3"):
            raise InvalidInput("BLOB_BACKEND is local or s3")
        needed: dict[str, object] = {"BLOB_LOCAL_ROOT": self.local_root}
        if self.backend == "s3":
            needed = {
                "BLOB_S3_BUCKET": self.s3_bucket,
                "BLOB_S3_ACCESS_KEY": self.s3_access_key,
                "BLOB_S3_SECRET_KEY": self.s3_secret_key,
            }
        missing = [name for name, value in needed.items() if not value]
        if missing:
            raise InvalidInput(f"BLOB_BACKEND={self.backend} needs {', '.join(missing)}")


class Parts(Protocol):
    """Where the bytes of a blob come from: the receiving end of a channel."""

    async def receive(self) -> bytes: ...


@define(eq=False)
class BlobStream:
    """A blob as it is read, once: its size first, so that headers can be sent, then its bytes."""

    size_bytes: int
    _read: Callable[[int, int], Awaitable[bytes]]
    _at: int = field(init=False, default=0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._at >= self.size_bytes:
            raise StopAsyncIteration
        chunk = await self._read(self._at, min(READ_BYTES, self.size_bytes - self._at))
        self._at += len(chunk)
        return chunk


@define(eq=False)
class Blobs:
    """Made by :func:`open_blobs`. Any number of tasks may use it at once. All failures are ``BlobFailed``."""

    settings: BlobSettings
    _store: ObjectStore
    _uploads: trio.CapacityLimiter = field(init=False, factory=lambda: trio.CapacityLimiter(_UPLOADS_AT_ONCE))

    @property
    def backend_name(self) -> str:
        """Stored beside each key: a key means nothing in another store."""
        return self.settings.backend

    @property
    def _root(self) -> Path | None:
        return self.settings.local_root if self.settings.backend == "local" else None

    async def put_stream(self, key: str, parts: Parts, content_type: str = "application/json") -> int:
        """Publish what ``parts`` gives until its channel is closed; the size in bytes.

        All or nothing: cancelled, or when the sender fails and cancels us, nothing is there. One part is in memory per
        upload and request, whatever the size of the blob.
        """
        feed = _Feed(parts)

        def put() -> None:
            self._store.put(
                self._checked(key),
                iter(feed),
                attributes=None
                if self._root is not None
                else {"Content-Type": content_type},  # a disk has no place for it
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )
            self._keep(key)

        await self._in_thread(put, limiter=self._uploads)
        return feed.size_bytes

    async def put(self, key: str, content: bytes, content_type: str = "application/json") -> int:
        """Publish ``content``; its size in bytes."""
        send, receive = trio.open_memory_channel[bytes](1)
        async with send, receive:
            send.send_nowait(content)
            send.close()
            return await self.put_stream(key, receive, content_type)

    async def stat(self, key: str) -> int | None:
        """The size in bytes; None when there is no such blob."""
        with suppress(BlobMissing):
            return int((await self._in_thread(lambda: self._store.head(self._checked(key))))["size"])
        return None

    async def open_stream(self, key: str) -> BlobStream:
        """Raises ``BlobMissing`` here, before anybody was promised a body."""
        size = await self.stat(key)
        if size is None:
            raise BlobMissing("there is no such result any more")

        async def read(start: int, length: int) -> bytes:
            return bytes(await self._in_thread(lambda: self._store.get_range(key, start=start, length=length)))

        return BlobStream(size, read)

    async def delete(self, key: str) -> None:
        """A blob that is not there is fine."""
        with suppress(BlobMissing):
            await self._in_thread(lambda: self._store.delete(self._checked(key)))

    async def sweep_parts(self, older_than_s: float = STALE_PART_S) -> int:
        """Delete what uploads left behind whose process was killed; how many files.

        Only on a disk: an S3 store ends unfinished uploads by a rule of the bucket, which the client has no call for.
        """
        root = self._root
        if root is None:
            return 0
        swept = await trio.to_thread.run_sync(_sweep, root, time.time() - older_than_s)
        if swept:
            _log.info("unfinished results deleted", files=swept)
        return swept

    def _checked(self, key: str) -> str:
        """Keys are made here, from numbers; a key from anywhere else could name any file."""
        if not _KEY.fullmatch(key) or len(key) > 512:
            raise InvalidInput("a blob key is words of letters, digits, '.', '_', '-' between slashes")
        if self._root is not None and not (self._root / key).resolve().is_relative_to(self._root.resolve()):
            raise InvalidInput("a blob key must not lead out of the store")
        return key

    def _keep(self, key: str) -> None:
        """On a disk: a row will point here, so the file must survive a power cut as the row does."""
        if self._root is None:
            return
        path = self._root / key
        for place in (path, path.parent):
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    async def _in_thread(self, call: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        from obstore.exceptions import BaseError

        try:
            return await trio.to_thread.run_sync(call, limiter=limiter)
        except FileNotFoundError:
            raise BlobMissing("there is no such result any more") from None
        except (BaseError, OSError) as error:
            raise BlobFailed(f"the {self.backend_name} blob store failed: {self._words(error)}") from None

    def _words(self, error: Exception) -> str:
        """The store's own text, shortened, without our keys: S3 repeats them in some answers."""
        text = " ".join(str(error).split())
        for secret in (self.settings.s3_access_key, self.settings.s3_secret_key):
            if secret:
                text = text.replace(secret, "***")
        return text[:300]


@define
class _Feed:
    """An iterator for the thread of an upload, fed from trio. A cancellation comes out of it and ends the upload."""

    parts: Parts
    size_bytes: int = 0
    _ended: bool = False

    def __iter__(self) -> Iterator[bytes]:
        while not self._ended:
            block = trio.from_thread.run(self._block)
            self.size_bytes += len(block)
            yield block

    async def _block(self) -> bytes:
        """Many small parts at once: a change of threads costs more than a page does."""
        block = bytearray()
        while len(block) < BLOCK_BYTES:
            try:
                block += await self.parts.receive()
            except trio.EndOfChannel:
                self._ended = True
                break
        return bytes(block)


async def open_blobs(settings: BlobSettings) -> Blobs:
    """The store that ``settings`` name. Nothing is asked of it yet. The folder of a local one is made."""
    try:
        store = await trio.to_thread.run_sync(_local if settings.backend == "local" else _s3, settings)
    except OSError as error:
        raise InvalidInput(f"BLOB_LOCAL_ROOT cannot be used: {error.strerror}") from error
    return Blobs(settings, store)


def _local(settings: BlobSettings) -> ObjectStore:
    from obstore.store import LocalStore  # with the roles that have blobs, not before

    assert settings.local_root is not None
    settings.local_root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(settings.local_root)
    return LocalStore(settings.local_root, automatic_cleanup=True)


def _check_owner(root: Path) -> None:
    """Below a folder that everybody may write to, such as /tmp, somebody else may have been first: then they could read
    and replace all results. Elsewhere the owner is the operator's business; mounted volumes seldom have ours.
    """
    open_to_all = root.parent.stat().st_mode & stat.S_IWOTH
    if open_to_all and (root.is_symlink() or root.stat().st_uid not in (0, os.geteuid())):
        raise InvalidInput("BLOB_LOCAL_ROOT cannot be used: another user made it; name a folder of your own")


def _s3(settings: BlobSettings) -> ObjectStore:
    from obstore.store import S3Store

    endpoint = settings.s3_endpoint
    options: dict[str, Any] = {} if endpoint is None else {"endpoint": endpoint}
    return S3Store(
        settings.s3_bucket,
        region=settings.s3_region,
        access_key_id=settings.s3_access_key,
        secret_access_key=settings.s3_secret_key,
        virtual_hosted_style_request=not settings.s3_path_style,
        client_options={
            "allow_http": endpoint is not None and endpoint.startswith("http://"),
            "timeout": timedelta(seconds=settings.timeout_s),
        },
        retry_config={
            "max_retries": settings.retries,
            "retry_timeout": timedelta(seconds=settings.timeout_s),
        },
        **options,
    )


def _sweep(root: Path, before: float) -> int:
    swept = 0
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                if _PART_NAME.fullmatch(name) and path.lstat().st_mtime < before:
                    path.unlink()
                    swept += 1
    return swept
