"""The HTTP client against a real server on loopback that misbehaves in every way seen in the field."""

from __future__ import annotations

import gzip
import random
import socket
import time
import tracemalloc
import zlib

import pytest
import trio

from actors.ports.fetch import Purpose, open_fetcher
from actors.ports.fetchsettings import FetchSettings
from protocols.downloads import (
    DownloadFailed,
    DownloadTimedOut,
    DownloadTruncated,
    HttpRefused,
    NotServed,
    TooLarge,
    UnknownEncoding,
    WrongContent,
)
from protocols.failures import JobEnd, verdict_of
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.fetching import KIND, XML, client, fetched

# -- what goes right --------------------------------------------------------------------------------------------------


async def test_a_file_arrives_whole_and_the_request_says_who_asks() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML))
        async with client(server, user_agent="regelrecht-supervisor/1.2.3") as fetcher:
            file = await fetcher.get(url, KIND)
        assert (file.content, file.url, file.from_cache) == (XML, url, False)
        assert server.requests[0].headers["user-agent"] == "regelrecht-supervisor/1.2.3"
        assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"  # WB-02: no br, no zstd


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(XML, mtime=0)),
        ("x-gzip", gzip.compress(XML[:99], mtime=0) + gzip.compress(XML[99:], mtime=0)),
        ("deflate", zlib.compress(XML)),
        ("deflate", zlib.compress(XML, wbits=-15)),
        ("identity", XML),
    ],
)
async def test_packed_bodies_are_unpacked(encoding: str, packed: bytes) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=packed, headers={"content-encoding": encoding}))
        assert await fetched(server, url) == XML


async def test_chunked_and_close_delimited_bodies_arrive_whole() -> None:
    async with fake_repository() as server:
        chunked = server.serve("/chunked.xml", Reply(body=XML, chunked=True))
        closed = server.serve("/closed.xml", Reply(body=XML, until_close=True))
        assert await fetched(server, chunked) == XML
        assert await fetched(server, closed) == XML


async def test_a_metadata_file_of_a_type_no_server_knows_is_accepted() -> None:
    async with fake_repository() as server:
        url = server.serve("/x.WTI", Reply(body=XML, content_type="application/octet-stream"))
        assert await fetched(server, url) == XML


async def test_a_byte_order_mark_and_another_encoding_are_left_to_the_parser() -> None:
    utf16 = "<?xml version='1.0' encoding='utf-16'?><wét/>".encode("utf-16")
    latin = b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>"
    async with fake_repository() as server:
        one = server.serve("/utf16.xml", Reply(body=utf16))
        two = server.serve("/latin.xml", Reply(body=latin, content_type="text/xml; charset=utf-8"))
        assert await fetched(server, one) == utf16
        assert await fetched(server, two) == latin


# -- sizes ------------------------------------------------------------------------------------------------------------


async def test_a_size_announced_above_the_limit_is_refused_before_the_body() -> None:
    async with fake_repository() as server:
        url = server.serve("/big.xml", Reply(body=b"<a>", declared=5_000_000))
        with pytest.raises(TooLarge, match=r"5000000 bytes announced, the limit is 1000"):
            await fetched(server, url, max_bytes=1000)


async def test_a_body_without_a_length_is_cut_off_at_the_limit() -> None:
    async with fake_repository() as server:
        url = server.serve("/big.xml", Reply(body=b"<a>" + b"x" * 300_000, chunked=True))
        with pytest.raises(TooLarge, match="limit"):
            await fetched(server, url, max_bytes=1000)


async def test_a_fetch_may_have_a_limit_of_its_own() -> None:
    async with fake_repository() as server:
        url = server.serve("/big.xml", Reply(body=XML))
        async with client(server, max_bytes=10) as fetcher:
            assert (await fetcher.get(url, KIND, max_bytes=len(XML))).content == XML
            with pytest.raises(TooLarge):
                await fetcher.get(url, KIND, max_bytes=len(XML) - 1)


def _bomb(mebibytes: int) -> bytes:
    """A gzip stream of that many MiB of zeros, made fast: the same flushed block again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b"<a>") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b"\0" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * mebibytes


async def test_a_gzip_bomb_is_refused_by_its_ratio_in_little_memory() -> None:  # WB-02
    async with fake_repository() as server:
        url = server.serve("/bomb.xml", Reply(body=_bomb(1024), headers={"content-encoding": "gzip"}))
        async with client(server) as fetcher:
            tracemalloc.start()
            try:
                with pytest.raises(TooLarge, match="unpack to"):
                    await fetcher.get(url, KIND)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert peak < 32 << 20


async def test_a_packed_body_is_held_to_the_limit_unpacked() -> None:
    noise = random.Random(3).randbytes(4096)
    body = gzip.compress(b"<a>" + noise * 300, mtime=0)
    async with fake_repository() as server:
        url = server.serve("/big.xml", Reply(body=body, headers={"content-encoding": "gzip"}))
        with pytest.raises(TooLarge, match="limit"):
            await fetched(server, url, max_bytes=500_000, max_expansion=100_000)


async def test_unpacking_much_does_not_stop_the_loop() -> None:
    async with fake_repository() as server:
        url = server.serve("/big.xml", Reply(body=_bomb(64)[:-8], headers={"content-encoding": "gzip"}))
        small = server.serve("/small.xml", Reply(body=XML))
        turns: list[float] = []

        async def watch() -> None:
            """How much this thread computes from turn to turn: what others do to the machine does not count."""
            before = time.thread_time()
            while True:
                await trio.lowlevel.checkpoint()
                now = time.thread_time()
                turns.append(now - before)
                before = now

        async with client(server, max_expansion=1_000_000) as fetcher, trio.open_nursery() as nursery:
            await fetcher.get(small, KIND)  # what is imported at first use is none of the matter
            nursery.start_soon(watch)
            with pytest.raises(DownloadTruncated):
                await fetcher.get(url, KIND)
            nursery.cancel_scope.cancel()
        assert len(turns) > 60
        assert max(turns) < 0.05


# -- bodies that are not what they claim ------------------------------------------------------------------------------


async def test_a_body_shorter_than_announced_is_truncated_and_tried_again() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML[:100], declared=len(XML)), Reply(body=XML))
        assert await fetched(server, url) == XML
        assert len(server.requests) == 2


async def test_a_body_that_is_always_cut_off_ends_as_truncated() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML[:100], declared=len(XML)))
        with pytest.raises(DownloadTruncated, match=r"attempts: 3") as caught:
            await fetched(server, url)
        assert verdict_of(caught.value).job is JobEnd.RETRY
        assert len(server.requests) == 3


@pytest.mark.parametrize("packed", [gzip.compress(XML, mtime=0)[:-12], gzip.compress(XML, mtime=0)[:20] + b"\xff" * 40])
async def test_a_damaged_or_cut_compressed_stream_is_truncated(packed: bytes) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=packed, headers={"content-encoding": "gzip"}))
        with pytest.raises(DownloadTruncated, match="damaged or cut off"):
            await fetched(server, url)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
async def test_a_packing_that_was_not_offered_is_refused(encoding: str) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML, headers={"content-encoding": encoding}))
        with pytest.raises(UnknownEncoding):
            await fetched(server, url)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"<!DOCTYPE html><html><body>onderhoud</body></html>", content_type="text/html"),
        Reply(body=b"<html><body>onderhoud</body></html>", content_type="application/xml"),
        Reply(body=b'{"error": "busy"}', content_type="application/json"),
        Reply(body=b"Service busy", content_type="text/plain"),
        Reply(body=b"", content_type="text/xml"),
    ],
)
async def test_an_error_page_with_status_200_is_refused(reply: Reply) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", reply)
        with pytest.raises(WrongContent, match="instead of XML"):
            await fetched(server, url)
        assert len(server.requests) == 1


# -- statuses, retries, waiting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 408])
async def test_a_server_in_trouble_is_tried_again(status: int) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(status=status), Reply(status=status), Reply(body=XML))
        assert await fetched(server, url) == XML
        assert len(server.requests) == 3


async def test_after_the_last_attempt_the_failure_names_status_and_attempts() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(status=503))
        with pytest.raises(HttpRefused, match=r"503.*attempts: 3") as caught:
            await fetched(server, url)
        assert caught.value.details["status"] == 503
        assert len(server.requests) == 3


async def test_pauses_double_with_jitter() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(status=500), Reply(status=500), Reply(body=XML))
        await fetched(server, url, first_pause_s=0.1)
        first, second, third = (request.at for request in server.requests)
        assert second - first >= 0.05
        assert third - second >= 0.1


async def test_retry_after_is_obeyed() -> None:
    async with fake_repository() as server:
        busy = Reply(status=503, headers={"retry-after": "1"})
        url = server.serve("/a.xml", busy, Reply(body=XML))
        assert await fetched(server, url) == XML
        assert server.requests[1].at - server.requests[0].at >= 1.0


async def test_a_wait_longer_than_we_stay_ends_the_fetch_at_once() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(status=503, headers={"retry-after": "3600"}))
        with pytest.raises(HttpRefused, match="come back in 3600 s") as caught:
            await fetched(server, url)
        assert caught.value.details["retry_after_s"] == 3600.0
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [404, 410])
async def test_what_is_gone_is_typed_and_not_asked_again(status: int) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(status=status, content_type="text/html"))
        with pytest.raises(NotServed) as caught:
            await fetched(server, url)
        assert caught.value.details["status"] == status
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 406])
async def test_other_refusals_are_not_asked_again(status: int) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(status=status))
        with pytest.raises(HttpRefused):
            await fetched(server, url)
        assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [Reply(status=204, body=b""), Reply(status=304, body=b""), Reply(status=300)])
async def test_a_success_without_a_file_is_a_refusal(reply: Reply) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", reply)
        with pytest.raises(HttpRefused):
            await fetched(server, url)


async def test_a_search_may_carry_its_answer_in_an_error_status() -> None:
    async with fake_repository() as server:
        url = server.serve("/sru", Reply(status=406, body=b"<diagnostics/>"))
        assert await fetched(server, url, Purpose.SEARCH) == b"<diagnostics/>"
        page = server.serve("/sru2", Reply(status=404, body=b"<html/>", content_type="text/html"))
        with pytest.raises(NotServed):
            await fetched(server, page, Purpose.SEARCH)


async def test_a_connection_closed_without_a_word_is_tried_again() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(hang_up=True), Reply(body=XML))
        assert await fetched(server, url) == XML


async def test_a_server_that_is_not_there_is_a_failure_that_may_pass() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        settings = FetchSettings(bwb_repository_url=url, first_pause_s=0.01)
        async with open_fetcher(settings) as fetcher:
            with pytest.raises(DownloadFailed, match=r"attempts: 3") as caught:
                await fetcher.get(f"{url}/a.xml", KIND)
    assert verdict_of(caught.value).job is JobEnd.RETRY


# -- time -------------------------------------------------------------------------------------------------------------


async def test_a_server_that_drips_one_byte_at_a_time_meets_the_outer_deadline() -> None:  # WB-01, scaled
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML, drip_s=0.05))
        started = trio.current_time()
        with pytest.raises(DownloadTimedOut, match=r"0\.4 s, retries included") as caught:
            await fetched(server, url, metadata_timeout_s=0.4, read_timeout_s=0.2)
        assert trio.current_time() - started < 5.0
        assert verdict_of(caught.value).job is JobEnd.RETRY


async def test_texts_have_a_deadline_of_their_own() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=b"<abcdefgh/>", drip_s=0.03))
        async with client(server, metadata_timeout_s=0.1, content_timeout_s=20.0) as fetcher:
            assert (await fetcher.get(url, Purpose.CONTENT)).content == b"<abcdefgh/>"
            with pytest.raises(DownloadTimedOut):
                await fetcher.get(url, KIND)


async def test_a_server_that_says_nothing_times_out_and_is_asked_again() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(hang=True), Reply(body=XML))
        assert await fetched(server, url, read_timeout_s=0.1) == XML
        silent = server.serve("/b.xml", Reply(hang=True))
        with pytest.raises(DownloadTimedOut, match=r"no answer in time.*attempts: 2"):
            await fetched(server, silent, read_timeout_s=0.1, attempts=2)


async def test_a_cancelled_fetch_leaves_the_client_usable() -> None:
    async with fake_repository() as server:
        silent = server.serve("/silent.xml", Reply(hang=True))
        url = server.serve("/a.xml", Reply(body=XML))
        async with client(server, max_connections=1) as fetcher:
            for _ in range(5):
                with trio.move_on_after(0.02) as scope:
                    await fetcher.get(silent, KIND)
                assert scope.cancelled_caught
            assert (await fetcher.get(url, KIND)).content == XML


async def test_requests_to_a_public_host_keep_their_distance_whoever_asks() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML))
        paced = frozenset({"127.0.0.1"})
        async with (
            client(server, min_interval_s=0.1, paced_hosts=paced) as fetcher,
            trio.open_nursery() as nursery,
        ):
            for _ in range(4):
                nursery.start_soon(fetcher.get, url, KIND)
        times = sorted(request.at for request in server.requests)
        assert times[-1] - times[0] >= 0.28


async def test_a_mirror_of_ones_own_is_not_slowed_down() -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML))
        async with client(server, min_interval_s=60.0) as fetcher:
            for _ in range(3):
                await fetcher.get(url, KIND)
