"""A 0 in the values is a 0 in what the chart makes, or it is refused: it is not the default."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import Manifest, Refused, of_kind, render
from tests.unit.charts.restarts import KEY


def _conf(values: Mapping[str, object]) -> Mapping[str, str]:
    data: Mapping[str, str] = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]
    return data


@pytest.mark.parametrize(("values", "tier"), [({"priorityTier": 0}, 0), ({"priorityTier": 7}, 7), ({}, 1)])
def test_the_lowest_partition_is_below_one_without_a_tier(values: dict[str, object], tier: int):
    lines = _conf({"partitions": {"scavenger": values}})["slurm.conf"].splitlines()
    assert f"PartitionName=scavenger Nodes=ALL PriorityTier={tier}" in lines


@pytest.mark.parametrize(("seconds", "waited"), [(0, "0"), (7, "7"), (None, "30")])
def test_the_epilog_waits_as_long_as_slurm_before_it_kills(seconds: int | None, waited: str):
    files = _conf({"slurmConfig": {"conf": {"KillWait": seconds}}})
    assert f': "${{SUNKPY_KILL_WAIT_S:={waited}}}"' in files["epilog.sh"].splitlines()
    assert (f"KillWait={seconds}" in files["slurm.conf"].splitlines()) is (seconds is not None)


@pytest.mark.parametrize("field", ["maxTime", "defaultTime"])
@pytest.mark.parametrize("time", [0, "0", "00:00", "0-00:00:00"])
def test_a_time_limit_of_zero_is_refused(field: str, time: object):
    with pytest.raises(Refused, match=f"/partitions/short/{field}"):
        render("slurm", {"partitions": {"short": {field: time}}})


def _service(manifests: list[Manifest]) -> Mapping[str, object]:
    spec: Mapping[str, object] = of_kind(manifests, "Service")["demo-gpu-login"]["spec"]
    return spec


def test_login_pods_of_a_set_can_leave_out_what_the_others_have():
    ours = {"type": "NodePort", "nodePort": 30022, "loadBalancerSourceRanges": ["192.0.2.0/24"]}
    values = {
        "users": {"people": {"ann": {"uid": 2001, "sshKeys": [KEY]}}},
        "login": {
            "ssh": {"service": ours},
            "sets": {"gpu": {"service": {"nodePort": 0, "loadBalancerSourceRanges": []}}},
        },
    }
    spec = _service(render("slurm", values))
    assert (spec["type"], spec["ports"]) == ("NodePort", [{"name": "ssh", "port": 22, "targetPort": "ssh"}])
    assert "loadBalancerSourceRanges" not in spec
