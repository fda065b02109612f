"""What says how full the volumes of a release are: where it runs, what it may read, and who may ask it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sunkpy.runtime.settings import decode
from sunkpy.volumes.settings import VolumesSettings
from tests.unit.charts.rendering import Refused, check_accepted, of_kind, render

ALWAYS = {"volumeMetrics": {"when": "always"}}
SETS = {"demo-slurmctld", "demo-mariadb"}


def pods(values: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    sets = of_kind(render("slurm", values), "StatefulSet")
    return {name: sets[name]["spec"]["template"]["spec"] for name in SETS & {*sets}}


def watching(values: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """The container of each pod that has one."""
    found = {name: [c for c in pod["containers"] if c["name"] == "volumes"] for name, pod in pods(values).items()}
    return {name: containers[0] for name, containers in found.items() if containers}


def settings(values: Mapping[str, object]) -> dict[str, VolumesSettings]:
    """As the process reads them."""
    found = {}
    for name, container in watching(values).items():
        command, text = container["args"]
        assert command == "volumes"
        found[name] = decode(text.removeprefix("--settings=").encode(), VolumesSettings, where=name)
    return found


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({}, set()),
        ({"podMonitor": {"enabled": True}}, SETS),
        ({"serviceMonitor": {"enabled": True}}, SETS),
        ({"podMonitor": {"enabled": True}, "volumeMetrics": {"when": "never"}}, set()),
        (ALWAYS, SETS),
        (ALWAYS | {"accounting": {"enabled": False}}, {"demo-slurmctld"}),
    ],
)
def test_it_runs_where_somebody_asks_for_it(values: Mapping[str, object], where: set[str]) -> None:
    assert set(watching(values)) == where
    for name, pod in pods(values).items():
        assert f"demo-{pod['containers'][0]['name']}" == name, "kubectl exec enters the first"


def test_another_time_is_refused() -> None:
    with pytest.raises(Refused, match="when"):
        render("slurm", {"volumeMetrics": {"when": "sometimes"}})


def test_it_looks_at_each_volume_of_its_pod_that_stays_and_at_what_is_saved_there() -> None:
    found = settings(ALWAYS)
    slurmctld, mariadb = found["demo-slurmctld"], found["demo-mariadb"]
    assert slurmctld.volumes == {
        "state-demo-slurmctld-0": "/volumes/state",
        "demo-state-backup": "/volumes/backup",
    }
    assert slurmctld.job_state == "/volumes/state/state/job_state"
    assert slurmctld.backups is not None
    assert (slurmctld.backups.of, slurmctld.backups.name, slurmctld.backups.late_after_seconds) == (
        "queue", "state", 14400,
    )  # fmt: skip
    assert mariadb.volumes == {"data-demo-mariadb-0": "/volumes/data", "demo-backup": "/volumes/backup"}
    assert mariadb.database == "/volumes/data/data/slurm_acct_db"
    assert mariadb.backups is not None
    assert (mariadb.backups.of, mariadb.backups.name, mariadb.backups.late_after_seconds) == (
        "database", "slurm_acct_db", 108000,
    )  # fmt: skip


@pytest.mark.parametrize("when", ["with backups", "without"])
def test_the_names_are_those_of_the_claims_that_its_pod_mounts(when: str) -> None:
    backup = {"backup": {"enabled": when == "with backups"}}
    values = ALWAYS | {"slurmctld": backup, "accounting": backup}
    for name, found in settings(values).items():
        mounted = {each["name"]: each["mountPath"] for each in watching(values)[name]["volumeMounts"]}
        by_claim = {mounted[v["name"]]: v["persistentVolumeClaim"]["claimName"] for v in pods(values)[name]["volumes"]
                    if v["name"] in mounted and "persistentVolumeClaim" in v}  # fmt: skip
        (template,) = of_kind(render("slurm", values), "StatefulSet")[name]["spec"]["volumeClaimTemplates"]
        own = template["metadata"]["name"]
        assert {path: claim for claim, path in found.volumes.items()} == by_claim | {mounted[own]: f"{own}-{name}-0"}
        assert (found.backups is None) is (when == "without")


def test_a_state_that_two_share_has_the_name_of_its_claim() -> None:
    two = {"replicas": 2, "persistence": {"accessModes": ["ReadWriteMany"]}}
    assert "demo-state" in settings(ALWAYS | {"slurmctld": two})["demo-slurmctld"].volumes
    named = {"persistence": {"existingClaim": "ours"}}
    assert "ours" in settings(ALWAYS | {"slurmctld": named})["demo-slurmctld"].volumes


def test_it_can_write_nothing_and_has_no_right_and_no_key() -> None:
    for name, container in watching(ALWAYS).items():
        assert all(mount["readOnly"] for mount in container["volumeMounts"]), name
        assert {mount["name"] for mount in container["volumeMounts"]} <= {"state", "data", "backup"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"] == {"requests": {"cpu": "5m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
        assert container["image"].startswith(render_image())
        pod = pods(ALWAYS)[name]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True


def render_image() -> str:
    deployment = of_kind(render("slurm"), "Deployment")["demo-syncer"]
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def test_with_a_secret_it_serves_over_tls_and_for_a_token() -> None:
    values = ALWAYS | {"metricsSecret": "seen"}
    for name, found in settings(values).items():
        (folder,) = (m["mountPath"] for m in watching(values)[name]["volumeMounts"] if m["name"] == "metrics")
        (secret,) = (v["secret"]["secretName"] for v in pods(values)[name]["volumes"] if v["name"] == "metrics")
        assert (found.http.secret_folder, secret) == (folder, "seen")


@pytest.mark.parametrize("values", [{"podMonitor": {"enabled": True}}, {"serviceMonitor": {"enabled": True}}])
def test_who_scrapes_finds_it_and_may_ask_it(values: Mapping[str, object]) -> None:
    manifests = render("slurm", values)
    for name in SETS:
        part = name.removeprefix("demo-")
        assert {"name": "http", "containerPort": 8080} in watching(values)[name]["ports"]
        asked = {"ports": [{"port": 8080, "protocol": "TCP"}]}
        assert asked in of_kind(manifests, "NetworkPolicy")[name]["spec"]["ingress"]
        assert asked not in of_kind(render("slurm"), "NetworkPolicy")[name]["spec"]["ingress"]
        if "podMonitor" in values:
            (monitor,) = of_kind(manifests, "PodMonitor").values()
            (parts,) = (each["values"] for each in monitor["spec"]["selector"]["matchExpressions"])
            assert part in parts
        else:
            selector = of_kind(manifests, "Service")[f"{name}-metrics"]["spec"]["selector"]
            labels = of_kind(manifests, "StatefulSet")[name]["spec"]["template"]["metadata"]["labels"]
            assert selector.items() <= labels.items()


@pytest.mark.parametrize("more", [{}, {"metricsSecret": "seen"}, {"accounting": {"backup": {"enabled": False}}}])
def test_kubernetes_takes_the_pods(more: Mapping[str, object]) -> None:
    sets = of_kind(render("slurm", ALWAYS | more), "StatefulSet")
    for name in SETS:
        check_accepted(sets[name])


def test_a_release_without_it_is_as_it_was() -> None:
    """Nobody's slurmctld restarts for what they do not use."""
    never = render("slurm", {"volumeMetrics": {"when": "never"}})
    assert json.dumps(never, sort_keys=True) == json.dumps(render("slurm"), sort_keys=True)
