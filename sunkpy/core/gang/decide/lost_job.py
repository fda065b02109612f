"""Decides for running pods whose job was lost: Slurm has forgotten the job, or a node of it failed. The pods stay and
get a replacement job. Pods that somebody bound by hand, without a job, get a job in the same way.

The pods hold their nodes in any case, and Slurm learns that only from a job. So the replacement job asks for exactly
these nodes. Pods of the gang without a node then get jobs of their own. If the pods on one node need more than those on
another, each pod gets a job of its own. If Slurm has already given one of the nodes to another job, all pods of the
gang are evicted. If Slurm still knows a job that lost its nodes, `bound` decides.
"""

from __future__ import annotations

from collections.abc import Collection

from sunkpy.core.gang.actions import Cancel, Evict, GangAction, MakeSolo, NoteJob, Submit, Warn
from sunkpy.core.gang.decide.ending import CANCELLED_BEFORE, evict_all
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.ends import BOUND_BY_OTHERS, JOB_LOST, EndCause
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.job.phases import JobPhase
from sunkpy.core.gang.job.request import Policy, needs_on_nodes, plan_for_nodes
from sunkpy.core.gang.snapshot import Snapshot


def decide_lost(snapshot: Snapshot, gang: Gang, policy: Policy) -> list[GangAction]:
    """Return the actions for a gang whose pods are on nodes and have no job: Slurm has lost their job, or they never
    had one.
    """
    # 1. Slurm has given one of the nodes to another job: all members are evicted together.
    if any(node in snapshot.displaced for node in snapshot.holding.values()):
        return _evict_for_another(snapshot, gang, policy)
    # A member that is being deleted needs no job any more.
    staying = [pod for pod in snapshot.staying if not pod.is_deleting]
    nodes = {pod.uid: snapshot.holding[pod.uid] for pod in staying}
    # 2. There is no other job yet.
    if not snapshot.live_jobs:
        return _submit(snapshot, gang, nodes, policy)
    replacement, *others = snapshot.live_jobs
    # 3. There is another job, and it cannot be the replacement.
    if why := _why_unfit(snapshot, replacement, nodes.values()):
        return [Cancel(job=job.id, why=why) for job in snapshot.live_jobs]
    # 4. The other job is the replacement. It is noted on a pod once it has started on the pod's node.
    started = [pod for pod in snapshot.staying if snapshot.placed.get(pod.uid) in replacement.start_nodes]
    noted = [NoteJob(pod=pod, job=replacement.id) for pod in started]
    return [*noted, *(Cancel(job=job.id, why="the gang has another job already") for job in others)]


def _evict_for_another(snapshot: Snapshot, gang: Gang, policy: Policy) -> list[GangAction]:
    job, given = snapshot.bound_to, next(node for node in snapshot.holding.values() if node in snapshot.displaced)
    lost = f"lost job {job}" if job is not None else "lost the job of this pod"
    lost = lost if snapshot.had_job else "did not place this pod"
    why = f"Slurm {lost} and gave {given} to Slurm job {snapshot.displaced[given]}"
    evictions = []
    for pod in snapshot.staying:
        node = snapshot.holding[pod.uid]
        goes_along = f"; this pod, on {node}, goes with its gang" if node != given else ""
        evictions.append(Evict(pod=pod, job=job, cause=EndCause(reason=JOB_LOST, message=f"{why}{goes_along}")))
    return evict_all(evictions, gang, policy)


def _why_unfit(snapshot: Snapshot, job: Job, nodes: Collection[str]) -> str:
    """Say why `job` cannot be the replacement job that holds the nodes of the gang's pods; empty if it may be. `nodes`:
    the nodes of the pods that are not being deleted.
    """
    held = set(snapshot.holding.values())
    if job.cancelled_at is not None:
        return CANCELLED_BEFORE
    if job.phase is JobPhase.SUSPENDED:
        return "it was suspended before it held the nodes of its pods"
    if job.phase is JobPhase.PENDING and nodes and set(job.slurm.required_nodes) - set(nodes):
        return "it waits for a node on which no pod of the gang is any more"
    if job.nodes and "" not in held and not held & set(job.nodes):
        return "it has none of the nodes on which pods of the gang are"
    return ""


def _submit(snapshot: Snapshot, gang: Gang, nodes: dict[str, str], policy: Policy) -> list[GangAction]:
    if not snapshot.may_submit or not nodes or not all(nodes.values()):
        return []
    # Slurm's tasks are alike: with uneven needs, the job would ask for too much on some node and might never start.
    needs = list(needs_on_nodes(gang, nodes).values())
    if any(each != needs[0] for each in needs):
        return [MakeSolo(pod=pod) for pod in snapshot.staying]
    request = plan_for_nodes(gang, policy, nodes)
    where = ", ".join(request.required_nodes)
    first, *_ = snapshot.staying
    warning = Warn(
        pod=first,
        reason=JOB_LOST,
        note=f"Slurm has lost the job of this pod; the pod keeps running and a new job is submitted for {where}",
    )
    if not snapshot.had_job:
        note = (
            "somebody else put this pod on its node without asking Slurm; the pod stays, and a job is submitted "
            f"for {where}"
        )
        warning = Warn(pod=first, reason=BOUND_BY_OTHERS, note=note)
    return [warning, Submit(request=request, pods=snapshot.staying)]
