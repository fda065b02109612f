"""What each condition and each reason of an Event means to its reader, and what the reader can do.

`tools/make-reference` makes docs/reference/conditions.md and events.md of these tables. A test compares them with the
code: each condition, reason and Event that the code writes has a row, and each row is written somewhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """The kinds of objects that show a condition, a reason or an Event (`on`), and its meaning for their reader."""

    on: str
    means: str


_SLURMD, _NODE, _BOTH = "slurmd Pod", "Node", "slurmd Pod, Node"
_NODESET, _WORKLOAD = "NodeSet", "workload Pod"

CONDITIONS: Final = {
    "SlurmDrain": Meaning(
        _BOTH, "Slurm starts no new job on the Slurm node: it is drained, or an admin has set it to FAIL or DOWN."
    ),
    "SlurmCordon": Meaning(
        _BOTH,
        "A person, a health check or Slurm itself has set the Slurm node to DRAIN, FAIL or DOWN. Drains of sunkpy do "
        "not count, and neither does DOWN because slurmd does not respond or the machine started again. The message "
        "of the condition is Slurm's reason. By default the operator cordons the Node because of it "
        "(`slurmDrains.policy`), unless the reason of the condition is `TooManyAtOnce`.",
    ),
    "SlurmRunning": Meaning(
        _SLURMD,
        "A job or an epilog is on the Slurm node. While the Slurm node is open, the condition follows after 5 s, or "
        "after 1 s for each 20 nodes of the cluster if that is longer.",
    ),
    "SlurmNotResponding": Meaning(
        _BOTH,
        "For more than 10 s, Slurm has shown the node as not responding: slurmctld does not hear from its slurmd.",
    ),
    "sunkpy.dev/registered": Meaning(
        _SLURMD,
        "Slurm knows the pod's Slurm node and can use it. The condition is the readiness gate of slurmd pods. "
        "While Slurm cannot be read, the condition stays as it was.",
    ),
    "Available": Meaning(
        _NODESET, "At most `maxUnavailable` slurmd pods of the NodeSet are missing, not ready or being removed."
    ),
    "Progressing": Meaning(
        _NODESET,
        "The operator creates, drains or replaces slurmd pods of the NodeSet, or waits until they are ready. False: "
        "nothing is left to do, or the operator is stuck. The reason says which.",
    ),
    "Feasible": Meaning(
        _NODESET,
        "Enough Nodes fit the NodeSet for all slurmd pods that it wants. False: the message says how many Nodes "
        "fail which rule.",
    ),
    "RemovalHeld": Meaning(
        _NODESET,
        "Too many Nodes of the NodeSet stopped fitting at once, so the operator removes none of the slurmd pods on "
        "these Nodes. See [troubleshooting](../troubleshooting.md#removalheld-on-a-nodeset).",
    ),
    "Ready": Meaning(
        _NODESET,
        "The NodeSet has the slurmd pods that its spec wants, or waits only for jobs to end. Reason and message "
        "are copied from the condition that decides: Progressing, Available, Feasible or RemovalHeld. Flux, Argo "
        "CD and helm read Ready, Reconciling and Stalled.",
    ),
    "Reconciling": Meaning(
        _NODESET,
        "The operator is at work on the NodeSet: it does more than wait for jobs to end. The NodeSet has this "
        "condition only while it is True.",
    ),
    "Stalled": Meaning(
        _NODESET,
        "The operator cannot go on until a person corrects something; the message says what. The NodeSet has this "
        "condition only while it is True.",
    ),
    "DrainTimeout": Meaning(
        _NODESET,
        "slurmd pods of the NodeSet that must go have waited longer than `drainTimeoutSeconds` for the jobs on "
        "their nodes to end.",
    ),
    "VersionSkew": Meaning(
        _NODESET,
        "The versions of chart slurm and of the operator do not fit together. The message says which of them to "
        "upgrade.",
    ),
    "SharedTmp": Meaning(
        _NODESET, "On each node of the NodeSet, all jobs share one /tmp and one /dev/shm. The message says why."
    ),
    "SharedPids": Meaning(
        _NODESET,
        "On each node of the NodeSet, a job sees the processes of other jobs of its user. The message says why, and "
        "how to hide them.",
    ),
    "PodScheduled": Meaning(_WORKLOAD, "The pod is bound to a node. False: the message says what the pod waits for."),
    "DisruptionTarget": Meaning(
        _WORKLOAD,
        "The scheduler evicts the pod, because its Slurm job was preempted, suspended or requeued, because the pod "
        "lost its node or its devices, or because its job ended and Slurm does not say how. The reason of the "
        "condition is the name of the Event about it.",
    ),
    "sunkpy.dev/JobEnded": Meaning(
        _WORKLOAD,
        "The scheduler evicts the pod, because its Slurm job was cancelled, failed or reached a limit. The reason "
        "of the condition is the name of the Event about it.",
    ),
}

CONDITION_REASONS: Final = {
    "Draining": Meaning("SlurmDrain", "Slurm starts no new job on the node, and a job or an epilog is still there."),
    "Drained": Meaning("SlurmDrain", "Slurm starts no new job on the node, and no job and no epilog is there."),
    "NotDrained": Meaning(
        "SlurmDrain",
        "The Slurm node has no drain, and nobody has set it to FAIL or DOWN. Jobs can start there if its slurmd "
        "answers.",
    ),
    "DrainedInSlurm": Meaning(
        "SlurmCordon", "Somebody other than sunkpy closed the node in Slurm: a person, a health check, or Slurm itself."
    ),
    "NotDrainedInSlurm": Meaning("SlurmCordon", "Nobody except sunkpy has closed the node in Slurm."),
    "InvalidInSlurm": Meaning(
        "SlurmCordon",
        "Slurm refuses the node, because slurmd reports other CPUs, memory or GPUs than Slurm's record of the "
        "node has (`INVALID_REG`).",
    ),
    "TooManyAtOnce": Meaning(
        "SlurmCordon, RemovalHeld",
        "SlurmCordon: the operator does not cordon or taint this Node, because as many Nodes are closed already "
        "as a cap allows. RemovalHeld: the operator does not remove the slurmd pods of Nodes that no longer fit, "
        "because more Nodes stopped fitting at once than a cap allows.",
    ),
    "NotReported": Meaning(
        "SlurmDrain, SlurmCordon, SlurmNotResponding",
        "The syncer has not written this condition onto the Node's slurmd pod yet, so the condition of the Node "
        "is Unknown.",
    ),
    "JobsOnNode": Meaning("SlurmRunning", "Jobs, or an epilog, are on the node."),
    "NoJobs": Meaning("SlurmRunning", "No job and no epilog is on the node."),
    "SlurmUnreadable": Meaning(
        "SlurmRunning",
        "The node was closed and idle when Slurm was last read. Slurm cannot be read now, so nobody knows whether "
        "a job is there.",
    ),
    "Responding": Meaning("SlurmNotResponding", "The slurmd of the node answers slurmctld."),
    "NotResponding": Meaning("SlurmNotResponding", "The slurmd of the node does not answer slurmctld."),
    "NoSlurmNode": Meaning(
        "SlurmDrain, SlurmCordon, SlurmRunning, SlurmNotResponding",
        "Slurm has no node with the name of this slurmd pod.",
    ),
    "Registered": Meaning("sunkpy.dev/registered", "Slurm knows the pod's Slurm node and can use it."),
    "NotRegistered": Meaning(
        "sunkpy.dev/registered", "Slurm does not know the slurmd of this pod, or cannot use its Slurm node yet."
    ),
    "MinimumAvailable": Meaning("Available", "Enough slurmd pods of the NodeSet are ready and are not being removed."),
    "TooManyUnavailable": Meaning(
        "Available", "More than `maxUnavailable` slurmd pods of the NodeSet are missing, not ready or being removed."
    ),
    "NoPods": Meaning("Available", "The NodeSet wants no slurmd pod, or no Node fits it."),
    "Scaling": Meaning(
        "Progressing",
        "The operator creates or drains slurmd pods, because the NodeSet wants more or fewer of them, or because Nodes "
        "came, left or stopped fitting.",
    ),
    "RollingOut": Meaning("Progressing", "The operator replaces slurmd pods of an older template."),
    "WaitingForReady": Meaning("Progressing", "Some slurmd pods of the NodeSet are not ready yet."),
    "TearingDown": Meaning("Progressing", "Somebody deleted the NodeSet. The operator drains its slurmd pods first."),
    "Complete": Meaning("Progressing", "All slurmd pods of the NodeSet are ready and of the current template."),
    "Paused": Meaning(
        "Progressing", "slurmd pods of an older template stay, because the NodeSet is paused (`spec.paused`)."
    ),
    "WaitsForWindow": Meaning(
        "Progressing",
        "slurmd pods of an older template wait for the next of the times at which the NodeSet allows a roll "
        "(`windows`). The message says when it begins.",
    ),
    "OnDelete": Meaning(
        "Progressing",
        "slurmd pods of an older template stay until somebody deletes them, because `updateStrategy` is `OnDelete`.",
    ),
    "CreateFailed": Meaning(
        "Progressing",
        "The apiserver refuses to create slurmd pods. The message has the apiserver's words, about a quota, a "
        "policy or the template.",
    ),
    "PodsFailed": Meaning("Progressing", "Some slurmd pods have failed. The operator makes them again after a pause."),
    "BadSpec": Meaning(
        "Progressing",
        "The operator cannot read the template of the NodeSet. It changes nothing until somebody corrects the "
        "template.",
    ),
    "NodesFit": Meaning("Feasible", "Enough Nodes fit the NodeSet."),
    "NothingWanted": Meaning(
        "Feasible",
        "The NodeSet wants no slurmd pod: `replicas` is 0, or no job wants a node now, and the NodeSet gets nodes "
        "only for jobs (`growth.ask`).",
    ),
    "NoNodeFits": Meaning("Feasible", "No Node fits the NodeSet. The message says how many Nodes fail which rule."),
    "TooFewNodes": Meaning(
        "Feasible",
        "Fewer Nodes fit the NodeSet than `replicas` wants. The message says how many Nodes fail which rule.",
    ),
    "DrainTimeout": Meaning(
        "DrainTimeout", "Jobs have run for longer than `drainTimeoutSeconds` on nodes whose slurmd pods must go."
    ),
    "VersionSkew": Meaning(
        "VersionSkew",
        "The versions of chart slurm and of the operator do not fit together. The message names both, and the one "
        "to upgrade.",
    ),
    "SharedTmp": Meaning(
        "SharedTmp",
        "Jobs of one node share /tmp: a value of the chart wants it so, or Slurm cannot give each job its own "
        "/tmp without cgroups. The message says which.",
    ),
    "SharedPids": Meaning(
        "SharedPids",
        "Jobs of one node share process ids: `slurmConfig.privatePids` is off, as by default, or there are no cgroups. "
        "The message says which.",
    ),
    "Unschedulable": Meaning(
        "PodScheduled",
        "No node could hold the pod, or Slurm has no free node for it. Autoscalers react to this reason.",
    ),
    "WaitingForSlurm": Meaning(
        "PodScheduled",
        "The pod needs something other than a new node, or waits for a node that its NodeSet [asks "
        "for](../tasks/growth.md#what-is-wanted). Autoscalers buy no node for this pod.",
    ),
}

EVENTS: Final = {
    "Scheduled": Meaning(
        _WORKLOAD, "The scheduler bound the pod to a node. The text names the node, and the Slurm job if there is one."
    ),
    "WaitingForSlurm": Meaning(
        _WORKLOAD,
        "The pod waits, and mostly you need to do nothing: its job waits in Slurm's queue (the text has Slurm's "
        "reason: `Resources`, `Priority` …), or the pod waits for other pods of its gang, for a scheduling gate, for a "
        "seat or for a volume.",
    ),
    "FailedScheduling": Meaning(
        _WORKLOAD,
        "The pod cannot be placed now. Mostly somebody has to change something first: the text says what. If a node "
        "refused the pod, or Slurm refused its job, the scheduler also tries again by itself. See "
        "[troubleshooting](../troubleshooting.md#pod-stays-pending).",
    ),
    "JobChanged": Meaning(
        _WORKLOAD,
        "Somebody changed annotations of the pod while its job waits in the queue. The scheduler changed the job "
        "accordingly.",
    ),
    "JobNotChanged": Meaning(
        _WORKLOAD,
        "Somebody changed annotations of the pod, but Slurm refuses the change, or the option cannot change after "
        "the submit. The job waits with its old options. Delete the pods: the next ones are submitted with the "
        "new options.",
    ),
    "OwnerUnknown": Meaning(
        _WORKLOAD,
        "An object that says which pods belong together cannot be read or does not exist, so the pod waits. The text "
        "names the object, and the missing right or CRD if that is the cause. Add what is missing: the scheduler tries "
        "again by itself, within half a minute after a new CRD.",
    ),
    "OddObject": Meaning(
        _WORKLOAD,
        "The scheduler could not read or handle this pod, or an object that owns the pod. This is a fault of the "
        "scheduler. It ignores the pod and serves all others. Please report the text of the Event.",
    ),
    "StaysInGang": Meaning(
        _WORKLOAD,
        "Somebody changed a label or annotation that names the gang of a waiting pod. The pod stays in its first "
        "gang. If you delete it, the pod that replaces it belongs to the other gang.",
    ),
    "UnknownAnnotation": Meaning(
        _WORKLOAD,
        "An annotation of the pod or its owner, or a field of the owner, is misspelt or not supported, so it has no "
        "effect. The text names it.",
    ),
    "GpusByCount": Meaning(
        _WORKLOAD,
        "With `scheduler.gpuSharing: count`, another job may use the same GPU as this pod. If that must not "
        "happen, ask for whole nodes (`sunkpy.dev/exclusive`).",
    ),
    "PreemptionIsFinal": Meaning(
        _WORKLOAD,
        "Written when the pods of a gang are bound: if Slurm later takes the gang's nodes, the scheduler evicts the "
        "pods, and their owner makes no new ones. The text says why.",
    ),
    "SeatRefused": Meaning(
        _WORKLOAD,
        "For half a minute, the node that the gang's job holds for this pod did not accept the pod: the node is "
        "cordoned or tainted, or other pods fill it. The pod gets a Slurm job of its own. The job of the gang "
        "keeps that node until the job ends.",
    ),
    "AsksForMore": Meaning(
        _WORKLOAD,
        "The pod asks for more than the gang's job holds for it. The pod gets a Slurm job of its own. If the gang has "
        "not fully started yet, the whole gang gets a new job instead.",
    ),
    "GraceTooLong": Meaning(
        _WORKLOAD,
        "The pod's grace period is longer than `hooks.longestGraceSeconds`, or than the limit of its partition or "
        "namespace. If its job loses the node, the kubelet kills the containers after that limit.",
    ),
    "GraceShortened": Meaning(
        _WORKLOAD,
        "When the job lost the node, the pod was already ending, with a longer grace period than "
        "`hooks.longestGraceSeconds` (or the limit of its partition or namespace). The scheduler shortened it.",
    ),
    "SlurmJobLost": Meaning(
        _WORKLOAD,
        "Slurm forgot the job of a pod that has a node, or a node of that job failed. The scheduler submits a "
        "replacement job, and the pod keeps running. But the pod is evicted if Slurm has given a node of its gang to "
        "another job; or if the pod got its devices one by one (by claims or by sunkpy's device plugin), and the "
        "replacement job has others.",
    ),
    "BoundByOthers": Meaning(
        _WORKLOAD,
        "Somebody other than the scheduler put the pod on its node (`spec.nodeName`, or a binding). The scheduler "
        "submits a job for that node. Until this job starts, Slurm may give the node to others.",
    ),
    "PreemptionByScheduler": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, or suspended its owner (`sunkpy.dev/on-preemption`), because another job took "
        "its node. The text names that job if it is found, unless slurm.conf has PrivateData=jobs.",
    ),
    "BudgetViolated": Meaning(
        _WORKLOAD,
        "The pod was preempted, and its PodDisruptionBudget has too few healthy pods now. Slurm chooses whom it "
        "preempts and does not know budgets: spread the replicas over nodes.",
    ),
    "SlurmJobCancelled": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, because somebody cancelled its Slurm job. If a controller of the pod makes a "
        "new pod, that pod gets a new job.",
    ),
    "SlurmJobTimeout": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, because its Slurm job reached the time limit. Ask for a longer one by "
        "`sunkpy.dev/time-limit`.",
    ),
    "SlurmJobDeadline": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because its Slurm job reached its deadline."
    ),
    "SlurmNodeFail": Meaning(
        _WORKLOAD,
        "The scheduler evicted the pod, because Slurm could not boot the node of its job. If a running node fails, the "
        "Event is SlurmJobLost instead.",
    ),
    "SlurmJobFailed": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because its Slurm job failed or ran out of memory."
    ),
    "SlurmJobSuspended": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because somebody suspended its Slurm job. Pods cannot be suspended."
    ),
    "SlurmJobRequeued": Meaning(
        _WORKLOAD, "The scheduler evicted the pod, because Slurm or a person requeued its Slurm job."
    ),
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
        "Slurm had set the node DOWN by itself, mostly because the machine started again unannounced. The node's "
        "slurmd has registered, so the syncer resumed the node. If this Event comes again, look into the machine.",
    ),
    "PlaceUnknown": Meaning(
        _SLURMD,
        "The labels of the pod's Node do not say where the Node stands in Slurm's topology. The text names the "
        "missing label. The Slurm node keeps its place in the topology. See [topology](../tasks/topology.md).",
    ),
    "SlurmDrainRestored": Meaning(
        _SLURMD,
        "Slurm lost its record of the node, and with it a drain that somebody had set. The syncer set the drain again.",
    ),
    "SlurmNodeReaddressed": Meaning(
        _SLURMD,
        "After a crash, slurmctld used the address of an earlier pod for this slurmd. The syncer told slurmctld "
        "the present address.",
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
        "Many jobs have waited for ten minutes for nodes of the NodeSet's partitions: at least ten, and at least "
        "one for each ten nodes. The text says how many nodes of the NodeSet are drained, are down, fit although "
        "`replicas` wants no more, or are wanted although no Node fits. Without such nodes there is no Event. The "
        "Event comes at most every ten minutes, and while it names the same kinds of nodes every half hour. It needs "
        "`syncer.metrics.enabled`.",
    ),
    "CannotGrow": Meaning(
        _NODESET,
        "A job waits, and more nodes of this NodeSet cannot help it. The text says why: the job asks for more "
        "than such a node has, or for more nodes than `growth.potential` allows. The Event needs "
        "`syncer.metrics.enabled`. See [growth](../tasks/growth.md#what-is-wanted).",
    ),
    "IdleCheckRefused": Meaning(
        _SLURMD,
        "Slurm refuses the job that would check the idle node (`compute.verify.idle`). The text has Slurm's "
        "words. The syncer tries again within an hour. See [health](../tasks/health.md#while-nothing-runs-there).",
    ),
    "PotentialUnknown": Meaning(
        _NODESET,
        "The NodeSet has `growth.potential`, but sunkpy does not know what one of its nodes offers: the NodeSet "
        "has had no node so far, and `growth.shape` is not set. See [growth](../tasks/growth.md).",
    ),
    "TooManyAtOnce": Meaning(
        "slurmd Pod, NodeSet, Node",
        "The operator or the syncer did not do something to this object, because it may do that to only so many "
        "nodes or pods at once. The text says what was left undone. See "
        "[troubleshooting](../troubleshooting.md#toomanyatonce-on-nodes-or-slurmd-pods).",
    ),
    "SlurmCordon": Meaning(_NODE, "The operator cordoned the Node, because its Slurm node is drained in Slurm."),
    "HealthDrain": Meaning(
        _NODE,
        "A signal of `health.signals` says that the Node is sick, or somebody asked for a check of the Node. The text "
        "is the evidence, or who asked. The syncer drains the Slurm node, or Slurm has drained it itself; jobs there "
        "end in their own time. See [health](../tasks/health.md).",
    ),
    "HealthDrained": Meaning(_NODE, "Nothing runs on the sick Node any more. The text says what brings it back."),
    "HealthRemedy": Meaning(
        _NODE, "The operator begins the remedy for the Node's signal: it writes the object of `health.remedies`."
    ),
    "HealthRemedyWritten": Meaning(
        _NODE,
        "The operator wrote the object of the remedy. The program that follows this object takes care of the Node now.",
    ),
    "HealthRemedyFailed": Meaning(
        _NODE,
        "The apiserver refuses the object of the remedy. The text has the apiserver's words. The operator tries "
        "again. Mostly the operator lacks the right to create the object: [health](../tasks/health.md#remedies).",
    ),
    "HealthVerify": Meaning(
        _NODE,
        "The Node is cured, or somebody asked for a check of it, and its NodeSet has a check (`compute.verify`). "
        "The operator replaces the slurmd pod, and the new pod runs the check before slurmd.",
    ),
    "HealthReturned": Meaning(_NODE, "The Node takes jobs again. The text says why."),
    "HealthNeedsPerson": Meaning(
        _NODE,
        "The Node does not come back by itself: it was not cured in time, or it came back too often. The text "
        "says what to do.",
    ),
    "SlurmUncordon": Meaning(
        _NODE,
        "The operator uncordoned the Node, because the drain in Slurm was lifted, or because `slurmDrains.policy` is "
        "no longer `cordon`.",
    ),
    "PodsCreated": Meaning(_NODESET, "The operator created slurmd pods of the NodeSet. The text names them."),
    "PodAdopted": Meaning(_NODESET, "The operator took over a slurmd pod of an earlier NodeSet with the same name."),
    "PodsDraining": Meaning(
        _NODESET,
        "The operator asked the syncer to drain the Slurm nodes of some slurmd pods. The text names the pods and "
        "says why.",
    ),
    "RemovalCancelled": Meaning(
        _NODESET,
        "The operator keeps slurmd pods that it had marked for removal, because the cause of their removal has "
        "ended. The text names them.",
    ),
    "PodsDeleted": Meaning(
        _NODESET, "The operator deleted slurmd pods of the NodeSet. The text names them and says why."
    ),
    "PodFailed": Meaning(
        _NODESET, "A slurmd pod failed. The operator makes it again after 1 s, then 2 s, 4 s and so on up to 300 s."
    ),
    "CreateFailed": Meaning(
        _NODESET,
        "The apiserver refuses to create a slurmd pod. The text has the apiserver's words, about a quota, a "
        "policy or the template.",
    ),
    "BadSpec": Meaning(
        _NODESET,
        "The operator cannot read the template of the NodeSet. It changes nothing until somebody corrects the "
        "template.",
    ),
    "NodesAsked": Meaning(
        _NODESET,
        "The operator asked autoscalers for nodes, as `spec.growth.ask` says. The text says for how many nodes, "
        "and for which jobs.",
    ),
    "NodesRefused": Meaning(
        _NODESET,
        "A node that the operator asked for does not come. The text has the words of the autoscaler, or says that "
        "no autoscaler has answered for a minute. The request stays, and the autoscaler may still meet it.",
    ),
    "NodesTakenBack": Meaning(
        _NODESET,
        "The operator makes slurmd pods again on Nodes that it had left to autoscalers for removal, because jobs "
        "want nodes.",
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
    "NoNodeFits": Meaning(_NODESET, "No Node fits the NodeSet. The text says how many Nodes fail which rule."),
    "TooFewNodes": Meaning(
        _NODESET, "Fewer Nodes fit the NodeSet than it wants. The text says how many Nodes fail which rule."
    ),
    "DrainTimeout": Meaning(
        _NODESET, "Jobs have run for longer than `drainTimeoutSeconds` on nodes whose slurmd pods must go."
    ),
    "VersionSkew": Meaning(
        _NODESET,
        "The versions of chart slurm and of the operator do not fit together. The text says which of them to upgrade.",
    ),
}
