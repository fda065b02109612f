"""Pods of DaemonSets never queue, where an administrator lets them."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.gang.families import configured
from tests.unit.core.gang.families.makers import documents, pods_of
from tests.unit.core.gang.families.workload import gang, owner, pod

KNOWN = configured((), daemons_in=("kube-system",), gpu_resources=("nvidia.com/gpu",))
MADE = owner(documents("native/daemonset-slurm.yaml")["DaemonSet"])
NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}


def daemon(**spec):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NAMED]}}
    template = documents("native/daemonset-slurm.yaml")["DaemonSet"]["spec"]["template"]
    (one,) = pods_of(MADE, template, ["shipper-x"], spec={"affinity": {"nodeAffinity": required}} | spec)
    return one


def moved(thing, namespace):
    return msgspec.structs.replace(thing, metadata=msgspec.structs.replace(thing.metadata, namespace=namespace))


def test_a_daemon_goes_to_its_node_without_a_job():
    made = gang([daemon()], [MADE], known=KNOWN)
    assert made.never_queues
    assert made.kind == "DaemonSet kube-system/shipper, pod shipper-x"


def test_it_is_known_by_its_owner_whatever_it_says():
    one = moved(pod("x", owned_by=[MADE], annotations={"sunkpy.dev/gang": "a"}), "kube-system")
    assert gang([one], [MADE], known=KNOWN).never_queues


def test_another_kind_of_that_name_is_none():
    kind = owner({"apiVersion": "apps.example.com/v1", "kind": "DaemonSet", "metadata": {"name": "d"}})
    assert not gang([moved(pod("x", owned_by=[kind]), "kube-system")], [kind], known=KNOWN).never_queues


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([], id="it does not exist"),
        pytest.param([owner({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "r"}})], id="another"),
        pytest.param([owner(documents("native/daemonset-slurm.yaml")["DaemonSet"], uid="later")], id="another uid"),
    ],
)
def test_a_reference_to_a_daemon_set_that_was_not_read_makes_a_pod_like_others(owners):
    made = gang([daemon()], owners, known=KNOWN)
    assert (made.never_queues, made.refused, made.seats) == (False, "", 1)


def test_in_a_namespace_that_is_not_listed_it_is_a_pod_like_others():
    made = gang([moved(daemon(), "team-a")], [moved(MADE, "team-a")], known=KNOWN)
    assert (made.never_queues, made.refused, made.seats) == (False, "", 1)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        {"resourceClaims": [{"name": "gpu"}]},
    ],
)
def test_who_asks_for_what_slurm_shares_out_is_a_pod_like_others(spec):
    assert not gang([daemon(**spec)], [MADE], known=KNOWN).never_queues
