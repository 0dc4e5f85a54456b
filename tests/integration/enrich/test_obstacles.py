"""Whatever an agent made of the place of its law is an edit that is not taken: the worker lays the law out again."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.jobs.enrich.draft import Draft
from actors.ports.agentfolders import clear_way, delete_tree
from tests.kit.enrichbench import EnrichBench, Scene, obedient
from tests.unit.lawyaml.test_hostile import BOMBS

PATH = "nl/wet/w/2025-01-01.yaml"
LAW = b"$id: w\narticles:\n  - number: '1'\n    text: Tekst.\n    url: https://example.org/1\n"

Spoil = Callable[[Path, Path], None]
"""Takes the law in the checkout, and a folder outside that stands in for the rest of the machine."""


def folder(law: Path, outside: Path) -> None:
    law.unlink()
    (law / "in" / "it").mkdir(parents=True)
    (law / "file").touch()


def closed_folder(law: Path, outside: Path) -> None:
    folder(law, outside)
    law.chmod(0)


def link(law: Path, outside: Path) -> None:
    law.unlink()
    law.symlink_to(outside / "secret.yaml")


def pipe(law: Path, outside: Path) -> None:
    law.unlink()
    os.mkfifo(law)


def closed_file(law: Path, outside: Path) -> None:
    law.chmod(0)


def second_name(law: Path, outside: Path) -> None:
    os.link(law, outside / "second")


def sparse(law: Path, outside: Path) -> None:
    os.truncate(law, 6 << 30)


def parent_link(law: Path, outside: Path) -> None:
    law.parent.rename(law.parent.with_name("moved"))
    law.parent.symlink_to(outside)


def parent_file(law: Path, outside: Path) -> None:
    law.parent.rename(law.parent.with_name("moved"))
    law.parent.touch()


def no_parent(law: Path, outside: Path) -> None:
    law.parent.parent.rename(outside / "gone")


def top_link(law: Path, outside: Path) -> None:
    top = law.parents[2]
    top.rename(top.with_name("moved"))
    top.symlink_to("/")


def closed_parent(law: Path, outside: Path) -> None:
    law.parent.chmod(0)


def closed_checkout(law: Path, outside: Path) -> None:
    law.parents[3].chmod(0)


SPOILS = (folder, closed_folder, link, pipe, closed_file, second_name, sparse, parent_link, parent_file, no_parent,
          top_link, closed_parent, closed_checkout)  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "secret.yaml").write_text("secret")
    return made


@pytest.mark.parametrize("spoil", SPOILS)
async def test_the_law_stands_again_where_it_stood_and_nothing_outside_is_touched(
    spoil: Spoil, tmp_path: Path, outside: Path
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    draft = await Draft.begin(checkout, PATH, start=LAW, law=LAW)
    spoil(checkout / PATH, outside)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    await draft.take([0])

    file = checkout / PATH
    assert (file.read_bytes(), file.is_symlink(), file.stat().st_nlink) == (LAW, False, 1)
    assert not any(part.is_symlink() for part in [file, *file.parents[:3]])
    assert draft.law == draft.on_disk == LAW
    assert draft.discarded_edits == (0 if spoil in (closed_file, closed_parent, closed_checkout) and is_root() else 1)
    assert (outside / "secret.yaml").read_text() == "secret"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 64 * 1024


def is_root() -> bool:
    """Whom no mode keeps out."""
    return os.geteuid() == 0


async def test_a_folder_of_any_depth_is_removed(tmp_path: Path) -> None:
    law = tmp_path / PATH
    law.mkdir(parents=True)
    at = os.open(law, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    await clear_way(tmp_path, PATH)
    assert not law.exists()
    await delete_tree(tmp_path / "nl")


async def test_what_is_fit_stays_as_it_is(tmp_path: Path) -> None:
    law = tmp_path / PATH
    await clear_way(tmp_path, PATH)
    await clear_way(tmp_path / "absent", PATH)
    assert list(tmp_path.iterdir()) == []
    law.parent.mkdir(parents=True)
    law.write_text("law")
    law.with_name("other").symlink_to("/")
    law.parent.chmod(0o750)
    await clear_way(tmp_path, PATH)
    assert (law.read_text(), stat.S_IMODE(law.parent.stat().st_mode)) == ("law", 0o750)
    assert law.with_name("other").is_symlink()


@pytest.mark.parametrize("spoil", [folder, parent_link, sparse])
async def test_a_run_whose_agent_did_so_fails_for_having_nothing_to_show(
    bench: EnrichBench, spoil: Spoil, outside: Path
) -> None:
    def agent(scene: Scene) -> None:
        obedient(scene)
        spoil(scene.law, outside)

    bench.agent = agent
    job = await bench.enrich()
    assert job.result["kind"] != "corpus_unavailable"
    assert "corpus" not in job.result["error"]
    assert (outside / "secret.yaml").read_text() == "secret"


@pytest.mark.parametrize("bomb", [BOMBS[0], '{"a":&a {"b":*a}}', "0x" + "f" * 5000, "!!bool x", "[" * 400 + "]" * 400])
async def test_a_run_whose_agent_wrote_a_bomb_ends_with_the_gate_s_finding(bench: EnrichBench, bomb: str) -> None:
    def agent(scene: Scene) -> None:
        obedient(scene)
        text = scene.law.read_text()
        assert "machine_readable:" in text
        head, _, _ = text.partition("machine_readable:")
        scene.law.write_text(f"{head}machine_readable: {bomb}\n")
        (scene.law.parent / ".enrichment-result.yaml").write_text(f"chunk_report: {bomb}\n")

    bench.agent = agent
    job = await bench.enrich()
    assert job.result["kind"] == "schema_errors"
