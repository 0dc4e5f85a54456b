"""The harvest job on real means: what it leaves behind, what follows from it, and how it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from actors.ports.database import Database
from protocols import lawproduct
from protocols.bwb.loss import LossReport, loss_report
from protocols.bwb.toestand import Style
from protocols.failures import JsonObject
from protocols.lawyaml import load_law
from schema.harvest import HarvestRules
from schema.rows import JobStatus, JobType, LawStatus
from tests.kit import bwb_works
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.bwb_works import Toestand, Work
from tests.kit.gitrepos import Remote
from tests.kit.harvestbench import CITED, FILE, LAW, OTHER, Bench, CrashAfterPush, lanterns, pending
from tests.kit.heldwork import HeldWork
from tests.kit.jobrows import Rows

pytest_plugins = ["tests.kit.postgres"]


@pytest.fixture
async def bench(database: Database, tmp_path: Path) -> AsyncIterator[Bench]:
    async with fake_repository() as site:
        yield Bench(Rows(database), site, Remote.create(tmp_path / "corpus.git"), tmp_path)


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


@pytest.mark.parametrize("git", [True, False], ids=["repository", "folder"])
async def test_a_push_whose_job_then_failed_for_good_is_a_change_to_the_job_that_follows_it(
    bench: Bench, git: bool
) -> None:  # D15: the last attempt died after its push; the ladder's next job has another id
    bench.git = git
    bench.rules = HarvestRules(auto_enrich=True)
    bench.site.serve_works([lanterns(cites=[CITED])])
    await bench.rows.add(max_attempts=1)
    first = HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST))
    with pytest.raises(CrashAfterPush):
        await bench.work_off(first, crash=True)
    await bench.rows.age(first.job.id, 400)
    assert [reaped.status for reaped in await bench.rows.reap_all()] == [JobStatus.FAILED]
    await bench.rows.sql("UPDATE jobs SET scheduled_at = now() WHERE status = 'pending'")
    job = await bench.work_off(HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST)))
    assert (job.status, job.result["change"]) == (JobStatus.COMPLETED, "text")
    assert job.id != first.job.id
    assert [law for law, _, _ in await pending(bench)] == [CITED]
    assert len(await pending(bench, JobType.ENRICH)) == 2


async def test_a_file_that_was_there_before_us_is_no_change(bench: Bench) -> None:  # D15: an adopted corpus
    bench.site.serve_works([lanterns(cites=[CITED])])
    await bench.harvest()
    await bench.rows.sql("DELETE FROM harvest_versions")
    await bench.rows.sql("DELETE FROM jobs")
    job = await bench.harvest()
    assert (job.status, job.result["change"]) == (JobStatus.COMPLETED, "none")


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


_ENTITY = '<!DOCTYPE toestand [<!ENTITY {0}>]><toestand bwb-id="BWBR0000001"><wetgeving>{1}</wetgeving></toestand>'
_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol"}">' for n in range(12))


@pytest.mark.parametrize(
    ("reply", "kind", "status"),
    [
        (Reply(body=_ENTITY.format('x SYSTEM "file:///etc/hostname"', "&x;").encode()), "refused_law", "failed"),
        (Reply(body=_ENTITY.format(f'a "b">{_LAUGHS}<!ENTITY c "d"', "&l11;").encode()), "refused_law", "failed"),
        (Reply(body=b"<toestand>" + b"<al>" * 5000 + b"</al>" * 5000 + b"</toestand>"), "refused_law", "failed"),
        (Reply(body=b"<toestand bwb-id='BWBR0000002'><wetgeving/></toestand>"), "malformed_law", "pending"),
        (Reply(body=b"<toestand/>", declared=5000), "download_truncated", "pending"),
        (Reply(body=b"<toestand/>", declared=200 << 20), "response_too_large", "pending"),
        (Reply(status=302, headers={"location": "https://evil.test/x.xml"}), "host_not_allowed", "pending"),
    ],
    ids=["external entity", "expanding entities", "5,000 deep", "another law", "cut off", "too large", "another host"],
)
async def test_a_hostile_text_is_a_typed_error_and_leaves_nothing_behind(
    bench: Bench, reply: Reply, kind: str, status: str
) -> None:  # D36, D38
    work = lanterns()
    bench.site.serve_works([work])
    bench.site.serve(next(path for path in work.files if path.endswith("_0.xml")), reply)
    job = await bench.harvest()
    assert (job.status.value, job.result["kind"], job.attempts) == (status, kind, 1)
    assert bench.remote.tip() is None
    law = await bench.rows.law()
    assert law.status is (LawStatus.HARVEST_FAILED if status == "failed" else LawStatus.QUEUED)
    assert law.harvest_fail_count == 0


async def test_a_payload_that_cannot_be_read_fails_for_good_and_leaves_the_law_alone(bench: Bench) -> None:
    job = await bench.harvest(payload={"bwb_id": 12})
    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "invalid_payload")
    assert await bench.rows.sql("SELECT * FROM law_entries") == []


async def test_progress_names_the_phase(bench: Bench) -> None:
    bench.site.serve_works([lanterns()])
    await bench.rows.add()
    work = HeldWork(bench.rows, await bench.rows.claimed(JobType.HARVEST))
    await bench.work_off(work)
    assert [report["phase"] for report in work.reports] == ["download", "convert", "publish"]
    assert work.runs == 1
