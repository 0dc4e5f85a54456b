"""The harvest job on real means: repository over loopback, PostgreSQL, a bare git repository."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from structlog.testing import capture_logs

from actors.jobs.harvest.job import Harvest, HarvestSettings
from actors.ports.corpus import open_corpus
from actors.ports.database import Database
from actors.ports.fetch import open_fetcher
from actors.ports.fetchsettings import FetchSettings
from actors.ports.foldercorpus import FolderCorpus
from actors.ports.lawsource import LawRepository
from actors.ports.queue import UnitOfWork
from protocols import lawproduct
from protocols.bwb.loss import LossReport, loss_report
from protocols.bwb.toestand import Style
from protocols.corpus import CorpusPort, CorpusSettings
from protocols.failures import JsonObject, LeaseLost, SupervisorError, leaves
from protocols.lawyaml import load_law
from schema.harvest import HarvestRules
from schema.rows import Job, JobStatus, JobType, LawStatus, Lease
from supervisor.metrics import Metrics
from tests.kit import bwb_works
from tests.kit.bwb_server import FakeRepository, Reply, fake_repository
from tests.kit.bwb_works import Toestand, Work, invented_work
from tests.kit.gitrepos import Remote, Rival
from tests.kit.jobrows import Rows

pytest_plugins = ["tests.kit.postgres"]

LAW, CITED, OTHER = "BWBR0000001", "BWBR0000002", "BWBR0000003"
FILE = "regulation/nl/wet/wet_op_de_lantaarns/2024-03-01.yaml"


class CrashAfterPush(Exception):
    """The process dies between the push and the completion."""


@attrs.define
class HeldWork:
    """What the runner gives a handler, without the runner: the lease is written with, never beaten."""

    rows: Rows
    job: Job
    reports: list[JsonObject] = attrs.field(factory=list)
    lost: bool = False
    runs: int = 0

    @property
    def lease(self) -> Lease:
        return self.job.lease_held

    def report(self, document: JsonObject) -> None:
        self.reports.append(document)

    def started(self) -> None:
        self.runs += 1

    async def confirm(self) -> None:
        if self.lost:
            raise LeaseLost("the row was taken")

    async def write(self, unit: UnitOfWork) -> None:
        await self.rows.queue.write(self.lease, unit)

    @asynccontextmanager
    async def effect(self, what: str, *, limit_s: float) -> AsyncIterator[None]:
        await self.confirm()
        yield


@attrs.define
class Bench:
    """One supervisor's harvest handler and everything around it."""

    rows: Rows
    site: FakeRepository
    remote: Remote
    folder: Path
    rules: HarvestRules = attrs.field(factory=HarvestRules)
    style: Style = Style.FULL
    git: bool = True
    meter: Metrics = attrs.field(factory=Metrics)

    @asynccontextmanager
    async def handler(self) -> AsyncIterator[Harvest]:
        fetch = FetchSettings(
            bwb_repository_url=self.site.url,
            bwb_sru_url=self.site.url + "/sru",
            cvdr_repository_url=self.site.url + "/cvdr",
            cvdr_sru_url=self.site.url + "/sru",
            first_pause_s=0.01,
        )
        corpus = (
            CorpusSettings(str(self.remote.path), path=self.folder / "checkout", min_free_bytes=0) if self.git else None
        )
        settings = HarvestSettings(fetch, corpus, self.folder / "files", style=self.style, rules=self.rules)
        async with open_fetcher(fetch) as fetcher:
            repository = LawRepository(fetcher)
            port: CorpusPort
            if corpus is None:
                yield Harvest(settings, repository, FolderCorpus(settings.folder), self.meter)
            else:
                async with open_corpus(corpus) as port:
                    yield Harvest(settings, repository, port, self.meter)

    def laws_with_lost_text(self) -> float | None:
        return self.meter.registry.get_sample_value("regelrecht_supervisor_laws_with_lost_text_total")

    async def harvest(self, law_id: str = LAW, payload: JsonObject | None = None, **more: Any) -> Job:
        """Queue, claim, run and end one harvest as the runner does; the row afterwards."""
        await self.rows.add(JobType.HARVEST, law_id, payload, **more)
        return await self.work_off(HeldWork(self.rows, await self.rows.claimed(JobType.HARVEST)))

    async def work_off(self, work: HeldWork, *, crash: bool = False) -> Job:
        try:
            async with self.handler() as handler:
                done = await handler.run(work)
                if crash:
                    raise CrashAfterPush
            await self.rows.queue.complete(work.lease, done.result, done.settle)
        except ExceptionGroup as group:
            await self._fail(work, next(leaves(group)))
        except SupervisorError as failure:
            await self._fail(work, failure)
        return await self.rows.job(work.job.id)

    async def _fail(self, work: HeldWork, failure: BaseException) -> None:
        if not isinstance(failure, SupervisorError):
            raise failure
        if not isinstance(failure, LeaseLost):
            await self.rows.queue.fail(work.lease, failure)


@pytest.fixture
async def bench(database: Database, tmp_path: Path) -> AsyncIterator[Bench]:
    async with fake_repository() as site:
        yield Bench(Rows(database), site, Remote.create(tmp_path / "corpus.git"), tmp_path)


def lanterns(**more: Any) -> Work:
    return invented_work(LAW, "Wet op de lantaarns", **more)


async def pending(bench: Bench, job_type: JobType = JobType.HARVEST) -> list[tuple[str, int, Any]]:
    found = await bench.rows.sql(
        "SELECT law_id, priority, payload FROM jobs WHERE status = 'pending' AND job_type::text = $1 ORDER BY law_id",
        job_type.value,
    )
    return [(row["law_id"], row["priority"], json.loads(row["payload"])) for row in found]


@pytest.mark.claim("S0-001")
async def test_a_harvest_leaves_job_law_commit_and_status_file(bench: Bench) -> None:
    bench.site.serve_works([lanterns()])
    job = await bench.harvest()
    assert job.status is JobStatus.COMPLETED
    assert job.result["file_path"] == FILE
    assert job.result["change"] == "text"
    assert job.result["changed"] is True
    assert job.result["loss"]["lost"] == 0
    law = await bench.rows.law()
    assert (law.status, law.law_name, law.slug) == (LawStatus.HARVESTED, "Wet op de lantaarns", "wet_op_de_lantaarns")
    assert law.harvest_job_id == job.id
    files = bench.remote.files()
    assert set(files) == {FILE, FILE.replace("2024-03-01", "status")}
    assert [entry["number"] for entry in load_law(files[FILE].encode())["articles"]] == ["1", "2"]
    assert bench.remote.subjects() == ["harvest: Wet op de lantaarns (wet_op_de_lantaarns)"]


async def test_a_law_that_lost_text_is_logged_with_its_places_counted_and_told_in_the_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:  # D32
    def lossy(xml: bytes, loaded: dict[str, Any]) -> LossReport:
        del loaded["articles"][1]
        return loss_report(xml, loaded)

    monkeypatch.setattr(lawproduct, "loss_report", lossy)
    bench.site.serve_works([lanterns()])
    bench.git = False
    with capture_logs() as logs:
        job = await bench.harvest()
    assert job.status is JobStatus.COMPLETED
    assert job.result["loss"]["lost"] > 0
    assert bench.laws_with_lost_text() == 1
    [warning] = [entry for entry in logs if entry["event"] == "text lost in conversion"]
    assert (warning["law_id"], warning["log_level"]) == (LAW, "warning")
    assert any(place.startswith("artikel 2/") for place in warning["lost_places"])


async def test_what_an_older_style_leaves_out_by_design_raises_no_alarm(bench: Bench) -> None:
    bench.style, bench.git = Style.ARTICLE, False
    bench.site.serve_works([toestand_with_items("CO<inf>2</inf>")])
    with capture_logs() as logs:
        job = await bench.harvest()
    assert job.result["loss"]["lost"] > 0
    assert bench.laws_with_lost_text() == 0
    assert not [entry for entry in logs if entry["event"] == "text lost in conversion"]


@pytest.mark.claim("S0-070")
async def test_laws_that_the_text_cites_are_queued_one_step_deeper_at_priority_30(bench: Bench) -> None:
    bench.site.serve_works([lanterns(cites=[OTHER, CITED, LAW])])
    await bench.harvest(payload={"bwb_id": LAW, "date": "2024-03-01", "depth": 4})
    assert await pending(bench) == [
        (CITED, 30, {"bwb_id": CITED, "date": "2024-03-01", "depth": 5}),
        (OTHER, 30, {"bwb_id": OTHER, "date": "2024-03-01", "depth": 5}),
    ]


@pytest.mark.parametrize(
    ("asked", "passed_on"),
    [({}, {}), ({"date": None}, {}), ({"date": "2025-06-30"}, {"date": "2025-06-30"})],
    ids=["no date", "none", "a date"],
)
async def test_follow_ups_get_the_date_that_was_asked_for_and_never_the_one_it_resolved_to(
    bench: Bench, asked: JsonObject, passed_on: JsonObject
) -> None:  # BW-05
    bench.site.serve_works([lanterns(cites=[CITED])])
    job = await bench.harvest(payload={"bwb_id": LAW, **asked})
    assert job.result["harvest_date"] == "2024-03-01"
    assert await pending(bench) == [(CITED, 30, {"bwb_id": CITED, "depth": 1, **passed_on})]


@pytest.mark.parametrize("limit", [{"no_follow": True}, {"max_depth": 0}, {"depth": 1000}])
async def test_nothing_is_followed_past_the_limits(bench: Bench, limit: JsonObject) -> None:
    bench.site.serve_works([lanterns(cites=[CITED])])
    await bench.harvest(payload={"bwb_id": LAW, **limit})
    assert await pending(bench) == []


async def test_a_second_harvest_of_the_same_text_commits_and_queues_nothing(bench: Bench) -> None:
    # GT-04, D15
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns(cites=[CITED])])
    await bench.harvest()
    tip = bench.remote.tip()
    await bench.rows.sql("DELETE FROM jobs WHERE status = 'pending'")
    await bench.rows.set_law(LawStatus.ENRICHED)
    job = await bench.harvest()
    assert (job.status, job.result["change"], job.result["changed"]) == (JobStatus.COMPLETED, "none", False)
    assert bench.remote.tip() == tip
    assert await pending(bench) == []
    assert await pending(bench, JobType.ENRICH) == []
    assert (await bench.rows.law()).status is LawStatus.ENRICHED


@pytest.mark.claim("S1-054")
async def test_new_bytes_of_the_source_that_make_the_same_file_are_no_change(bench: Bench) -> None:
    # The repository writes its files anew now and then, with other bookkeeping around the same words.
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns(cites=[CITED])])
    await bench.harvest()
    await bench.rows.sql("DELETE FROM jobs WHERE status = 'pending'")
    await bench.rows.set_law(LawStatus.ENRICHED)
    work = lanterns(cites=[CITED])
    path = next(path for path in work.files if path.endswith("_0.xml"))
    anew = work.files[path].replace(b"<wetgeving", b"<bwb-inputbestand>anders</bwb-inputbestand><wetgeving")
    bench.site.serve(path, Reply(body=anew))
    job = await bench.harvest()
    assert (job.result["change"], job.result["changed"]) == ("none", False)
    assert await pending(bench) == []
    assert await pending(bench, JobType.ENRICH) == []
    assert (await bench.rows.law()).status is LawStatus.ENRICHED


async def test_another_converter_follows_references_but_enriches_nothing(bench: Bench) -> None:
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns(cites=[CITED])])
    bench.style = Style.ARTICLE
    await bench.harvest()
    await bench.rows.sql("DELETE FROM jobs WHERE status = 'pending'")
    bench.style = Style.LEAF
    text = toestand_with_items()
    bench.site.serve_works([text])
    first = await bench.harvest()
    assert first.result["change"] == "text"
    await bench.rows.sql("DELETE FROM jobs WHERE status = 'pending'")
    bench.style = Style.FULL
    again = await bench.harvest()
    assert again.result["change"] == "converter"
    assert [law for law, _, _ in await pending(bench)] == [CITED]
    assert await pending(bench, JobType.ENRICH) == []


def toestand_with_items(more: str = "") -> Work:
    """Two items below an article: style leaf makes entries of them, style full does not."""
    body = (
        "<artikel label='Artikel 1'><kop><label>Artikel</label><nr>1</nr></kop><lid><lidnr>1</lidnr><al>Een lantaarn"
        f" brandt, zie <extref doc='jci1.3:c:{CITED}&amp;artikel=1'>daar</extref>.</al></lid><lid><lidnr>2</lidnr>"
        f"<al>Een kaars ook. {more}</al></lid></artikel>"
    )
    text = (
        f'<toestand bwb-id="{LAW}" inwerkingtreding="2024-03-01"><wetgeving soort="wet"><wet-besluit><wettekst>{body}'
        "</wettekst></wet-besluit></wetgeving></toestand>"
    ).encode()
    texts = [Toestand("2024-03-01_0", text=text)]
    return Work(LAW, tuple(texts), bwb_works.wti_xml(LAW, "Wet op de lantaarns"), bwb_works.manifest_xml(LAW, texts))


@pytest.mark.claim("S0-069")
@pytest.mark.parametrize(("depth", "priority"), [(None, 50), (0, 50), (1, 10)])
async def test_auto_enrich_makes_a_job_per_provider_by_depth(bench: Bench, depth: int | None, priority: int) -> None:
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns()])
    await bench.harvest(payload={"bwb_id": LAW} if depth is None else {"bwb_id": LAW, "depth": depth})
    made = await pending(bench, JobType.ENRICH)
    assert {(payload["provider"], prio) for _, prio, payload in made} == {("opencode", priority), ("claude", priority)}
    assert {payload["yaml_path"] for _, _, payload in made} == {FILE}


async def test_a_retry_after_a_crash_between_push_and_completion_loses_no_follow_up(bench: Bench) -> None:
    # D15, Q5: the retry finds its own push on the branch and still counts it as a change.
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns(cites=[CITED])])
    await bench.rows.add()
    first = HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST))
    with pytest.raises(CrashAfterPush):
        await bench.work_off(first, crash=True)
    pushed = bench.remote.tip()
    assert pushed is not None
    await bench.rows.age(first.job.id, 400)
    await bench.rows.reap_all()
    job = await bench.work_off(HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST)))
    assert (job.status, job.result["change"]) == (JobStatus.COMPLETED, "text")
    assert bench.remote.tip() == pushed
    assert [law for law, _, _ in await pending(bench)] == [CITED]
    assert len(await pending(bench, JobType.ENRICH)) == 2


async def test_a_lost_lease_pushes_nothing(bench: Bench) -> None:
    # QH-15
    bench.site.serve_works([lanterns()])
    await bench.rows.add()
    work = HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST), lost=True)
    job = await bench.work_off(work)
    assert job.status is JobStatus.PROCESSING
    assert bench.remote.tip() is None


@pytest.mark.claim("S0-021")
@pytest.mark.claim("S0-022")
@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ({"withdrawn": "2020-01-01"}, {"kind": "withdrawn", "date": "2020-01-01"}),
        ({"in_force": "2099-01-01"}, {"kind": "not_yet_in_force", "date": "2099-01-01"}),
        ({}, {"kind": "announced"}),
    ],
)
async def test_a_law_without_text_is_completed_as_not_harvestable(
    bench: Bench, manifest: dict[str, str], reason: JsonObject
) -> None:  # BW-01
    bench.site.serve(f"/bwb/{LAW}/manifest.xml", Reply(body=bwb_works.manifest_xml(LAW, **manifest)))  # type: ignore[arg-type]
    job = await bench.harvest()
    assert (job.status, job.result) == (JobStatus.COMPLETED, {"skipped": reason})
    assert (await bench.rows.law()).status is LawStatus.NOT_HARVESTABLE


@pytest.mark.claim("S0-023")
async def test_a_law_that_got_its_text_later_can_be_harvested_then(bench: Bench) -> None:
    bench.site.serve(f"/bwb/{LAW}/manifest.xml", Reply(body=bwb_works.manifest_xml(LAW)))
    await bench.harvest()
    bench.site.serve_works([lanterns()])
    assert (await bench.harvest()).status is JobStatus.COMPLETED
    assert (await bench.rows.law()).status is LawStatus.HARVESTED


async def test_an_unknown_law_fails_at_once_without_the_ladder(bench: Bench) -> None:
    # D35
    job = await bench.harvest()
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    law = await bench.rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.HARVEST_FAILED, 0)
    assert await pending(bench) == []


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (Reply(body=b"<html><body>storing</body></html>", content_type="text/html"), "wrong_content"),
        (Reply(body=b"<toestand bwb-id='BWBR0000001'><wet", content_type="text/xml"), None),
        (Reply(status=503, body=b""), "http_status"),
    ],
)
async def test_a_broken_text_is_retried_and_leaves_nothing_behind(
    bench: Bench, broken: Reply, kind: str | None
) -> None:
    work = lanterns()
    bench.site.serve_works([work])
    path = next(path for path in work.files if path.endswith("_0.xml"))
    bench.site.serve(path, broken)
    job = await bench.harvest()
    assert job.status is JobStatus.PENDING
    assert job.scheduled_at is not None
    if kind is not None:
        assert job.result["kind"] == kind
    assert LAW in job.result["error"]
    assert bench.remote.tip() is None
    assert (await bench.rows.law()).status is LawStatus.QUEUED


async def test_a_payload_that_cannot_be_read_fails_for_good_and_leaves_the_law_alone(bench: Bench) -> None:
    job = await bench.harvest(payload={"bwb_id": 12})
    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "invalid_payload")
    assert await bench.rows.sql("SELECT * FROM law_entries") == []


async def test_a_law_of_another_layer_moves_in_the_same_commit(bench: Bench) -> None:
    # D33: what stood under wet/ is a ministerial regulation now
    bench.site.serve_works([lanterns()])
    await bench.harvest()
    await bench.rows.enrich(law_id=LAW)
    await bench.rows.sql(
        "UPDATE jobs SET payload = payload || $1::text::jsonb WHERE job_type = 'enrich'", f'{{"yaml_path": "{FILE}"}}'
    )
    bench.site.serve_works([lanterns(kind="ministeriele-regeling")])
    job = await bench.harvest()
    new = FILE.replace("/wet/", "/ministeriele_regeling/")
    assert job.result["file_path"] == new
    laws = {path for path in bench.remote.files() if not path.endswith("status.yaml")}
    assert laws == {new}
    assert [payload["yaml_path"] for _, _, payload in await pending(bench, JobType.ENRICH)] == [new]


def retitled(work: Work, title: str) -> Work:
    """The same texts with metadata that call the law otherwise."""
    return attrs.evolve(work, wti=bwb_works.wti_xml(work.bwb_id, title))


NEW_TITLE, RENAMED = "Lantaarnwet", "regulation/nl/wet/lantaarnwet/2024-03-01.yaml"


async def test_a_law_with_a_new_title_moves_and_its_text_counts_as_the_same(bench: Bench) -> None:
    # D33, D15: another citeertitel is another folder, and no reason to enrich anew
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns()])
    await bench.harvest()
    bench.site.serve_works([retitled(lanterns(), NEW_TITLE)])
    job = await bench.harvest()
    assert (job.result["file_path"], job.result["change"]) == (RENAMED, "converter")
    assert set(bench.remote.files()) == {RENAMED, RENAMED.replace("2024-03-01", "status")}
    assert {payload["yaml_path"] for _, _, payload in await pending(bench, JobType.ENRICH)} == {RENAMED}
    assert len(await pending(bench, JobType.ENRICH)) == 2


async def test_other_texts_of_a_renamed_law_stay_where_they_are(bench: Bench) -> None:
    days = ("2020-01-01", "2024-03-01")
    bench.site.serve_works([lanterns(days=days)])
    await bench.harvest(payload={"bwb_id": LAW, "date": days[0]})
    await bench.harvest()
    bench.site.serve_works([retitled(lanterns(days=days), NEW_TITLE)])
    await bench.harvest()
    old = [path for path in bench.remote.files() if "lantaarnwet" not in path]
    assert old == [FILE.replace(days[1], days[0]), FILE.replace(days[1], "status")]


async def test_a_move_that_was_pushed_by_an_attempt_that_died_is_booked_by_the_next(bench: Bench) -> None:
    # D33: the file is gone from its old place already, but the waiting enrich jobs still name it
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns()])
    await bench.harvest()
    bench.site.serve_works([retitled(lanterns(), NEW_TITLE)])
    await bench.rows.add()
    first = HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST))
    with pytest.raises(CrashAfterPush):
        await bench.work_off(first, crash=True)
    await bench.rows.age(first.job.id, 400)
    await bench.rows.reap_all()
    job = await bench.work_off(HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST)))
    assert (job.status, job.result["change"]) == (JobStatus.COMPLETED, "converter")
    assert {payload["yaml_path"] for _, _, payload in await pending(bench, JobType.ENRICH)} == {RENAMED}
    assert [row["file_path"] for row in await bench.rows.sql("SELECT file_path FROM harvest_versions")] == [RENAMED]


async def test_the_file_of_another_law_is_never_overwritten(bench: Bench) -> None:
    bench.site.serve_works([lanterns(), invented_work(OTHER, "Wet op de lantaarns")])
    await bench.harvest()
    before = bench.remote.files()
    job = await bench.harvest(OTHER)
    assert (job.status, job.result["kind"], job.result["owner"]) == (JobStatus.FAILED, "path_taken", LAW)
    assert bench.remote.files() == before


async def test_a_rival_with_another_law_does_not_stop_a_harvest(bench: Bench, tmp_path: Path) -> None:
    # GT-01
    rival = Rival.of(bench.remote, tmp_path / "rival")
    rival.push({"regulation/nl/wet/andere/2024-01-01.yaml": "a: 1\n"})
    bench.site.serve_works([lanterns()])
    assert (await bench.harvest()).status is JobStatus.COMPLETED
    assert {FILE, "regulation/nl/wet/andere/2024-01-01.yaml"} <= set(bench.remote.files())


async def test_without_a_repository_files_go_to_the_folder_and_a_second_time_nothing_changed(bench: Bench) -> None:
    bench.git = False
    bench.site.serve_works([lanterns(cites=[CITED])])
    first = await bench.harvest()
    assert (bench.folder / "files" / FILE).read_text().startswith("---\n")
    assert first.result["change"] == "text"
    assert (await bench.harvest()).result["change"] == "none"


REGULATION = "CVDR990001"


def serve_regulation(bench: Bench, version: int, *, known: bool = True) -> None:
    """A version of a local regulation, and what the search says of it (nothing, unless ``known``)."""
    facts = (
        f"<identifier>{REGULATION}_{version}</identifier><title>Stepverordening</title><creator>Utrecht</creator>"
        "<inwerkingtredingDatum>2024-03-01</inwerkingtredingDatum>"
    )
    text = (
        f"<cvdr><meta><owmskern>{facts}</owmskern></meta><body><regeling><regeling-tekst><artikel><kop><nr>1</nr></kop>"
        f"<al>Versie {version}, zie <extref doc='jci1.3:c:{CITED}'>de wet</extref>.</al></artikel></regeling-tekst>"
        "</regeling></body></cvdr>"
    )
    record = (
        f"<record><recordData><gzd><meta>{facts}</meta><enrichedData><organisatietype>Gemeente</organisatietype>"
        "</enrichedData></gzd></recordData></record>"
    )
    found = record if known else ""
    answer = f"<searchRetrieveResponse><numberOfRecords>{int(known)}</numberOfRecords><records>{found}</records>"
    bench.site.serve("/sru", Reply(body=f"{answer}</searchRetrieveResponse>".encode()))
    path = f"/cvdr/cvdr/{REGULATION}/{version}/xml/{REGULATION}_{version}.xml"
    bench.site.serve(path, Reply(body=text.encode()))


async def test_a_local_regulation_is_harvested_and_a_later_version_of_the_same_day_replaces_it(bench: Bench) -> None:
    payload = {"cvdr_id": REGULATION}
    serve_regulation(bench, 1)
    job = await bench.harvest(REGULATION, payload)
    file = "regulation/nl/gemeentelijke_verordening/stepverordening/2024-03-01.yaml"
    assert job.status is JobStatus.COMPLETED, job.result
    assert (job.result["file_path"], job.result["source_type"]) == (file, "cvdr")
    law = load_law(bench.remote.files()[file].encode())
    assert (law["cvdr_id"], law["gemeente_code"], law["organisation"]) == (f"{REGULATION}_1", "GM0344", "Utrecht")
    assert [found for found, _, _ in await pending(bench)] == [CITED]
    assert (await bench.rows.law(REGULATION)).status is LawStatus.HARVESTED
    serve_regulation(bench, 2)
    job = await bench.harvest(REGULATION, payload)
    assert (job.status, job.result["change"]) == (JobStatus.COMPLETED, "text")
    assert load_law(bench.remote.files()[file].encode())["cvdr_id"] == f"{REGULATION}_2"


async def test_progress_names_the_phase(bench: Bench) -> None:
    bench.site.serve_works([lanterns()])
    await bench.rows.add()
    work = HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST))
    await bench.work_off(work)
    assert [report["phase"] for report in work.reports] == ["download", "convert", "publish"]
    assert work.runs == 1
