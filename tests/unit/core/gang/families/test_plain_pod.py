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


def bare_pods(path):
    """Pods that a person applied, which have no owner."""
    return (), [bare(each) for each in manifest(path)]


def job_manager(path):
    """The Deployment that Flink's operator makes."""
    return deployment(manifest(path)[0])


def task_managers(path):
    """Pods that the JobManager asks for: the Deployment owns them without a ReplicaSet between."""
    _, made = job_manager(path.with_name("10-jobmanager.shape.yaml"))[0]
    documents = manifest(path)
    for each in documents:
        each["metadata"]["ownerReferences"][0]["uid"] = made.uid
    return [made], [bare(each, number) for number, each in enumerate(documents)]


def flink(path):
    """Parallelism 2 in slots of 2 is one TaskManager beside the JobManager."""
    owners, managers = job_manager(path.with_name("10-jobmanager.shape.yaml"))
    return owners, managers + task_managers(path.with_name("20-taskmanagers.shape.yaml"))[1][:1]


EXPANDED = {
    "native/deployment.yaml": lambda path: deployment(documents(path)["Deployment"]),
    "native/statefulset-ordered.yaml": lambda path: stateful_set(manifest(path)[-1]),
    "kubespawner/singleuser.yaml": bare_pods,
    "slurm-bridge/pod-sleep.yaml": bare_pods,
    "yunikorn/sleeppods.yaml": bare_pods,
    "noderesourcetopology/test-deployment.yaml": lambda path: deployment(documents(path)["Deployment"]),
    "knative/helloworld-go.yaml": lambda path: knative_revision(manifest(path)[0]),
    "flink/10-jobmanager.shape.yaml": job_manager,
    "flink/20-taskmanagers.shape.yaml": task_managers,
    "flink/basic-native.yaml": flink,
}


def web():
    """A Deployment, and its ReplicaSet; its pods."""
    return deployment(documents("native/deployment.yaml")["Deployment"])


@pytest.mark.parametrize("name", EXPANDED)
def test_each_pod_is_one_job(name, manifests):
    owners, pods = EXPANDED[name](manifests / name)
    gangs = jobs_of(pods, owners)
    assert seen(gangs) == wanted(manifests / name)
    assert {gang.problems for gang in gangs} <= {(), gangs[0].problems}
    assert all(gang.is_complete and not gang.refused for gang in gangs)


def test_of_an_ordered_stateful_set_the_first_does_not_wait_for_the_next():
    owners, pods = stateful_set(manifest("native/statefulset-ordered.yaml")[-1], 1)
    (gang,) = jobs_of(pods, owners)
    assert gang.is_complete


def test_what_it_is_called_and_whether_it_comes_back():
    owners, (one, *_) = web()
    (gang,) = jobs_of([one], owners)
    assert (gang.kind, gang.final_because) == ("Deployment default/web, pod web-7d4f-x0", "")
    (unread,) = jobs_of([one])
    assert unread.kind == "ReplicaSet default/web-7d4f, pod web-7d4f-x0"
    (single,) = jobs_of([pod("lonely")])
    assert (single.kind, single.final_because) == ("Pod default/lonely", "nothing makes a bare pod again")


def test_an_object_that_is_only_referred_to_is_not_the_workload():
    group = owner({"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "q"}})
    (gang,) = jobs_of([pod("lonely")], [group])
    assert gang.kind == "Pod default/lonely"


def test_options_stand_on_the_pod_or_on_any_owner():
    owners, (one, *_) = web()
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


def test_pulsar_is_one_job_per_pod_and_its_anti_affinity_is_not_refused(manifests):
    path = manifests / "pulsar/cluster.rendered.yaml"
    makers = {"StatefulSet": stateful_set, "Job": job}
    made = [makers[each["kind"]](each) for each in manifest(path) if each["kind"] in makers]
    gangs = [gang for owners, pods in made for gang in jobs_of(pods, owners)]
    assert seen(gangs) == wanted(path)
    assert {within_limits(gang, gpu_resources={}).refused for gang in gangs} == {""}
