"""What each condition and each reason of an Event means to the person who reads it, and what they can do.

`tools/make-reference` makes docs/reference/conditions.md and events.md of these tables. A test compares them with the
code: each condition, reason and Event that the code writes has a row, and each row is written somewhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """The kinds of objects that show it, and what it means."""

    on: str
    means: str


_SLURMD, _NODE, _BOTH = "slurmd Pod", "Node", "slurmd Pod, Node"
_NODESET, _WORKLOAD = "NodeSet", "workload Pod"

CONDITIONS: Final = {
    "SlurmDrain": Row(_BOTH, "Slurm starts no new job here: the Slurm node is drained, or an admin set FAIL or DOWN."),
    "SlurmCordon": Row(
        _BOTH,
        "The drain, FAIL or DOWN came from Slurm; the message is its reason. The Node is cordoned for it, unless the "
        "reason is `TooManyAtOnce`.",
    ),
    "SlurmRunning": Row(
        _SLURMD,
        "Jobs, or an epilog, are on the node. On an open node it changes after 5 s, or after 1 s for each 20 nodes of "
        "the cluster if that is longer.",
    ),
    "SlurmNotResponding": Row(_BOTH, "slurmctld has not heard from slurmd for more than 10 s."),
    "sunkpy.dev/registered": Row(
        _SLURMD, "Readiness gate: Slurm knows the node and can use it. It stays as it is while Slurm cannot be read."
    ),
    "Available": Row(_NODESET, "At most `maxUnavailable` pods are missing, not ready or about to go."),
    "Progressing": Row(_NODESET, "Work is under way. False: nothing is left to do, or it is stuck; see the reason."),
    "Feasible": Row(
        _NODESET, "The nodes can carry all wanted pods. False: the message counts nodes by the failed rule."
    ),
    "RemovalHeld": Row(
        _NODESET,
        "So many nodes stopped fitting at once that no pod is removed. See "
        "[troubleshooting](../troubleshooting.md#removalheld-on-a-nodeset).",
    ),
    "Ready": Row(
        _NODESET,
        "It is as wanted, or waits only for jobs to end. The reason is that of another condition. Flux, Argo CD and "
        "helm read it, with `Reconciling` and `Stalled`.",
    ),
    "Reconciling": Row(_NODESET, "While True: work is under way that does not wait for jobs."),
    "Stalled": Row(_NODESET, "While True: it goes on only when somebody corrects something."),
    "DrainTimeout": Row(_NODESET, "Pods have waited longer than `drainTimeoutSeconds` for their jobs."),
    "VersionSkew": Row(
        _NODESET,
        "While True: chart slurm and the operator do not fit; the message says which to upgrade.",
    ),
    "SharedTmp": Row(_NODESET, "While True: the jobs of a node share /tmp and /dev/shm; the message says why."),
    "PodScheduled": Row(_WORKLOAD, "The pod has a node. False: the message says what it waits for."),
    "DisruptionTarget": Row(
        _WORKLOAD, "The job of the pod gave way or lost its node; the reason is that of the Event."
    ),
    "sunkpy.dev/JobEnded": Row(
        _WORKLOAD, "The job of the pod was cancelled, failed or reached a limit; the reason is that of the Event."
    ),
}

CONDITION_REASONS: Final = {
    "Draining": Row("SlurmDrain", "No new job starts, and something still runs."),
    "Drained": Row("SlurmDrain", "No new job starts, and nothing runs."),
    "NotDrained": Row("SlurmDrain", "The node takes jobs."),
    "DrainedInSlurm": Row("SlurmCordon", "A person or a health check drained the node in Slurm."),
    "NotDrainedInSlurm": Row("SlurmCordon", "Nobody drained the node in Slurm."),
    "InvalidInSlurm": Row("SlurmCordon", "Slurm refuses what slurmd reports about the machine (`INVALID_REG`)."),
    "TooManyAtOnce": Row("SlurmCordon, RemovalHeld", "A cap holds: too many nodes or pods at once."),
    "NotReported": Row("SlurmDrain, SlurmCordon, SlurmNotResponding", "The slurmd pod has no such condition yet."),
    "JobsOnNode": Row("SlurmRunning", "Jobs, or an epilog, are on the node."),
    "NoJobs": Row("SlurmRunning", "The node is idle."),
    "SlurmUnreadable": Row("SlurmRunning", "The node is closed and was idle, but Slurm cannot be read now."),
    "Responding": Row("SlurmNotResponding", "slurmd answers slurmctld."),
    "NotResponding": Row("SlurmNotResponding", "slurmd does not answer slurmctld."),
    "NoSlurmNode": Row("all four of Slurm", "Slurm has no node of this name."),
    "Registered": Row("sunkpy.dev/registered", "Slurm knows the node and can use it."),
    "NotRegistered": Row("sunkpy.dev/registered", "Slurm does not know this slurmd, or cannot use it yet."),
    "MinimumAvailable": Row("Available", "Enough pods are ready and to stay."),
    "TooManyUnavailable": Row("Available", "More than `maxUnavailable` pods are missing, not ready or about to go."),
    "NoPods": Row("Available", "No pod is wanted, or no node fits."),
    "Scaling": Row("Progressing", "Pods are created or drained because their number changes."),
    "RollingOut": Row("Progressing", "Pods of an older template are replaced."),
    "WaitingForReady": Row("Progressing", "Pods are not ready yet."),
    "TearingDown": Row("Progressing", "The NodeSet is deleted and its pods are drained."),
    "Complete": Row("Progressing", "All pods are ready and of the current template."),
    "Paused": Row("Progressing", "A roll waits because the NodeSet is paused."),
    "OnDelete": Row("Progressing", "Pods of an older template stay until somebody deletes them."),
    "CreateFailed": Row("Progressing", "The apiserver refuses the pod: quota, policy or the template."),
    "PodsFailed": Row("Progressing", "slurmd pods failed; they are made again later."),
    "BadSpec": Row("Progressing", "The template cannot be read. Nothing changes until it is corrected."),
    "NodesFit": Row("Feasible", "Enough nodes fit."),
    "NothingWanted": Row("Feasible", "`replicas` is 0."),
    "NoNodeFits": Row("Feasible", "No node fits; the message counts nodes by the failed rule."),
    "TooFewNodes": Row("Feasible", "Fewer nodes fit than `replicas` wants."),
    "DrainTimeout": Row("DrainTimeout", "Jobs take longer than `drainTimeoutSeconds`."),
    "VersionSkew": Row("VersionSkew", "The message has both versions, and which chart to upgrade."),
    "SharedTmp": Row(
        "SharedTmp", "A value of the chart says so, or Slurm cannot give each job its own without cgroups."
    ),
    "Unschedulable": Row(
        "PodScheduled", "No node could hold the pod, or Slurm has none free for it. Autoscalers look for this reason."
    ),
    "WaitingForSlurm": Row(
        "PodScheduled",
        "The pod waits for something else, or for a node that its NodeSet [asks for](../tasks/growth.md#what-is-wanted)"
        "; autoscalers buy none for it.",
    ),
}

EVENTS: Final = {
    "Scheduled": Row(_WORKLOAD, "Bound; the text names job and node."),
    "WaitingForSlurm": Row(_WORKLOAD, "In the queue, with Slurm's reason (`Resources`, `Priority` …). Nothing to do."),
    "FailedScheduling": Row(
        _WORKLOAD,
        "Somebody has to change something; the text says what. See "
        "[troubleshooting](../troubleshooting.md#pod-stays-pending).",
    ),
    "JobChanged": Row(_WORKLOAD, "Annotations changed while the job waits in the queue, and the job follows them."),
    "JobNotChanged": Row(
        _WORKLOAD,
        "Annotations changed, but Slurm refuses the change, or the option is fixed after the submit. The job waits as "
        "it was. Delete the pods to submit them again.",
    ),
    "OwnerUnknown": Row(
        _WORKLOAD,
        "An object that says which pods belong together cannot be read. The text says which, and which right or CRD is "
        "missing. The pod is looked at again by itself, within half a minute of a new CRD.",
    ),
    "OddObject": Row(
        _WORKLOAD,
        "The scheduler failed on this pod or on the objects that own it. It ignores the pod and serves all others. "
        "Please report the text of the Event.",
    ),
    "StaysInGang": Row(
        _WORKLOAD,
        "A label or annotation that names its gang changed while the pod waits. The pod stays in its first gang. "
        "Delete it to get one in the other gang.",
    ),
    "UnknownAnnotation": Row(_WORKLOAD, "An annotation is misspelt or not supported, and has no effect."),
    "GpusByCount": Row(
        _WORKLOAD,
        "With `scheduler.gpuSharing: count`: the pod's GPU may also be another job's. Ask for whole nodes "
        "(`sunkpy.dev/exclusive`) where that must not be.",
    ),
    "PreemptionIsFinal": Row(_WORKLOAD, "At the start of a gang: its owner does not make evicted pods again, and why."),
    "SeatRefused": Row(
        _WORKLOAD,
        "The node of its seat has refused a member for half a minute: a cordon, a taint, pods of others. It gets a job "
        "of its own; the job of the gang keeps the node.",
    ),
    "AsksForMore": Row(
        _WORKLOAD,
        "The pod asks for more than its seat in the job of the gang. It gets a job of its own. If no pod of the gang "
        "runs, the whole gang gets another job.",
    ),
    "GraceTooLong": Row(
        _WORKLOAD,
        "The grace period is longer than `hooks.longestGraceSeconds`, or that of its partition or namespace. When the "
        "job loses the node, the pod gets only that long, and then its containers are killed.",
    ),
    "GraceShortened": Row(
        _WORKLOAD, "The pod was ending with a grace period above that limit when its job lost the node."
    ),
    "SlurmJobLost": Row(
        _WORKLOAD,
        "Slurm forgot the job of a bound pod. A replacement job follows; the pod keeps running, unless that has other "
        "devices than the pod's claims.",
    ),
    "BoundByOthers": Row(
        _WORKLOAD,
        "Somebody else put the pod on its node (`spec.nodeName`, or a binding). A job is submitted for that node; "
        "until it starts, Slurm may give the node to others.",
    ),
    "PreemptionByScheduler": Row(
        _WORKLOAD, "Evicted; the text names the job that took its node, unless PrivateData=jobs."
    ),
    "BudgetViolated": Row(
        _WORKLOAD,
        "Preempted, and its PodDisruptionBudget has too few healthy pods now. Slurm chooses, and knows no budgets: "
        "spread the replicas.",
    ),
    "SlurmJobCancelled": Row(_WORKLOAD, "Evicted: its job was cancelled. Its controller makes a new pod."),
    "SlurmJobTimeout": Row(_WORKLOAD, "Evicted: its job reached the time limit. Set `sunkpy.dev/time-limit`."),
    "SlurmJobDeadline": Row(_WORKLOAD, "Evicted: its job reached the deadline."),
    "SlurmNodeFail": Row(_WORKLOAD, "Evicted: Slurm lost the node of its job."),
    "SlurmJobFailed": Row(_WORKLOAD, "Evicted: its job failed, ran out of memory, or its node did not boot."),
    "SlurmJobSuspended": Row(_WORKLOAD, "Evicted: its job was suspended, which pods cannot be."),
    "SlurmJobRequeued": Row(_WORKLOAD, "Evicted: its job was queued again."),
    "SlurmJobEnded": Row(_WORKLOAD, "Evicted: its job ended, and Slurm does not say how."),
    "DevicesLost": Row(
        _WORKLOAD,
        "Evicted: somebody changed its ResourceClaims while it ran, or gave one of its devices to another claim too. "
        "Find who writes the status of claims.",
    ),
    "SlurmNodeDrained": Row(_SLURMD, "The syncer drained the Slurm node; the text has the reason."),
    "SlurmNodeUndrained": Row(_SLURMD, "The syncer lifted its own drain."),
    "SlurmDrainLifted": Row(
        _SLURMD,
        "The syncer lifted a drain that others set in Slurm: a rule of `health.signals` names its reason, and the "
        "machine has started again.",
    ),
    "SlurmNodeResumed": Row(
        _SLURMD,
        "Slurm had set the node DOWN by itself, mostly because its machine was booted unannounced. Its slurmd has "
        "registered again, so the syncer has resumed it. If this comes again, look into the machine.",
    ),
    "PlaceUnknown": Row(
        _SLURMD,
        "The labels of its Node do not say where it stands in Slurm's topology; the text says which one is missing. It "
        "stays where it was. See [topology](../tasks/topology.md).",
    ),
    "SlurmDrainRestored": Row(
        _SLURMD, "Slurm lost its record of the node with somebody's drain. The drain was set again."
    ),
    "SlurmNodeReaddressed": Row(
        _SLURMD,
        "After a crash, slurmctld used the address of an earlier pod for this slurmd. The syncer has given it the new "
        "address.",
    ),
    "SlurmUnreadable": Row(
        _NODESET,
        "slurmrestd or slurmctld does not answer, and since when. See "
        "[troubleshooting](../troubleshooting.md#a-part-is-down).",
    ),
    "SlurmReadable": Row(_NODESET, "Slurm answers again."),
    "SlurmNotBelieved": Row(
        _NODESET,
        "Slurm answers without its nodes. See "
        "[troubleshooting](../troubleshooting.md#slurm-lists-no-nodes-slurmnotbelieved).",
    ),
    "JobsWaiting": Row(
        _NODESET,
        "For ten minutes at least ten jobs, and one for each ten nodes, have waited for nodes of its partitions "
        "(`Resources`, with those behind, `Priority`). The text says what Slurm cannot use: nodes that are drained or "
        "down, feasible ones above `replicas`. It comes at most every ten minutes, and unchanged every half hour; "
        "none without `syncer.metrics.enabled`.",
    ),
    "CannotGrow": Row(
        _NODESET,
        "A job waits that no node more of this NodeSet can help, and the text says why: it asks more of a node, or for "
        "more nodes than `growth.potential` allows. None without `syncer.metrics.enabled`. See "
        "[growth](../tasks/growth.md#what-is-wanted).",
    ),
    "PotentialUnknown": Row(
        _NODESET,
        "It has a `growth.potential`, and nobody knows what a node of it offers: it has had none, and there is no "
        "`growth.shape`. See [growth](../tasks/growth.md).",
    ),
    "TooManyAtOnce": Row(
        "slurmd Pod, NodeSet, Node",
        "A cap holds. See [troubleshooting](../troubleshooting.md#toomanyatonce-on-nodes-or-slurmd-pods).",
    ),
    "SlurmCordon": Row(_NODE, "Cordoned because of a drain in Slurm."),
    "HealthDrain": Row(
        _NODE,
        "A signal of `health.signals` says that the Node is sick; the text is the evidence. Its Slurm node is "
        "drained, or Slurm has drained it. Jobs end in their own time. See [health](../tasks/health.md).",
    ),
    "HealthDrained": Row(_NODE, "Nothing runs on the sick Node any more; the text says what brings it back."),
    "HealthRemedy": Row(_NODE, "The remedy of its signal begins: an object of `health.remedies` is written."),
    "HealthRemedyWritten": Row(_NODE, "The object was written; another program takes care of it."),
    "HealthRemedyFailed": Row(
        _NODE,
        "The apiserver refuses the object of the remedy, in its words; it is tried again. Mostly the operator lacks "
        "the right to create it: [health](../tasks/health.md#remedies).",
    ),
    "HealthVerify": Row(
        _NODE,
        "The Node is cured, and its NodeSet has a check (`compute.verify`): its slurmd pod is replaced, and the next "
        "one runs the check before slurmd.",
    ),
    "HealthReturned": Row(_NODE, "The Node takes jobs again; the text says why."),
    "HealthNeedsPerson": Row(
        _NODE,
        "The Node does not come back by itself: it was not cured in time, or came back too often. The text says "
        "what to do.",
    ),
    "SlurmUncordon": Row(_NODE, "Uncordoned: the drain in Slurm was lifted."),
    "PodsCreated": Row(_NODESET, "The operator created these slurmd pods."),
    "PodAdopted": Row(_NODESET, "The operator took over a slurmd pod of an earlier NodeSet of the same name."),
    "PodsDraining": Row(_NODESET, "The operator asked for these pods to be drained, and why."),
    "RemovalCancelled": Row(_NODESET, "The cause of a removal ended, so these pods stay."),
    "PodsDeleted": Row(_NODESET, "The operator deleted these pods; the text says why."),
    "PodFailed": Row(_NODESET, "A slurmd pod failed. It is made again after 1, 2, 4 … 300 s."),
    "CreateFailed": Row(_NODESET, "The apiserver refuses the pod, in its words: quota, policy or the template."),
    "BadSpec": Row(_NODESET, "The template cannot be read. Nothing changes until it is corrected."),
    "KillTaskFailed": Row(
        _NODESET,
        "Processes of a job outlived SIGKILL for `UnkillableStepTimeout`, so the node was drained. The text says "
        "which wait, and where in the kernel: [troubleshooting](../troubleshooting.md#slurm-node-stays-drained).",
    ),
    "NoNodeFits": Row(_NODESET, "No node fits; the text counts nodes by the failed rule."),
    "TooFewNodes": Row(_NODESET, "Fewer nodes fit than wanted; the text counts nodes by the failed rule."),
    "DrainTimeout": Row(_NODESET, "Jobs take longer than `drainTimeoutSeconds`."),
    "VersionSkew": Row(_NODESET, "Chart slurm and the operator do not fit; the text says which to upgrade."),
}
