"""RayClusters as KubeRay makes them, alone and below RayJob and RayService."""

import copy

import pytest

from sunkpy.core.gang.families import ray
from sunkpy.core.gang.gang import Suspension
from tests.unit.core.gang.families.wanted import left_out, size, wanted
from tests.unit.core.gang.families.workload import gang, gangs, manifest, owner, pod, seats

AUTOSCALER = {"name": "autoscaler", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}
WAIT = {"name": "wait-gcs-ready", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
CLUSTER, SERVICE, JOB = (f"kuberay/ray-{kind}-sample.yaml" for kind in ("cluster", "service", "job"))


def cluster_of(document):
    """The RayCluster that a RayJob or RayService makes, or the document itself, and the owners above a pod of it."""
    spec = document["spec"].get("rayClusterSpec") or document["spec"].get("rayClusterConfig")
    if spec is None:
        return document, (owner(document),)
    top = owner(document)
    made = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": f"{document['metadata']['name']}-abcde"},
        "spec": spec,
    }
    return made, (owner(made), top)


def labels(cluster, kind, group):
    return {"ray.io/cluster": cluster["metadata"]["name"], "ray.io/node-type": kind, "ray.io/group": group}


def pods_of(document, *, more=0, indexed=False):
    """What KubeRay makes of it: head and workers; `more` replicas of each group were added by the autoscaler."""
    cluster, owners = cluster_of(document)
    spec = cluster["spec"]
    template = text_of(spec["headGroupSpec"]["template"])
    if spec.get("enableInTreeAutoscaling"):
        template["spec"]["containers"].append(AUTOSCALER)
    name = cluster["metadata"]["name"]
    head = pod(f"{name}-head", owned_by=owners, template=template, labels=labels(cluster, "head", "headgroup"))
    workers = []
    for group in spec["workerGroupSpecs"]:
        template = text_of(group["template"])
        template["spec"]["initContainers"] = [WAIT]
        for replica in range(group["replicas"] + more):
            for host in range(group.get("numOfHosts", 1)):
                own = labels(cluster, "worker", group["groupName"])
                if indexed:
                    own |= {
                        ray.REPLICA_NAME: f"{group['groupName']}-r{replica}",
                        ray.REPLICA_INDEX: str(replica),
                        ray.HOST_INDEX: str(host),
                    }
                made_at = f"2026-01-01T00:00:{len(workers):02}Z"
                workers.append(
                    pod(
                        f"{name}-{group['groupName']}-{replica}-{host}",
                        owned_by=owners,
                        template=template,
                        labels=own,
                        creationTimestamp=made_at,
                    )
                )
    return [head, *workers], owners


def text_of(template):
    """A template as Kubernetes writes it into a pod: amounts are text."""
    template = copy.deepcopy(template)
    for container in template["spec"]["containers"]:
        for amounts in container.get("resources", {}).values():
            amounts.update({name: str(amount) for name, amount in amounts.items()})
    return template


def sample(path, **fields):
    (document,) = manifest(path)
    document["spec"].update(fields)
    return document


def grouped(**group):
    """The sample cluster with another worker group."""
    document = sample(CLUSTER)
    document["spec"]["workerGroupSpecs"][0].update(group)
    return document


SAMPLES = (CLUSTER, "kuberay/ray-cluster-autoscaler.yaml", SERVICE, JOB, "kuberay/ray-cluster-volcano-scheduler.yaml")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_become_the_jobs_that_are_wanted(name, manifests):
    pods, owners = pods_of(sample(manifests / name))
    made = gangs(pods, owners)
    assert [size(each) for each in made] == wanted(manifests / name)
    assert all(each.is_complete for each in made)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_templates_ask_for_what_the_pods_will_ask(name, manifests):
    pods, owners = pods_of(sample(manifests / name))
    (made,) = gangs(pods, owners)
    (only_head,) = gangs(pods[:1], owners)
    assert size(only_head) == size(made)


def test_the_job_waits_for_head_and_workers_and_the_head_decides():
    pods, owners = pods_of(grouped(replicas=3))
    made = gang(pods, owners)
    assert [(role.name, role.first, role.decides) for role in made.roles] == [
        ("head", 1, True),
        ("trials", 3, False),
    ]
    assert not gang(pods[:3], owners).is_complete
    assert made.is_complete
    assert made.kind == "RayCluster default/tune"
    assert made.expects_more
    assert made.final_because == ""


def test_workers_that_the_autoscaler_adds_have_no_place():
    document = grouped(replicas=1, minReplicas=1)
    document["spec"]["enableInTreeAutoscaling"] = True
    pods, owners = pods_of(document, more=2)
    made = gang(pods, owners)
    assert made.seats == 2
    assert [each.name for each in left_out(pods, made)] == [
        "tune-trials-1-0",
        "tune-trials-2-0",
    ]


@pytest.mark.parametrize(
    ("group", "workers"),
    [
        ({"replicas": 2, "minReplicas": 1, "maxReplicas": 5}, 2),
        ({"replicas": 0, "minReplicas": 1, "maxReplicas": 5}, 1),
        ({"replicas": 9, "minReplicas": 1, "maxReplicas": 5}, 5),
        ({"replicas": 2, "minReplicas": 0, "maxReplicas": 5, "numOfHosts": 4}, 8),
        ({"replicas": 2, "suspend": True}, 0),
    ],
)
def test_a_group_has_as_many_places_as_kuberay_makes_pods(group, workers):
    pods, owners = pods_of(grouped(**group))
    assert gang(pods, owners).seats == 1 + workers


def scaled(**group):
    document = grouped(**({"replicas": 1, "minReplicas": 1, "maxReplicas": 9, "numOfHosts": 2} | group))
    document["spec"]["enableInTreeAutoscaling"] = True
    return document


def test_a_replica_of_several_hosts_that_was_added_is_one_gang():
    pods, owners = pods_of(scaled(), more=2, indexed=True)
    base, *added = gangs(pods, owners)
    assert base.seats == 3
    assert [(each.id.unit, seats(each)["trials"][:2]) for each in added] == [
        ("trials-r1", (2, 2)),
        ("trials-r2", (2, 2)),
    ]
    assert not gang(pods[3:4], owners).is_complete
    assert added[0].suspension is None
    assert not added[0].expects_more


def test_before_kuberay_1_6_nobody_can_tell_the_replicas_apart():
    pods, owners = pods_of(scaled(), more=1)
    (made,) = gangs(pods, owners)
    assert made.seats == 3
    assert len(left_out(pods, made)) == 2


def test_numbered_workers_take_their_own_places():
    pods, owners = pods_of(grouped(replicas=2, numOfHosts=2), indexed=True)
    made = gang([pods[0], *reversed(pods[1:])], owners)
    assert [index for _, index in seats(made)["trials"][2]] == [0, 1, 2, 3]


def test_an_upgrade_of_a_service_is_a_second_cluster_beside_the_first():
    document = sample(SERVICE)
    pods, owners = pods_of(document)
    newer = owner(cluster_of(document)[0], name="answers-fghij", uid="uid-of-newer")
    second = pod(
        "newer-head",
        owned_by=(newer,),
        labels={"ray.io/node-type": "head", "ray.io/cluster": "answers-fghij"},
    )
    assert gang([second], (newer, owners[1])).id != gang(pods, owners).id
    made = gang(pods, owners)
    assert made.kind == "RayService default/answers, RayCluster default/answers-abcde"
    assert made.suspension is None


def test_the_submitter_of_a_ray_job_is_not_of_the_cluster():
    job = owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sweep"}})
    assert ray.FAMILY.identify(pod("sweep-x", owned_by=(job,)), (job,)) is None


@pytest.mark.parametrize(
    ("fields", "final", "suspends"),
    [
        ({}, True, None),
        ({"backoffLimit": 2}, False, None),
        ({"shutdownAfterJobFinishes": True}, True, "RayJob"),
    ],
)
def test_an_evicted_ray_job_fails_unless_it_may_be_tried_again(fields, final, suspends):
    pods, owners = pods_of(sample(JOB, **fields))
    made = gang(pods, owners)
    assert made.final_because == (
        "the Ray job is lost with its head, and RayJob default/sweep has spec.backoffLimit 0: it ends Failed"
        if final
        else ""
    )
    assert (made.suspension and made.suspension.owner.kind) == suspends


def test_a_cluster_can_be_suspended_and_then_expects_no_more():
    pods, owners = pods_of(sample(CLUSTER))
    assert gang(pods, owners).suspension == Suspension(owner=owners[0], path=("spec", "suspend"))
    pods, owners = pods_of(sample(CLUSTER, suspend=True))
    assert not gang(pods, owners).expects_more


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ({"replicas": -1, "minReplicas": 0}, "worker group trials: replicas is -1, and must be at least 0"),
        ({"minReplicas": -2}, "worker group trials: minReplicas is -2, and must be at least 0"),
        (
            {"minReplicas": 3, "maxReplicas": 1},
            "worker group trials: minReplicas 3 is above maxReplicas 1",
        ),
        ({"numOfHosts": 0}, "worker group trials: numOfHosts is 0, and must be at least 1"),
    ],
)
def test_a_contradiction_is_refused_by_name(group, why):
    made = gang(pods_of(sample(CLUSTER))[0], (owner(grouped(**group)),))
    assert made.refused == f"RayCluster default/tune: {why}"
    assert len(made.members) == 2


def test_without_its_cluster_the_size_is_not_known():
    pods, owners = pods_of(sample(CLUSTER))
    assert gang(pods).id == gang(pods, owners).id
    assert gang(pods).refused == (
        "RayCluster default/tune could not be read, and only it says how many pods there will be"
    )


def test_a_worker_that_ended_gives_its_place_to_the_next():
    pods, owners = pods_of(grouped(replicas=2))
    over = pod(
        "old",
        owned_by=owners,
        labels=dict(pods[1].labels),
        status={"phase": "Failed"},
        creationTimestamp="2025-01-01T00:00:00Z",
    )
    made = gang([*pods, over], owners)
    assert {each.name for each in made.members} == {each.name for each in (*pods, over)}
    assert made.seats == 3
