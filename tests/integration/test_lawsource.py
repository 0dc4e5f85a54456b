"""From an id to the documents of a law, over real HTTP on loopback."""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from actors.ports import lawsource
from actors.ports.fetch import open_fetcher
from actors.ports.fetchsettings import FetchSettings
from actors.ports.lawfiles import TextNotServed
from actors.ports.lawsource import LawRepository, day_in_amsterdam
from protocols.bwb.errors import MalformedLaw, RefusedLaw
from protocols.bwb.search import BwbHit
from protocols.downloads import DownloadFailed, DownloadTruncated, HostNotAllowed, TooLarge, WrongContent
from protocols.failures import InvalidInput, JobEnd, LawEnd, LawUnknown, NotHarvestable, verdict_of
from protocols.law import Layer
from protocols.sru import SearchRefused
from tests.kit.bwb_server import FakeRepository, Reply, fake_repository
from tests.kit.bwb_works import (
    Toestand,
    Work,
    invented_work,
    lay_out,
    manifest_xml,
    real_work,
    sru_diagnostic,
    sru_page,
    toestand_xml,
    wti_xml,
)

LAW = "BWBR0099010"
TODAY = date(2026, 11, 30)
WORK = invented_work(LAW, "Bakfietswet", days=("2020-01-01", "2024-03-01", "2027-01-01"))
TEXT_PATH = f"/bwb/{LAW}/2024-03-01_0/xml/{LAW}_2024-03-01_0.xml"
MANIFEST_PATH = f"/bwb/{LAW}/manifest.xml"
WTI_PATH = f"/bwb/{LAW}/{LAW}.WTI"


@asynccontextmanager
async def laws_from(base: str, **changes: Any) -> AsyncIterator[LawRepository]:
    values: dict[str, Any] = {"bwb_repository_url": base, "first_pause_s": 0.01, **changes}
    if base.startswith("http"):
        values["bwb_sru_url"] = f"{base}/sru/Search"
    async with open_fetcher(FetchSettings(**values), jitter=random.Random(7)) as fetcher:
        yield LawRepository(fetcher, today=lambda: TODAY)


@pytest.mark.claim("S0-029")
async def test_the_text_in_force_today_is_fetched_with_its_metadata() -> None:
    async with fake_repository([WORK]) as server, laws_from(server.url) as laws:
        found = await laws.fetch_bwb(LAW)
        assert (found.valid_from, found.choice.label, found.choice.valid_to) == (date(2024, 3, 1), "2024-03-01_0", None)
        assert (found.wti.title, found.wti.layer) == ("Bakfietswet", Layer.WET)
        assert found.toestand == WORK.toestanden[1].text
        assert found.warnings == ()
        assert server.targets == [MANIFEST_PATH, WTI_PATH, TEXT_PATH]
        assert [source.url for source in found.sources] == [server.url + target for target in server.targets]
        assert "<toestand" not in repr(found)


async def test_a_requested_date_picks_its_text() -> None:
    async with fake_repository([WORK]) as server, laws_from(server.url) as laws:
        assert (await laws.fetch_bwb(LAW, date(2021, 5, 5))).choice.label == "2020-01-01_0"
        early = await laws.fetch_bwb(LAW, date(1999, 1, 1))
        assert early.choice.label == "2027-01-01_0"
        assert early.warnings == (f"{LAW} has no text for 1999-01-01: took the newest, valid from 2027-01-01",)


async def test_the_label_of_the_manifest_goes_into_the_address() -> None:  # D35: not a fixed _0
    text = Toestand("2025-04-25_3", text=toestand_xml(LAW, "2025-04-25", {"1": "x"}))
    work = Work(LAW, (text,), wti_xml(LAW, "Wet"), manifest_xml(LAW, [text]))
    async with fake_repository([work]) as server, laws_from(server.url) as laws:
        assert (await laws.fetch_bwb(LAW)).toestand == text.text
        assert server.targets[-1] == f"/bwb/{LAW}/2025-04-25_3/xml/{LAW}_2025-04-25_3.xml"


async def test_a_second_harvest_of_an_unchanged_law_downloads_no_file(tmp_path: Path) -> None:
    async with fake_repository([WORK]) as server:
        async with laws_from(server.url, cache_folder=tmp_path) as laws:
            first = await laws.fetch_bwb(LAW)
        async with laws_from(server.url, cache_folder=tmp_path) as laws:
            second = await laws.fetch_bwb(LAW)
        assert [source.from_cache for source in first.sources] == [False] * 3
        assert [source.from_cache for source in second.sources] == [True] * 3
        assert second.toestand == first.toestand
        assert len(server.requests) == 6


async def test_a_folder_in_the_layout_of_the_repository_serves_as_well(tmp_path: Path) -> None:
    lay_out(tmp_path, [WORK])
    async with laws_from(str(tmp_path)) as laws:
        found = await laws.fetch_bwb(LAW)
        assert found.toestand == WORK.toestanden[1].text
        with pytest.raises(LawUnknown, match="BWBR0000001 is not in the repository"):
            await laws.fetch_bwb("BWBR0000001")


# -- what is asked wrongly --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law_id", ["BWBR123", "bwbr0018451", "CVDR100394", "../../etc/passwd", "BWBR0018451/x"])
async def test_a_malformed_id_fails_at_once_and_asks_nobody(law_id: str) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        with pytest.raises(InvalidInput, match="BWBRXXXXXXX") as caught:
            await laws.fetch_bwb(law_id)
        assert verdict_of(caught.value).job is JobEnd.TERMINAL
        assert server.requests == []


async def test_a_date_after_today_is_refused() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        with pytest.raises(InvalidInput, match="2026-12-01 lies after today"):
            await laws.fetch_bwb(LAW, date(2026, 12, 1))


@pytest.mark.parametrize("status", [404, 410])
async def test_an_unknown_law_fails_at_once_without_the_ladder(status: int) -> None:  # D35
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve(MANIFEST_PATH, Reply(status=status))
        with pytest.raises(LawUnknown, match=LAW) as caught:
            await laws.fetch_bwb(LAW)
        verdict = verdict_of(caught.value)
        assert (verdict.job, verdict.law) == (JobEnd.TERMINAL, LawEnd.FAILED)


@pytest.mark.claim("S0-023")
async def test_a_law_without_text_is_not_harvestable_until_it_has_one() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve(MANIFEST_PATH, Reply(body=manifest_xml(LAW, in_force="2027-01-01")))
        with pytest.raises(NotHarvestable) as caught:
            await laws.fetch_bwb(LAW)
        assert caught.value.to_result() == {"skipped": {"kind": "not_yet_in_force", "date": "2027-01-01"}}
        assert server.targets == [MANIFEST_PATH]
        server.serve_works([WORK])
        assert (await laws.fetch_bwb(LAW)).choice.label == "2024-03-01_0"


# -- what the server does wrong ---------------------------------------------------------------------------------------


async def served_with(server: FakeRepository, path: str, *replies: Reply) -> None:
    server.serve_works([WORK])
    server.serve(path, *replies)


@pytest.mark.parametrize(
    "reply",
    [Reply(status=404), Reply(status=410), Reply(status=302, body=b"", headers={"location": TEXT_PATH})],
)
async def test_a_text_that_is_gone_though_the_manifest_names_it_may_come_back(reply: Reply) -> None:  # BW-03
    async with fake_repository() as server, laws_from(server.url) as laws:
        await served_with(server, TEXT_PATH, reply)
        with pytest.raises(TextNotServed, match="perhaps deleted") as caught:
            await laws.fetch_bwb(LAW)
        assert verdict_of(caught.value).job is JobEnd.RETRY
        assert LAW in caught.value.message


@pytest.mark.parametrize("path", [MANIFEST_PATH, WTI_PATH, TEXT_PATH])
async def test_an_error_page_with_status_200_is_no_law(path: str) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        await served_with(server, path, Reply(body=b"<!doctype html><html/>", content_type="text/html"))
        with pytest.raises(WrongContent, match="an HTML page instead of XML") as caught:
            await laws.fetch_bwb(LAW)
        assert verdict_of(caught.value).job is JobEnd.RETRY


@pytest.mark.parametrize("path", [MANIFEST_PATH, WTI_PATH, TEXT_PATH])
async def test_a_redirect_to_another_host_is_not_followed(path: str) -> None:
    async with fake_repository() as server, fake_repository() as other, laws_from(server.url) as laws:
        await served_with(server, path, Reply(status=301, body=b"", headers={"location": other.url + "/x.xml"}))
        with pytest.raises(HostNotAllowed, match="not on the allow-list"):
            await laws.fetch_bwb(LAW)
        assert other.requests == []


@pytest.mark.parametrize("path", [MANIFEST_PATH, WTI_PATH])
async def test_truncated_metadata_is_a_typed_error_and_is_not_kept(path: str, tmp_path: Path) -> None:
    async with fake_repository() as server, laws_from(server.url, cache_folder=tmp_path) as laws:
        await served_with(server, path, Reply(body=WORK.files[path][:-9], etag=True), Reply(body=WORK.files[path]))
        with pytest.raises(MalformedLaw, match="cut off"):
            await laws.fetch_bwb(LAW)
        assert (await laws.fetch_bwb(LAW)).wti.title == "Bakfietswet"


async def test_a_text_shorter_than_the_manifest_says_and_broken_is_truncated(tmp_path: Path) -> None:
    text = WORK.files[TEXT_PATH]
    async with fake_repository() as server, laws_from(server.url, cache_folder=tmp_path) as laws:
        await served_with(server, TEXT_PATH, Reply(body=text[:-40], etag=True), Reply(body=text))
        with pytest.raises(DownloadTruncated, match=f"{len(text) - 40} bytes of {len(text)}, cut off"):
            await laws.fetch_bwb(LAW)
        assert (await laws.fetch_bwb(LAW)).toestand == text


async def test_a_whole_text_that_differs_from_the_manifest_is_taken_with_a_warning() -> None:
    other = toestand_xml(LAW, "2024-03-01", {"1": "Kort."})
    async with fake_repository() as server, laws_from(server.url) as laws:
        await served_with(server, TEXT_PATH, Reply(body=other))
        found = await laws.fetch_bwb(LAW)
        assert found.toestand == other
        assert "not the one that the manifest describes" in found.warnings[0]


async def test_a_size_limit_of_a_job_holds_for_the_text_alone() -> None:
    async with fake_repository([WORK]) as server, laws_from(server.url) as laws:
        with pytest.raises(TooLarge) as caught:
            await laws.fetch_bwb(LAW, max_bytes=200)
        assert TEXT_PATH in caught.value.message


@pytest.mark.parametrize(
    "evil",
    [
        b'<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/hostname">]><work>&x;</work>',
        b'<!DOCTYPE w [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><work>&b;</work>',
        b"<a>" * 5000 + b"</a>" * 5000,
    ],
)
@pytest.mark.parametrize("path", [MANIFEST_PATH, WTI_PATH])
async def test_hostile_metadata_is_refused(evil: bytes, path: str) -> None:  # BW-13
    async with fake_repository() as server, laws_from(server.url) as laws:
        await served_with(server, path, Reply(body=evil))
        with pytest.raises(RefusedLaw):
            await laws.fetch_bwb(LAW)


async def test_a_server_that_always_fails_ends_as_a_download_failure() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        await served_with(server, WTI_PATH, Reply(status=500))
        with pytest.raises(DownloadFailed, match="500"):
            await laws.fetch_bwb(LAW)


# -- search -----------------------------------------------------------------------------------------------------------


def _versions(number: int, count: int) -> list[tuple[str, str, str]]:
    return [(f"BWBR{number:07}", f"Wet {number}", "wet")] * count


async def test_search_goes_on_over_pages_until_enough_works_are_found() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve(
            "/sru/Search",
            Reply(body=sru_page(_versions(1, 60) + _versions(2, 40), total=150, following=101)),
            Reply(body=sru_page(_versions(2, 10) + _versions(3, 10) + _versions(4, 30), total=150)),
        )
        answer = await laws.search_bwb("bakfiets", limit=3)
        assert [hit.bwb_id for hit in answer.hits] == ["BWBR0000001", "BWBR0000002", "BWBR0000003"]
        assert (answer.total_records, answer.next_start) == (150, 121)
        queries = [parse_qs(urlsplit(target).query) for target in server.targets]
        assert [query.get("startRecord") for query in queries] == [None, ["101"]]
        assert queries[0]["query"] == ['overheidbwb.titel any "bakfiets"']


async def test_search_by_id_finds_the_work() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve("/sru/Search", Reply(body=sru_page(_versions(7, 3), total=3)))
        answer = await laws.search_bwb("BWBR0000007")
        assert (answer.hits, answer.next_start) == ((BwbHit("BWBR0000007", "Wet 7", "wet"),), None)


async def test_too_short_a_search_asks_nobody() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        assert (await laws.search_bwb("ab")).hits == ()
        assert server.requests == []


@pytest.mark.parametrize("status", [200, 400, 406])
async def test_a_diagnostic_is_an_error_whatever_its_status(status: int) -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        server.serve("/sru/Search", Reply(status=status, body=sru_diagnostic("Unsupported index")))
        with pytest.raises(SearchRefused, match="Unsupported index"):
            await laws.search_bwb("bakfiets")


async def test_a_service_that_never_ends_its_answer_is_asked_ten_times_at_most() -> None:
    async with fake_repository() as server, laws_from(server.url) as laws:
        pages = [
            Reply(body=sru_page(_versions(1, 100), total=10**6, following=100 * page + 1)) for page in range(1, 15)
        ]
        server.serve("/sru/Search", *pages)
        answer = await laws.search_bwb("bakfiets")
        assert (len(answer.hits), len(server.requests), answer.next_start) == (1, 10, 1001)


# -- the loop, and real files -----------------------------------------------------------------------------------------


async def test_documents_are_parsed_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, int] = {}

    def spy(name: str, parse: Callable[..., Any]) -> Callable[..., Any]:
        def parsed(*args: Any, **kwargs: Any) -> Any:
            threads[name] = threading.get_ident()
            return parse(*args, **kwargs)

        return parsed

    for name in ("parse_manifest", "parse_wti", "_is_as_announced"):
        monkeypatch.setattr(lawsource, name, spy(name, getattr(lawsource, name)))
    async with fake_repository([WORK]) as server, laws_from(server.url) as laws:
        await laws.fetch_bwb(LAW)
    assert threads.keys() == {"parse_manifest", "parse_wti", "_is_as_announced"}
    assert threading.get_ident() not in threads.values()


@pytest.mark.parametrize(
    ("bwb_id", "day", "title"),
    [
        ("BWBR0018451", date(2025, 1, 1), "Wet op de zorgtoeslag"),
        ("BWBR0018472", None, "Algemene wet inkomensafhankelijke regelingen"),
        ("BWBR0045754", date(2022, 6, 1), "Wet open overheid"),
    ],
)
async def test_real_laws_are_fetched_from_loopback(bwb_id: str, day: date | None, title: str) -> None:
    work = real_work(bwb_id)
    async with fake_repository([work]) as server, laws_from(server.url) as laws:
        found = await laws.fetch_bwb(bwb_id, day)
        assert (found.wti.title, found.warnings) == (title, ())
        assert found.toestand == work.toestanden[0].text


@pytest.mark.parametrize(
    ("instant", "day"),
    [
        ("2026-12-31T23:30:00+00:00", date(2027, 1, 1)),
        ("2026-06-30T22:30:00+00:00", date(2026, 7, 1)),
        ("2026-06-30T21:30:00+00:00", date(2026, 6, 30)),
        ("2026-11-30T12:00:00+00:00", date(2026, 11, 30)),
    ],
)
def test_today_is_the_day_in_amsterdam(instant: str, day: date) -> None:
    assert day_in_amsterdam(datetime.fromisoformat(instant)) == day
