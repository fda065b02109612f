"""The texts for each cause why a pod or gang is in its state, and what a person can do about it."""

from __future__ import annotations

from typing import Final

import msgspec

from sunkpy.core.explain.why import Cause, Stage
from sunkpy.core.gang.actions import WaitCause


class Words(msgspec.Struct, frozen=True):
    """The texts for one cause: the state in half a sentence, which continues the pod's name, and what to do. A text
    that ends with a command has no full stop.

    `what_to_do` may have the fields {kind} (the workload, such as `JobSet default/train`), {namespace}, {pod} (the
    first pod concerned) and {job}.
    """

    standing: str
    what_to_do: str


WORDS: Final[dict[Cause, Words]] = {
    WaitCause.NO_NAMED_NODE: Words(
        "cannot be bound",
        "Name its node in its node affinity (matchFields metadata.name), as a DaemonSet does. See what the pod has: "
        "kubectl -n {namespace} get pod {pod} -o yaml",
    ),
    WaitCause.REFUSED: Words(
        "is refused: something that it asks for or declares is not possible",
        "Change what the reason names, on the pod, its owner, or the object that declares the gang's size. The "
        "scheduler then tries again at once: kubectl -n {namespace} edit pod {pod}",
    ),
    WaitCause.NO_SEATS: Words(
        "is not submitted: its owner wants no pods",
        "Scale {kind} to at least one pod, or delete this pod: kubectl -n {namespace} delete pod {pod}",
    ),
    WaitCause.OTHERS_FIRST: Words(
        "is not submitted: earlier pods of its owner are still there",
        "Nothing while the earlier pods end; if one does not end, look at it first: kubectl -n {namespace} get pods",
    ),
    WaitCause.GATED: Words(
        "waits for a pod of its gang that a scheduling gate holds",
        "Nothing here: whoever set the gate has to remove it. If it is Kueue: kubectl -n {namespace} get workloads",
    ),
    WaitCause.MEMBERS: Words(
        "waits for pods that are not there",
        "See why {kind} has not made them (a quota, or a size that is larger than what it makes): "
        "kubectl -n {namespace} get events --sort-by=.lastTimestamp",
    ),
    WaitCause.NOT_SUBMITTED: Words(
        "is not submitted: Slurm did not take its job",
        "Correct what Slurm's message names; the scheduler tries again at least every 5 minutes, and at once when the "
        "pod's annotations change: kubectl -n {namespace} edit pod {pod}",
    ),
    WaitCause.NO_NODE: Words(
        "is not submitted: no node fits",
        "Change the nodeSelector, affinity, tolerations or requests of its template, or give a NodeSet a node: "
        "kubectl get nodesets -A",
    ),
    WaitCause.IN_QUEUE: Words(
        "waits in the queue of Slurm",
        "Nothing: it starts in its turn; squeue --start -j {job} says when Slurm expects that.",
    ),
    WaitCause.NEVER_STARTS: Words(
        "stays in the queue of Slurm until somebody changes something", "Change what the reason names."
    ),
    WaitCause.SEATS_TAKEN: Words(
        "waits for a seat: the job of its gang has none free",
        "Nothing if another pod of the gang is ending; otherwise the gang has a pod too many: "
        "kubectl -n {namespace} delete pod {pod}",
    ),
    WaitCause.VOLUME: Words(
        "is not bound: its volume is being made",
        "Nothing for some minutes; then see what its volume claim says: kubectl -n {namespace} describe pvc",
    ),
    WaitCause.KUBELET: Words(
        "is not bound: the kubelet of its node would refuse it",
        "Make room on that node, or wait: the scheduler gives the node back and submits a job for another node. See "
        "what uses this node: kubectl describe node NODE",
    ),
    Stage.GONE: Words("has no pods any more", "Nothing: its job, if there is one left, is cancelled."),
    Stage.POD_OVER: Words("has ended; others of its gang have not", "Nothing: the job ends when all have ended."),
    Stage.GATED: Words(
        "is held by a scheduling gate",
        "Nothing here: whoever set the gate has to remove it. If it is Kueue: kubectl -n {namespace} get workloads",
    ),
    Stage.DELETED: Words(
        "was deleted before it was bound",
        "Nothing: once the pod is gone, its job is cancelled, unless other pods need the job. If the pod stays, a "
        "finalizer of somebody else holds it: "
        "kubectl -n {namespace} get pod {pod} -o yaml",
    ),
    Stage.NODES_UNKNOWN: Words(
        "waits, and the reason cannot be read",
        "Ask somebody who may read nodes and the pods of the Slurm cluster, or see that a scheduler leads: "
        "kubectl get leases -A",
    ),
    Stage.TO_SUBMIT: Words(
        "is not submitted to Slurm yet",
        "Change what the reason names. If there is no reason, or the scheduler has just given nodes back, wait: it "
        "submits a new job. If nothing changes for a minute, see that a scheduler leads and what it logs: "
        "kubectl get leases -A",
    ),
    Stage.QUEUED: Words(
        "has a Slurm job that has not started, as far as is known",
        "Nothing yet; see the state of the job: scontrol show job {job}",
    ),
    Stage.STARTING: Words(
        "is about to be bound: its Slurm job starts",
        "Nothing; if that lasts, a Prolog waits, as the Events of pods on its nodes say: scontrol show job {job}",
    ),
    Stage.MUST_WAIT: Words(
        "is not bound yet: another pod on its node is ending",
        "Nothing for 30 seconds, after which another node is tried. If the other pod hangs, find it, in whatever "
        "namespace it is: kubectl get pods -A",
    ),
    Stage.TO_BIND: Words(
        "is about to be bound",
        "Wait; if nothing changes for a minute, see that a scheduler leads and what it logs: kubectl get leases -A",
    ),
    Stage.DIRECT: Words("is on the node that it was made for, without a Slurm job", "Nothing."),
    Stage.BOUND: Words(
        "is bound, and no container runs yet",
        "Nothing; if no container starts, the pod's Events say why: kubectl -n {namespace} describe pod {pod}",
    ),
    Stage.STUCK: Words(
        "has its node, and the kubelet there cannot start it",
        "Correct what the reason names, or delete the pod: it keeps its node and GPUs meanwhile. For more details: "
        "kubectl -n {namespace} describe pod {pod}",
    ),
    Stage.RUNS: Words("runs", "Nothing."),
    Stage.JOB_LOST: Words(
        "has its node, and Slurm has lost its job",
        "Nothing: the pods keep running, and another job is submitted for their nodes. If Slurm gives one of these "
        "nodes to another job first, all pods of the gang are evicted. See why Slurm lost the job: sinfo -R",
    ),
    Stage.NO_JOB: Words(
        "was bound by somebody else, without a Slurm job",
        "Nothing: a job is submitted for its node. If Slurm gives the node to another job first, the pod is evicted. "
        "Next time leave out spec.nodeName, and Slurm chooses a free node.",
    ),
    Stage.HANDING_OVER: Words(
        "has to leave its node",
        "Nothing: the next job starts when the pod is gone; if a container does not end, look at the pod's grace "
        "period and finalizers: kubectl -n {namespace} get pod {pod} -o yaml",
    ),
    Stage.ENDING: Words("has ended; its Slurm job ends too", "Nothing; if it does not end: scontrol show job {job}"),
    Stage.OVER: Words("is over", "Nothing."),
}

RELEASE: Final = "kubectl sunk jobs release {job}, or as its user in a login pod: scontrol release {job}"
"""The commands that release a held job: one for an administrator, and one for the job's own user."""

CURES: Final = {
    "BadConstraints": "Ask for less, or for features that some node has: sunkpy.dev/constraint and the requests.",
    "PartitionConfig": "If sinfo shows too few nodes in the partition, add some: the job starts then. Otherwise ask "
    "for fewer nodes or less time, or name another partition: sunkpy.dev/partition.",
    "PartitionNodeLimit": "Ask for fewer nodes, or name another partition: sunkpy.dev/partition.",
    "PartitionTimeLimit": "Lower sunkpy.dev/time-limit, or name a partition that allows as much.",
    "PartitionDown": "Name another partition: sunkpy.dev/partition. Or an administrator brings it up: "
    "scontrol update partitionname=… state=up",
    "PartitionInactive": "Name another partition: sunkpy.dev/partition. Or an administrator brings it up: "
    "scontrol update partitionname=… state=up",
    "AccountNotAllowed": "Name an account that may use the partition: sunkpy.dev/account.",
    "QOSNotAllowed": "Name a QoS that the partition allows: sunkpy.dev/qos.",
    "InvalidAccount": "Name an account that exists: sunkpy.dev/account. To list them: sacctmgr show account",
    "InvalidQOS": "Name a QoS that exists: sunkpy.dev/qos. To list them: sacctmgr show qos",
    "ReservationDeleted": "Name a reservation that exists, or none: sunkpy.dev/reservation.",
    "DependencyNeverSatisfied": "A job that it depends on did not end as asked. Name another dependency, or none: "
    "sunkpy.dev/dependency.",
    "JobHeldAdmin": (
        "Ask an administrator of Slurm why the job is held, and to release it: kubectl sunk jobs release {job}"
    ),
    "JobHeldUser": f"Release it: {RELEASE}",
    "JobHoldMaxRequeue": f"Find out why it does not start, then release it: {RELEASE}",
}
"""Slurm's reasons with which a waiting job does not start until somebody changes something → what to do. Where that is
an annotation of the job's pods, the scheduler changes the waiting job accordingly.
"""

PENDING_REASONS: Final = {
    "Resources": "the nodes that it may use are taken",
    "Priority": "other jobs come first",
    "Licenses": "the licenses are taken",
    "Reservation": "its reservation has not begun",
    "ReqNodeNotAvail": "nodes that it needs are down, drained, reserved, or not there yet",
    "Prolog": "a prolog runs, or waits for earlier pods to be gone",
    "BeginTime": "its begin time has not come, or it was requeued a moment ago",
    "Dependency": "a job that it depends on has not ended",
    "JobArrayTaskLimit": "no more tasks of its array may run at a time",
    "Cleaning": "its first run is still being cleaned up",
    "NodeDown": "a node that it needs is down",
    "Constraints": "no node that is up has what it asks for at the moment",
    "SchedDefer": "Slurm does not look at it at once, but with the whole queue",
    "MaxMemPerLimit": "it asks for more memory per cpu or node than is allowed",
    "DeadLine": "it cannot end before its deadline",
    "ReservationInvalid": "its reservation cannot be used",
    "NvidiaImexChannels": "the IMEX channels are taken",
    "MpiPortsBusy": "the ports for MPI are taken",
    "MaxPoweredUpNodes": "no more nodes may be powered up at a time",
    "BurstBufferResources": "the burst buffer is full",
    "BurstBufferStageIn": "its files are copied in",
    "FedJobLock": "the clusters of its federation have yet to agree which of them runs it",
    "AccountingPolicy": "a limit of its account or QoS is reached",
}
"""Slurm's other reasons for waiting → their meaning (man squeue, JOB REASON CODES)."""


def pending_reason(reason: str) -> str:
    """Return in plain words what Slurm's reason for a job's waiting means; empty if this module does not know it."""
    if reason.startswith("QOSMin"):
        return "it asks for less than the minimum of its QoS"
    if reason.startswith(("Assoc", "QOS")) or (reason.startswith("Max") and reason.endswith(("PerAccount", "PerUser"))):
        return "a limit of its account or QoS is reached"
    return PENDING_REASONS.get(reason, "")
