"""Publishing to a git corpus: what gets there, what does not, and who is in the way."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from attrs import evolve

from actors.ports.corpus import open_corpus
from protocols.corpus import (
    CorpusSettings,
    CorpusUnavailable,
    FileChange,
    Publication,
    Published,
)
from protocols.failures import InvalidInput, PushConflict, ResourceExhausted
from tests.kit.gitrepos import Remote, Rival, git
from tests.kit.publications import LAW, STATUS, at_most, law, other, yes


@pytest.mark.claim("S0-031")
async def test_a_published_law_is_on_the_remote_branch(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(settings) as corpus:
        published = await corpus.publish(law("a: 1\n", status="status: harvested\n"), confirm=yes)
    assert published == Published(changed=True, commit=remote.tip())
    assert remote.files() == {"README.md": "laws\n", LAW: "a: 1\n", STATUS: "status: harvested\n"}
    assert remote.subjects() == ["first", "harvest: a: 1"]


async def test_the_working_tree_shows_what_was_pushed(settings: CorpusSettings, remote: Remote) -> None:
    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a: 1\n"), confirm=yes)
        await corpus.prepare()
    assert (settings.path / LAW).read_text() == "a: 1\n"
    assert git(settings.path, "status", "--porcelain") == ""
    assert git(settings.path, "rev-parse", "HEAD").strip() == remote.tip()
    assert git(settings.path, "symbolic-ref", "HEAD").strip() == "refs/heads/development"


async def test_commits_bear_the_author_and_the_trailers_of_the_job(settings: CorpusSettings, remote: Remote) -> None:
    settings = evolve(settings, author_name="Harvester", author_email="harvester@example.org")
    publication = evolve(law("a"), subject="harvest: Wet \x1b[31mop\nJob-Id: forged", trailers=(("Job-Id", "17"),))
    async with open_corpus(settings) as corpus:
        published = await corpus.publish(publication, confirm=yes)
        assert await corpus.find_commit({"Job-Id": "17"}) == published.commit
        assert await corpus.find_commit({"Job-Id": "forged"}) is None
    shown = git(remote.path, "log", "-1", "--format=%an <%ae>|%cn <%ce>|%B", "development")
    who = "Harvester <harvester@example.org>"
    assert shown.strip() == f"{who}|{who}|harvest: Wet [31mop Job-Id: forged\n\nJob-Id: 17"


async def test_only_content_decides(settings: CorpusSettings, remote: Remote) -> None:
    # GT-04: the timestamp in status.yaml changes with every harvest.
    async with open_corpus(settings) as corpus:
        first = await corpus.publish(law("a: 1\n", status="at: 1\n"), confirm=yes)
        second = await corpus.publish(law("a: 1\n", status="at: 2\n"), confirm=yes)
        await corpus.prepare()
    assert second == Published(changed=False, commit=first.commit)
    assert remote.subjects() == ["first", "harvest: a: 1"]
    assert remote.files()[STATUS] == "at: 1\n"
    assert git(settings.path, "status", "--porcelain") == ""


async def test_unchanged_content_asks_for_no_confirmation_and_no_push(settings: CorpusSettings, remote: Remote) -> None:
    async def never() -> None:
        raise AssertionError

    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a: 1\n"), confirm=yes)
        assert not (await corpus.publish(law("a: 1\n"), confirm=never)).changed


async def test_a_law_moves_in_one_commit(settings: CorpusSettings, remote: Remote) -> None:
    # D33: the same law and date stood under another path.
    new = LAW.replace("wet/", "amvb/")
    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a"), confirm=yes)
        moved = Publication((FileChange(LAW, None), FileChange(new, b"a")), "move")
        await corpus.publish(moved, confirm=yes)
        assert await corpus.list_paths("regulation") == (new,)
        assert await corpus.existing((LAW, "regulation", new)) == (new,)
        assert not (await corpus.publish(moved, confirm=yes)).changed
    assert remote.subjects() == ["first", "harvest: a", "move"]


async def test_files_are_read_as_of_any_commit(settings: CorpusSettings, remote: Remote, rival: Rival) -> None:
    async with open_corpus(settings) as corpus:
        before = await corpus.tip()
        assert before == remote.tip()
        await corpus.publish(law("a: 1\n"), confirm=yes)
        rival.push({LAW: "a: 2\n"})
        now = await corpus.tip()
        assert await corpus.read(LAW, at=before) is None
        assert await corpus.read(LAW) == b"a: 2\n"
        assert await corpus.read(LAW, at=now) == b"a: 2\n"
        assert await corpus.read("regulation/nl", at=now) is None


async def test_a_commit_from_before_the_clone_can_be_read(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    # D15: a later attempt, on another pod, compares with the file as of the first attempt.
    old = rival.push({LAW: "old\n"})
    rival.push({LAW: "new\n"})
    async with open_corpus(settings) as corpus:
        await corpus.prepare()
        assert (settings.path / ".git" / "shallow").exists()
        assert await corpus.read(LAW, at=old) == b"old\n"
        with pytest.raises(CorpusUnavailable, match="not in the corpus any more"):
            await corpus.read(LAW, at="0" * 39 + "1")
        with pytest.raises(InvalidInput, match="no id of a commit"):
            await corpus.read(LAW, at="HEAD")


async def test_a_tip_that_is_young_enough_is_not_asked_for_again(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    async with open_corpus(settings) as corpus:
        first = await corpus.tip()
        second = rival.push({LAW: "a"})
        assert await corpus.tip(max_age_s=math.inf) == first
        assert await corpus.tip() == second


async def test_a_rival_between_commit_and_push_costs_nothing(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    # GT-01: four times in a row; the fifth push succeeds, both histories stay, in one line.
    confirm = at_most(4, lambda n: rival.push({f"rival-{n}.md": "x"}, f"rival {n}"))
    async with open_corpus(settings) as corpus:
        published = await corpus.publish(law("a: 1\n"), confirm=confirm)
    assert published.changed
    assert remote.subjects() == ["first", "rival 1", "rival 2", "rival 3", "rival 4", "harvest: a: 1"]
    assert remote.is_linear()


async def test_a_rival_on_our_file_is_a_typed_conflict(settings: CorpusSettings, remote: Remote, rival: Rival) -> None:
    confirm = at_most(1, lambda n: rival.push({LAW: "theirs"}, "rival"))
    async with open_corpus(settings) as corpus:
        with pytest.raises(PushConflict, match=LAW) as caught:
            await corpus.publish(law("ours"), confirm=confirm)
        assert caught.value.details["paths"] == [LAW]
        assert remote.files()[LAW] == "theirs"
        # Nothing of the work is lost: the same publication goes through from the new base.
        await corpus.publish(law("ours"), confirm=yes)
    assert remote.subjects() == ["first", "rival", "harvest: ours"]


async def test_a_base_that_is_older_than_a_change_of_our_file_conflicts(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    base = remote.tip()
    rival.push({LAW: "theirs"})
    async with open_corpus(settings) as corpus:
        with pytest.raises(PushConflict):
            await corpus.publish(law("ours", base=base), confirm=yes)
        assert not (await corpus.publish(law("theirs", base=base), confirm=yes)).changed


async def test_a_base_that_is_older_than_other_changes_does_not(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    base = remote.tip()
    rival.push({STATUS: "theirs", "other.md": "x"})
    async with open_corpus(settings) as corpus:
        assert (await corpus.publish(law("ours", status="ours", base=base), confirm=yes)).changed
    assert remote.files()[STATUS] == "ours"
    assert remote.files()["other.md"] == "x"


async def test_a_base_that_the_remote_has_lost_conflicts(
    settings: CorpusSettings, remote: Remote, rival: Rival
) -> None:
    async with open_corpus(settings) as corpus:
        with pytest.raises(PushConflict, match="gone"):
            await corpus.publish(law("ours", base="1" * 40), confirm=yes)


async def test_history_that_was_rewritten_is_followed(settings: CorpusSettings, remote: Remote, rival: Rival) -> None:
    async with open_corpus(settings) as corpus:
        await corpus.publish(law("a"), confirm=yes)
        git(rival.clone, "checkout", "--quiet", "--orphan", "fresh")
        git(rival.clone, "commit", "--quiet", "--allow-empty", "-m", "fresh start")
        git(rival.clone, "push", "--quiet", "--force", "origin", "HEAD:development")
        assert (await corpus.publish(law("a"), confirm=yes)).changed
    assert remote.subjects() == ["fresh start", "harvest: a"]


async def test_an_empty_repository_gets_its_first_commit(settings: CorpusSettings, tmp_path: Path) -> None:
    empty = Remote.create(tmp_path / "empty.git")
    async with open_corpus(evolve(settings, repo_url=str(empty.path))) as corpus:
        assert await corpus.prepare() is None
        assert await corpus.read(LAW) is None
        assert await corpus.list_paths("regulation") == ()
        assert await corpus.existing((LAW,)) == ()
        assert await corpus.find_commit({"Job-Id": "1"}) is None
        assert (await corpus.publish(law("a"), confirm=yes)).changed
        assert await corpus.read(LAW) == b"a"
    assert empty.subjects() == ["harvest: a"]


async def test_a_first_commit_by_a_rival_is_not_overwritten(settings: CorpusSettings, tmp_path: Path) -> None:
    empty = Remote.create(tmp_path / "empty.git")
    rival = Rival.of(empty, tmp_path / "early")
    async with open_corpus(evolve(settings, repo_url=str(empty.path))) as corpus:
        with pytest.raises(PushConflict):
            await corpus.publish(law("a"), confirm=at_most(1, lambda n: rival.push({LAW: "theirs"})))
        assert (await corpus.publish(other(1), confirm=yes)).changed
    assert empty.subjects() == ["by the rival", "harvest: law 1"]


async def test_bad_publications_are_refused_before_anything_happens(settings: CorpusSettings) -> None:
    async with open_corpus(settings) as corpus:
        with pytest.raises(InvalidInput, match="at least one"):
            await corpus.publish(Publication((), "nothing"), confirm=yes)
        with pytest.raises(InvalidInput, match="no id of a commit"):
            await corpus.publish(law("a", base="development"), confirm=yes)
    assert not settings.path.exists()


async def test_nothing_is_cloned_when_the_disk_is_nearly_full(settings: CorpusSettings) -> None:
    async with open_corpus(evolve(settings, min_free_bytes=2**60)) as corpus:
        with pytest.raises(ResourceExhausted, match="bytes are free"):
            await corpus.prepare()
