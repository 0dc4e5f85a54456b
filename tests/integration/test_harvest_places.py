"""Where a harvested law stands in the corpus: moves, new titles, other laws in the way, later versions, a plain folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest

from actors.ports.database import Database
from protocols.lawyaml import load_law
from schema.harvest import HarvestRules
from schema.rows import JobStatus, JobType, LawStatus
from tests.kit import bwb_works
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.bwb_works import Work, invented_work
from tests.kit.gitrepos import Remote, Rival
from tests.kit.harvestbench import CITED, FILE, LAW, OTHER, Bench, CrashAfterPush, lanterns, pending
from tests.kit.heldwork import HeldWork
from tests.kit.jobrows import Rows

pytest_plugins = ["tests.kit.postgres"]


@pytest.fixture
async def bench(database: Database, tmp_path: Path) -> AsyncIterator[Bench]:
    async with fake_repository() as site:
        yield Bench(Rows(database), site, Remote.create(tmp_path / "corpus.git"), tmp_path)


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
