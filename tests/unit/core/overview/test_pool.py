import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.health import State
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.objects import (
    Condition,
    ContainerState,
    ContainerStatus,
    Meta,
    Node,
    NodeSpec,
    NodeStatus,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    WaitingContainer,
)
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.nodeset.spec import Gpu, NodeSet, NodeSetSpec
from sunkpy.core.overview.pool import (
    PoolFacts,
    PoolView,
    find_growth,
    find_nodes,
    find_stuck,
    headline,
    pool_tables,
    standing_of,
)
from sunkpy.core.overview.queue import QueuedJob, find_queue
from sunkpy.core.overview.table import render_table
from tests.unit.core.health.build import record

AT = "2026-11-24T02:00:00Z"
NODESET = NodeSet(metadata=Meta(name="gpu", namespace="slurm"), spec=NodeSetSpec(gpu=Gpu()))


def node(number, *, ready=True, cordoned=False, gpus="8"):
    status = NodeStatus(
        allocatable={"nvidia.com/gpu": gpus},
        conditions=(Condition(type="Ready", status="True" if ready else "False"),),
    )
    return Node(metadata=Meta(name=f"node-{number}"), spec=NodeSpec(unschedulable=cordoned), status=status)


def slurmd(number, state=""):
    labels = {names.LABEL_SLURM_NODE: f"n{number}", names.LABEL_NODESET: "gpu"}
    owner = OwnerReference(api_version="sunkpy.dev/v1alpha1", kind="NodeSet", name="gpu", uid="u", controller=True)
    annotations = {names.ANNOTATION_SLURM_STATE: state} if state else {}
    metadata = Meta(
        name=f"gpu-{number}", namespace="slurm", labels=labels, annotations=annotations, owner_references=(owner,)
    )
    return Pod(metadata=metadata, spec=PodSpec(node_name=f"node-{number}"))


def slurm_node(number, *state, gres="gpu:8"):
    return SlurmNode(name=f"n{number}", state=frozenset(state), gres=gres)


def running(id, where, *, comment=""):
    devices = {name: {"gpu": tuple(range(gpus))} for name, gpus in where.items()}
    row = JobRow(id=id, state=frozenset({"RUNNING"}), nodes=tuple(where), devices=devices, comment=comment)
    return QueuedJob(row=row)


def on_node(name, number):
    return Pod(metadata=Meta(name=name, namespace="team", uid=name), spec=PodSpec(node_name=f"node-{number}"))


GROWTH = GrowthStatus(wanted_nodes=3, requests=(GrowthRequest(job="7", nodes=3),), since=AT)
GROWS = msgspec.structs.replace(NODESET, status=msgspec.structs.replace(NODESET.status, growth=GROWTH))
FACTS = PoolFacts(
    nodesets=(NODESET,),
    nodes=(node(1), node(2), node(3, cordoned=True)),
    slurmd_pods=(slurmd(1), slurmd(2), slurmd(3)),
    pods=(on_node("web", 2),),
    slurm_nodes={
        "n1": slurm_node(1, "MIXED"),
        "n2": slurm_node(2, "MIXED"),
        "n3": slurm_node(3, "IDLE", "DRAIN"),
    },
    jobs=(running(12, {"n1": 4, "n2": 1}), running(13, {"n2": 2}, comment="k8s:team/web:uid")),
)


def pool(facts):
    waiting = find_queue(facts.jobs, facts.pods, facts.tiers, 0)
    return PoolView(
        nodes=find_nodes(facts),
        waiting=waiting,
        growth=find_growth(facts),
        stuck=find_stuck(facts),
        nodesets=("slurm/gpu",),
        at=AT,
    )


def lines(facts, **how):
    return [list(render_table(table)) for table in pool_tables(pool(facts), **how)]


def test_a_nodeset_of_which_nothing_is_wanted_is_not_listed():
    quiet = msgspec.structs.replace(NODESET.status, growth=GrowthStatus(seen=AT))
    assert not find_growth(PoolFacts(nodesets=(msgspec.structs.replace(NODESET, status=quiet),)))


def test_a_node_shows_both_sides_with_the_jobs_of_people_and_the_pods():
    first, second, third = find_nodes(FACTS)
    assert (first.jobs, first.pods, first.gpus, first.gpus_given) == ((12,), (), 8, 4)
    assert (second.jobs, second.pods, second.gpus_given) == ((12,), ("team/web",), 3)
    assert (third.kubernetes, third.slurm, third.standing) == ("Ready, cordoned", "IDLE+DRAIN", "drained")


def test_a_sick_node_says_where_it_stands():
    sick = msgspec.structs.replace(node(1), metadata=Meta(name="node-1", annotations={
        names.ANNOTATION_HEALTH: record(State.PERSON, "label").encode()
    }))  # fmt: skip
    first = find_nodes(msgspec.structs.replace(FACTS, nodes=(sick, node(2), node(3))))[0]
    assert first.kubernetes == "Ready, health: needs-a-person"


def test_the_pool_on_one_screen():
    nodesets, nodes, waiting = lines(FACTS)
    assert nodesets == [
        "NODESET     NODES   READY   BUSY   DRAINED   DOWN   GPUS   IN USE   FREE",
        "slurm/gpu   3       0       2      1         0      24     7        17",
    ]
    assert nodes == [
        "KUBERNETES        SLURM        NODES   GPUS   IN USE   FREE   JOBS   PODS   SLURM NODES",
        "Ready             MIXED        2       16     7        9      1      1      n[1-2]",
        "Ready, cordoned   IDLE+DRAIN   1       8      0        8      0      0      n3",
    ]
    assert waiting == []
    said = "3 nodes (2 busy, 1 drained); 24 GPUs, 17 free; waiting: nothing. 2026-11-24T02:00:00Z"
    assert headline(pool(FACTS)) == said


def test_nodes_that_jobs_lack_are_shown():
    facts = msgspec.structs.replace(FACTS, nodesets=(GROWS,))
    _, wanted, *_ = lines(facts)
    assert wanted == [
        "NODESET     MORE WANTED   SINCE                  FOR JOBS   NOT HELPED",
        "slurm/gpu   3             2026-11-24T02:00:00Z   7          -",
    ]
    assert "24 GPUs, 17 free; 3 nodes more wanted; waiting" in headline(pool(facts))


def test_a_row_for_each_node_where_it_is_wanted():
    _, nodes, _ = lines(FACTS, is_wide=True)
    assert nodes[2].split() == ["node-2", "n2", "slurm/gpu", "Ready", "MIXED", "8", "3", "5", "12", "team/web"]


def test_without_slurm_the_slurmd_pods_say_the_state_and_given_gpus_are_not_known():
    pods = (slurmd(1, "IDLE"), slurmd(2, "DOWN+NOT_RESPONDING"), slurmd(3))
    facts = msgspec.structs.replace(FACTS, slurm_nodes=None, jobs=None, slurmd_pods=pods)
    found = find_nodes(facts)
    assert [line.standing for line in found] == ["ready", "down", "down"]
    assert [line.slurm for line in found][2] == "unknown to Slurm"
    assert [(line.gpus, line.gpus_given) for line in found] == [(8, None)] * 3
    assert lines(facts)[0][1].split()[-3:] == ["24", "?", "?"]


def test_nodes_that_may_not_be_read_are_no_lost_nodes():
    facts = msgspec.structs.replace(FACTS, nodes=None)
    assert {line.kubernetes for line in find_nodes(facts)} == {"not read"}
    facts = msgspec.structs.replace(FACTS, nodes=(node(1), node(2, ready=False)))
    assert [line.kubernetes for line in find_nodes(facts)] == ["Ready", "NotReady", "gone"]


def test_a_nodeset_without_nodes_is_there():
    facts = PoolFacts(nodesets=(NODESET,), jobs=(), slurm_nodes={})
    assert lines(facts)[0][1].split() == ["slurm/gpu", "0", "0", "0", "0", "0", "0", "0", "0"]


@pytest.mark.parametrize(
    ("state", "standing"),
    [
        ((), "down"),
        (("IDLE",), "ready"),
        (("ALLOCATED",), "busy"),
        (("IDLE", "COMPLETING"), "busy"),
        (("IDLE", "DRAIN"), "drained"),
        (("MIXED", "DRAIN"), "drained"),
        (("DOWN", "DRAIN"), "down"),
        (("IDLE", "NOT_RESPONDING"), "down"),
        (("IDLE", "INVALID_REG"), "down"),
        (("IDLE", "FAIL"), "down"),
    ],
)
def test_each_node_counts_once(state, standing):
    assert standing_of(slurm_node(1, *state)) == standing


@pytest.mark.parametrize(
    ("reason", "message", "row"),
    [
        (
            "ImagePullBackOff",
            "no such image",
            "team/web       node-2       2                 container a: ImagePullBackOff: no such image",
        ),
        ("CrashLoopBackOff", "", "team/web       node-2       2                 container a: CrashLoopBackOff"),
        ("ContainerCreating", "", ""),
    ],
)
def test_gpus_that_a_pod_holds_which_cannot_start_are_shown(reason, message, row):
    state = ContainerState(waiting=WaitingContainer(reason=reason, message=message))
    status = PodStatus(container_statuses=(ContainerStatus(name="a", state=state),))
    meta = Meta(name="web", namespace="team", uid="web", annotations={names.ANNOTATION_JOB_ID: "13"})
    stuck = Pod(metadata=meta, spec=PodSpec(node_name="node-2"), status=status)
    *_, table = lines(msgspec.structs.replace(FACTS, pods=(stuck,)))
    expected = ["CANNOT START   KEEPS NODE   GPUS OF ITS JOB   BECAUSE", row] if row else []
    assert (table if row else []) == expected
    assert any("CANNOT START" in line for line in table) == bool(row)
