"""``enrich-once`` with a program in the place of an agent: windows, tables, previews, refusals (``enrich.md`` 13)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from attrs import frozen

from protocols.lawyaml import load_law
from supervisor import exitcodes
from tests.kit.cli import Done, run
from tests.kit.enrichbench import FOLDER, PATH, fake_claude, law

TOKEN = "sk-ant-oat01-canary-of-a-developer"


@frozen
class Desk:
    """A developer's machine: a corpus, a home, an agent."""

    folder: Path

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    @property
    def law(self) -> Path:
        return self.corpus / PATH

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def enrich(self, *args: object, path: str = PATH, **settings: str) -> Done:
        given = {
            "CLAUDE_PATH": str(self.folder / "bin/claude"),
            "CLAUDE_CODE_OAUTH_TOKEN": TOKEN,
            "HOME": str(self.home),
        }
        return run("enrich-once", "--corpus", self.corpus, "--law", path, *args, **{**given, **settings})

    def sections(self) -> int:
        return sum("machine_readable" in entry for entry in load_law(self.law.read_bytes())["articles"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.law.parent.mkdir(parents=True)
    made.law.write_text(law(8))
    made.home.mkdir()
    fake_claude(tmp_path / "bin")
    return made


def test_one_window_is_worked_off_and_the_next_run_goes_on_from_its_cursor(desk: Desk) -> None:
    first = desk.enrich("--articles", 5)
    assert first.code == exitcodes.CLEAN, first.err
    assert desk.sections() == 5
    cursor = yaml.safe_load((desk.law.parent / ".enrichment.yaml").read_text())
    assert (cursor["enrich_cursor"], cursor["enrich_cursor_path"], cursor["provider"]) == (5, PATH, "claude")
    assert "entries 1 to 5 of 8" in first.out
    assert "5 of 8 entries have a section" in first.out
    second = desk.enrich("--articles", 5)
    assert "entries 6 to 8 of 8" in second.out
    assert desk.sections() == 8
    third = desk.enrich()
    assert third.code == exitcodes.CLEAN
    assert "The law is done" in third.out


def test_all_windows_that_are_left_can_be_asked_for(desk: Desk) -> None:
    done = desk.enrich("--articles", 3, "--windows", 0)
    assert done.code == exitcodes.CLEAN, done.err
    assert [int(number) for number in re.findall(r"entries (\d+) to", done.out)] == [1, 4, 7]
    assert desk.sections() == 8
    assert "findings before: schema 0, checks 0, marking 8" in done.out
    assert "findings after: schema 0, checks 0, marking 0" in done.out


def test_what_each_call_used_stands_in_a_table_with_its_session_and_a_total(desk: Desk) -> None:
    done = desk.enrich()
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.out.splitlines()]
    assert ["step", "session", "model", "input", "output", "cache read", "cache write", "cost"] in rows
    assert ["translate", "cold", "claude-opus-5-5", "1", "2", "3", "4", "$0.5000"] in rows
    assert ["window", "calls: 1", "1", "2", "3", "4", "$0.5000"] in rows


@pytest.mark.claim("S0-074")
def test_modes_of_session_reuse_are_compared_on_the_same_law_and_the_first_is_kept(desk: Desk) -> None:
    done = desk.enrich("--articles", 4, "--windows", 0, "--session-reuse", "repair,off")
    assert done.code == exitcodes.CLEAN, done.err
    table = done.out[done.out.index("modes") :].splitlines()
    assert re.split(r"\s{2,}", table[1].strip())[:4] == ["mode", "calls", "resumed", "input"]
    assert [re.split(r"\s{2,}", line.strip())[:4] for line in table[2:4]] == [
        ["repair", "2", "0", "2"],
        ["off", "2", "0", "2"],
    ]
    assert done.out.count("entries 1 to 4 of 8") == 2
    assert desk.sections() == 8


def test_a_dry_run_shows_everything_calls_nobody_and_writes_nothing(desk: Desk) -> None:
    before = desk.law.read_bytes()
    done = desk.enrich("--dry-run", "--windows", 2, "--articles", 4, "--slices", 2, CLAUDE_PATH="/nonexistent/claude")
    assert done.code == exitcodes.CLEAN, done.err
    assert "a translation gets 900 s, a feedback round 900 s" in done.out
    assert [line for line in done.out.splitlines() if line.startswith("window: ")] == [
        "window: entries 1 to 4 of 8",
        "window: entries 5 to 8 of 8",
    ]
    assert "agent 1 of 2: entries 1, 3" in done.out
    assert "--model claude-opus-5-5 --session-id" in done.out
    assert "Make the Dutch law in" in done.out
    assert "  marking: 8\n    - [accounted] art. 1:" in done.out
    assert "CLAUDE_CODE_OAUTH_TOKEN='***'" in done.out
    assert TOKEN not in done.out + done.err
    assert desk.law.read_bytes() == before
    assert sorted(path.name for path in desk.law.parent.iterdir()) == [Path(PATH).name]
    assert list(desk.home.iterdir()) == []


@pytest.mark.claim("S0-114")
def test_the_agent_has_the_user_s_home_and_a_temporary_folder_of_ours(desk: Desk) -> None:
    cli = desk.folder / "bin/claude"
    cli.write_text(
        cli.read_text()
        + 'open(os.environ["HOME"] + "/.session", "w").write("kept")\nopen(os.environ["TMPDIR"] + "/x", "w").write("x")\n'
    )
    done = desk.enrich(TMPDIR=str(desk.folder / "elsewhere"))
    assert done.code == exitcodes.CLEAN, done.out + done.err
    assert [path.name for path in desk.home.iterdir()] == [".session"]
    assert not (desk.folder / "elsewhere").exists()


def test_a_run_that_fails_says_why_and_keeps_the_law(desk: Desk) -> None:
    before = desk.law.read_bytes()
    (desk.folder / "bin/claude").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    done = desk.enrich()
    assert done.code == exitcodes.ESCALATED
    assert "claude failed (usage_error, exit code 3): broken" in done.err
    assert desk.law.read_bytes() == before


def test_schema_errors_that_were_there_before_and_are_left_are_a_failure(desk: Desk) -> None:
    desk.law.write_text(law(2) + "    machine_readable: {no_such_key: 1}\n")
    done = desk.enrich("--rounds", 0)
    assert done.code == exitcodes.ESCALATED


# --- by article -------------------------------------------------------------------------------------------------------

OTHER = "regulation/nl/wet/andere_wet/2024-01-01.yaml"


def citing(number: int) -> str:
    """The law with one article that cites article 2 of another law and article 5 of its own."""
    text = law(8).replace(
        f"De bijdrage voor lantaarn {number} bedraagt {number} euro.", "Naast artikel 5 geldt een andere wet."
    )
    url = f"    url: https://example.org/BWBR0000001#{number}\n"
    return text.replace(url, url + "    references:\n      - {id: ref1, bwb_id: BWBR0000002, artikel: '2'}\n")


def numbers_with_section(file: Path) -> list[str]:
    return [entry["number"] for entry in load_law(file.read_bytes())["articles"] if "machine_readable" in entry]


def test_an_article_is_enriched_beside_the_walk_and_the_cursor_stands_still(desk: Desk) -> None:
    desk.enrich("--articles", 2)
    done = desk.enrich("--article", "7", "--article", "4", "--articles", 1)
    assert done.code == exitcodes.CLEAN, done.err
    assert numbers_with_section(desk.law) == ["1", "2", "4", "7"]
    assert done.out.count("1 chosen entries of 8") == 2
    cursor = yaml.safe_load((desk.law.parent / ".enrichment.yaml").read_text())
    assert cursor["enrich_cursor"] == 2
    assert "entries 3 to 4 of 8" in desk.enrich("--articles", 2, "--dry-run").out


def test_what_an_article_cites_is_enriched_first_in_the_other_law(desk: Desk) -> None:
    desk.law.write_text(citing(3))
    other = desk.corpus / OTHER
    other.parent.mkdir(parents=True)
    other.write_text(law(4).replace("BWBR0000001", "BWBR0000002").replace("wet_op_de_lantaarns", "andere_wet"))
    cli = desk.folder / "bin/claude"
    cli.write_text(
        cli.read_text().replace('"    url: https://example.org/BWBR0000001#%s\\n" % number', "url(text, number)")
    )
    cli.write_text(
        cli.read_text().replace(
            "import json, os, re, sys\n",
            "import json, os, re, sys\n\ndef url(text, number):\n"
            "    return re.search(r'    url: \\S+#%s\\n' % number, text)[0]\n",
        )
    )
    planned = desk.enrich("--article", "3", "--depth", 1, "--dry-run")
    assert planned.code == exitcodes.CLEAN, planned.err
    plan = planned.out[: planned.out.index("\n\n")].splitlines()
    assert plan == ["plan", f"  {OTHER}: article 2 (1 entries)", f"  {PATH}: article 3, 5 (2 entries)"]
    assert numbers_with_section(desk.law) == []

    done = desk.enrich("--article", "3", "--depth", 1)

    assert done.code == exitcodes.CLEAN, done.out + done.err
    assert numbers_with_section(other) == ["2"]
    assert numbers_with_section(desk.law) == ["3", "5"]
    assert done.out.index(f"{OTHER}, claude") < done.out.index(f"{PATH}, claude")


@pytest.mark.parametrize(
    ("args", "settings", "says"),
    [
        (["--article", "99"], {}, "has no article '99'; its articles are 1, 2, 3, 4, 5, 6, 7, 8"),
        (["--article", "1", "--article", "2", "--max-plan-articles", "1"], {}, "more than 1 articles"),
        (["--depth", "1"], {}, "give at least one --article"),
        (["--article", "1", "--steps", "reconcile"], {}, "leave --article out"),
        (["--article", "1", "--depth", "1", "--session-reuse", "window,off"], {}, "leave --depth out"),
        (["--session-reuse", "always"], {}, "give one or more of window, repair, off"),
        (["--rounds", "many"], {}, "give a number of rounds"),
        (["--timeout", "0"], {}, "is not in the range"),
        (["--provider", "other"], {}, "'other' is not one of"),
        (["--effort", "huge"], {}, "LLM_EFFORT"),
        ([], {"SKILLS_DIR": "."}, "needs the skill law-generate/SKILL.md"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_begun(
    desk: Desk, args: list[str], settings: dict[str, str], says: str
) -> None:
    if settings:
        (desk.folder / ".claude/skills").mkdir(parents=True)
        settings = {"SKILLS_DIR": str(desk.folder)}
    done = desk.enrich(*args, **settings)
    assert done.code == exitcodes.USAGE
    assert says in done.err


@pytest.mark.parametrize("path", [f"{FOLDER}/2099-01-01.yaml", "../law.yaml"])
def test_a_law_that_is_not_there_is_named(desk: Desk, path: str) -> None:
    for mode in ([], ["--dry-run"], ["--article", "1"]):
        done = desk.enrich(*mode, path=path)
        assert done.code == exitcodes.USAGE
        assert Path(path).name in done.err


def test_a_law_in_the_root_of_the_corpus_is_refused_in_words_about_it(desk: Desk) -> None:
    (desk.corpus / "law.yaml").write_text(law(2))
    done = desk.enrich("--dry-run", path="law.yaml")
    assert done.code == exitcodes.USAGE
    assert "law.yaml stands in the root of the corpus" in done.err
    assert "law/law.yaml" in done.err
    (desk.corpus / "law").mkdir()
    (desk.corpus / "law.yaml").rename(desk.corpus / "law/law.yaml")
    assert desk.enrich("--dry-run", path="law/law.yaml").code == exitcodes.CLEAN


@pytest.mark.parametrize(("name", "says"), [("status.yaml", "beside a law"), ("notes.yaml", "it has no articles")])
def test_what_is_no_law_is_called_so(desk: Desk, name: str, says: str) -> None:
    (desk.law.parent / name).write_text("law_id: BWBR0000001\n")
    done = desk.enrich("--dry-run", path=f"{FOLDER}/{name}")
    assert (done.code, done.out) == (exitcodes.USAGE, "")
    assert says in done.err


def test_an_agent_that_is_not_there_is_told_with_its_setting_before_anything_is_begun(desk: Desk) -> None:
    done = desk.enrich(CLAUDE_PATH="/nonexistent/claude")
    assert done.code == exitcodes.USAGE
    assert done.err == "Error: /nonexistent/claude: there is no such program; install it, or name it with CLAUDE_PATH\n"
    assert sorted(path.name for path in desk.law.parent.iterdir()) == [Path(PATH).name]


def test_a_cited_law_without_a_text_of_that_day_is_told_apart_from_one_that_is_missing(desk: Desk) -> None:
    desk.law.write_text(citing(3))
    later = desk.corpus / OTHER.replace("2024-01-01", "2026-01-01")
    later.parent.mkdir(parents=True)
    later.write_text(law(4).replace("BWBR0000001", "BWBR0000002"))
    done = desk.enrich("--article", "3", "--depth", 1, "--dry-run")
    assert "the law has no text in the corpus that applied on 2025-01-01; the first there is 2026-01-01" in done.out
    later.unlink()
    assert "the law is not in the corpus" in desk.enrich("--article", "3", "--depth", 1, "--dry-run").out


def test_only_a_law_whose_walk_has_begun_is_said_to_have_finished_windows(desk: Desk) -> None:
    assert "Earlier windows" not in desk.enrich("--article", "7", "--dry-run").out
    desk.enrich("--articles", 2)
    assert "Earlier windows" in desk.enrich("--article", "7", "--dry-run").out
    assert "Earlier windows" in desk.enrich("--articles", 2, "--dry-run").out


def test_a_law_that_cannot_be_read_fails_without_a_call(desk: Desk) -> None:
    desk.law.write_text("articles: [")
    done = desk.enrich()
    assert done.code == exitcodes.USAGE
    assert "YAML" in done.err


def test_what_a_killed_run_left_is_removed_by_the_next_one(desk: Desk) -> None:
    place = desk.folder / "elsewhere"
    for name in ("enrich-once-old", "enrich-once-new"):
        (place / name / "job-1" / "checkout").mkdir(parents=True)
    os.utime(place / "enrich-once-old", (1, 1))
    desk.enrich("--dry-run", TMPDIR=str(place))
    assert [path.name for path in place.iterdir()] == ["enrich-once-new"]  # so new that its owner may not hold it yet
