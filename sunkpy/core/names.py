"""The names by which sunkpy marks Kubernetes and Slurm objects: labels, annotations, taints, conditions and more. They
are a public interface. Names that other projects define are in the modules that read them, apart from a few that sunkpy
also writes.

The text below a label, annotation, taint or finalizer starts with where it stands and who writes it. The rest is its
meaning. `tools/make-reference` makes docs/reference/annotations.md of these texts.
"""

PREFIX = "sunkpy.dev/"
API_GROUP = "sunkpy.dev"
API_VERSION = "v1alpha1"
NODESET_KIND = "NodeSet"
NODESET_PLURAL = "nodesets"

LABEL_NODESET = PREFIX + "nodeset"
"""On slurmd Pod and Node, by the operator. Name of the NodeSet to which the slurmd pod belongs."""
LABEL_CLUSTER = PREFIX + "cluster"
"""On slurmd Pod and Node, by the operator. Name of the Slurm cluster to which the slurmd pod belongs."""
LABEL_NAMESPACE = PREFIX + "namespace"
"""On Node, by the operator. Namespace of the slurmd pod on this node."""
LABEL_POD = PREFIX + "pod"
"""On Node, by the operator. Name of the slurmd pod on this node."""
LABEL_ROLE = PREFIX + "role"
"""On slurmd Pod, by the operator. Always `compute`: it tells slurmd pods from other pods."""
LABEL_SLURM_NODE = PREFIX + "slurm-node"
"""On slurmd Pod, by the operator. Name of the Slurm node."""
LABEL_TEMPLATE_HASH = PREFIX + "template-hash"
"""On slurmd Pod, by the operator. Hash of the template that the pod was made from."""
LABEL_EVICTABLE = PREFIX + "evictable"
"""On slurmd Pod, by the operator. The pod's Node is cordoned or about to be removed, and Slurm says that the Slurm node
is drained and runs nothing. So the disruption budget lets the pod be evicted.
"""
ROLE_COMPUTE = "compute"
LABEL_WANTED = PREFIX + "wanted-for"
"""On Pod, PodTemplate, CapacityBuffer and ProvisioningRequest, by the operator. NodeSet for which this object asks
autoscalers for nodes.
"""
ANNOTATION_WANTED_BY = PREFIX + "wanted-by"
"""On ProvisioningRequest, by the operator. Id of the Slurm job for which these nodes are wanted."""

ANNOTATION_LATE_AFTER = PREFIX + "late-after"
"""On CronJob of backups, by the chart. Age in seconds from which the newest backup counts as late."""

LABEL_VERIFIES_BACKUPS = PREFIX + "verifies-backups"
"""On Pod, by `sunkpy backups verify`. `true`: the pod only reads backups. Pods that make backups lack this label.
"""

LABEL_LOGIN = PREFIX + "login"
"""On a personal login Pod and its StatefulSet, by the chart. Name of that StatefulSet."""

ANNOTATION_CORDON = PREFIX + "cordon"
"""On slurmd Pod, by the operator. Somebody other than sunkpy cordoned the Node, or the Node is about to be removed, so
the syncer drains the Slurm node. The value is the reason.
"""
ANNOTATION_OFFERED = PREFIX + "offered"
"""On slurmd Pod, by the operator. What the Node offered to Slurm when the pod was made: CPUs, memory, GPUs. If the Node
offers something else for a minute, a roll replaces the pod. If a device plugin offers no GPUs at all, the roll waits
ten minutes.
"""
ANNOTATION_FEATURES = PREFIX + "features"
"""On slurmd Pod, by the operator. Features of the pod's Slurm node, as they were when the pod was made."""
ANNOTATION_SMT = PREFIX + "smt"
"""On slurmd Pod, by the operator. Value of `smt` in the NodeSet when the pod was made."""
ANNOTATION_PENDING_DELETION = PREFIX + "pending-deletion"
"""On slurmd Pod, by the operator. The operator wants to remove the pod, once Slurm has drained its node. The value is
`<time>/<cause>`; the cause is `scale-down`, `rollout`, `nodeset-deleted`, `node-left`, `idle` or `verification`. A
colon and the details may follow the cause.
"""
ANNOTATION_JOBS = PREFIX + "jobs"
"""On slurmd Pod, by the operator. Ids of the Slurm jobs of the workload pods on this node, such as `12,15`, while a
roll waits for these jobs.
"""

ANNOTATION_SLURM_STATE = PREFIX + "slurm-state"
"""On slurmd Pod, by the syncer. State of the Slurm node as `scontrol` prints it, such as `IDLE+DRAIN`. While the node
is open, a change that comes from jobs alone appears some seconds late, like condition `SlurmRunning`.
"""
ANNOTATION_SLURMD_SINCE = PREFIX + "slurmd-since"
"""On slurmd Pod, by the syncer, while its Slurm node is closed. Time in RFC 3339 at which the slurmd started that
registered last. If the container has started later than that, its slurmd has not registered yet, and its check of the
machine may still run.
"""
ANNOTATION_TOPOLOGY = PREFIX + "topology"
"""On slurmd Pod, by the syncer, with `topology.source` or a hand-written tree. Place of the Slurm node in Slurm's
topology: `spine1/leaf4`. Labels that the Node lacks for a full place follow in parentheses. The scheduler orders the
ranks of gangs by this place.
"""
ANNOTATION_TOPOLOGY_AT = PREFIX + "topology-at"
"""On the ConfigMap of the topology, by the syncer. When the syncer last wrote the topology file in this ConfigMap. It
writes the next one ten minutes later at the earliest.
"""
ANNOTATION_TOPOLOGY_WHY = PREFIX + "topology-why"
"""On the ConfigMap of the topology, by the syncer. Hash of the topology file in this ConfigMap, and how it differs from
the file before.
"""
ANNOTATION_DRAIN = PREFIX + "drain"
"""On slurmd Pod and Node, by the syncer, the operator or you. On a slurmd Pod: the reason of the drain in Slurm. On a
Node: the reason of its cordon. If you write a reason on a Node, the cordon counts as yours.
"""
ANNOTATION_DRAIN_BY = PREFIX + "drain-by"
"""On Node, by `sunkpy drain`. Name in Kubernetes of the person who asked for the cordon. Anybody who may patch the
Node can write it, so it proves nothing.
"""
ANNOTATION_DRAINED = PREFIX + "drained"
"""On slurmd Pod, by the syncer. A receipt: Slurm says that the node is drained and idle. The value is a copy of
`pending-deletion`: then the operator may delete the pod. If there is no `pending-deletion`, it is a copy of
`drain-asked`.
"""
ANNOTATION_DRAINED_AT = PREFIX + "drained-at"
"""On slurmd Pod, by the syncer. When Slurm last confirmed what `drained` says. The syncer renews this time every 10 s,
and `drained` is valid for 30 s after it.
"""
ANNOTATION_REPLACEABLE = PREFIX + "replaceable"
"""On slurmd Pod, by the syncer. The receipt with which a roll may replace the pod: only services run on the node, and
these outlive a restart of slurmd. The value is a copy of `pending-deletion`.
"""
ANNOTATION_REPLACEABLE_AT = PREFIX + "replaceable-at"
"""On slurmd Pod, by the syncer. When Slurm last confirmed what `replaceable` says. The syncer renews this time every 10
s, and `replaceable` is valid for 30 s after it.
"""

ANNOTATION_REMOVAL_CAP = PREFIX + "removal-cap"
"""On NodeSet, by you. How many slurmd pods the operator may remove at once because their nodes no longer fit. If more
nodes stop fitting at once, the operator removes none of their pods until you raise this number, or until fewer nodes do
not fit. Without the annotation: five, or a fifth of the pods if that is more.
"""

ANNOTATION_SHARED_TMP = PREFIX + "shared-tmp"
"""On NodeSet, by chart slurm. Name of the value that makes the jobs of a node share /tmp and /dev/shm."""

ANNOTATION_SHARED_PIDS = PREFIX + "shared-pids"
"""On NodeSet, by chart slurm. Name of the value that makes the jobs of a node share process ids."""

ANNOTATION_CORDONED_BY = PREFIX + "cordoned-by"
"""On Node, by the operator. `slurm`: sunkpy set this cordon because of a drain in Slurm, and lifts it with that
drain.
"""
ANNOTATION_EMPTIED = PREFIX + "emptied"
"""On Node, by the operator. The slurmd pod was evicted from this cordoned Node. The Node gets no other slurmd pod
before `kubectl uncordon`.
"""
ANNOTATION_SLURM_DRAIN = PREFIX + "slurm-drain"
"""On Node, by the operator. Last known reason of a drain that somebody other than sunkpy set in Slurm. It stays as long
as nobody can tell whether the drain is still there. Remove it by hand to forget the drain.
"""
ANNOTATION_SLURM_REFUSED = PREFIX + "slurm-refused"
"""On Node, by the operator. Why Slurm refuses the slurmd of this Node (`INVALID_REG`). It takes the place of
`slurm-drain`. The next slurmd may start without a drain.
"""
CORDONED_BY_SLURM = "slurm"
ANNOTATION_RELEASED = PREFIX + "released"
"""On Node, by the operator. The operator removed the slurmd pod from this idle Node, so that an autoscaler may remove
the Node. The value is the NodeSet, `<namespace>/<name>`. The Node gets no other slurmd pod before jobs want nodes.
"""

ANNOTATION_KEPT_BY_CLUSTER_AUTOSCALER = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""On Node, by the operator or you. The Cluster Autoscaler does not remove this Node. The operator sets the annotation
while Slurm jobs are on the Node or could start there.
"""
ANNOTATION_KEPT_BY_KARPENTER = "karpenter.sh/do-not-disrupt"
"""On Node, by the operator or you. Karpenter does not remove this Node. The operator sets and
removes it in the same cases as `scale-down-disabled`.
"""
ANNOTATION_KEPT = PREFIX + "kept-from-autoscalers"
"""On Node, by the operator. Which of the annotations `scale-down-disabled` and `do-not-disrupt` the operator has set
itself. The operator removes only these. An annotation that you have set stays, and the operator does not replace its
value.
"""
AUTOSCALER_MARKS = (ANNOTATION_KEPT_BY_CLUSTER_AUTOSCALER, ANNOTATION_KEPT_BY_KARPENTER)

ANNOTATION_HEALTH = PREFIX + "health"
"""On Node, by the operator. Where the Node stands on its way back from a signal of `health.signals`, as JSON: `state`
is `well`, `suspect`, `closing`, `draining`, `drained`, `remedy`, `verify`, `returning` or `needs-a-person`; `past` has
the last steps, `log` the last lines of a check that failed. Remove the annotation by hand to start over: a node that
sunkpy drained opens, unless the signal is still there.
"""
ANNOTATION_HEALTH_IGNORED = PREFIX + "health-ignored"
"""On Node, by you. With any value: the operator ignores all signals of `health.signals` on this Node."""
ANNOTATION_HEALTH_DRAIN = PREFIX + "health-drain"
"""On slurmd Pod, by the operator. The Node of the pod is sick, or somebody asked for a check of it, so the syncer
drains its Slurm node. The value is the evidence, or who asked.
"""
ANNOTATION_DRAIN_ASKED = PREFIX + "drain-asked"
"""On slurmd Pod, by the operator. The operator waits until the Slurm node of a sick Node is drained and idle. When
Slurm says so, the syncer copies the value to `drained`. The value is `<time>/health`, with the time since which the
signal has been there.
"""
ANNOTATION_HEALTH_LIFT = PREFIX + "health-lift"
"""On slurmd Pod, by the operator. Reason of a drain that others set in Slurm and that a rule allows sunkpy to lift.
The syncer lifts it only if the drain has exactly this reason.
"""

ANNOTATION_VERIFY = PREFIX + "verify"
"""On Node, by `kubectl sunk verify` or you. The site's check (`compute.verify`) has to run: the node is drained, and
checked once it is idle. The value says who asks. The operator removes the annotation when the check has ended. Remove
it to cancel the check.
"""
ANNOTATION_VERIFY_SECONDS = PREFIX + "verify-seconds"
"""On slurmd Pod, by chart `slurm`. How many seconds the site's check (`compute.verify`) may take before slurmd starts.
A sick node comes back only after a slurmd has started whose check passed.
"""
ANNOTATION_IDLE_CHECK = PREFIX + "idle-check"
"""On slurmd Pod, by the syncer. How the last check of the idle machine (`compute.verify.idle`) ended, as JSON: `job`,
`outcome` (`passed`, `failed`, `not made`) and `at`; if it did not pass, also `text`, and after a failure `log`.
"""

ANNOTATION_JOB_ID = PREFIX + "job-id"
"""On workload Pod, by the scheduler. Id of the pod's Slurm job. The scheduler writes it with the binding, or earlier if
the pod has waited with this job for 5 s.
"""
ANNOTATION_GANG_ID = PREFIX + "gang-id"
"""On workload Pod, by the scheduler. Gang of the pod, as in the comment of the job that holds the pod's node. The
scheduler writes it with the binding. The next leader keeps the pod in this gang, even if other annotations of the pod
have changed by then, unless jobs in Slurm prove that the pod belongs to another one.
"""
ANNOTATION_ASKED = PREFIX + "asked"
"""On workload Pod, by the scheduler, while the pod waits. The options with which the pod's job was last submitted or
changed, as JSON. A new leader compares them with the pod's annotations, and sends only changed options to Slurm.
"""
ANNOTATION_PLACED_ON = PREFIX + "slurm-node"
"""On workload Pod and Node, by the scheduler and the operator. On a workload Pod: the Slurm node to which the pod was
bound. On a Node: the name of its Slurm node, which stays there after the slurmd pod is gone.
"""
ANNOTATION_PLACE = PREFIX + "place"
"""On workload Pod, by the scheduler. Role and index of the pod in a gang of several pods: `<role>/<index>`."""
ANNOTATION_GPU_INDICES = PREFIX + "gpu-indices"
"""On workload Pod, by the scheduler. Indices of the GPUs that Slurm holds for the pod on its node: `0,1`. A GRES other
than `gpu` has its name before the index: `nic:0`. A vendor's device plugin may hand out other GPUs. When a replacement
job starts, the scheduler writes the indices of that job.
"""
ANNOTATION_DEVICES = PREFIX + "devices"
"""On workload Pod, by the scheduler. Devices of the pod's ResourceClaims in the order of the claims, or the devices
that sunkpy's device plugin hands out to the pod. Each is `<pool>/<device>`: `node-1/gpu-0,node-1/gpu-3`; for the plugin
it is `<node>/<uuid of the GPU>`.
"""
ANNOTATION_ALLOCATED_BY = PREFIX + "allocated-by"
"""On ResourceClaim, by the scheduler. Name of the scheduler that gives devices to the claim. The scheduler's token can
write the status only of claims with this annotation.
"""
BINDING_NOTE = (
    ANNOTATION_JOB_ID,
    ANNOTATION_GANG_ID,
    ANNOTATION_PLACED_ON,
    ANNOTATION_PLACE,
    ANNOTATION_GPU_INDICES,
    ANNOTATION_DEVICES,
)

ANNOTATION_SUSPENDED_BY = PREFIX + "suspended-by"
"""On an owner of workload Pods, by the scheduler. The scheduler suspended this owner, because the gang of its pods was
preempted. The value names scheduler and field: `slurm:spec.suspend`. The scheduler resumes the owner when its pods are
gone. Remove the annotation to keep the owner suspended.
"""

ANNOTATION_GANG = PREFIX + "gang"
"""On workload Pod, by you. Name of the pod's gang. Pods of one namespace with the same value start together."""
ANNOTATION_GANG_SIZE = PREFIX + "gang-size"
"""On workload Pod, by you. How many pods the pod's gang has."""
ANNOTATION_GANG_ROLES = PREFIX + "gang-roles"
"""On workload Pod, by you. How many pods each role of the pod's gang has: `leader=1,worker=4`. It takes the place of
`gang-size`.
"""
ANNOTATION_GANG_ROLE = PREFIX + "gang-role"
"""On workload Pod, by you. Role of the pod in its gang: one of those in `gang-roles`."""

ANNOTATION_USERS = PREFIX + "users"
"""On Namespace, by an administrator. Slurm users that pods of the namespace may name, separated by commas. A pod that
names no user gets the first one. The annotation needs `scheduler.annotatedAccess`, and does not count if an entry of
`scheduler.access` covers the namespace.
"""
ANNOTATION_PARTITIONS = PREFIX + "partitions"
"""On Namespace, by an administrator. Partitions that pods of the namespace may name, separated by commas. A pod that
names no partition gets the first one. The annotation needs `scheduler.annotatedAccess`, and does not count if an entry
of `scheduler.access` covers the namespace.
"""
ANNOTATION_ACCOUNTS = PREFIX + "accounts"
"""On Namespace, by an administrator. Accounts that pods of the namespace may name, separated by commas. A pod that
names no account gets the first one. The annotation needs `scheduler.annotatedAccess`, and does not count if an entry of
`scheduler.access` covers the namespace.
"""
ANNOTATION_QOS = PREFIX + "qos"
"""On Namespace, by an administrator. QoS that pods of the namespace may name, separated by commas. A pod that names no
QoS gets the first one. The annotation needs `scheduler.annotatedAccess`, and does not count if an entry of
`scheduler.access` covers the namespace.
"""
ANNOTATION_RESERVATIONS = PREFIX + "reservations"
"""On Namespace, by an administrator. Reservations that pods of the namespace may name, separated by commas. A pod that
names none gets none. The annotation needs `scheduler.annotatedAccess`, and does not count if an entry of
`scheduler.access` covers the namespace.
"""
ANNOTATION_LICENSES = PREFIX + "licenses"
"""On Namespace, by an administrator. Licenses that pods of the namespace may name, separated by commas and without
numbers. A pod that names none gets none. The annotation needs `scheduler.annotatedAccess`, and does not count if an
entry of `scheduler.access` covers the namespace.
"""

# Conditions of slurmd Pods, written by the syncer. NODE_CONDITIONS are copied to Nodes.
CONDITION_DRAIN = "SlurmDrain"
CONDITION_CORDON = "SlurmCordon"
CONDITION_RUNNING = "SlurmRunning"
CONDITION_NOT_RESPONDING = "SlurmNotResponding"
SLURM_CONDITIONS = (CONDITION_DRAIN, CONDITION_CORDON, CONDITION_RUNNING, CONDITION_NOT_RESPONDING)
NODE_CONDITIONS = (CONDITION_DRAIN, CONDITION_CORDON, CONDITION_NOT_RESPONDING)
REASON_INVALID = "InvalidInSlurm"  # a reason of CONDITION_CORDON: Slurm refuses what slurmd reports
READINESS_GATE = PREFIX + "registered"

TAINT_LOCK = PREFIX + "lock"
"""On Node, by the operator or you. It keeps new pods of other schedulers away, unless they tolerate it. slurmd pods
tolerate it, and workload pods need no toleration. With `lock.enabled` the operator sets it, with value `slurm-jobs`,
while Slurm jobs run on the node.
"""
LOCKED_FOR_JOBS = "slurm-jobs"
ANNOTATION_WOULD_LOCK = PREFIX + "would-lock"
"""On Node, by the operator. With `lock.dryRun`: the taint that the operator would set on the Node now without `dryRun`.
"""

TAINT_DRAIN = PREFIX + "drain"
"""On Node, by the operator, with `slurmDrains.policy: taint`. Somebody drained the Slurm node in Slurm. The taint takes
the place of a cordon.
"""

FINALIZER_NODESET = PREFIX + "nodeset"
"""On NodeSet, by the operator. It keeps a deleted NodeSet until its slurmd pods are drained and gone."""
ANNOTATION_SYNC_WAVE = "argocd.argoproj.io/sync-wave"
"""On NodeSet, by the operator. It makes Argo CD delete the NodeSet before the rest of its Application, and wait until
the NodeSet is gone.
"""
# Not in the chart: there each sync would wait until all else is healthy, even a sync that repairs something.
GOES_FIRST = "1"

# How the reasons of sunkpy's drains, and the comments of its jobs, begin in Slurm.
REASON_PREFIX = "k8s: "
JOB_COMMENT_PREFIX = "k8s:"


def feature_of_label(label: str, value: str) -> str:
    """Return the feature that a Slurm node has for a label of its Node: `k8s/topology.kubernetes.io/zone=eu-1a`."""
    return f"k8s/{label}={value}"


# The audience that the token in a call to the scheduler's hooks must have.
HOOKS_AUDIENCE = "sunkpy-hooks"

SLURMD_CONTAINER = "slurmd"
