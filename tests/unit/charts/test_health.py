"""Which signals of health can be written in values, and what the operator reads of them."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from sunkpy.core.health.known import KNOWN
from sunkpy.operator.settings import OperatorSettings
from tests.unit.charts.rendering import ROOT, Refused, of_kind, render
from tests.unit.core.nodeset.build import make_node


def settings(**health: object) -> OperatorSettings:
    text = of_kind(render("sunkpy", {"health": health}), "ConfigMap")["demo-operator"]["data"]["config.yaml"]
    return msgspec.yaml.decode(text, type=OperatorSettings)


def test_nothing_counts_by_default() -> None:
    assert settings().health.rules.signals == {}


def test_the_operator_reads_what_values_say() -> None:
    signal = {"condition": "GpuFell", "patienceSeconds": 5, "cure": "reboot"}
    health = settings(sources=list(KNOWN), without=["NTPProblem"], signals={"gpu": signal}, maxPercent=10).health
    known = {name for rules in KNOWN.values() for name in rules}
    assert set(health.rules.signals) == {*known, "gpu"} - {"NTPProblem"}
    assert health.max_percent == 10


JOB = {
    "apiVersion": "batch/v1",
    "resource": "jobs",
    "namespace": "remedies",
    "manifest": {"kind": "Job", "spec": {"template": {"spec": {"nodeName": "$(NODE)"}}}},
}


def test_a_remedy_reaches_the_operator_as_it_is_written() -> None:
    signal = {"condition": "GpuFell", "cure": "reboot", "remedy": "reboot"}
    rules = settings(signals={"gpu": signal}, remedies={"reboot": JOB}).health.rules
    assert rules.remedies["reboot"].filled(make_node(1)).body("reboot-1") == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "reboot-1", "namespace": "remedies"},
        "spec": {"template": {"spec": {"nodeName": "n1"}}},
    }


CAPI = {"cluster.x-k8s.io/machine": "gpu-7", "cluster.x-k8s.io/cluster-namespace": "fleet"}


def test_the_examples_of_remedies_are_taken_and_say_what_their_programs_read() -> None:
    health = settings(**yaml.safe_load((ROOT / "docs/examples/remedies.yaml").read_text())["health"]).health
    at = make_node(1, annotations=CAPI)
    found = {name: remedy.filled(at) for name, remedy in health.rules.remedies.items()}
    assert set(found) == {"reboot", "kured", "nvsentinel", "gpu-reset", "terminate", "medik8s", "replace"}
    for name, kind in (("nvsentinel", "RebootNode"), ("gpu-reset", "GPUReset"), ("terminate", "TerminateNode")):
        assert found[name].body("x") == {
            "apiVersion": "janitor.dgxc.nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "x"},
            "spec": {"nodeName": "n1"},
        }  # fmt: skip
    assert found["medik8s"].body("x") == {
        "apiVersion": "self-node-remediation.medik8s.io/v1alpha1",
        "kind": "SelfNodeRemediation",
        "metadata": {
            "name": "x",
            "namespace": "self-node-remediation",
            "annotations": {"remediation.medik8s.io/node-name": "n1"},
        },
        "spec": {"remediationStrategy": "ResourceDeletion"},
    }
    for name in ("reboot", "kured"):
        body = found[name].body("x")
        assert (body["kind"], body["spec"]["template"]["spec"]["nodeName"]) == ("Job", "n1")
    machine = found["replace"]
    assert (machine.namespace, machine.name, machine.annotations) == (
        "fleet", "gpu-7", {"cluster.x-k8s.io/remediate-machine": ""},
    )  # fmt: skip
    assert health.annotations == set(CAPI)


def test_drain_requests_are_a_signal_once_values_name_them() -> None:
    assert "DrainRequest" not in settings(sources=["nvsentinel"]).health.rules.signals
    health = settings(drainRequests={"apiVersion": "nvsentinel.nvidia.com/v1alpha1", "condition": "Complete"}).health
    assert health.rules.signals["DrainRequest"].is_drain_request
    asked = health.drain_requests
    assert (asked.resource, asked.namespace, asked.condition) == ("drainrequests", "nvsentinel", "Complete")


def test_a_remedy_that_is_not_there_is_refused_by_name() -> None:
    signal = {"condition": "GpuFell", "cure": "reboot", "remedy": "reboot"}
    with pytest.raises(Refused, match=r"health\.signals\.gpu\.remedy: health\.remedies has no reboot"):
        settings(signals={"gpu": signal})


def test_two_weeks_of_patience_reach_the_operator_as_a_number() -> None:
    """Helm writes a million as 1e+06 into YAML."""
    assert settings(personAfterSeconds=1_209_600).health.person_after_seconds == 1_209_600


def checks(values: dict[str, object]) -> dict[str, str | None]:
    """What slurmd of each NodeSet looks at."""
    found = {}
    for name, nodeset in of_kind(render("slurm", values), "NodeSet").items():
        (slurmd,) = (each for each in nodeset["spec"]["template"]["spec"]["containers"] if each["name"] == "slurmd")
        found[name] = next((each["value"] for each in slurmd["env"] if each["name"] == "SUNKPY_CHECKS"), None)
    return found


CHECKED = {"conf": {"HealthCheckProgram": "/usr/local/bin/check-node", "HealthCheckInterval": 60}}


def test_nodes_are_checked_by_what_values_leave_on() -> None:
    both = {"cpu": {"checks": {"gpus": False, "disk": 0}}, "gpu": {"checks": {"rdma": 8}}}
    nodesets = of_kind(render("slurm", {"slurmConfig": CHECKED, "nodeSets": both}), "NodeSet").values()
    assert not any("checks" in nodeset["spec"] for nodeset in nodesets), "the apiserver does not know it"
    assert checks({"slurmConfig": CHECKED, "nodeSets": both}) == {
        "cpu": "clock=30 files memory zombies=100",
        "gpu": "clock=30 disk=95 files gpus memory rdma=8 zombies=100",
    }
    conf = of_kind(render("slurm", {"slurmConfig": CHECKED}), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"]
    assert "HealthCheckProgram=/usr/local/bin/check-node\n" in conf


def test_without_the_program_the_slurmd_pods_stay_as_they_are() -> None:
    assert checks({}) == {"compute": None}
    own = {"conf": {"HealthCheckProgram": "/site/nhc", "HealthCheckInterval": 60}}
    assert checks({"slurmConfig": own}) == {"compute": None}
