"""What is due, what is there already and what is in the way, from object ids alone."""

from __future__ import annotations

import hashlib

from protocols.contentgate import Standing, blob_id, judge, paths_to_ask
from protocols.corpus import FileChange, Publication

OURS = Publication((FileChange("wet/a/1.yaml", b"ours"),), "s", (FileChange("wet/a/status.yaml", b"now"),))
WANTED = blob_id(b"ours")


def ids(**found: str | None) -> dict[str, str | None]:
    named = {"law": "wet/a/1.yaml", "status": "wet/a/status.yaml", "folder": "wet", "below": "wet/a"}
    return {path: found.get(name) for name, path in named.items()}


def test_an_id_is_the_one_that_git_gives() -> None:
    assert blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert blob_id(b"x", 64) == hashlib.sha256(b"blob 1\0x").hexdigest()
    assert blob_id(None) is None


def test_files_and_the_folders_above_them_are_asked_for() -> None:
    assert paths_to_ask(OURS) == ["wet/a/1.yaml", "wet/a/status.yaml", "wet", "wet/a"]


def test_new_content_is_due() -> None:
    assert judge(OURS, ids(), ids()) == Standing()
    assert judge(OURS, ids(law="1" * 40), ids(law="1" * 40, folder="2" * 40 + "/")) == Standing()


def test_content_that_is_there_is_present_whatever_bookkeeping_says() -> None:
    assert judge(OURS, ids(), ids(law=WANTED, status="9" * 40)).present


def test_content_that_somebody_changed_is_moved() -> None:
    assert judge(OURS, ids(law="1" * 40), ids(law="2" * 40)).moved == ("wet/a/1.yaml",)
    assert judge(OURS, ids(law="1" * 40), ids()).moved == ("wet/a/1.yaml",)


def test_bookkeeping_that_somebody_changed_is_not() -> None:
    assert judge(OURS, ids(status="1" * 40), ids(status="2" * 40)) == Standing()


def test_a_removal_is_present_when_the_file_is_gone() -> None:
    removal = Publication((FileChange("wet/a/1.yaml", None),), "s")
    assert judge(removal, ids(law="1" * 40), ids()).present
    assert judge(removal, ids(law="1" * 40), ids(law="1" * 40)) == Standing()
    assert judge(removal, ids(law="1" * 40), ids(law="2" * 40)).moved == ("wet/a/1.yaml",)


def test_half_of_a_publication_that_is_there_still_makes_the_rest_due() -> None:
    two = Publication((FileChange("a", b"ours"), FileChange("b", b"more")), "s")
    assert judge(two, {}, {"a": WANTED}) == Standing()


def test_a_file_where_a_folder_is_needed_blocks_and_so_does_the_reverse() -> None:
    assert judge(OURS, ids(), ids(folder="1" * 40)).blocked == ("wet",)
    same = ids(law="1" * 40 + "/")
    assert judge(OURS, same, same).blocked == ("wet/a/1.yaml",)


def test_a_sha256_repository_is_judged_by_its_own_ids() -> None:
    there = ids(law=blob_id(b"ours", 64), folder="2" * 64 + "/")
    assert judge(OURS, ids(), there).present
