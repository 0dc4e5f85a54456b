"""Raw law files in a folder: saved from one repository, harvested from again without it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

import httpx
import pytest
import trio

from actors.ports.fetch import open_fetcher
from actors.ports.fetchsettings import FetchSettings
from actors.ports.lawfiles import TextNotServed
from actors.ports.lawsource import LawRepository
from actors.ports.mirror import mirror_bwb, read_index
from actors.ports.mirrorserver import serve_mirror
from protocols.downloads import NotServed
from protocols.failures import InvalidInput, LawUnknown, NotHarvestable
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.bwb_works import Toestand, Work, invented_work, lay_out, manifest_xml, real_work, wti_xml

LAW = "BWBR0099010"
TODAY = date(2026, 11, 30)
WORK = invented_work(LAW, "Bakfietswet", days=("2020-01-01", "2024-03-01"))


@asynccontextmanager
async def laws_from(base: str, cache: Path | None = None) -> AsyncIterator[LawRepository]:
    settings = FetchSettings(bwb_repository_url=base, first_pause_s=0.01, cache_folder=cache)
    async with open_fetcher(settings) as fetcher:
        yield LawRepository(fetcher, today=lambda: TODAY)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def test_a_mirrored_law_is_harvested_from_the_folder_byte_for_byte(tmp_path: Path) -> None:
    async with fake_repository([WORK]) as server, laws_from(server.url) as laws:
        mirrored = await mirror_bwb(laws, tmp_path, LAW)
        original = await laws.fetch_bwb(LAW)
    assert (mirrored.title, mirrored.labels, mirrored.warnings) == ("Bakfietswet", ("2024-03-01_0",), ())
    assert files_below(tmp_path) == {
        "index.json",
        f"bwb/{LAW}/manifest.xml",
        f"bwb/{LAW}/{LAW}.WTI",
        f"bwb/{LAW}/2024-03-01_0/xml/{LAW}_2024-03-01_0.xml",
    }
    async with laws_from(tmp_path.as_uri()) as offline:
        again = await offline.fetch_bwb(LAW)
    assert again.toestand == original.toestand
    assert (again.wti, again.choice, again.manifest) == (original.wti, original.choice, original.manifest)
    assert [source.sha256 for source in again.sources] == [source.sha256 for source in original.sources]


async def test_a_text_that_was_not_mirrored_is_missing_with_a_reason(tmp_path: Path) -> None:
    async with fake_repository([WORK]) as server, laws_from(server.url) as laws:
        await mirror_bwb(laws, tmp_path, LAW)
    async with laws_from(str(tmp_path)) as offline:
        with pytest.raises(TextNotServed, match=r"2020-01-01_0.*the mirror has no such file"):
            await offline.fetch_bwb(LAW, date(2021, 1, 1))
        with pytest.raises(LawUnknown):
            await offline.fetch_bwb("BWBR0000001")


async def test_runs_add_up_in_folder_and_index(tmp_path: Path) -> None:
    other = invented_work("BWBR0099011", "Besluit bakfietsen")
    async with fake_repository([WORK, other]) as server, laws_from(server.url) as laws:
        await mirror_bwb(laws, tmp_path, LAW)
        await mirror_bwb(laws, tmp_path, LAW, day=date(2021, 1, 1))
        await mirror_bwb(laws, tmp_path, "BWBR0099011")
    index = read_index(tmp_path)
    assert index["laws"] == {
        LAW: {"title": "Bakfietswet", "texts": ["2020-01-01_0", "2024-03-01_0"]},
        "BWBR0099011": {"title": "Besluit bakfietsen", "texts": ["2024-03-01_0"]},
    }
    assert set(index["files"]) == files_below(tmp_path) - {"index.json"}


async def test_every_text_of_a_law_can_be_saved_deleted_ones_left_out(tmp_path: Path) -> None:
    texts = (*WORK.toestanden, Toestand("2026-01-01_0", deleted=True))
    work = Work(LAW, texts, WORK.wti, manifest_xml(LAW, texts))
    async with fake_repository([work]) as server, laws_from(server.url) as laws:
        mirrored = await mirror_bwb(laws, tmp_path, LAW, every_text=True)
    assert mirrored.labels == ("2020-01-01_0", "2024-03-01_0")


async def test_a_law_without_text_is_mirrored_as_such(tmp_path: Path) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve(f"/bwb/{LAW}/manifest.xml", Reply(body=manifest_xml(LAW, withdrawn="2013-01-01")))
        server.serve(f"/bwb/{LAW}/{LAW}.WTI", Reply(body=wti_xml(LAW, "Oude wet")))
        mirrored = await mirror_bwb(laws, tmp_path, LAW)
    assert mirrored.labels == ()
    assert "it was withdrawn (2013-01-01)" in mirrored.warnings[0]
    async with laws_from(str(tmp_path)) as offline:
        with pytest.raises(NotHarvestable):
            await offline.fetch_bwb(LAW)


async def test_a_law_without_text_needs_no_metadata_to_be_mirrored(tmp_path: Path) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve(f"/bwb/{LAW}/manifest.xml", Reply(body=manifest_xml(LAW)))
        assert (await mirror_bwb(laws, tmp_path, LAW)).title == LAW
        server.serve(f"/bwb/{LAW}/manifest.xml", Reply(body=WORK.manifest))
        with pytest.raises(NotServed):
            await mirror_bwb(laws, tmp_path, LAW)
    assert files_below(tmp_path) == {"index.json", f"bwb/{LAW}/manifest.xml"}


async def test_an_interrupted_mirror_names_no_text_that_is_not_there(tmp_path: Path) -> None:
    async with fake_repository([WORK]) as server, laws_from(server.url) as laws:
        server.serve(f"/bwb/{LAW}/2024-03-01_0/xml/{LAW}_2024-03-01_0.xml", Reply(status=404))
        with pytest.raises(TextNotServed):
            await mirror_bwb(laws, tmp_path, LAW)
    assert files_below(tmp_path) == set()


async def test_a_malformed_id_writes_nothing(tmp_path: Path) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        with pytest.raises(InvalidInput):
            await mirror_bwb(laws, tmp_path, "../../BWBR0018451")
    assert files_below(tmp_path) == set()


@pytest.mark.parametrize("content", ["", "[]", '{"laws": []}', "{"])
def test_an_unreadable_index_starts_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "index.json").write_text(content)
    assert read_index(tmp_path) == {"laws": {}, "files": {}}


async def test_the_mirror_server_serves_a_folder_that_is_harvested_twice_and_downloaded_once(tmp_path: Path) -> None:
    lay_out(tmp_path / "mirror", [WORK])
    async with trio.open_nursery() as nursery:
        url = await nursery.start(lambda task_status: serve_mirror(tmp_path / "mirror", task_status=task_status))
        async with laws_from(url, cache=tmp_path / "cache") as laws:
            first = await laws.fetch_bwb(LAW)
            second = await laws.fetch_bwb(LAW)
            with pytest.raises(LawUnknown):
                await laws.fetch_bwb("BWBR0000001")
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{url}/..%2f..%2fetc/passwd")).status_code == 404
        nursery.cancel_scope.cancel()
    assert first.toestand == WORK.toestanden[1].text
    assert [source.from_cache for source in second.sources] == [True] * 3


async def test_the_mirror_server_stops_when_told(tmp_path: Path) -> None:
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: serve_mirror(tmp_path, stop=stop.wait, task_status=task_status))
        stop.set()


async def test_the_mirror_server_refuses_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        await serve_mirror(tmp_path / "gone")


def test_the_index_is_for_people_too(tmp_path: Path) -> None:
    lay_out(tmp_path, [WORK])

    async def run() -> None:
        async with laws_from(str(tmp_path)) as laws:
            await mirror_bwb(laws, tmp_path / "copy", LAW)

    trio.run(run)
    text = (tmp_path / "copy" / "index.json").read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert json.loads(text)["laws"][LAW]["title"] == "Bakfietswet"


async def test_a_real_law_goes_through_the_mirror_unchanged(tmp_path: Path) -> None:
    work = real_work("BWBR0018451")
    async with fake_repository([work]) as server, laws_from(server.url) as laws:
        mirrored = await mirror_bwb(laws, tmp_path, "BWBR0018451")
    assert mirrored.title == "Wet op de zorgtoeslag"
    async with laws_from(str(tmp_path)) as offline:
        assert (await offline.fetch_bwb("BWBR0018451", date(2025, 1, 1))).toestand == work.toestanden[0].text
