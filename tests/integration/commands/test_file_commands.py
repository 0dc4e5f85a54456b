"""Commands that need no database: convert, download, mirror; on the sample laws that ship with the product."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
import yaml

from supervisor import exitcodes
from tests.kit import cli, shared
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.bwb_works import sru_page

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "supervisor" / "demo" / "samples"
REGULATION = ROOT / "tests/fixtures/cvdr/CVDR990001_2.xml"
LAW = "BWBR0990001"
TEXT = SAMPLES / f"bwb/{LAW}/2024-01-01_0/xml/{LAW}_2024-01-01_0.xml"
WTI = SAMPLES / f"bwb/{LAW}/{LAW}.WTI"
TWO_DATES, WITHDRAWN = "BWBR0990005", "BWBR0990006"


@pytest.fixture
def mirror() -> Iterator[str]:
    """The samples, served by the command; its address."""
    argv = [sys.executable, "-m", "supervisor", "mirror", str(SAMPLES), "--serve"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err


def test_convert_writes_yaml_to_stdout_and_doubts_to_stderr() -> None:
    done = cli.run("convert", TEXT)
    assert done.code == 0, done.err
    law = yaml.safe_load(done.out)
    assert (law["$id"], law["bwb_id"], law["valid_from"]) == ("wet_op_de_fietstoeslag", LAW, "2024-01-01")
    assert "No metadata file" in done.err
    with_wti = cli.run("convert", TEXT, "--wti", WTI)
    assert with_wti.err == ""
    assert yaml.safe_load(with_wti.out)["publication_date"] == "2023-06-15"


def test_convert_replaces_the_output_file_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "law.yaml"
    target.write_text("old")
    done = cli.run("convert", TEXT, "--wti", WTI, "--leaf", "-o", target)
    assert (done.code, done.out) == (0, "")
    numbers = [article["number"] for article in yaml.safe_load(target.read_text(encoding="utf-8"))["articles"]]
    assert "1.1.a" in numbers
    assert [path.name for path in tmp_path.iterdir()] == ["law.yaml"]
    missing = cli.run("convert", TEXT, "-o", tmp_path / "no" / "such" / "law.yaml")
    assert missing.code == exitcodes.ESCALATED
    assert "cannot be written" in missing.err


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"<html><body>Error</body></html>", "HTML page"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><toestand>&x;</toestand>', "entit"),
        (b"<toestand><wetgeving>", "XML"),
        (b"<a>" * 6000 + b"</a>" * 6000, "deep"),
    ],
)
def test_convert_refuses_what_is_no_law_with_one_clear_line(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_bytes(content)
    done = cli.run("convert", path, "-o", tmp_path / "out.yaml")
    assert done.code in {exitcodes.ESCALATED, exitcodes.USAGE}
    assert word.lower() in done.err.lower()
    assert "Traceback" not in done.err
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize(
    "args",
    [["nothing.xml"], [TEXT, "--date", "2024-13-01"], [TEXT, "--leaf", "--style", "full"], [TEXT, "--style", "other"]],
)
def test_convert_tells_what_is_wrong_with_the_command_line(args: list[str]) -> None:
    assert cli.run("convert", *args).code == exitcodes.USAGE


def test_a_loss_report_tells_per_text_what_is_in_the_yaml_and_names_what_is_lost() -> None:
    done = cli.run("convert", "--loss-report", TEXT)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{LAW}  Wet op de fietstoeslag, from 2024-01-01")
    assert [line.split()[0] for line in lines[1:]] == ["visible", "left", "LOST"]
    assert lines[3].split() == ["LOST", "0"]
    older = cli.run("convert", "--loss-report", "--style", "article", ROOT / "tests/fixtures/bwb/lantaarnwet.xml")
    assert older.code == 0  # losing is what the older styles do
    lost = older.out.partition("LOST")[2].splitlines()
    assert int(lost[0]) > 0
    assert any(line.strip().startswith("artikel ") for line in lost[1:])


def test_loss_reports_of_several_texts_are_a_list_in_json_and_a_refused_text_does_not_end_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.xml"
    broken.write_bytes(TEXT.read_bytes()[:900])
    done = cli.run("convert", "--loss-report", "--json", broken, TEXT, REGULATION)
    assert done.code == exitcodes.ESCALATED
    refused, national, local = done.json
    assert refused["refused"]["reason"] == "syntax"
    assert (national["law_id"], local["law_id"]) == (LAW, "CVDR990001_2")
    for found in (national, local):
        assert (found["lost"], found["lost_places"]) == (0, [])
        assert found["characters_in"] > 100
        assert all(count > 0 for count in found["left_out"].values())
    assert "meta" in local["left_out"]


def test_convert_reads_local_regulations_too() -> None:
    done = cli.run("convert", REGULATION)
    assert done.code == 0, done.err
    law = yaml.safe_load(done.out)
    assert (law["cvdr_id"], law["regulatory_layer"]) == ("CVDR990001_2", "GEMEENTELIJKE_VERORDENING")
    assert cli.run("convert", REGULATION, "--wti", WTI).code == exitcodes.USAGE


@pytest.mark.parametrize("args", [[TEXT, TEXT], [TEXT, "--json"], ["--loss-report", TEXT, "-o", "x.yaml"]])
def test_what_belongs_to_loss_reports_alone_is_refused_elsewhere_and_the_other_way_round(args: list[str]) -> None:
    done = cli.run("convert", *args)
    assert done.code == exitcodes.USAGE
    assert "--loss-report" in done.err


def test_convert_of_a_real_law_equals_the_reference_byte_for_byte(tmp_path: Path) -> None:
    folder = shared.path("data/bwb/BWBR0018451")
    target = tmp_path / "law.yaml"
    done = cli.run(
        "convert",
        folder / "BWBR0018451_2025-01-01_0.xml",
        "--wti",
        folder / "BWBR0018451.WTI.xml",
        "--leaf",
        "-o",
        target,
    )
    assert done.code == 0, done.err
    assert target.read_bytes() == (folder / "expected" / "2025-01-01.leaf.yaml").read_bytes()


def test_download_from_a_folder_writes_the_corpus_layout(tmp_path: Path) -> None:
    done = cli.run("download", TWO_DATES, "--output", tmp_path, "--xml", BWB_REPOSITORY_URL=str(SAMPLES))
    assert done.code == 0, done.err
    law = tmp_path / "regulation/nl/wet/wet_fietspaden"
    assert sorted(path.name for path in law.iterdir()) == ["2025-07-01.xml", "2025-07-01.yaml", "status.yaml"]
    assert done.out.splitlines() == [str(law / "2025-07-01.yaml"), str(law / "2025-07-01.xml")]


def test_download_over_http_takes_the_text_of_the_wanted_day(tmp_path: Path, mirror: str) -> None:
    done = cli.run(
        "download", TWO_DATES, "--date", "2021-05-05", "--output", tmp_path, "--json", BWB_REPOSITORY_URL=mirror
    )
    assert done.code == 0, done.err
    assert done.json["valid_from"] == "2020-04-01"
    assert done.json["referenced"] == [WITHDRAWN]


@pytest.mark.claim("S0-020")
def test_download_of_a_withdrawn_law_says_so(tmp_path: Path) -> None:
    done = cli.run("download", WITHDRAWN, "--output", tmp_path, BWB_REPOSITORY_URL=str(SAMPLES))
    assert done.code == exitcodes.ESCALATED
    assert "withdrawn" in done.err
    assert list(tmp_path.iterdir()) == []


def test_download_tells_a_wrong_id_from_an_unknown_law(tmp_path: Path) -> None:
    wrong = cli.run("download", "BWBR12", BWB_REPOSITORY_URL=str(SAMPLES))
    assert (wrong.code, "expected BWBR" in wrong.err) == (exitcodes.USAGE, True)
    unknown = cli.run("download", "BWBR0990099", BWB_REPOSITORY_URL=str(SAMPLES))
    assert unknown.code == exitcodes.ESCALATED
    assert "BWBR0990099 is not in the repository" in unknown.err


def test_mirror_saves_files_that_can_be_harvested_from_again(tmp_path: Path, mirror: str) -> None:
    done = cli.run("mirror", tmp_path, LAW, TWO_DATES, WITHDRAWN, "--all", "--json", BWB_REPOSITORY_URL=mirror)
    assert done.code == 0, done.err
    assert [len(law["labels"]) for law in done.json] == [1, 2, 0]
    for path in (SAMPLES / "bwb" / TWO_DATES).rglob("*.xml"):
        assert (tmp_path / path.relative_to(SAMPLES)).read_bytes() == path.read_bytes()
    again = cli.run("download", TWO_DATES, "--output", tmp_path / "out", BWB_REPOSITORY_URL=str(tmp_path))
    assert again.code == 0, again.err


def test_a_law_that_cannot_be_had_does_not_keep_the_others_from_being_mirrored(tmp_path: Path) -> None:
    done = cli.run("mirror", tmp_path, "BWBR0990098", LAW, "--json", BWB_REPOSITORY_URL=str(SAMPLES))
    assert done.code == exitcodes.ESCALATED
    assert "Error: BWBR0990098 is not in the repository" in done.err
    assert [law["law_id"] for law in done.json] == [LAW]


def test_a_malformed_id_among_others_mirrors_nothing(tmp_path: Path) -> None:
    done = cli.run("mirror", tmp_path / "out", LAW, "BWBR99", BWB_REPOSITORY_URL=str(SAMPLES))
    assert done.code == exitcodes.USAGE
    assert "expected BWBRXXXXXXX" in done.err
    assert not (tmp_path / "out").exists()


def test_mirror_needs_something_to_do(tmp_path: Path) -> None:
    assert cli.run("mirror", tmp_path).code == exitcodes.USAGE
    missing = cli.run("mirror", tmp_path / "none", "--serve")
    assert missing.code == exitcodes.ESCALATED
    assert "is not a folder" in missing.err


def test_search_asks_the_configured_service_only() -> None:
    done = cli.run("search", "fiets", BWB_SRU_URL="http://127.0.0.1:9/sru")
    assert done.code == exitcodes.ESCALATED
    assert "127.0.0.1:9" in done.err
    assert "Traceback" not in done.err


async def test_search_lists_each_law_once_as_table_and_as_json() -> None:
    records = [("BWBR0990001", "Wet op de fietstoeslag", "wet"), ("BWBR0990003", "Besluit fietstoeslag", "AMvB")]
    async with fake_repository() as server:
        server.serve("/sru/Search", Reply(body=sru_page([*records, records[0]], total=3)))
        settings = {"BWB_SRU_URL": f"{server.url}/sru/Search"}
        listed = await trio.to_thread.run_sync(partial(cli.run, "search", "fiets", "--json", **settings))
        table = await trio.to_thread.run_sync(partial(cli.run, "search", "fiets", **settings))
        assert "fiets" in server.targets[0]
    assert listed.code == 0, listed.err
    assert [(hit["id"], hit["title"], hit["type"]) for hit in listed.json] == records
    assert [line.split()[0] for line in table.out.splitlines()] == ["ID", "BWBR0990001", "BWBR0990003"]


CVDR = "CVDR990001"


async def test_local_regulations_are_found_downloaded_and_mirrored_too(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "fixtures/cvdr/CVDR990001_2.xml").read_bytes()
    records = (Path(__file__).parents[2] / "fixtures/cvdr/sru_versions.xml").read_bytes()
    async with fake_repository() as server:
        server.serve("/sru/Search", Reply(body=records))
        server.serve(f"/cvdr/{CVDR}/2/xml/{CVDR}_2.xml", Reply(body=text))
        settings = {"CVDR_SRU_URL": f"{server.url}/sru/Search", "CVDR_REPOSITORY_URL": server.url}

        async def run(*args: object) -> cli.Done:
            return await trio.to_thread.run_sync(partial(cli.run, *args, **settings))

        found = await run("search", "--local", "stepverordening", "--json")
        assert found.code == 0, found.err
        assert CVDR in found.json[0]["id"]
        done = await run("download", f"{CVDR}_2", "--output", tmp_path / "out", "--json")
        assert done.code == 0, done.err
        assert Path(done.json["files"][0]).is_file()
        mirrored = await run("mirror", tmp_path / "mirror", f"{CVDR}_2", "--json")
        assert mirrored.code == 0, mirrored.err
        assert (tmp_path / f"mirror/cvdr/{CVDR}/2/xml/{CVDR}_2.xml").read_bytes() == text
