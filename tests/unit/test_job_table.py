"""Roles and job types: what is implemented is served, what is not is refused by name (D23, D27)."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.jobs import ROLES, TABLE, Means, all_roles, factories, load, services
from actors.ports.guardian import Guardian
from actors.ports.memoryqueue import MemoryQueue
from protocols.failures import InvalidInput
from schema.rows import JobType
from tests.kit import probe


@pytest.fixture
def probe_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution offers a job type."""
    with probe.registered(tmp_path / "plugin") as folder:
        monkeypatch.syspath_prepend(folder)


def test_every_implemented_job_type_belongs_to_a_role_and_can_be_imported() -> None:
    for job_type, where in TABLE.items():
        assert any(job_type in types for types in ROLES.values()), job_type
        assert callable(load(where))


@pytest.mark.claim("C-028")
def test_a_role_serves_its_implemented_types_in_order() -> None:
    (service,) = services(["harvest"])
    assert service.job_types == tuple(job_type for job_type in ROLES["harvest"] if job_type in TABLE)


def test_an_unknown_role_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"no implementation of role cook.*known roles are .*harvest"):
        services(["harvest", "cook"])


def test_a_role_of_the_product_without_an_implementation_is_refused_too() -> None:
    bare = [role for role, types in ROLES.items() if not any(job_type in TABLE for job_type in types)]
    for role in bare:
        with pytest.raises(InvalidInput, match=role):
            services([role])


@pytest.mark.parametrize("roles", [[], [""], [" ", ""]])
def test_no_role_at_all_is_refused(roles: list[str]) -> None:
    with pytest.raises(InvalidInput, match="no role is named"):
        services(roles)


def test_a_role_named_twice_is_served_once() -> None:
    assert len(services(["harvest", " harvest "])) == 1


@pytest.mark.usefixtures("probe_offered")
def test_another_distribution_adds_a_job_type_and_its_role() -> None:
    assert all_roles()["probe"] == (JobType.PROBE,)
    (service,) = services(["probe"])
    assert service.job_types == (JobType.PROBE,)
    assert service.slots == 4


def test_without_it_there_is_no_probe() -> None:
    assert JobType.PROBE not in factories()
    with pytest.raises(InvalidInput, match="probe"):
        services(["probe"])


def test_a_job_type_gets_what_it_asks_for_by_class_or_is_told() -> None:
    means = Means(MemoryQueue(), Guardian(), (7, "text"))
    assert means.get(str) == "text"
    with pytest.raises(LookupError, match="no bytes is offered"):
        means.get(bytes)
