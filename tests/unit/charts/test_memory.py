"""Memory of a node: slurmd, daemons, jobs of Slurm and pods together never request more than it has for pods.

From values over what the operator offers and the scheduler asks for, to the kubelet. Slurm is a sum: it starts a job
where its memory is left of `RealMemory`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.request import Policy, plan_job
from sunkpy.core.model import matching, quantity
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.slurmd_pod import build_pod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.placement.admission import ADMITTED, would_kubelet_admit
from sunkpy.core.placement.domains import HOSTNAME
from tests.unit.charts.rendering import of_kind, render
from tests.unit.core.gang.pods import make_node, make_pod

SSSD = {
    "users": {"sssd": {"enabled": True, "ca": "x", "config": "[sssd]\ndomains = x\n[domain/x]\nid_provider = ldap"}}
}
VALUES: Mapping[str, Mapping[str, object]] = {
    "as it comes": {},
    "with all that runs beside slurmd": {**SSSD, "compute": {"ssh": {"enabled": True}}},
    "with more reserved": {"nodeSets": {"compute": {"reserved": {"memory": "8Gi"}}}},
}
GIB = 2**30
texts = st.one_of(  # less than a job's minimum would hide what is rounded
    st.integers(GIB // 8, 4 * GIB).map(str),
    st.integers(2**17, 2**22).map("{}Ki".format),
    st.integers(128, 4096).map("{}Mi".format),
    st.integers(GIB // 8 * 1000, 4 * GIB * 1000).map("{}m".format),
)
asks = st.fixed_dictionaries({"cpu": st.integers(1, 5000).map("{}m".format), "memory": texts})
alike = st.builds(lambda each, count: [each] * count, asks, st.integers(1, 4))
gangs = st.tuples(st.one_of(alike, st.lists(asks, min_size=1, max_size=4)), st.booleans())
allocatables = st.one_of(
    st.integers(12 * GIB, 64 * GIB).map(str), st.integers(12 * 2**20, 64 * 2**20).map("{}Ki".format)
)


@functools.cache
def nodeset_of(case: str) -> NodeSet:
    (rendered,) = of_kind(render("slurm", VALUES[case]), "NodeSet").values()
    return msgspec.convert(rendered, NodeSet)


def memory_of(pods: Sequence[Pod]) -> int:
    return sum(matching.pod_requests(pod.spec).get("memory", 0) for pod in pods)


def gang_of(requests: Sequence[Mapping[str, str]], at: int, *, is_on_one_node: bool) -> Gang:
    pods = [make_pod(f"p-{at}-{rank}", uid=f"p-{at}-{rank}", requests=each) for rank, each in enumerate(requests)]
    members = tuple(Member(pod=pod, index=ANY_SEAT) for pod in pods)
    role = Role(name="", seats=len(members), first=len(members), members=members)
    id = GangId(namespace="default", name=f"g-{at}", uid=f"g-{at}")
    return Gang(id=id, roles=(role,), one_domain=HOSTNAME if is_on_one_node else "")


def memory_mib_of(job: JobSpec) -> int:
    """What Slurm takes of a node for all tasks of the job."""
    return job.memory_mib_per_node or job.memory_mib_per_cpu * job.cpus_per_task * job.tasks


@pytest.mark.parametrize("case", VALUES)
def test_what_runs_in_the_slurmd_pod_requests_no_more_than_is_reserved(case: str) -> None:
    nodeset = nodeset_of(case)
    slurmd = msgspec.convert(build_pod(nodeset, make_node(), "c"), Pod)
    assert 0 < memory_of([slurmd]) <= quantity.whole(str(nodeset.spec.reserved.memory))


@pytest.mark.parametrize("case", VALUES)
@given(
    allocatable=allocatables,
    coming=st.lists(gangs, min_size=1, max_size=8),
    native_mib=st.lists(st.integers(1, 8192), max_size=4),
)
def test_jobs_and_pods_and_what_is_reserved_together_fit_the_node(
    case: str,
    allocatable: str,
    coming: Sequence[tuple[Sequence[Mapping[str, str]], bool]],
    native_mib: Sequence[int],
) -> None:
    node = make_node(cpu="1000", memory=allocatable)
    body = build_pod(nodeset_of(case), node, "c")
    (env,) = (each["env"] for each in body["spec"]["containers"] if each["name"] == "slurmd")
    (left_mib,) = (int(each["value"]) for each in env if each["name"] == "SUNKPY_MEMORY_MIB")
    slurmd = msgspec.convert(body, Pod)
    reserved = quantity.whole(str(nodeset_of(case).spec.reserved.memory))
    # Daemons take all of what is reserved that slurmd leaves.
    on_node = [slurmd, make_pod("daemons", uid="daemons", requests={"memory": str(reserved - memory_of([slurmd]))})]
    for at, (requests, is_on_one_node) in enumerate(coming):
        gang = gang_of(requests, at, is_on_one_node=is_on_one_node)
        job_mib = memory_mib_of(plan_job(gang, Policy(gpu_resources={})))
        if job_mib <= left_mib:
            left_mib -= job_mib
            for pod in gang.members:
                assert would_kubelet_admit(pod, node, on_node) == ADMITTED
                on_node.append(pod)
    native = 0
    for job_mib in (*native_mib, left_mib):  # the last fills the node
        if job_mib <= left_mib:
            left_mib -= job_mib
            native += job_mib * quantity.MIB
    assert memory_of(on_node) + native <= quantity.whole(allocatable)
