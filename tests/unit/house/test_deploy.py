"""The Kubernetes manifests agree with the defaults of the program, and the image with what agents need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from protocols.gates.feedback import Rounds
from protocols.shares import inert_rules, shares_of
from supervisor import settings
from supervisor.settings import AREAS
from supervisor.settings.areas import Drain
from supervisor.settings.reader import specs
from supervisor.version import VERSION

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "kubernetes"
CLOSING_S = 10
VLAM_CHECK_S = 5 * 20
MANIFESTS = {"supervisor.yaml": "harvest", "enrich.yaml": "enrich"}
"""By file the role of its pods."""

pytestmark = pytest.mark.parametrize("name", MANIFESTS)


def documents(name: str) -> dict[str, Any]:
    """The documents of a manifest by kind."""
    return {found["kind"]: found for found in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))}


def pod(name: str) -> dict[str, Any]:
    return documents(name)["Deployment"]["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def environ_of(name: str) -> dict[str, str]:
    [container] = pod(name)["containers"]
    return {item["name"]: item["value"] for item in container["env"] if "value" in item}


def test_the_grace_period_is_longer_than_the_longest_drain(name: str) -> None:
    drain_s = float(environ_of(name)["SUPERVISOR_DRAIN_SECS"])
    assert drain_s == Drain().drain_s
    assert pod(name)["terminationGracePeriodSeconds"] > drain_s + CLOSING_S


# SD-02
def test_a_supervisor_knows_its_grace_period_and_refuses_a_drain_that_outlasts_it(name: str) -> None:
    environ = environ_of(name)
    assert float(environ["SUPERVISOR_GRACE_PERIOD_SECS"]) == pod(name)["terminationGracePeriodSeconds"]
    assert _drain_faults(environ) == []
    assert len(_drain_faults({**environ, "SUPERVISOR_DRAIN_SECS": "40"})) == 1


def _drain_faults(environ: dict[str, str]) -> list[str]:
    """What a pod with this environment says of its drain before it refuses to start."""
    try:
        settings.load(environ)
    except settings.SettingsFault as fault:
        return [line for line in str(fault).splitlines() if "SUPERVISOR_GRACE_PERIOD_SECS" in line]
    return []


def test_every_variable_is_a_setting_and_every_secret_one_comes_from_a_secret(name: str) -> None:
    known = {spec.name: spec for cls in AREAS for _, spec in specs(cls)}
    [container] = pod(name)["containers"]
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


def test_the_container_may_do_nothing_it_does_not_need(name: str) -> None:
    [container] = pod(name)["containers"]
    assert pod(name)["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]


def test_the_probes_ask_the_paths_that_the_supervisor_serves(name: str) -> None:
    [container] = pod(name)["containers"]
    paths = {kind: container[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert documents(name)["Deployment"]["spec"]["replicas"] == 2


@pytest.mark.claim("C-027")
def test_each_manifest_runs_its_role_and_its_pods_are_nobody_elses(name: str) -> None:
    [container] = pod(name)["containers"]
    assert container["args"] == ["run", "--roles", MANIFESTS[name]]
    assert container["image"] == f"regelrecht-supervisor:{VERSION}"
    found = documents(name)
    label = found["Deployment"]["spec"]["selector"]["matchLabels"]
    assert label == found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert (
        label == found["Service"]["spec"]["selector"] == found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    )
    others = [documents(other)["Deployment"]["spec"]["selector"]["matchLabels"] for other in MANIFESTS if other != name]
    assert label not in others


def test_pods_for_enrichment_have_room_for_their_agents_and_time_for_every_limit(name: str) -> None:
    if MANIFESTS[name] != "enrich":
        assert "ENRICH_MAX_RSS_MB" not in environ_of(name)
        return
    [container] = pod(name)["containers"]
    environ = environ_of(name)
    limit_mb = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024
    assert int(environ["ENRICH_MAX_RSS_MB"]) * int(environ["ENRICH_CONCURRENCY"]) + 256 <= limit_mb
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > VLAM_CHECK_S
    shares = shares_of(float(environ["WORKER_JOB_TIMEOUT_SECS"]), float(environ["LLM_TIMEOUT_SECS"]), Rounds())
    told = inert_rules(shares, idle_s=600.0, retry_s=float(environ["ENRICH_AGENT_RETRY_SECS"]))
    assert told == ()
    # opencode's own search needs this program, and would fetch it.
    assert " ripgrep " in (ROOT / "Dockerfile").read_text(encoding="utf-8")
