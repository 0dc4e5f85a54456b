"""The cache of downloads: what is kept, what is asked for again, what a damaged entry is worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.ports.fetch import Purpose
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.fetching import KIND, XML, client, fetched, kept

# -- the cache --------------------------------------------------------------------------------------------------------


async def test_an_unchanged_file_is_not_downloaded_again(tmp_path: Path) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML, etag=True, last_modified="Mon, 01 Jan 2024 00:00:00 GMT"))
        async with client(server, cache_folder=tmp_path / "cache") as fetcher:
            first = await fetcher.get(url, KIND)
        async with client(server, cache_folder=tmp_path / "cache") as fetcher:
            second = await fetcher.get(url, KIND)
        assert (first.from_cache, second.from_cache) == (False, True)
        assert (second.content, second.sha256) == (first.content, first.sha256)
        asked = server.requests[1].headers
        assert "if-none-match" in asked
        assert asked["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"
        assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


async def test_a_changed_file_is_downloaded_and_replaces_the_old_one(tmp_path: Path) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=b"<old/>", etag=True), Reply(body=XML, etag=True))
        async with client(server, cache_folder=tmp_path) as fetcher:
            assert (await fetcher.get(url, KIND)).content == b"<old/>"
            assert (await fetcher.get(url, KIND)).content == XML
            again = await fetcher.get(url, KIND)
        assert (again.content, again.from_cache) == (XML, True)


async def test_a_server_with_dates_only_is_asked_by_date(tmp_path: Path) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML, last_modified="Mon, 01 Jan 2024 00:00:00 GMT"))
        async with client(server, cache_folder=tmp_path) as fetcher:
            await fetcher.get(url, KIND)
            assert (await fetcher.get(url, KIND)).from_cache


@pytest.mark.parametrize("damage", ["flip", "cut", "head", "empty"])
async def test_a_damaged_cache_entry_counts_as_absent(tmp_path: Path, damage: str) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML, etag=True))
        async with client(server, cache_folder=tmp_path) as fetcher:
            await fetcher.get(url, KIND)
            (entry,) = kept(tmp_path)
            whole = entry.read_bytes()
            broken = {"flip": whole[:-1] + b"!", "cut": whole[:-40], "head": b"[]" + whole, "empty": b""}
            entry.write_bytes(broken[damage])
            file = await fetcher.get(url, KIND)
        assert (file.content, file.from_cache) == (XML, False)
        assert "if-none-match" not in server.requests[1].headers


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=XML),
        Reply(body=XML, etag=True, headers={"cache-control": "private, no-store"}),
        Reply(body=XML, etag=True, until_close=True),
    ],
)
async def test_what_cannot_be_asked_for_or_may_be_cut_off_is_not_kept(tmp_path: Path, reply: Reply) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", reply)
        await fetched(server, url, cache_folder=tmp_path)
        assert kept(tmp_path) == []


async def test_searches_are_not_kept(tmp_path: Path) -> None:
    async with fake_repository() as server:
        url = server.serve("/sru", Reply(body=XML, etag=True))
        await fetched(server, url, Purpose.SEARCH, cache_folder=tmp_path)
        assert kept(tmp_path) == []


async def test_a_cache_that_cannot_be_written_fails_no_download(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML, etag=True))
        assert await fetched(server, url, cache_folder=tmp_path / "cache") == XML


async def test_a_forgotten_file_is_downloaded_again(tmp_path: Path) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", Reply(body=XML, etag=True))
        async with client(server, cache_folder=tmp_path) as fetcher:
            await fetcher.get(url, KIND)
            await fetcher.forget(url)
            assert not (await fetcher.get(url, KIND)).from_cache


async def test_the_cache_stays_within_its_size_and_drops_what_was_used_longest_ago(tmp_path: Path) -> None:
    async with fake_repository() as server:
        body = b"<a>" + b"x" * 10_000 + b"</a>"
        async with client(server, cache_folder=tmp_path, cache_bytes=200_000) as fetcher:
            for number in range(101):
                await fetcher.get(server.serve(f"/{number}.xml", Reply(body=body, etag=True)), KIND)
            last = await fetcher.get(f"{server.url}/100.xml", KIND)
        assert last.from_cache
        assert sum(path.stat().st_size for path in kept(tmp_path)) <= 200_000
