"""``status.yaml``."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from protocols.law import Article
from protocols.lawyaml import LawStatus, dump_status, load_law
from protocols.lawyaml.status import law_id_of
from tests.unit.test_law import a_law

AT = datetime(2024, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)


def test_a_status_file_has_these_lines() -> None:
    law = a_law(articles=(Article("1", "x", "u"),), warnings=("Article 1: let op: iets", "gewoon"))
    assert dump_status(LawStatus.of(law, AT)) == (
        "---\n"
        "law_id: BWBR0099007\n"
        "law_name: Stepwet\n"
        "slug: stepwet\n"
        "status: harvested\n"
        "last_harvested: 2024-02-03T04:05:06.789012000+00:00\n"
        "harvest_date: 2024-02-01\n"
        "article_count: 1\n"
        "warning_count: 2\n"
        "warnings:\n"
        "- 'Article 1: let op: iets'\n"
        "- gewoon\n"
    )


def test_no_warnings_is_an_empty_list() -> None:
    assert dump_status(LawStatus.of(a_law(), AT)).endswith("warning_count: 0\nwarnings: []\n")


def test_the_instant_is_written_in_utc() -> None:
    local = AT.astimezone(timezone(timedelta(hours=2)))
    assert "2024-02-03T04:05:06.789012000+00:00" in dump_status(LawStatus.of(a_law(), local))


def test_an_instant_without_a_zone_is_refused() -> None:
    naive = LawStatus("BWBR0099007", "Stepwet", "stepwet", AT.replace(tzinfo=None), date(2024, 2, 1), 0)
    with pytest.raises(ValueError, match="zone"):
        dump_status(naive)


def test_the_law_id_is_found_under_its_old_name_too() -> None:
    assert law_id_of(load_law(dump_status(LawStatus.of(a_law(), AT)))) == "BWBR0099007"
    assert law_id_of({"bwb_id": "BWBR0000001"}) == "BWBR0000001"
    assert law_id_of({"law_id": 7}) is None
