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
        "Something on Slurm's side set DRAIN, FAIL or DOWN: a person, a health check or Slurm itself. The message"
        " is its reason. The operator cordons the Node for it, unless the reason of the condition is "
        "`TooManyAtOnce`.",
    ),
    "SlurmRunning": Meaning(
        _SLURMD,
        "Jobs, or an epilog, are on the node. On an open node the condition follows after 5 s, or after 1 s for "
        "each 20 nodes of the cluster if that is longer.",
    ),
    "SlurmNotResponding": Meaning(_BOTH, "slurmctld has not heard from slurmd for more than 10 s."),
    "sunkpy.dev/registered": Meaning(
        _SLURMD,
        "This is the readiness gate: Slurm knows the node and can use it. As long as Slurm cannot be read, the "
        "condition stays as it is.",
    ),
    "Available": Meaning(_NODESET, "At most `maxUnavailable` slurmd pods are missing, not ready or being removed."),
    "Progressing": Meaning(
        _NODESET, "Work is under way. False: nothing is left to do, or the work is stuck. The reason says which."
    ),
    "Feasible": Meaning(
        _NODESET, "Enough nodes fit for all wanted pods. False: the message says how many nodes fail which rule."
    ),
    "RemovalHeld": Meaning(
        _NODESET,
        "So many nodes stopped fitting at once that the operator removes no pod. See "
        "[troubleshooting](../troubleshooting.md#removalheld-on-a-nodeset).",
    ),
    "Ready": Meaning(
        _NODESET,
        "The NodeSet is as wanted, or waits only for jobs to end. Reason and message are copied from the "
        "condition that decides: Progressing, Available, Feasible or RemovalHeld. Flux, Argo CD and helm read "
        "Ready, Reconciling and Stalled.",
    ),
    "Reconciling": Meaning(
        _NODESET, "Work is under way that does not wait for jobs. The condition exists only while it is True."
    ),
    "Stalled": Meaning(
        _NODESET,
        "The operator cannot go on until a person corrects something; the message says what. The condition exists"
        " only while it is True.",
    ),
    "DrainTimeout": Meaning(
        _NODESET, "Pods of the NodeSet have waited longer than `drainTimeoutSeconds` until the jobs on their nodes end."
    ),
    "VersionSkew": Meaning(
        _NODESET, "Chart slurm and the operator do not fit together. The message says which to upgrade."
    ),
    "SharedTmp": Meaning(_NODESET, "All jobs of a node share one /tmp and /dev/shm. The message says why."),
    "PodScheduled": Meaning(_WORKLOAD, "The pod has a node. False: the message says what the pod waits for."),
    "DisruptionTarget": Meaning(
        _WORKLOAD,
        "The pod is evicted, because its job was preempted or lost its node. The reason is that of the Event.",
    ),
    "sunkpy.dev/JobEnded": Meaning(
        _WORKLOAD,
        "The pod is evicted, because its job was cancelled, failed or reached a limit. The reason is that of the "
        "Event.",
    ),
}

CONDITION_REASONS: Final = {
    "Draining": Meaning("SlurmDrain", "Slurm starts no new job on the node, and something still runs there."),
    "Drained": Meaning("SlurmDrain", "Slurm starts no new job on the node, and nothing runs there."),
    "NotDrained": Meaning("SlurmDrain", "Slurm starts jobs on the node."),
    "DrainedInSlurm": Meaning(
        "SlurmCordon", "Somebody closed the node in Slurm: a person, a health check, or Slurm itself."
    ),
    "NotDrainedInSlurm": Meaning("SlurmCordon", "Nobody closed the node in Slurm."),
    "InvalidInSlurm": Meaning(
        "SlurmCordon",
        "Slurm refuses the node, because slurmd reports another machine than Slurm's record (`INVALID_REG`).",
    ),
    "TooManyAtOnce": Meaning(
        "SlurmCordon, RemovalHeld", "A cap holds the operator back: too many nodes or pods are concerned at once."
    ),
    "NotReported": Meaning(
        "SlurmDrain, SlurmCordon, SlurmNotResponding", "The slurmd pod does not have this condition yet."
    ),
    "JobsOnNode": Meaning("SlurmRunning", "Jobs, or an epilog, are on the node."),
    "NoJobs": Meaning("SlurmRunning", "No job and no epilog is on the node."),
    "SlurmUnreadable": Meaning("SlurmRunning", "The node is closed and was idle, but Slurm cannot be read now."),
    "Responding": Meaning("SlurmNotResponding", "slurmd answers slurmctld."),
    "NotResponding": Meaning("SlurmNotResponding", "slurmd does not answer slurmctld."),
    "NoSlurmNode": Meaning(
        "SlurmDrain, SlurmCordon, SlurmRunning, SlurmNotResponding", "Slurm has no node of this name."
    ),
    "Registered": Meaning("sunkpy.dev/registered", "Slurm knows the node and can use it."),
    "NotRegistered": Meaning(
        "sunkpy.dev/registered", "Slurm does not know the slurmd of this pod, or cannot use it yet."
    ),
    "MinimumAvailable": Meaning("Available", "Enough pods are ready and are not being removed."),
    "TooManyUnavailable": Meaning(
        "Available", "More than `maxUnavailable` pods are missing, not ready or being removed."
    ),
    "NoPods": Meaning("Available", "The NodeSet wants no pod, or no node fits."),
    "Scaling": Meaning("Progressing", "The operator creates or drains pods, because their wanted number has changed."),
    "RollingOut": Meaning("Progressing", "The operator replaces pods of an older template."),
    "WaitingForReady": Meaning("Progressing", "Pods are not ready yet."),
    "TearingDown": Meaning("Progressing", "The NodeSet is being deleted: its pods are drained first."),
    "Complete": Meaning("Progressing", "All pods are ready, and all are of the current template."),
    "Paused": Meaning("Progressing", "Pods of an older template wait, because the NodeSet is paused (`spec.paused`)."),
    "WaitsForWindow": Meaning(
        "Progressing", "Pods of an older template wait for the next window of a roll. The message says when it begins."
    ),
    "OnDelete": Meaning(
        "Progressing",
        "Pods of an older template stay until somebody deletes them, because `updateStrategy` is `OnDelete`.",
    ),
    "CreateFailed": Meaning(
        "Progressing",
        "The apiserver refuses to create slurmd pods. The message has its words: quota, policy or the template.",
    ),
    "PodsFailed": Meaning("Progressing", "Some slurmd pods have failed. The operator makes them again after a pause."),
    "BadSpec": Meaning(
        "Progressing", "The operator cannot read the template. It changes nothing until somebody corrects the template."
    ),
    "NodesFit": Meaning("Feasible", "Enough nodes fit the NodeSet."),
    "NothingWanted": Meaning(
        "Feasible", "`replicas` is 0, or no job wants a node now and nodes come only then (`growth.ask`)."
    ),
    "NoNodeFits": Meaning("Feasible", "No node fits the NodeSet. The message says how many nodes fail which rule."),
    "TooFewNodes": Meaning(
        "Feasible", "Fewer nodes fit than `replicas` wants. The message says how many nodes fail which rule."
    ),
    "DrainTimeout": Meaning("DrainTimeout", "Jobs on nodes to be emptied run longer than `drainTimeoutSeconds`."),
    "VersionSkew": Meaning("VersionSkew", "The message names both versions and the chart to upgrade."),
    "SharedTmp": Meaning(
        "SharedTmp",
        "A value of the chart wants it so, or Slurm cannot give each job its own /tmp without cgroups. The "
        "message says which.",
    ),
    "Unschedulable": Meaning(
        "PodScheduled",
        "No node could hold the pod, or Slurm has no free node for it. Autoscalers react to this reason.",
    ),
    "WaitingForSlurm": Meaning(
        "PodScheduled",
        "The pod waits for something else than a node, or for a node that its NodeSet [asks "
        "for](../tasks/growth.md#what-is-wanted). Autoscalers buy no node for this pod.",
    ),
}

EVENTS: Final = {
    "Scheduled": Meaning(
        _WORKLOAD, "The scheduler bound the pod to a node. The text names the Slurm job and the node."
    ),
    "WaitingForSlurm": Meaning(
        _WORKLOAD,
        "The pod's job waits in Slurm's queue. The text has Slurm's reason (`Resources`, `Priority` …). There is "
        "nothing to do.",
    ),
    "FailedScheduling": Meaning(
        _WORKLOAD,
        "The pod cannot start until somebody changes something. The text says what. See "
        "[troubleshooting](../troubleshooting.md#pod-stays-pending).",
    ),
    "JobChanged": Meaning(
        _WORKLOAD,
        "Somebody changed annotations of the pod while its job waits in the queue. The scheduler changed the job "
        "accordingly.",
    ),
    "JobNotChanged": Meaning(
        _WORKLOAD,
        "Somebody changed annotations of the pod, but Slurm refuses the change, or the option cannot change after"
        " the submit. The job waits with its old options. Delete the pods to submit them with the new ones.",
    ),
    "OwnerUnknown": Meaning(
        _WORKLOAD,
        "The scheduler cannot read an object that says which pods belong together. The text names the object and "
        "the missing right or CRD. The scheduler looks at the pod again by itself, within half a minute after a "
        "new CRD.",
    ),
    "OddObject": Meaning(
        _WORKLOAD,
        "The scheduler failed on this pod or on an object that owns it. It ignores the pod and serves all others."
        " Please report the text of the Event.",
    ),
    "StaysInGang": Meaning(
        _WORKLOAD,
        "Somebody changed a label or annotation that names the gang of a waiting pod. The pod stays in its first "
        "gang. Delete it, and its next pod belongs to the other gang.",
    ),
    "UnknownAnnotation": Meaning(_WORKLOAD, "An annotation of the pod is misspelt or not supported. It has no effect."),
    "GpusByCount": Meaning(
        _WORKLOAD,
        "With `scheduler.gpuSharing: count`, another job may use the same GPU as this pod. If that must not "
        "happen, ask for whole nodes (`sunkpy.dev/exclusive`).",
    ),
    "PreemptionIsFinal": Meaning(
        _WORKLOAD,
        "Sent when the gang starts: if Slurm takes its nodes later and the pods are evicted, their owner makes no"
        " new pods. The text says why.",
    ),
    "SeatRefused": Meaning(
        _WORKLOAD,
        "For half a minute, the node of the pod's seat did not accept the pod: the node is cordoned or tainted, "
        "or other pods fill it. The pod gets a Slurm job of its own. The job of the gang keeps the node until it "
        "ends.",
    ),
    "AsksForMore": Meaning(
        _WORKLOAD,
        "The pod asks for more than its seat in the gang's job has. It gets a Slurm job of its own. If no pod of "
        "the gang runs, the whole gang gets a new job.",
    ),
    "GraceTooLong": Meaning(
        _WORKLOAD,
        "The pod's grace period is longer than `hooks.longestGraceSeconds`, or than the limit of its partition or"
        " namespace. If its job loses the node, the pod has only that limit to end. Then its containers are "
        "killed.",
    ),
    "GraceShortened": Meaning(
        _WORKLOAD,
        "When the job lost the node, the pod was already ending, with a longer grace period than "
        "`hooks.longestGraceSeconds` (or the limit of its partition or namespace). The scheduler shortened it.",
    ),
    "SlurmJobLost": Meaning(
        _WORKLOAD,
        "Slurm forgot the job of a pod that has a node. The scheduler submits a replacement job, and the pod keeps "
        "running. But if the pod got its devices one by one (by claims or by sunkpy's device plugin), and the "
        "replacement job has others, the pod is evicted.",
    ),
    "BoundByOthers": Meaning(
        _WORKLOAD,
        "Somebody else than the scheduler put the pod on its node (`spec.nodeName`, or a binding). The scheduler "
        "submits a job for that node. Until this job starts, Slurm may give the node to others.",
    ),
    "PreemptionByScheduler": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, because another job took its node. The text names that job if it is found, "
        "unless slurm.conf has PrivateData=jobs.",
    ),
    "BudgetViolated": Meaning(
        _WORKLOAD,
        "The pod was preempted, and its PodDisruptionBudget has too few healthy pods now. Slurm chooses whom it "
        "preempts and does not know budgets: spread the replicas over nodes.",
    ),
    "SlurmJobCancelled": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, because somebody cancelled its Slurm job. The pod's controller makes a "
        "new pod, which gets a new job.",
    ),
    "SlurmJobTimeout": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, because its Slurm job reached the time limit. Set `sunkpy.dev/time-limit`.",
    ),
    "SlurmJobDeadline": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because its Slurm job reached its deadline."
    ),
    "SlurmNodeFail": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because Slurm lost the node of its job, or could not boot it."
    ),
    "SlurmJobFailed": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because its Slurm job failed or ran out of memory."
    ),
    "SlurmJobSuspended": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because somebody suspended its Slurm job. Pods cannot be suspended."
    ),
    "SlurmJobRequeued": Meaning(_WORKLOAD, "The scheduler evicted the pod, because its Slurm job was queued again."),
    "SlurmJobEnded": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because its Slurm job ended. Slurm does not say how."
    ),
    "DevicesLost": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, because somebody changed its ResourceClaims while it ran, or gave one of "
        "its devices to another claim. Find out who writes the status of claims.",
    ),
    "SlurmNodeDrained": Meaning(_SLURMD, "The syncer drained the Slurm node of this pod. The text has the reason."),
    "SlurmNodeUndrained": Meaning(
        _SLURMD, "The syncer lifted the drain that it had set on the Slurm node of this pod."
    ),
    "SlurmDrainLifted": Meaning(
        _SLURMD,
        "The syncer lifted a drain that others had set in Slurm: a rule of `health.signals` names the reason of "
        "this drain, and the machine has started again.",
    ),
    "SlurmNodeResumed": Meaning(
        _SLURMD,
        "Slurm had set the node DOWN by itself, mostly because its machine started again unannounced. Its slurmd "
        "has registered, so the syncer resumed the node. If this Event comes again, look into the machine.",
    ),
    "PlaceUnknown": Meaning(
        _SLURMD,
        "The labels of the pod's Node do not say where it stands in Slurm's topology. The text names the missing "
        "label. The Slurm node stays where it was. See [topology](../tasks/topology.md).",
    ),
    "SlurmDrainRestored": Meaning(
        _SLURMD,
        "Slurm lost its record of the node, and with it a drain that somebody had set. The syncer set the drain again.",
    ),
    "SlurmNodeReaddressed": Meaning(
        _SLURMD,
        "After a crash, slurmctld used the address of an earlier pod for this slurmd. The syncer told it the "
        "present address.",
    ),
    "SlurmUnreadable": Meaning(
        _NODESET,
        "The syncer gets no answer from slurmrestd or slurmctld. The text says since when. See "
        "[troubleshooting](../troubleshooting.md#a-part-is-down).",
    ),
    "SlurmReadable": Meaning(_NODESET, "The syncer gets answers from Slurm again."),
    "SlurmNotBelieved": Meaning(
        _NODESET,
        "Slurm's answers lack nodes that it knew before, so the syncer does not use them. See "
        "[troubleshooting](../troubleshooting.md#slurm-lists-no-nodes-slurmnotbelieved).",
    ),
    "JobsWaiting": Meaning(
        _NODESET,
        "Many jobs have waited for ten minutes for nodes of the NodeSet's partitions (`Resources`, with those "
        "behind, `Priority`): at least ten jobs, and one more for each ten nodes. The text says which nodes Slurm"
        " cannot use: drained or down ones, and feasible ones above `replicas`. The Event comes at most every ten"
        " minutes, and with the same text every half hour. Without `syncer.metrics.enabled` it never comes.",
    ),
    "CannotGrow": Meaning(
        _NODESET,
        "A job waits, and more nodes of this NodeSet cannot help it. The text says why: the job asks for more "
        "than such a node has, or for more nodes than `growth.potential` allows. Without `syncer.metrics.enabled`"
        " this Event never comes. See [growth](../tasks/growth.md#what-is-wanted).",
    ),
    "IdleCheckRefused": Meaning(
        _SLURMD,
        "Slurm refuses the job that would check the idle node (`compute.verify.idle`). The text has its words. "
        "The syncer tries again in an hour. See [health](../tasks/health.md#while-nothing-runs-there).",
    ),
    "PotentialUnknown": Meaning(
        _NODESET,
        "The NodeSet has `growth.potential`, but nobody knows what one of its nodes offers: it has had no node so"
        " far, and `growth.shape` is not set. See [growth](../tasks/growth.md).",
    ),
    "TooManyAtOnce": Meaning(
        "slurmd Pod, NodeSet, Node",
        "A cap holds the operator or the syncer back: too many nodes or pods are concerned at once. See "
        "[troubleshooting](../troubleshooting.md#toomanyatonce-on-nodes-or-slurmd-pods).",
    ),
    "SlurmCordon": Meaning(_NODE, "The operator cordoned the Node, because its Slurm node is drained in Slurm."),
    "HealthDrain": Meaning(
        _NODE,
        "A signal of `health.signals` says that the Node is sick. The text is the evidence. Its Slurm node is "
        "being drained, or Slurm has drained it; jobs end in their own time. See [health](../tasks/health.md).",
    ),
    "HealthDrained": Meaning(_NODE, "Nothing runs on the sick Node any more. The text says what brings it back."),
    "HealthRemedy": Meaning(
        _NODE, "The remedy for the Node's signal begins: the operator writes the object of `health.remedies`."
    ),
    "HealthRemedyWritten": Meaning(
        _NODE, "The operator wrote the object of the remedy. Another program takes care of the Node now."
    ),
    "HealthRemedyFailed": Meaning(
        _NODE,
        "The apiserver refuses the object of the remedy. The text has its words. The operator tries again. Mostly"
        " it lacks the right to create the object: [health](../tasks/health.md#remedies).",
    ),
    "HealthVerify": Meaning(
        _NODE,
        "The Node is cured, or somebody asks for its check, and its NodeSet has one (`compute.verify`). The "
        "operator replaces the slurmd pod, and the next one runs the check before slurmd.",
    ),
    "HealthReturned": Meaning(_NODE, "The Node takes jobs again. The text says why."),
    "HealthNeedsPerson": Meaning(
        _NODE,
        "The Node does not come back by itself: it was not cured in time, or it came back too often. The text "
        "says what to do.",
    ),
    "SlurmUncordon": Meaning(_NODE, "The operator uncordoned the Node, because the drain in Slurm was lifted."),
    "PodsCreated": Meaning(_NODESET, "The operator created these slurmd pods."),
    "PodAdopted": Meaning(_NODESET, "The operator took over a slurmd pod of an earlier NodeSet with the same name."),
    "PodsDraining": Meaning(
        _NODESET, "The operator asked the syncer to drain the Slurm nodes of these pods. The text says why."
    ),
    "RemovalCancelled": Meaning(_NODESET, "These slurmd pods stay, because the cause of their removal has ended."),
    "PodsDeleted": Meaning(_NODESET, "The operator deleted these pods; the text says why."),
    "PodFailed": Meaning(_NODESET, "A slurmd pod failed. The operator makes it again after 1, 2, 4 … 300 s."),
    "CreateFailed": Meaning(
        _NODESET, "The apiserver refuses to create a slurmd pod. The text has its words: quota, policy or the template."
    ),
    "BadSpec": Meaning(
        _NODESET, "The operator cannot read the template. It changes nothing until somebody corrects the template."
    ),
    "NodesAsked": Meaning(
        _NODESET,
        "The operator asked autoscalers for nodes, as `spec.growth.ask` says. The text says how many, and for "
        "which jobs.",
    ),
    "NodesRefused": Meaning(
        _NODESET,
        "No node comes for which the operator asked. The text has the words of the autoscaler, or says that none "
        "has answered for a minute. The request stays, and is met when the autoscaler can.",
    ),
    "NodesTakenBack": Meaning(
        _NODESET, "Nodes that the NodeSet had left to autoscalers get slurmd pods again, because jobs want nodes."
    ),
    "NodesNotAsked": Meaning(
        _NODESET,
        "The operator cannot ask for nodes: the apiserver refuses it (the text has its words, such as a quota), "
        "or the kind that `spec.growth.ask` names is not installed. The operator tries again.",
    ),
    "KillTaskFailed": Meaning(
        _NODESET,
        "Processes of a job outlived SIGKILL for `UnkillableStepTimeout`, so Slurm drained the node. The text "
        "names the processes that wait, and where in the kernel: "
        "[troubleshooting](../troubleshooting.md#slurm-node-stays-drained).",
    ),
    "NoNodeFits": Meaning(_NODESET, "No node fits the NodeSet. The text says how many nodes fail which rule."),
    "TooFewNodes": Meaning(
        _NODESET, "Fewer nodes fit than the NodeSet wants. The text says how many nodes fail which rule."
    ),
    "DrainTimeout": Meaning(_NODESET, "Jobs on nodes to be emptied run longer than `drainTimeoutSeconds`."),
    "VersionSkew": Meaning(
        _NODESET, "Chart slurm and the operator do not fit together. The text says which to upgrade."
    ),
}
