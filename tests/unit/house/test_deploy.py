"""The Kubernetes manifests agree with the defaults of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from supervisor.settings import AREAS
from supervisor.settings.areas import Drain
from supervisor.settings.reader import specs

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
CLOSING_S = 10


def documents(name: str) -> dict[str, Any]:
    """The documents of a manifest by kind."""
    return {found["kind"]: found for found in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))}


def pod() -> dict[str, Any]:
    return documents("supervisor.yaml")["Deployment"]["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def test_the_grace_period_is_longer_than_the_longest_drain() -> None:
    [container] = pod()["containers"]
    environ = {item["name"]: item.get("value") for item in container["env"]}
    drain_s = float(environ["SUPERVISOR_DRAIN_SECS"])
    assert drain_s == Drain().drain_s
    assert pod()["terminationGracePeriodSeconds"] >= drain_s + CLOSING_S


def test_every_variable_is_a_setting_and_every_secret_one_comes_from_a_secret() -> None:
    known = {spec.name: spec for cls in AREAS for _, spec in specs(cls)}
    [container] = pod()["containers"]
    secret = documents("settings.example.yaml")["Secret"]["stringData"]
    config = documents("settings.example.yaml")["ConfigMap"]["data"]
    for item in container["env"]:
        spec = known[item["name"]]
        source = item.get("valueFrom", {})
        assert ("secretKeyRef" in source) == spec.secret
        if spec.secret:
            assert source["secretKeyRef"]["key"] in secret
        elif "configMapKeyRef" in source:
            assert source["configMapKeyRef"]["key"] in config


def test_the_container_may_do_nothing_it_does_not_need() -> None:
    [container] = pod()["containers"]
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]


def test_the_probes_ask_the_paths_that_the_supervisor_serves() -> None:
    [container] = pod()["containers"]
    paths = {kind: container[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert documents("supervisor.yaml")["Deployment"]["spec"]["replicas"] == 2
