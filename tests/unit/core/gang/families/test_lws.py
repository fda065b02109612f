"""LeaderWorkerSets: a gang per group, the leader before its workers."""

from __future__ import annotations

import json

import msgspec
import pytest

from sunkpy.core.gang.families import lws
from sunkpy.core.model.objects import Owner
from tests.unit.core.gang.families.expected import asked, problems, template_of, wanted
from tests.unit.core.gang.families.workload import gang, gangs, manifest, owner, pod, seats

LABEL = "leaderworkerset.sigs.k8s.io/"
NOTHING = {"spec": {"containers": [{}]}}


def set_of(size, *, annotations=None, **spec):
    document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm", "annotations": annotations or {}},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": size, "workerTemplate": NOTHING}, **spec},
    }
    return owner(document)


def stateful_set(name, controller):
    reference = {"apiVersion": controller.api_version, "kind": controller.kind, "name": controller.name}
    reference |= {"uid": controller.uid, "controller": True}
    document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"ownerReferences": [reference]}}
    return owner(document, name=name, uid=f"uid-of-set-{name}-{controller.uid}")


def as_owner(made):
    """A pod as its StatefulSet's owner."""
    return msgspec.json.decode(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": msgspec.to_builtins(made.metadata)}), type=Owner
    )


def group(workload, index, *, leader_only=False, made=0):
    """(leader, workers) of a group, each with the owners that the scheduler sees; `made`: how often before."""
    template = msgspec.json.decode(workload.spec)["leaderWorkerTemplate"]
    size = template.get("size", 1)
    leaders = stateful_set(workload.name, workload)
    leader = _pod(workload, leaders, template.get("leaderTemplate") or template["workerTemplate"], (index, 0, made))
    workers = stateful_set(leader.name, as_owner(leader))
    numbers = () if leader_only else range(1, size)
    return [
        (leader, (leaders, workload)),
        *(
            (_pod(workload, workers, template["workerTemplate"], (index, number, made)), (workers, workload))
            for number in numbers
        ),
    ]


def _pod(workload, controller, template, place):
    index, number, made = place
    size = msgspec.json.decode(workload.spec)["leaderWorkerTemplate"].get("size", 1)
    exclusive = {key: each for key, each in workload.annotations.items() if key == lws.EXCLUSIVE}
    name = f"{workload.name}-{index}" + (f"-{number}" if number else "")
    return pod(
        name,
        uid=f"uid-of-{name}-{made}",
        owned_by=[controller],
        template=template_of(template),
        labels={
            lws.NAME: workload.name,
            lws.GROUP: str(index),
            lws.WORKER: str(number),
            lws.GROUP_KEY: f"hash-of-{workload.name}-{index}",
        },
        annotations={lws.SIZE: str(size)} | exclusive,
        namespace=workload.metadata.namespace,
    )


def gangs_of(pairs):
    """The gangs of pods of which each has its own owners."""
    ids = {}
    for made, owners in pairs:
        ids.setdefault(lws.FAMILY.identify(made, owners), []).append((made, owners))
    return [lws.FAMILY.assemble(id, [made for made, _ in own], own[0][1]) for id, own in ids.items()]


@pytest.mark.parametrize(
    ("name", "leader_only"),
    [
        ("lws/lws.yaml", False),
        ("lws/lws-restart-policy.yaml", False),
        ("lws/lws-leader-ready.yaml", True),
        ("lws/lws-leader-ready.yaml", False),
        ("lws/vllm-gpu.yaml", False),
        ("slurm-bridge/lws.yaml", False),
    ],
)
def test_a_manifest_becomes_one_job_per_group(name, leader_only, manifests):
    workload = owner(manifest(manifests / name)[0])
    replicas = msgspec.json.decode(workload.spec)["replicas"]
    pairs = [pair for index in range(replicas) for pair in group(workload, index, leader_only=leader_only)]
    made = gangs_of(pairs)
    assert sorted(asked(each) for each in made) == wanted(manifests / name)
    assert all(each.is_complete and each.final_because == "" and each.expects_more for each in made)
    assert [each.id.unit for each in made] == [f"group-{index}" for index in range(replicas)]


@pytest.mark.parametrize(
    ("spec", "annotations", "first"),
    [
        ({}, {}, 3),
        ({"startupPolicy": "LeaderCreated"}, {}, 3),
        ({"startupPolicy": "LeaderReady"}, {}, 0),
        ({}, {lws.EXCLUSIVE: "rack"}, 0),
    ],
)
def test_how_many_workers_exist_before_the_leader_runs(spec, annotations, first):
    workload = set_of(4, annotations=annotations, **spec)
    (one,) = gangs_of(group(workload, 1))
    assert seats(one) == {
        "leader": (1, 1, [("llm-1", 0)]),
        "worker": (3, first, [("llm-1-1", 0), ("llm-1-2", 1), ("llm-1-3", 2)]),
    }
    assert one.one_domain == annotations.get(lws.EXCLUSIVE, "")
    assert one.kind == "LeaderWorkerSet default/llm, group 1"


def test_leader_and_workers_are_one_gang_and_a_recreated_group_is_another():
    workload = set_of(3)
    ids = {lws.FAMILY.identify(*pair) for pair in group(workload, 0)}
    again = {lws.FAMILY.identify(*pair) for pair in group(workload, 0, made=1)}
    assert (len(ids), len(again), ids & again) == (1, 1, set())
    (old,), (new,) = ids, again
    assert (old.uid, old.unit) == (new.uid, new.unit)
    assert old.generation == "uid-of-llm-0-0"


@pytest.mark.parametrize(
    ("annotations", "refused"),
    [
        ({}, ""),
        ({lws.SUBGROUP_SIZE: "2"}, ""),
        ({lws.SUBGROUP_SIZE: "4", lws.SUBGROUP_EXCLUSIVE: "rack"}, ""),
        ({lws.SUBGROUP_SIZE: "5", lws.SUBGROUP_EXCLUSIVE: "rack"}, ""),
        (
            {lws.SUBGROUP_SIZE: "2", lws.SUBGROUP_EXCLUSIVE: "rack"},
            "its subgroups of 2 pods must have a rack each: Slurm can only keep the whole job within one",
        ),
    ],
)
def test_subgroups_with_a_domain_each_are_refused_while_only_the_leader_is_there(annotations, refused):
    ((leader, owners),) = group(set_of(5, startupPolicy="LeaderReady"), 0, leader_only=True)
    meta = msgspec.structs.replace(leader.metadata, annotations=leader.annotations | annotations)
    (one,) = gangs_of([(msgspec.structs.replace(leader, metadata=meta), owners)])
    assert one.refused == refused


def test_a_group_of_one_is_its_leader():
    (one,) = gangs_of(group(set_of(1), 0))
    assert seats(one) == {"leader": (1, 1, [("llm-0", 0)]), "worker": (0, 0, [])}


def test_without_its_leader_a_group_expects_no_more():
    workload = set_of(3)
    _, *workers = group(workload, 0)
    (one,) = gangs_of(workers)
    assert not one.expects_more
    assert not one.is_complete


def test_a_set_that_cannot_be_read_still_has_groups_of_the_size_that_its_pods_say():
    pairs = [(made, owners[:1]) for made, owners in group(set_of(3), 0)]
    (one,) = gangs_of(pairs)
    assert (one.seats, one.id.uid, problems(one)) == (3, "hash-of-llm-0", [])
    assert not one.expects_more


@pytest.mark.parametrize("size", ["0", "-2", "many", "9" * 30])
def test_a_broken_size_is_told_and_not_submitted(size):
    (made, owners), *_ = group(set_of(3), 0)
    meta = msgspec.structs.replace(made.metadata, annotations={lws.SIZE: size})
    one = gang([msgspec.structs.replace(made, metadata=meta)], owners)
    assert problems(one) == [
        f"LeaderWorkerSet default/llm: the size of group 0 is '{size[:20]}', and must be a number above 0"
    ]
    assert len(one.members) == 1


def test_a_pod_names_its_set_and_labels_alone_make_no_member():
    (made, owners), *_ = group(set_of(3), 0)
    (reference,) = lws.FAMILY.refers(made)
    assert (reference.kind, reference.key) == (lws.LWS, ("default", "llm"))
    bare = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=()))
    assert lws.FAMILY.identify(bare, owners) is None
    assert [each.kind for each in gangs([bare])] == ["Pod default/llm-0"]
    assert lws.FAMILY.refers(pod("other")) == ()
