"""Gangs whose pods name a node each."""

import pytest
from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Cancel, Report, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.seating.named_nodes import eligible_named_nodes
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.families.workload import gang, pod
from tests.unit.core.gang.jobs import change_job, make_job

POLICY = Policy(gpu_resources={})
HOST = "kubernetes.io/hostname"


def armada(*hosts, size=0, cpu="1"):
    """Pods of one Armada gang, `p0` on the first of the hosts and so on; an empty one names none."""
    said = {"armadaproject.io/gangId": "g", "armadaproject.io/gangCardinality": str(size or len(hosts))}
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    specs = [{"containers": containers, "nodeSelector": {HOST: host} if host else {}} for host in hosts]
    return gang([pod(f"p{n}", annotations=said, spec=spec) for n, spec in enumerate(specs)])


def named_by(made):
    hosts = made.named_hosts.items()
    return {uid: host.replace("host-", "n") if host.startswith("host-") else "" for uid, host in hosts}


def seen(made, *jobs, **fields):
    named = named_by(made)
    each = {uid: Eligibility(eligible=(node,), refused={}) for uid, node in named.items()}
    where = eligible_named_nodes(made, named, each)
    return Snapshot(id=made.id, gang=made, jobs=jobs, named_nodes=named, eligibility=where, **fields)


@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        (("host-1", "host-2"), {"uid-of-p0": "n1", "uid-of-p1": "n2"}),
        (("host-1", "elsewhere"), {"uid-of-p0": "n1", "uid-of-p1": ""}),
        (("host-1", "host-1"), {}),
        (("host-1", ""), {}),
        (("", ""), {}),
    ],
)
def test_whose_pods_name_different_nodes(hosts, named):
    assert named_by(armada(*hosts)) == named


def test_the_job_requires_the_nodes_and_holds_on_each_what_is_most_on_any():
    (action,) = decide_gang(seen(armada("host-2", "host-1", "host-2")), POLICY)
    assert isinstance(action, Submit)
    request = action.request
    assert (request.required_nodes, request.excluded_nodes) == (("n1", "n2"), ())
    assert (request.tasks, request.minimum_nodes, request.maximum_nodes, request.cpus_per_task) == (2, 2, 2, 2)


def test_each_pod_is_bound_to_the_node_that_it_names():
    job = make_job("RUNNING", tasks=2, nodes=("n1", "n2"), layout=(("n1", 1), ("n2", 1)),
        required=("n1", "n2"),
    )  # fmt: skip
    made = armada("host-2", "host-1", "host-2")
    (action,) = decide_gang(seen(made, job), POLICY)
    assert isinstance(action, Bind)
    assert [(each.pod.name, each.note.slurm_node) for each in action.bindings] == [
        ("p0", "n2"),
        ("p1", "n1"),
        ("p2", "n2"),
    ]
    assert len({each.note.seat for each in action.bindings}) == 3


def test_a_job_that_waits_stays_as_long_as_it_is_for_these_nodes():
    made = armada("host-2", "host-1", "host-2")
    waiting = make_job("PENDING", tasks=2, required=("n1", "n2"))
    assert decide_gang(seen(made, waiting), POLICY) == []
    (cancel,) = decide_gang(seen(made, change_job(waiting, tasks=3)), POLICY)
    assert isinstance(cancel, Cancel)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ("elsewhere", "pod p1 names node elsewhere, which is no Slurm node"),
        ("host-2", "pod p1 names node host-2, and may not go there: lacks cpu"),
    ],
)
def test_a_node_that_is_not_there_or_not_fit_is_told_by_name(other, why):
    made = armada("host-1", other)
    named = named_by(made)
    each = {
        "uid-of-p0": Eligibility(eligible=("n1",)),
        "uid-of-p1": Eligibility(eligible=(), refused={"n2": "lacks cpu"}),
    }
    snapshot = replace(
        seen(armada("host-1", "host-3")),
        gang=made,
        named_nodes=named,
        eligibility=eligible_named_nodes(made, named, each),
    )
    told = decide_gang(snapshot, POLICY)
    assert [each.message for each in told if isinstance(each, Report)] == [why, why]


def test_it_waits_until_all_are_there():
    told = decide_gang(seen(armada("host-1", "host-2", size=3)), POLICY)
    assert {each.message for each in told if isinstance(each, Report)} == {"waits for 1 of 3 pods (pod 2 of 3)"}
