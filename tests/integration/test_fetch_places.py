"""Where files may come from: the allow-list, redirects, a folder instead of a server, and the settings of all three."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.ports.fetch import Fetcher, open_fetcher
from actors.ports.fetchsettings import FetchSettings
from protocols.downloads import (
    DownloadFailed,
    HostNotAllowed,
    NotServed,
    RedirectLoop,
    TooLarge,
    WrongContent,
)
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.fetching import KIND, XML, fetched

# -- hosts and redirects ----------------------------------------------------------------------------------------------


def _to(target: str, status: int = 302) -> Reply:
    return Reply(status=status, body=b"", headers={"location": target})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_on_the_same_host_is_followed(status: int) -> None:
    async with fake_repository() as server:
        server.serve("/b.xml", Reply(body=XML))
        url = server.serve("/a.xml", _to("/b.xml", status))
        assert await fetched(server, url) == XML
        assert server.targets == ["/a.xml", "/b.xml"]


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://evil.test/a.xml",
        "http://localhost:1/a.xml",
        "//evil.test/a.xml",
        "file:///etc/passwd",
        "ftp://127.0.0.1/a.xml",
        "http://user@127.0.0.1/a.xml",
    ],
)
async def test_a_redirect_to_another_host_is_refused(target: str) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", _to(target))
        with pytest.raises(DownloadFailed) as caught:
            await fetched(server, url)
        if not target.startswith(("ftp", "file")):
            assert isinstance(caught.value, HostNotAllowed)
        assert url in caught.value.message
        assert server.targets == ["/a.xml"]


async def test_a_redirect_to_another_port_of_the_same_machine_is_refused() -> None:
    async with fake_repository() as server, fake_repository() as other:
        secret = other.serve("/secret.xml", Reply(body=XML))
        url = server.serve("/a.xml", _to(secret))
        with pytest.raises(HostNotAllowed, match="not on the allow-list"):
            await fetched(server, url)
        assert other.requests == []


async def test_an_address_outside_the_configured_bases_is_never_asked() -> None:
    async with fake_repository() as server, fake_repository() as other:
        with pytest.raises(HostNotAllowed):
            await fetched(server, other.serve("/a.xml", Reply(body=XML)))
        with pytest.raises(HostNotAllowed):
            await fetched(server, "https://repository.officiele-overheidspublicaties.nl/bwb/BWBR0018451/manifest.xml")
        assert other.requests == []


@pytest.mark.parametrize(
    "shape", ["{}\\@evil.test/a.xml", "{}@evil.test/a.xml", "{}:1/a.xml", "http://[::1/a.xml", "\0{}/a", ""]
)
async def test_an_address_that_two_readers_could_read_differently_is_never_asked(shape: str) -> None:
    async with fake_repository() as server:
        with pytest.raises(HostNotAllowed):
            await fetched(server, shape.format(server.url))
        assert server.requests == []


@pytest.mark.parametrize("location", ["http://[::1/x", "http://127.0.0.1:port/", "http://\x7f/"])
async def test_a_redirect_to_no_address_at_all_is_a_typed_failure(location: str) -> None:
    async with fake_repository() as server:
        url = server.serve("/a.xml", _to(location))
        with pytest.raises(DownloadFailed):
            await fetched(server, url)


async def test_a_redirect_loop_names_the_address() -> None:  # BW-03: how the repository answers for a deleted text
    async with fake_repository() as server:
        url = server.serve("/a.xml", _to("/b.xml"))
        server.serve("/b.xml", _to("/a.xml"))
        with pytest.raises(RedirectLoop, match=r"circle at http://127\.0\.0\.1:\d+/a\.xml"):
            await fetched(server, url)
        assert len(server.requests) == 2


async def test_more_than_five_redirects_are_too_many() -> None:
    async with fake_repository() as server:
        for step in range(10):
            server.serve(f"/{step}", _to(f"/{step + 1}"))
        with pytest.raises(RedirectLoop, match="more than 5 redirects"):
            await fetched(server, f"{server.url}/0")
        assert len(server.requests) == 6


# -- a folder instead of a server -------------------------------------------------------------------------------------


@asynccontextmanager
async def folder_client(base: str, **changes: Any) -> AsyncIterator[Fetcher]:
    async with open_fetcher(FetchSettings(bwb_repository_url=base, **changes)) as fetcher:
        yield fetcher


@pytest.mark.parametrize("shape", ["file://{}", "file:{}", "{}", "{}/"])
async def test_a_folder_serves_files_in_whatever_way_it_is_written(tmp_path: Path, shape: str) -> None:
    folder = tmp_path / "my laws é%"
    (folder / "bwb").mkdir(parents=True)
    (folder / "bwb" / "a.xml").write_bytes(XML)
    written = folder.as_uri().removeprefix("file://") if shape.startswith("file") else str(folder)
    async with folder_client(shape.format(written)) as fetcher:
        base = fetcher.settings.bwb_repository_url
        assert (await fetcher.get(f"{base}/bwb/a.xml", KIND)).content == XML
        with pytest.raises(NotServed, match="the mirror has no such file"):
            await fetcher.get(f"{base}/bwb/b.xml", KIND)
        with pytest.raises(NotServed):
            await fetcher.get(f"{base}/bwb/a.xml/c.xml", KIND)
        with pytest.raises(NotServed, match="not a regular file"):
            await fetcher.get(f"{base}/bwb", KIND)


async def test_a_relative_folder_is_taken_from_where_the_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "laws").mkdir()
    monkeypatch.chdir(tmp_path)
    assert FetchSettings(bwb_repository_url="file:laws").folders == (tmp_path / "laws",)
    assert FetchSettings(bwb_repository_url="./laws/").folders == (tmp_path / "laws",)


async def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "laws"
    folder.mkdir()
    (tmp_path / "secret.xml").write_bytes(XML)
    (folder / "link.xml").symlink_to(tmp_path / "secret.xml")
    async with folder_client(str(folder)) as fetcher:
        for url in (f"{folder.as_uri()}/../secret.xml", f"{folder.as_uri()}/link.xml", "file:///etc/passwd"):
            with pytest.raises(HostNotAllowed, match="leads out of the mirror folder"):
                await fetcher.get(url, KIND)


async def test_without_a_folder_no_file_address_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(XML)
    async with open_fetcher(FetchSettings()) as fetcher:
        with pytest.raises(HostNotAllowed):
            await fetcher.get((tmp_path / "a.xml").as_uri(), KIND)


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with folder_client(str(tmp_path / "gone")) as fetcher:
        with pytest.raises(DownloadFailed, match="the mirror folder does not exist"):
            await fetcher.get(f"{(tmp_path / 'gone').as_uri()}/bwb/a.xml", KIND)


async def test_files_are_held_to_the_same_limits(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(XML)
    (tmp_path / "b.xml").write_bytes(b"<html>not a law</html>")
    async with folder_client(str(tmp_path), max_bytes=100) as fetcher:
        with pytest.raises(TooLarge, match=f"{len(XML)} bytes, the limit is 100"):
            await fetcher.get(f"{tmp_path.as_uri()}/a.xml", KIND)
        with pytest.raises(WrongContent):
            await fetcher.get(f"{tmp_path.as_uri()}/b.xml", KIND)


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("", "empty"),
        ("ftp://host/x", "not supported"),
        ("https://", "no host"),
        ("https://user:secret@host/", "would stand in logs"),
        ("https://host/?q=1", "no query"),
        ("https://host:99999/", "[Pp]ort"),
        ("file://server/share", "this machine"),
        ("file:", "empty"),
    ],
)
def test_a_base_that_cannot_work_is_refused_with_a_reason(base: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        FetchSettings(bwb_repository_url=base)
    assert "secret" not in str(caught.value)


def test_a_folder_cannot_answer_a_search(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a folder cannot answer"):
        FetchSettings(bwb_sru_url=str(tmp_path))


def test_the_allow_list_is_the_configured_hosts() -> None:
    assert FetchSettings().allowed_origins == {
        ("https", "repository.officiele-overheidspublicaties.nl", 443),
        ("https", "zoekservice.overheid.nl", 443),
    }
    mirror = FetchSettings(bwb_repository_url="http://Mirror.test/laws/")
    assert mirror.bwb_repository_url == "http://Mirror.test/laws"
    assert {("http", "mirror.test", 80), ("https", "mirror.test", 443)} <= mirror.allowed_origins


@pytest.mark.parametrize("name", ["max_bytes", "attempts", "metadata_timeout_s", "content_timeout_s"])
def test_limits_that_would_forbid_everything_are_refused(name: str) -> None:
    values: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        FetchSettings(**values)
