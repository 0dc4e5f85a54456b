"""Results on a disk and in S3: streamed, whole or not at all, found again, deleted."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.jobs.pipeline_run.ports import BlobStore
from actors.ports.blobs import PART_BYTES, BlobFailed, BlobMissing, Blobs, BlobSettings, open_blobs
from protocols.crawl import blob_key
from protocols.failures import InvalidInput
from tests.kit.blobstores import BUCKET, SECRET_KEY, FakeS3, fake_s3
from tests.kit.processes import until

ROOT = Path(__file__).parents[3]
KEY = blob_key(workspace_id=3, run_id=7, claim_seq=1)
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def s3() -> Iterator[FakeS3]:
    with fake_s3() as server:
        yield server


@pytest.fixture(params=["local", "s3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobSettings]:
    if request.param == "local":
        yield BlobSettings(local_root=tmp_path / "results")
    else:
        server: FakeS3 = request.getfixturevalue("s3")
        yield server.settings()
        for key in server.objects():
            server.client.delete_object(Bucket=BUCKET, Key=key)


async def content(blobs: Blobs, key: str = KEY) -> bytes:
    stream = await blobs.open_stream(key)
    found = b"".join([chunk async for chunk in stream])
    assert len(found) == stream.size_bytes
    return found


async def stored(blobs: Blobs, parts: Iterator[bytes], key: str = KEY) -> int:
    """Put through a channel without a buffer, as the engine does."""
    send, receive = trio.open_memory_channel[bytes](0)
    size = 0

    async def put() -> None:
        nonlocal size
        async with receive:
            size = await blobs.put_stream(key, receive)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put)
        async with send:
            for part in parts:
                await send.send(part)
    return size


# -- both stores ------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-038", "S3-077")
async def test_what_is_streamed_in_is_read_back_and_deleted(settings: BlobSettings) -> None:
    blobs: BlobStore = await open_blobs(settings)
    assert isinstance(blobs, Blobs)
    assert blobs.backend_name == settings.backend
    assert await blobs.stat(KEY) is None
    document = {"runs": [{"url": f"https://example.com/{number}", "content": "één €" * 10} for number in range(50)]}
    encoded = json.dumps(document, ensure_ascii=False).encode()
    assert await stored(blobs, (encoded[at : at + 100] for at in range(0, len(encoded), 100))) == len(encoded)
    assert await blobs.stat(KEY) == len(encoded)
    assert json.loads(await content(blobs)) == document
    await blobs.delete(KEY)
    assert await blobs.stat(KEY) is None
    await blobs.delete(KEY)


async def test_many_parts_come_back_in_order(settings: BlobSettings) -> None:
    blobs = await open_blobs(settings)
    size = 2 * PART_BYTES + 12_345
    pattern = bytes(range(256)) * 4096
    await stored(blobs, (pattern[: min(MEBIBYTE, size - at)] for at in range(0, size, MEBIBYTE)))
    found = await content(blobs)
    assert len(found) == size
    assert found == (pattern * 20)[:size]


async def test_small_and_empty_blobs_are_blobs(settings: BlobSettings) -> None:
    blobs = await open_blobs(settings)
    assert await blobs.put(KEY, b"{}") == 2
    assert await content(blobs) == b"{}"
    assert await stored(blobs, iter(()), blob_key(workspace_id=3, run_id=8, claim_seq=1)) == 0
    assert await blobs.stat(blob_key(workspace_id=3, run_id=8, claim_seq=1)) == 0


async def test_a_claim_that_lost_its_run_cannot_touch_the_result_of_the_next(settings: BlobSettings) -> None:
    """D65: each claim has a key of its own."""
    blobs = await open_blobs(settings)
    newer = blob_key(workspace_id=3, run_id=7, claim_seq=2)
    await blobs.put(newer, b"new")
    await blobs.put(KEY, b"zombie")
    assert await content(blobs, newer) == b"new"


async def test_an_upload_that_is_cancelled_leaves_nothing(
    settings: BlobSettings, request: pytest.FixtureRequest
) -> None:
    blobs = await open_blobs(settings)
    send, receive = trio.open_memory_channel[bytes](0)
    async with trio.open_nursery() as nursery, send, receive:
        nursery.start_soon(blobs.put_stream, KEY, receive)
        for _ in range(2 * PART_BYTES // MEBIBYTE):
            await send.send(bytes(MEBIBYTE))
        nursery.cancel_scope.cancel()
    assert await blobs.stat(KEY) is None
    assert leftovers(settings, request) == []


async def test_a_sender_that_fails_takes_the_upload_with_it(
    settings: BlobSettings, request: pytest.FixtureRequest
) -> None:
    def parts() -> Iterator[bytes]:
        yield bytes(PART_BYTES)
        raise RuntimeError("the run broke")

    blobs = await open_blobs(settings)
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        await stored(blobs, parts())
    assert await blobs.stat(KEY) is None
    assert leftovers(settings, request) == []


def leftovers(settings: BlobSettings, request: pytest.FixtureRequest) -> list[str]:
    """Files in the folder, or objects and unfinished uploads in the bucket."""
    if settings.local_root is not None:
        return [str(path) for path in settings.local_root.rglob("*") if path.is_file()]
    server: FakeS3 = request.getfixturevalue("s3")
    return server.objects() + server.unfinished()


async def test_a_missing_blob_is_said_before_its_stream_begins(settings: BlobSettings) -> None:
    blobs = await open_blobs(settings)
    with pytest.raises(BlobMissing):
        await blobs.open_stream(KEY)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/./b",
        "a//b",
        "a/",
        "a#1",
        "a b",
        "a\x00b",
        "a\nb",
        ".ssh/x",
        "é",
        "x" * 600,
    ],
)
async def test_a_key_that_is_none_of_ours_is_refused(settings: BlobSettings, key: str) -> None:
    blobs = await open_blobs(settings)
    calls: list[Callable[[], Any]] = [
        lambda: blobs.put(key, b"x"),
        lambda: blobs.stat(key),
        lambda: blobs.open_stream(key),
        lambda: blobs.delete(key),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            await call()


@pytest.mark.claim("S3-132")
async def test_the_memory_of_an_upload_does_not_grow_with_it(tmp_path: Path) -> None:
    """On a disk, since the S3 server of the tests keeps what it gets in this very process."""
    blobs = await open_blobs(BlobSettings(local_root=tmp_path / "results"))
    seen: list[int] = []

    def parts() -> Iterator[bytes]:
        page = bytes(MEBIBYTE)
        for _ in range(400):
            seen.append(_resident_bytes())
            yield page

    assert await stored(blobs, parts()) == 400 * MEBIBYTE
    assert max(seen[50:]) - seen[0] < 60 * MEBIBYTE
    assert max(seen[300:]) - max(seen[50:150]) < 8 * MEBIBYTE


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


# -- the disk ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def on_disk(tmp_path: Path) -> AsyncIterator[tuple[Blobs, Path]]:
    root = tmp_path / "results"
    yield await open_blobs(BlobSettings(local_root=root)), root


async def test_the_folder_is_for_us_alone_and_holds_nothing_half_written(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as (blobs, root):
        assert root.stat().st_mode & 0o777 == 0o700
        send, receive = trio.open_memory_channel[bytes](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(blobs.put_stream, KEY, receive)
            async with send:
                for _ in range(2 * PART_BYTES // MEBIBYTE):
                    await send.send(bytes(MEBIBYTE))
                assert not (root / KEY).exists()
                assert await blobs.stat(KEY) is None
        assert (root / KEY).stat().st_size == 2 * PART_BYTES
        receive.close()


async def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as (blobs, root):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.json").write_text("geheim")
        (root / "pipeline_runs").symlink_to(outside)
        for call in (blobs.open_stream, blobs.delete, blobs.stat):
            with pytest.raises(InvalidInput):
                await call("pipeline_runs/secret.json")
        assert (outside / "secret.json").exists()


async def test_deleting_the_last_result_of_a_run_takes_its_folder(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as (blobs, root):
        await blobs.put(KEY, b"{}")
        await blobs.delete(KEY)
        assert [path for path in root.rglob("*") if path.is_file()] == []
        assert not (root / KEY).parent.exists()


KILLED = """
import os, sys, trio
from pathlib import Path
from actors.ports.blobs import BlobSettings, open_blobs

async def main():
    blobs = await open_blobs(BlobSettings(local_root=Path(sys.argv[1])))
    send, receive = trio.open_memory_channel(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(blobs.put_stream, sys.argv[2], receive)
        for _ in range(20):
            await send.send(bytes(1 << 20))
        print("sent", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_what_a_killed_process_left_half_written_is_swept_when_it_is_old(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as (blobs, root):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", KILLED, str(root), KEY], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        assert await process.stdout.receive_some(4) == b"sent"
        await until(lambda: any(root.rglob("*#*")))
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await process.stdout.aclose()
        (part,) = [path for path in root.rglob("*") if path.is_file()]
        assert await blobs.stat(KEY) is None
        assert await blobs.sweep_parts() == 0
        os.utime(part, (time.time() - 90_000,) * 2)
        await blobs.put(blob_key(workspace_id=3, run_id=7, claim_seq=2), b"new")
        assert await blobs.sweep_parts() == 1
        assert [path.name for path in root.rglob("*") if path.is_file()] == ["result-2.json"]


async def test_a_full_or_broken_disk_is_a_failure_of_the_store(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as (blobs, root):
        (root / "pipeline_runs").write_text("a file where a folder should be")
        with pytest.raises(BlobFailed, match="local blob store failed"):
            await blobs.put(KEY, b"{}")


# -- S3 ---------------------------------------------------------------------------------------------------------------


async def test_an_object_says_what_it_is(s3: FakeS3) -> None:
    blobs = await open_blobs(s3.settings())
    await blobs.put(KEY, b"{}")
    assert s3.client.head_object(Bucket=BUCKET, Key=KEY)["ContentType"] == "application/json"
    await blobs.delete(KEY)


async def test_a_server_that_is_away_is_a_failure_soon_and_without_secrets() -> None:
    settings = BlobSettings(
        backend="s3",
        s3_endpoint="http://127.0.0.1:1",
        s3_bucket=BUCKET,
        s3_access_key="AKIATEST",
        s3_secret_key=SECRET_KEY,
        timeout_s=2,
        retries=1,
    )
    blobs = await open_blobs(settings)
    calls: list[Callable[[], Any]] = [
        lambda: blobs.put(KEY, b"{}"),
        lambda: blobs.stat(KEY),
        lambda: blobs.delete(KEY),
    ]
    for call in calls:
        with pytest.raises(BlobFailed) as caught:
            await call()
        assert SECRET_KEY not in str(caught.value)
    assert SECRET_KEY not in repr(settings)


async def test_a_bucket_that_is_not_there_is_a_failure_of_the_store(s3: FakeS3) -> None:
    blobs = await open_blobs(s3.settings(s3_bucket="some-other-bucket"))
    with pytest.raises(BlobFailed):
        await blobs.put(KEY, b"{}")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "BLOB_LOCAL_ROOT"),
        ({"backend": "s3", "s3_bucket": "b"}, "BLOB_S3_ACCESS_KEY, BLOB_S3_SECRET_KEY"),
        ({"backend": "ftp"}, "local or s3"),
    ],
)
def test_settings_that_do_not_suffice_say_what_is_missing(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        BlobSettings(**values)


async def test_a_root_that_somebody_else_made_where_everybody_may_write_is_refused(tmp_path: Path) -> None:
    shared, own, foreign = tmp_path / "shared", tmp_path / "shared" / "own", tmp_path / "elsewhere"
    for folder in (shared, own, foreign):
        folder.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(foreign)
    await open_blobs(BlobSettings(local_root=own))
    with pytest.raises(InvalidInput, match="another user made it"):
        await open_blobs(BlobSettings(local_root=shared / "link"))
    if os.geteuid() == 0:
        os.chown(own, 4711, -1)
        with pytest.raises(InvalidInput, match="another user made it"):
            await open_blobs(BlobSettings(local_root=own))
    shared.chmod(0o755)
    await open_blobs(BlobSettings(local_root=own))


async def test_a_root_that_cannot_be_made_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="BLOB_LOCAL_ROOT"):
        await open_blobs(BlobSettings(local_root=tmp_path / "file" / "below"))
