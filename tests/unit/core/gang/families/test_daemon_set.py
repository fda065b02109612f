"""Pods of DaemonSets never queue."""

from __future__ import annotations

from tests.unit.core.gang.families.makers import documents, jobs_of, pods_of
from tests.unit.core.gang.families.workload import owner, pod


def daemon(node):
    made = owner(documents("native/daemonset-slurm.yaml")["DaemonSet"])
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    template = documents("native/daemonset-slurm.yaml")["DaemonSet"]["spec"]["template"]
    return made, pods_of(made, template, ["fluentd-x"], spec={"affinity": {"nodeAffinity": required}})


def test_a_daemon_goes_to_its_node_without_a_job():
    made, pods = daemon("node-1")
    (gang,) = jobs_of(pods, [made])
    assert gang.never_queues
    assert gang.kind == "DaemonSet kube-system/fluentd-by-slurm, pod fluentd-x"


def test_it_is_known_by_its_owner_reference_alone_whatever_it_says():
    made, _ = daemon("node-1")
    (gang,) = jobs_of([pod("x", owned_by=[made], annotations={"sunkpy.dev/gang": "a"})])
    assert gang.never_queues


def test_another_kind_of_that_name_is_none():
    kind = owner({"apiVersion": "apps.example.com/v1", "kind": "DaemonSet", "metadata": {"name": "d"}})
    (gang,) = jobs_of([pod("x", owned_by=[kind])], [kind])
    assert not gang.never_queues
