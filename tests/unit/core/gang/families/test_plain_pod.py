"""Pods that stand for themselves: bare ones, those of Deployments and StatefulSets, and services built of these."""

from __future__ import annotations

import pytest

from sunkpy.core.gang.limits import within_limits
from tests.unit.core.gang.families.makers import bare, deployment, documents, job, jobs_of, seen, stateful_set, wanted
from tests.unit.core.gang.families.workload import manifest, owner, pod


def knative_revision(service):
    """What Knative makes of a Service: a Deployment, whose pods have its sidecar; the owners between are left out."""
    template = service["spec"]["template"]
    sidecar = {"name": "queue-proxy", "resources": {"requests": {"cpu": "25m"}}}
    spec = template["spec"] | {"containers": [*template["spec"]["containers"], sidecar]}
    meta = {"name": f"{service['metadata']['name']}-00001-deployment"}
    labels = {"serving.knative.dev/service": service["metadata"]["name"]}
    made = {"spec": {"replicas": 1, "template": {"metadata": {"labels": labels}, "spec": spec}}, "metadata": meta}
    return deployment({"apiVersion": "apps/v1", "kind": "Deployment", **made})


def job_manager():
    """The Deployment that Flink's operator makes."""
    return deployment(manifest("flink/10-jobmanager.shape.yaml")[0])


def task_managers():
    """Pods that the JobManager asks for: the Deployment owns them without a ReplicaSet between."""
    _, made = job_manager()[0]
    documents = manifest("flink/20-taskmanagers.shape.yaml")
    for each in documents:
        each["metadata"]["ownerReferences"][0]["uid"] = made.uid
    return [made], [bare(each, number) for number, each in enumerate(documents)]


def flink():
    """Parallelism 2 in slots of 2 is one TaskManager beside the JobManager."""
    owners, managers = job_manager()
    return owners, managers + task_managers()[1][:1]


EXPANDED = {
    "native/deployment.yaml": lambda: deployment(documents("native/deployment.yaml")["Deployment"]),
    "native/statefulset-ordered.yaml": lambda: stateful_set(manifest("native/statefulset-ordered.yaml")[-1]),
    "slurm-bridge/pod-sleep.yaml": lambda: ((), [bare(each) for each in manifest("slurm-bridge/pod-sleep.yaml")]),
    "yunikorn/sleeppods.yaml": lambda: ((), [bare(each) for each in manifest("yunikorn/sleeppods.yaml")]),
    "noderesourcetopology/test-deployment.yaml": lambda: deployment(
        documents("noderesourcetopology/test-deployment.yaml")["Deployment"]
    ),
    "knative/helloworld-go.yaml": lambda: knative_revision(manifest("knative/helloworld-go.yaml")[0]),
    "flink/10-jobmanager.shape.yaml": job_manager,
    "flink/20-taskmanagers.shape.yaml": task_managers,
    "flink/basic-native.yaml": flink,
}


@pytest.mark.parametrize("name", EXPANDED)
def test_each_pod_is_one_job(name):
    owners, pods = EXPANDED[name]()
    gangs = jobs_of(pods, owners)
    assert seen(gangs) == wanted(name)
    assert {gang.problems for gang in gangs} <= {(), gangs[0].problems}
    assert all(gang.is_complete and not gang.refused for gang in gangs)


def test_of_an_ordered_stateful_set_the_first_does_not_wait_for_the_next():
    owners, pods = stateful_set(manifest("native/statefulset-ordered.yaml")[-1], 1)
    (gang,) = jobs_of(pods, owners)
    assert gang.is_complete


def test_what_it_is_called_and_whether_it_comes_back():
    owners, (one, *_) = EXPANDED["native/deployment.yaml"]()
    (gang,) = jobs_of([one], owners)
    assert (gang.kind, gang.final_because) == (
        "Deployment default/nginx-deployment, pod nginx-deployment-7d4f-x0",
        "",
    )
    (unread,) = jobs_of([one])
    assert unread.kind == "ReplicaSet default/nginx-deployment-7d4f, pod nginx-deployment-7d4f-x0"
    (single,) = jobs_of([pod("lonely")])
    assert (single.kind, single.final_because) == ("Pod default/lonely", "nothing makes a bare pod again")


def test_an_object_that_is_only_referred_to_is_not_the_workload():
    group = owner({"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "q"}})
    (gang,) = jobs_of([pod("lonely")], [group])
    assert gang.kind == "Pod default/lonely"


def test_options_stand_on_the_pod_or_on_any_owner():
    owners, (one, *_) = EXPANDED["native/deployment.yaml"]()
    document = documents("native/deployment.yaml")["Deployment"]
    document["metadata"]["annotations"] = {"sunkpy.dev/partition": "low", "sunkpy.dev/qos": "normal"}
    (gang,) = jobs_of([pod("x", owned_by=owners, annotations={"sunkpy.dev/qos": "high"})], [owners[0], owner(document)])
    assert (gang.options.partition, gang.options.qos) == ("low", "high")
    assert one.uid


def test_a_gang_annotation_on_an_owner_is_answered():
    document = documents("native/deployment.yaml")["Deployment"]
    document["metadata"]["annotations"] = {"sunkpy.dev/gang": "x"}
    owners, (one, *_) = deployment(document)
    (gang,) = jobs_of([one], owners)
    assert [(str(each), each.fatal) for each in gang.problems] == [
        ("annotation sunkpy.dev/gang: has no effect on the owner of pods; write it into the pod template", False)
    ]


def pulsar():
    """The sets and the init Jobs of a Pulsar, which make their pods in parallel."""
    sets = [each for each in manifest("pulsar/cluster.rendered.yaml") if each["kind"] == "StatefulSet"]
    return [stateful_set(each) for each in sets]


def test_pulsar_is_one_job_per_pod_and_its_anti_affinity_is_not_refused():
    inits = [job(each) for each in manifest("pulsar/cluster.rendered.yaml") if each["kind"] == "Job"]
    gangs = [gang for owners, pods in (*pulsar(), *inits) for gang in jobs_of(pods, owners)]
    assert seen(gangs) == wanted("pulsar/cluster.rendered.yaml")
    assert {within_limits(gang, gpu_resources={}).refused for gang in gangs} == {""}
