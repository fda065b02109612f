"""A second slurmctld on another machine: what says that there are two, and what they share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.charts.rendering import Manifest, Refused, of_kind, render

SHARED = {"accessModes": ["ReadWriteMany"], "storageClass": "nfs"}
TWO = {"slurmctld": {"replicas": 2, "persistence": SHARED}}
ADDRESSES = "demo-slurmctld:6817,demo-slurmctld-1:6817"
APART = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {
        "matchLabels": {
            "app.kubernetes.io/name": "slurm",
            "app.kubernetes.io/instance": "demo",
            "app.kubernetes.io/component": "slurmctld",
        }
    },
}


def _slurmctld(values: Mapping[str, object]) -> Manifest:
    return of_kind(render("slurm", values), "StatefulSet")["demo-slurmctld"]["spec"]


def _conf(values: Mapping[str, object]) -> list[str]:
    return of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"].splitlines()


def _volumes(pod: Mapping[str, object]) -> dict[str, str]:
    claims = {each["name"]: each.get("persistentVolumeClaim") for each in pod["volumes"]}
    return {name: claim["claimName"] for name, claim in claims.items() if claim}


def _lines(values: Mapping[str, object], key: str) -> list[str]:
    return [line for line in _conf(values) if line.startswith(f"{key}=")]


def test_slurm_knows_both_and_each_has_an_address():
    assert _lines(TWO, "SlurmctldHost") == [
        "SlurmctldHost=demo-slurmctld-0(demo-slurmctld)",
        "SlurmctldHost=demo-slurmctld-1(demo-slurmctld-1)",
    ]
    services = of_kind(render("slurm", TWO), "Service")
    for service, pod in (("demo-slurmctld", "demo-slurmctld-0"), ("demo-slurmctld-1", "demo-slurmctld-1")):
        spec = services[service]["spec"]
        assert spec["selector"]["statefulset.kubernetes.io/pod-name"] == pod
        assert not spec.get("publishNotReadyAddresses"), "one on a dead machine would cost each call its timeout"


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe"])
def test_each_is_ready_by_its_own_answer_and_the_second_while_it_waits(probe: str, tmp_path: Path):
    """The first slurmctld, until now the only one, restarts only when the second is ready."""
    (container,) = _slurmctld(TWO)["template"]["spec"]["containers"]
    shell, *words = (word.replace("/run/slurmctld", str(tmp_path)) for word in container[probe]["exec"]["command"])
    (tmp_path / "scontrol").write_text('#!/bin/sh\necho "$1 with $SLURM_CONF"\n')
    (tmp_path / "scontrol").chmod(0o755)

    def says() -> str:
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return subprocess.run([shell, *words], env=env, capture_output=True, text=True, check=True).stdout.strip()

    assert says() == f"ping with {tmp_path}/own.conf"
    (tmp_path / "waits").touch()
    assert says() == ""


def test_nodes_and_login_pods_ask_both():
    manifests = render("slurm", TWO)
    slurmd = of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"]["containers"][0]
    login = of_kind(manifests, "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    asking = [each for each in (slurmd, *login["containers"], *login["initContainers"]) if each.get("env")]
    servers = [each["value"] for one in asking for each in one["env"] if each["name"] == "SUNKPY_CONF_SERVER"]
    assert servers == [ADDRESSES, ADDRESSES]


def test_they_are_on_two_machines_with_one_volume_and_leave_one_after_the_other():
    spec = _slurmctld(TWO)
    pod = spec["template"]["spec"]
    assert (spec["replicas"], spec.get("volumeClaimTemplates")) == (2, None)
    assert pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == [APART]
    assert "nodeAffinity" in pod["affinity"]
    manifests = render("slurm", TWO)
    claims = of_kind(manifests, "PersistentVolumeClaim")
    for claim in _volumes(pod).values():
        assert claims[claim]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claims["demo-state"]["spec"]["storageClassName"] == "nfs"
    assert claims["demo-state"]["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    backup = of_kind(manifests, "CronJob")["demo-state-backup"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert _volumes(backup)["state"] == "demo-state"
    assert of_kind(manifests, "PodDisruptionBudget")["demo-slurmctld"]["spec"]["maxUnavailable"] == 1


def test_one_that_can_become_two_backs_up_to_a_volume_for_both():
    manifests = render("slurm", {"slurmctld": {"persistence": SHARED}})
    claims = of_kind(manifests, "PersistentVolumeClaim")
    assert claims["demo-state-backup"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claims["demo-backup"]["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_an_affinity_of_the_admins_still_keeps_them_apart():
    own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    values = {"slurmctld": {**TWO["slurmctld"], "affinity": own}}
    affinity = _slurmctld(values)["template"]["spec"]["affinity"]
    assert affinity == {**own, "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}


def test_a_claim_of_ones_own_holds_the_state():
    values = {"slurmctld": {"replicas": 2, "persistence": {"existingClaim": "mine"}}}
    assert _volumes(_slurmctld(values)["template"]["spec"])["state"] == "mine"
    assert "demo-state" not in of_kind(render("slurm", values), "PersistentVolumeClaim")


def test_the_second_waits_as_long_as_the_chart_or_the_admin_says():
    patient = {**TWO, "slurmConfig": {"conf": {"slurmctldTimeout": 90}}}
    assert _lines(TWO, "SlurmctldTimeout") == ["SlurmctldTimeout=30"]
    assert [line for line in _conf(patient) if "timeout=" in line.lower() and "slurmctld" in line.lower()] == [
        "slurmctldTimeout=90"
    ]
    assert not _lines({}, "SlurmctldTimeout")


def test_the_pid_file_of_one_is_not_taken_for_that_of_the_other():
    assert _lines(TWO, "SlurmctldPidFile") == ["SlurmctldPidFile=/run/slurmctld/slurmctld.pid"]
    assert _lines({}, "SlurmctldPidFile") == ["SlurmctldPidFile=/var/lib/slurm/state/slurmctld.pid"]


@pytest.mark.parametrize(
    ("slurmctld", "says"),
    [
        (
            {"replicas": 2},
            r"replicas: two slurmctld need a volume that both can mount. Set slurmctld.persistence.accessModes: "
            r"\[ReadWriteMany\]",
        ),
        ({"replicas": 3, "persistence": SHARED}, "/slurmctld/replicas"),
        ({"persistence": {"accessModes": []}}, "/slurmctld/persistence/accessModes"),
    ],
)
def test_what_cannot_be_shared_is_refused(slurmctld: Mapping[str, object], says: str):
    with pytest.raises(Refused, match=says):
        render("slurm", {"slurmctld": slurmctld})
