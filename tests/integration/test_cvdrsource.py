"""Decentral regulations over real HTTP on loopback: which version, from where, and what happens when a source is silent."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from actors.ports.fetch import open_fetcher
from actors.ports.fetchsettings import FetchSettings
from actors.ports.lawfiles import TextNotServed
from actors.ports.lawsource import LawRepository
from actors.ports.mirror import mirror_law, read_index
from protocols.bwb.toestand import Style
from protocols.cvdr.regeling import convert
from protocols.cvdr.versions import NoVersions, VersionUnknown
from protocols.failures import InvalidInput, LawUnknown
from protocols.sru import SearchRefused
from tests.kit import shared
from tests.kit.bwb_server import FakeRepository, Reply, fake_repository
from tests.kit.bwb_works import sru_diagnostic, sru_page

WORK = "CVDR990001"
TODAY = date(2026, 11, 30)
PUBLIC = "https://repository.officiele-overheidspublicaties.nl"


def text_of(version: int) -> bytes:
    return (
        f"<cvdr><meta><owmskern><identifier>{WORK}_{version}</identifier><title>Stepverordening</title></owmskern></meta>"
        f"<body><regeling><regeling-tekst><artikel><kop><nr>1</nr></kop><al>Versie {version}.</al></artikel>"
        "</regeling-tekst></regeling></body></cvdr>"
    ).encode()


def record(version: int, start: str, end: str = "", *, url: str | None = None) -> str:
    place = f"{PUBLIC}/cvdr/{WORK}/{version}/xml/{WORK}_{version}.xml" if url is None else url
    until = f"<uitwerkingtredingDatum>{end}</uitwerkingtredingDatum>" if end else ""
    return (
        f"<record><recordData><gzd><meta><identifier>{WORK}_{version}</identifier><title>Stepverordening</title>"
        f"<creator>Utrecht</creator><inwerkingtredingDatum>{start}</inwerkingtredingDatum>{until}</meta><enrichedData>"
        f"<organisatietype>Gemeente</organisatietype><publicatieurl_xml>{place}</publicatieurl_xml></enrichedData></gzd>"
        "</recordData></record>"
    )


def answer(*records: str) -> bytes:
    return (
        f"<searchRetrieveResponse><numberOfRecords>{len(records)}</numberOfRecords><records>{''.join(records)}</records>"
        "</searchRetrieveResponse>"
    ).encode()


def manifest(*versions: int, latest: int) -> bytes:
    items = "".join(f'<expression label="{v}"><item label="{WORK}_{v}.xml"/></expression>' for v in versions)
    return f'<work _latestItem="{latest}/xml/{WORK}_{latest}.xml">{items}</work>'.encode()


ALL = answer(record(1, "2020-01-01", "2023-06-01"), record(2, "2023-06-01", "2027-01-01"), record(3, "2027-01-01"))


def serve(server: FakeRepository, *, records: bytes = ALL, manifest_xml: bytes | None = None) -> None:
    server.serve("/sru", Reply(body=records))
    for version in (1, 2, 3):
        server.serve(f"/cvdr/{WORK}/{version}/xml/{WORK}_{version}.xml", Reply(body=text_of(version), etag=True))
    if manifest_xml is not None:
        server.serve(f"/cvdr/{WORK}/manifest.xml", Reply(body=manifest_xml))


@asynccontextmanager
async def laws_from(base: str) -> AsyncIterator[LawRepository]:
    values: dict[str, Any] = {"cvdr_repository_url": base, "first_pause_s": 0.01}
    if base.startswith("http"):
        values["cvdr_sru_url"] = f"{base}/sru"
    async with open_fetcher(FetchSettings(**values), jitter=random.Random(7)) as fetcher:
        yield LawRepository(fetcher, today=lambda: TODAY)


@pytest.mark.parametrize(
    ("asked", "day", "version"),
    [
        (WORK, None, 2),
        (WORK, date(2021, 5, 5), 1),
        (f"{WORK}_3", None, 3),
        (f"{WORK}_1", date(2026, 1, 1), 1),
        (WORK, date(1990, 1, 1), 3),
    ],
)
async def test_the_version_is_the_one_named_else_the_one_of_the_day(asked: str, day: date | None, version: int) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server)
        found = await laws.fetch_cvdr(asked, day)
        assert str(found.cvdr_id) == f"{WORK}_{version}"
        assert found.text == text_of(version)
        assert found.record is not None
        assert (found.record.creator, found.fallback_day) == ("Utrecht", day or TODAY)


async def test_documents_convert_to_a_law_with_its_area() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server)
        found = await laws.fetch_cvdr(WORK)
    made = convert(
        found.text, found.cvdr_id, Style.ARTICLE, fallback_day=found.fallback_day, record=found.record, valid_to=None
    )
    assert (made.law.area_code, made.law.valid_from) == ("GM0344", date(2023, 6, 1))
    assert [article.text for article in made.law.articles] == ["Versie 2."]


async def test_a_record_that_names_the_public_address_is_followed_on_the_mirror() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server)
        await laws.fetch_cvdr(WORK)
        assert server.targets[-1] == f"/cvdr/{WORK}/2/xml/{WORK}_2.xml"


@pytest.mark.parametrize("url", ["https://evil.test/x.xml", "javascript:alert(1)", "http://127.0.0.1:1/x.xml", ""])
async def test_a_record_that_names_another_host_is_not_followed(url: str) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server, records=answer(record(2, "2023-06-01", url=url)))
        found = await laws.fetch_cvdr(WORK)
        assert found.sources[-1].url == f"{server.url}/cvdr/{WORK}/2/xml/{WORK}_2.xml"


async def test_the_manifest_does_when_the_search_refuses() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server, records=sru_diagnostic("Unsupported index"), manifest_xml=manifest(1, 2, 3, latest=2))
        found = await laws.fetch_cvdr(WORK)
        assert (str(found.cvdr_id), found.record) == (f"{WORK}_2", None)
        assert found.text == text_of(2)


async def test_one_version_is_asked_for_by_name_when_the_work_is_not_found() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server)
        server.serve("/sru", Reply(body=sru_diagnostic("Unsupported index")), Reply(body=ALL))
        found = await laws.fetch_cvdr(f"{WORK}_1")
        assert found.text == text_of(1)
        queries = [parse_qs(urlsplit(target).query)["query"] for target in server.targets if target.startswith("/sru")]
        assert queries[1] == [f"dcterms.identifier=={WORK}_1"]


async def test_when_nobody_knows_the_work_the_refusal_or_the_absence_is_said() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server, records=sru_diagnostic("Unsupported index"))
        with pytest.raises(SearchRefused, match="Unsupported index"):
            await laws.fetch_cvdr(WORK)
        serve(server, records=sru_page([], total=0))
        with pytest.raises(LawUnknown, match=f"{WORK} is neither in the repository nor found"):
            await laws.fetch_cvdr(WORK)
        serve(server, records=sru_page([], total=0), manifest_xml=b"<work/>")
        with pytest.raises(NoVersions, match=WORK):
            await laws.fetch_cvdr(WORK)
        serve(server)
        with pytest.raises(VersionUnknown, match=f"{WORK}_9"):
            await laws.fetch_cvdr(f"{WORK}_9")


@pytest.mark.parametrize(
    "records", [sru_page([], total=0), sru_diagnostic("Unsupported index")], ids=["none", "refused"]
)
async def test_a_named_version_that_nobody_knows_is_tried_at_its_address(records: bytes) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server, records=records)
        found = await laws.fetch_cvdr(f"{WORK}_2")
        assert (found.text, found.record) == (text_of(2), None)
        assert found.warnings == (f"{WORK}_2: neither search nor manifest knows it",)
        with pytest.raises(LawUnknown, match=f"{WORK}_9"):
            await laws.fetch_cvdr(f"{WORK}_9")


async def test_a_folder_that_holds_a_text_alone_is_enough_for_a_named_version(tmp_path: Path) -> None:
    file = tmp_path / "cvdr" / WORK / "2" / "xml" / f"{WORK}_2.xml"
    file.parent.mkdir(parents=True)
    file.write_bytes(text_of(2))
    async with laws_from(str(tmp_path)) as laws:
        assert (await laws.fetch_cvdr(f"{WORK}_2")).text == text_of(2)


async def test_a_text_that_is_not_served_may_come_back() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server)
        server.serve(f"/cvdr/{WORK}/2/xml/{WORK}_2.xml", Reply(status=410))
        with pytest.raises(TextNotServed, match=f"{WORK}_2"):
            await laws.fetch_cvdr(WORK)


@pytest.mark.parametrize("law_id", ["CVDR12", "CVDR123_x", "cvdr123456", "BWBR0018451", "CVDR1234/../x"])
async def test_a_malformed_id_asks_nobody(law_id: str) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        with pytest.raises(InvalidInput, match="CVDRXXX"):
            await laws.fetch_cvdr(law_id)
        assert server.requests == []


async def test_search_gives_one_hit_per_work_by_name_or_id() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server)
        by_name = await laws.search_cvdr("step")
        by_id = await laws.search_cvdr(f"{WORK}_2")
        assert [hit.cvdr_id.work for hit in by_name.hits] == [WORK]
        assert by_name.total_records == 3
        assert by_id.hits == by_name.hits
        assert (await laws.search_cvdr("ab")).hits == ()
        assert len(server.requests) == 2


async def test_a_mirrored_regulation_is_fetched_offline_by_date(tmp_path: Path) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server, manifest_xml=manifest(1, 2, 3, latest=3))
        mirrored = await mirror_law(laws, tmp_path, WORK, every_text=True)
        online = await laws.fetch_cvdr(WORK, date(2021, 1, 1))
    assert (mirrored.law_id, mirrored.title) == (WORK, "Stepverordening")
    assert mirrored.labels == (f"{WORK}_1", f"{WORK}_2", f"{WORK}_3")
    assert read_index(tmp_path)["laws"][WORK]["texts"] == list(mirrored.labels)
    async with laws_from(str(tmp_path)) as offline:
        found = await offline.fetch_cvdr(WORK, date(2021, 1, 1))
        assert (found.text, found.choice, found.record) == (online.text, online.choice, online.record)
        assert (await offline.fetch_cvdr(WORK)).text == text_of(2)


async def test_only_the_version_that_is_meant_is_mirrored_unless_all_are_asked_for(tmp_path: Path) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        serve(server)
        mirrored = await mirror_law(laws, tmp_path, f"{WORK}_3")
    assert mirrored.labels == (f"{WORK}_3",)
    assert {file.path for file in mirrored.files} == {
        f"cvdr/{WORK}/3/xml/{WORK}_3.xml",
        f"cvdr/{WORK}/records.xml",
    }


@pytest.mark.parametrize("name", ["CVDR100394_2", "CVDR112779_1"])
async def test_real_texts_are_fetched_with_a_record_made_up(name: str) -> None:
    content = shared.path(f"data/bwb/cvdr/{name}.xml").read_bytes()
    work, version = name.split("_")
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve(
            f"/cvdr/{work}/manifest.xml", Reply(body=manifest(1, latest=1).replace(WORK.encode(), work.encode()))
        )
        server.serve("/sru", Reply(body=answer(record(int(version), "2016-01-01").replace(WORK, work))))
        server.serve(f"/cvdr/{work}/{version}/xml/{name}.xml", Reply(body=content))
        assert (await laws.fetch_cvdr(name)).text == content
