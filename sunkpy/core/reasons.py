"""What each condition and each reason of an Event means to its reader, and what the reader can do.

`tools/make-reference` makes docs/reference/conditions.md and events.md of these tables. A test compares them with the
code: each condition, reason and Event that the code writes has a row, and each row is written somewhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """The kinds of objects that show it, and what it means."""

    on: str
    means: str


_SLURMD, _NODE, _BOTH = "slurmd Pod", "Node", "slurmd Pod, Node"
_NODESET, _WORKLOAD = "NodeSet", "workload Pod"

CONDITIONS: Final = {
    "SlurmDrain": Meaning(
        _BOTH, "Slurm starts no new job here: the Slurm node is drained, or an admin set FAIL or DOWN."
    ),
    "SlurmCordon": Meaning(
        _BOTH,
        "The drain, FAIL or DOWN came from Slurm; the message is its reason. The Node is cordoned for it, unless the "
        "reason is `TooManyAtOnce`.",
    ),
    "SlurmRunning": Meaning(
        _SLURMD,
        "Jobs, or an epilog, are on the node. On an open node it changes after 5 s, or after 1 s for each 20 nodes of "
        "the cluster if that is longer.",
    ),
    "SlurmNotResponding": Meaning(_BOTH, "slurmctld has not heard from slurmd for more than 10 s."),
    "sunkpy.dev/registered": Meaning(
        _SLURMD, "Readiness gate: Slurm knows the node and can use it. It stays as it is while Slurm cannot be read."
    ),
    "Available": Meaning(_NODESET, "At most `maxUnavailable` pods are missing, not ready or about to go."),
    "Progressing": Meaning(
        _NODESET, "Work is under way. False: nothing is left to do, or it is stuck; see the reason."
    ),
    "Feasible": Meaning(
        _NODESET, "The nodes can carry all wanted pods. False: the message counts nodes by the failed rule."
    ),
    "RemovalHeld": Meaning(
        _NODESET,
        "So many nodes stopped fitting at once that no pod is removed. See "
        "[troubleshooting](../troubleshooting.md#removalheld-on-a-nodeset).",
    ),
    "Ready": Meaning(
        _NODESET,
        "It is as wanted, or waits only for jobs to end. The reason is that of another condition. Flux, Argo CD and "
        "helm read it, with `Reconciling` and `Stalled`.",
    ),
    "Reconciling": Meaning(_NODESET, "While True: work is under way that does not wait for jobs."),
    "Stalled": Meaning(_NODESET, "While True: it goes on only when somebody corrects something."),
    "DrainTimeout": Meaning(_NODESET, "Pods have waited longer than `drainTimeoutSeconds` for their jobs."),
    "VersionSkew": Meaning(
        _NODESET,
        "While True: chart slurm and the operator do not fit; the message says which to upgrade.",
    ),
    "SharedTmp": Meaning(_NODESET, "While True: the jobs of a node share /tmp and /dev/shm; the message says why."),
    "PodScheduled": Meaning(_WORKLOAD, "The pod has a node. False: the message says what it waits for."),
    "DisruptionTarget": Meaning(
        _WORKLOAD, "The job of the pod gave way or lost its node; the reason is that of the Event."
    ),
    "sunkpy.dev/JobEnded": Meaning(
        _WORKLOAD, "The job of the pod was cancelled, failed or reached a limit; the reason is that of the Event."
    ),
}

CONDITION_REASONS: Final = {
    "Draining": Meaning("SlurmDrain", "No new job starts, and something still runs."),
    "Drained": Meaning("SlurmDrain", "No new job starts, and nothing runs."),
    "NotDrained": Meaning("SlurmDrain", "The node takes jobs."),
    "DrainedInSlurm": Meaning("SlurmCordon", "A person or a health check drained the node in Slurm."),
    "NotDrainedInSlurm": Meaning("SlurmCordon", "Nobody drained the node in Slurm."),
    "InvalidInSlurm": Meaning("SlurmCordon", "Slurm refuses what slurmd reports about the machine (`INVALID_REG`)."),
    "TooManyAtOnce": Meaning("SlurmCordon, RemovalHeld", "A cap holds: too many nodes or pods at once."),
    "NotReported": Meaning("SlurmDrain, SlurmCordon, SlurmNotResponding", "The slurmd pod has no such condition yet."),
    "JobsOnNode": Meaning("SlurmRunning", "Jobs, or an epilog, are on the node."),
    "NoJobs": Meaning("SlurmRunning", "The node is idle."),
    "SlurmUnreadable": Meaning("SlurmRunning", "The node is closed and was idle, but Slurm cannot be read now."),
    "Responding": Meaning("SlurmNotResponding", "slurmd answers slurmctld."),
    "NotResponding": Meaning("SlurmNotResponding", "slurmd does not answer slurmctld."),
    "NoSlurmNode": Meaning("all four of Slurm", "Slurm has no node of this name."),
    "Registered": Meaning("sunkpy.dev/registered", "Slurm knows the node and can use it."),
    "NotRegistered": Meaning("sunkpy.dev/registered", "Slurm does not know this slurmd, or cannot use it yet."),
    "MinimumAvailable": Meaning("Available", "Enough pods are ready and to stay."),
    "TooManyUnavailable": Meaning(
        "Available", "More than `maxUnavailable` pods are missing, not ready or about to go."
    ),
    "NoPods": Meaning("Available", "No pod is wanted, or no node fits."),
    "Scaling": Meaning("Progressing", "Pods are created or drained because their number changes."),
    "RollingOut": Meaning("Progressing", "Pods of an older template are replaced."),
    "WaitingForReady": Meaning("Progressing", "Pods are not ready yet."),
    "TearingDown": Meaning("Progressing", "The NodeSet is deleted and its pods are drained."),
    "Complete": Meaning("Progressing", "All pods are ready and of the current template."),
    "Paused": Meaning("Progressing", "A roll waits because the NodeSet is paused."),
    "WaitsForWindow": Meaning("Progressing", "A roll waits for its next window; the message says when."),
    "OnDelete": Meaning("Progressing", "Pods of an older template stay until somebody deletes them."),
    "CreateFailed": Meaning("Progressing", "The apiserver refuses the pod: quota, policy or the template."),
    "PodsFailed": Meaning("Progressing", "slurmd pods failed; they are made again later."),
    "BadSpec": Meaning("Progressing", "The template cannot be read. Nothing changes until it is corrected."),
    "NodesFit": Meaning("Feasible", "Enough nodes fit."),
    "NothingWanted": Meaning("Feasible", "`replicas` is 0, or nodes come when jobs want some: `growth.ask`."),
    "NoNodeFits": Meaning("Feasible", "No node fits; the message counts nodes by the failed rule."),
    "TooFewNodes": Meaning("Feasible", "Fewer nodes fit than `replicas` wants."),
    "DrainTimeout": Meaning("DrainTimeout", "Jobs take longer than `drainTimeoutSeconds`."),
    "VersionSkew": Meaning("VersionSkew", "The message has both versions, and which chart to upgrade."),
    "SharedTmp": Meaning(
        "SharedTmp", "A value of the chart says so, or Slurm cannot give each job its own without cgroups."
    ),
    "Unschedulable": Meaning(
        "PodScheduled", "No node could hold the pod, or Slurm has none free for it. Autoscalers look for this reason."
    ),
    "WaitingForSlurm": Meaning(
        "PodScheduled",
        "The pod waits for something else, or for a node that its NodeSet [asks for](../tasks/growth.md#what-is-wanted)"
        "; autoscalers buy none for it.",
    ),
}

EVENTS: Final = {
    "Scheduled": Meaning(_WORKLOAD, "Bound; the text names job and node."),
    "WaitingForSlurm": Meaning(
        _WORKLOAD, "In the queue, with Slurm's reason (`Resources`, `Priority` …). Nothing to do."
    ),
    "FailedScheduling": Meaning(
        _WORKLOAD,
        "Somebody has to change something; the text says what. See "
        "[troubleshooting](../troubleshooting.md#pod-stays-pending).",
    ),
    "JobChanged": Meaning(_WORKLOAD, "Annotations changed while the job waits in the queue, and the job follows them."),
    "JobNotChanged": Meaning(
        _WORKLOAD,
        "Annotations changed, but Slurm refuses the change, or the option is fixed after the submit. The job waits as "
        "it was. Delete the pods to submit them again.",
    ),
    "OwnerUnknown": Meaning(
        _WORKLOAD,
        "An object that says which pods belong together cannot be read. The text says which, and which right or CRD is "
        "missing. The pod is looked at again by itself, within half a minute of a new CRD.",
    ),
    "OddObject": Meaning(
        _WORKLOAD,
        "The scheduler failed on this pod or on the objects that own it. It ignores the pod and serves all others. "
        "Please report the text of the Event.",
    ),
    "StaysInGang": Meaning(
        _WORKLOAD,
        "A label or annotation that names its gang changed while the pod waits. The pod stays in its first gang. "
        "Delete it to get one in the other gang.",
    ),
    "UnknownAnnotation": Meaning(_WORKLOAD, "An annotation is misspelt or not supported, and has no effect."),
    "GpusByCount": Meaning(
        _WORKLOAD,
        "With `scheduler.gpuSharing: count`: the pod's GPU may also be another job's. Ask for whole nodes "
        "(`sunkpy.dev/exclusive`) where that must not be.",
    ),
    "PreemptionIsFinal": Meaning(
        _WORKLOAD, "At the start of a gang: its owner does not make evicted pods again, and why."
    ),
    "SeatRefused": Meaning(
        _WORKLOAD,
        "The node of its seat has refused a member for half a minute: a cordon, a taint, pods of others. It gets a job "
        "of its own; the job of the gang keeps the node.",
    ),
    "AsksForMore": Meaning(
        _WORKLOAD,
        "The pod asks for more than its seat in the job of the gang. It gets a job of its own. If no pod of the gang "
        "runs, the whole gang gets another job.",
    ),
    "GraceTooLong": Meaning(
        _WORKLOAD,
        "The grace period is longer than `hooks.longestGraceSeconds`, or that of its partition or namespace. When the "
        "job loses the node, the pod gets only that long, and then its containers are killed.",
    ),
    "GraceShortened": Meaning(
        _WORKLOAD, "The pod was ending with a grace period above that limit when its job lost the node."
    ),
    "SlurmJobLost": Meaning(
        _WORKLOAD,
        "Slurm forgot the job of a bound pod. A replacement job follows; the pod keeps running, unless that has other "
        "devices than the pod's claims.",
    ),
    "BoundByOthers": Meaning(
        _WORKLOAD,
        "Somebody else put the pod on its node (`spec.nodeName`, or a binding). A job is submitted for that node; "
        "until it starts, Slurm may give the node to others.",
    ),
    "PreemptionByScheduler": Meaning(
        _WORKLOAD, "Evicted; the text names the job that took its node, if that can be told, unless PrivateData=jobs."
    ),
    "BudgetViolated": Meaning(
        _WORKLOAD,
        "Preempted, and its PodDisruptionBudget has too few healthy pods now. Slurm chooses, and knows no budgets: "
        "spread the replicas.",
    ),
    "SlurmJobCancelled": Meaning(_WORKLOAD, "Evicted: its job was cancelled. Its controller makes a new pod."),
    "SlurmJobTimeout": Meaning(_WORKLOAD, "Evicted: its job reached the time limit. Set `sunkpy.dev/time-limit`."),
    "SlurmJobDeadline": Meaning(_WORKLOAD, "Evicted: its job reached the deadline."),
    "SlurmNodeFail": Meaning(_WORKLOAD, "Evicted: Slurm lost the node of its job."),
    "SlurmJobFailed": Meaning(_WORKLOAD, "Evicted: its job failed, ran out of memory, or its node did not boot."),
    "SlurmJobSuspended": Meaning(_WORKLOAD, "Evicted: its job was suspended, which pods cannot be."),
    "SlurmJobRequeued": Meaning(_WORKLOAD, "Evicted: its job was queued again."),
    "SlurmJobEnded": Meaning(_WORKLOAD, "Evicted: its job ended, and Slurm does not say how."),
    "DevicesLost": Meaning(
        _WORKLOAD,
        "Evicted: somebody changed its ResourceClaims while it ran, or gave one of its devices to another claim too. "
        "Find who writes the status of claims.",
    ),
    "SlurmNodeDrained": Meaning(_SLURMD, "The syncer drained the Slurm node; the text has the reason."),
    "SlurmNodeUndrained": Meaning(_SLURMD, "The syncer lifted its own drain."),
    "SlurmDrainLifted": Meaning(
        _SLURMD,
        "The syncer lifted a drain that others set in Slurm: a rule of `health.signals` names its reason, and the "
        "machine has started again.",
    ),
    "SlurmNodeResumed": Meaning(
        _SLURMD,
        "Slurm had set the node DOWN by itself, mostly because its machine was booted unannounced. Its slurmd has "
        "registered again, so the syncer has resumed it. If this comes again, look into the machine.",
    ),
    "PlaceUnknown": Meaning(
        _SLURMD,
        "The labels of its Node do not say where it stands in Slurm's topology; the text says which one is missing. It "
        "stays where it was. See [topology](../tasks/topology.md).",
    ),
    "SlurmDrainRestored": Meaning(
        _SLURMD, "Slurm lost its record of the node with somebody's drain. The drain was set again."
    ),
    "SlurmNodeReaddressed": Meaning(
        _SLURMD,
        "After a crash, slurmctld used the address of an earlier pod for this slurmd. The syncer has given it the new "
        "address.",
    ),
    "SlurmUnreadable": Meaning(
        _NODESET,
        "slurmrestd or slurmctld does not answer, and since when. See "
        "[troubleshooting](../troubleshooting.md#a-part-is-down).",
    ),
    "SlurmReadable": Meaning(_NODESET, "Slurm answers again."),
    "SlurmNotBelieved": Meaning(
        _NODESET,
        "Slurm answers without its nodes. See "
        "[troubleshooting](../troubleshooting.md#slurm-lists-no-nodes-slurmnotbelieved).",
    ),
    "JobsWaiting": Meaning(
        _NODESET,
        "For ten minutes at least ten jobs, and one for each ten nodes, have waited for nodes of its partitions "
        "(`Resources`, with those behind, `Priority`). The text says what Slurm cannot use: nodes that are drained or "
        "down, feasible ones above `replicas`. It comes at most every ten minutes, and unchanged every half hour; "
        "none without `syncer.metrics.enabled`.",
    ),
    "CannotGrow": Meaning(
        _NODESET,
        "A job waits that no node more of this NodeSet can help, and the text says why: it asks more of a node, or for "
        "more nodes than `growth.potential` allows. None without `syncer.metrics.enabled`. See "
        "[growth](../tasks/growth.md#what-is-wanted).",
    ),
    "IdleCheckRefused": Meaning(
        _SLURMD,
        "Slurm does not take the job that would check the idle node (`compute.verify.idle`), in its words. It is tried "
        "again in an hour. See [health](../tasks/health.md#while-nothing-runs-there).",
    ),
    "PotentialUnknown": Meaning(
        _NODESET,
        "It has a `growth.potential`, and nobody knows what a node of it offers: it has had none, and there is no "
        "`growth.shape`. See [growth](../tasks/growth.md).",
    ),
    "TooManyAtOnce": Meaning(
        "slurmd Pod, NodeSet, Node",
        "A cap holds. See [troubleshooting](../troubleshooting.md#toomanyatonce-on-nodes-or-slurmd-pods).",
    ),
    "SlurmCordon": Meaning(_NODE, "Cordoned because of a drain in Slurm."),
    "HealthDrain": Meaning(
        _NODE,
        "A signal of `health.signals` says that the Node is sick; the text is the evidence. Its Slurm node is "
        "drained, or Slurm has drained it. Jobs end in their own time. See [health](../tasks/health.md).",
    ),
    "HealthDrained": Meaning(_NODE, "Nothing runs on the sick Node any more; the text says what brings it back."),
    "HealthRemedy": Meaning(_NODE, "The remedy of its signal begins: an object of `health.remedies` is written."),
    "HealthRemedyWritten": Meaning(_NODE, "The object was written; another program takes care of it."),
    "HealthRemedyFailed": Meaning(
        _NODE,
        "The apiserver refuses the object of the remedy, in its words; it is tried again. Mostly the operator lacks "
        "the right to create it: [health](../tasks/health.md#remedies).",
    ),
    "HealthVerify": Meaning(
        _NODE,
        "The Node is cured, or somebody asks for it, and its NodeSet has a check (`compute.verify`): its slurmd pod is "
        "replaced, and the next one runs the check before slurmd.",
    ),
    "HealthReturned": Meaning(_NODE, "The Node takes jobs again; the text says why."),
    "HealthNeedsPerson": Meaning(
        _NODE,
        "The Node does not come back by itself: it was not cured in time, or came back too often. The text says "
        "what to do.",
    ),
    "SlurmUncordon": Meaning(_NODE, "Uncordoned: the drain in Slurm was lifted."),
    "PodsCreated": Meaning(_NODESET, "The operator created these slurmd pods."),
    "PodAdopted": Meaning(_NODESET, "The operator took over a slurmd pod of an earlier NodeSet of the same name."),
    "PodsDraining": Meaning(_NODESET, "The operator asked for these pods to be drained, and why."),
    "RemovalCancelled": Meaning(_NODESET, "The cause of a removal ended, so these pods stay."),
    "PodsDeleted": Meaning(_NODESET, "The operator deleted these pods; the text says why."),
    "PodFailed": Meaning(_NODESET, "A slurmd pod failed. It is made again after 1, 2, 4 … 300 s."),
    "CreateFailed": Meaning(_NODESET, "The apiserver refuses the pod, in its words: quota, policy or the template."),
    "BadSpec": Meaning(_NODESET, "The template cannot be read. Nothing changes until it is corrected."),
    "NodesAsked": Meaning(
        _NODESET, "Autoscalers are asked for nodes; the text says how many, and for which jobs: `spec.growth.ask`."
    ),
    "NodesRefused": Meaning(
        _NODESET,
        "No node comes for what was asked: the text has the words of the autoscaler, or that none has said anything "
        "for a minute. What was asked for stays, and comes when the autoscaler can.",
    ),
    "NodesTakenBack": Meaning(
        _NODESET, "Nodes that were left to autoscalers get slurmd pods again, because jobs want nodes."
    ),
    "NodesNotAsked": Meaning(
        _NODESET,
        "Nothing can be asked for: the apiserver refuses it, in its words, such as a quota, or the kind that "
        "`spec.growth.ask` names is not installed. It is tried again.",
    ),
    "KillTaskFailed": Meaning(
        _NODESET,
        "Processes of a job outlived SIGKILL for `UnkillableStepTimeout`, so the node was drained. The text says "
        "which wait, and where in the kernel: [troubleshooting](../troubleshooting.md#slurm-node-stays-drained).",
    ),
    "NoNodeFits": Meaning(_NODESET, "No node fits; the text counts nodes by the failed rule."),
    "TooFewNodes": Meaning(_NODESET, "Fewer nodes fit than wanted; the text counts nodes by the failed rule."),
    "DrainTimeout": Meaning(_NODESET, "Jobs take longer than `drainTimeoutSeconds`."),
    "VersionSkew": Meaning(_NODESET, "Chart slurm and the operator do not fit; the text says which to upgrade."),
}
