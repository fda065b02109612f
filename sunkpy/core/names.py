"""Every name that sunkpy reads or writes on Kubernetes and Slurm objects: the public interface in one place.

The text below a label, annotation, taint or finalizer starts with where it stands and who writes it. The rest is its
meaning. `tools/make-reference` makes docs/reference/annotations.md of these texts.
"""

PREFIX = "sunkpy.dev/"
API_GROUP = "sunkpy.dev"
API_VERSION = "v1alpha1"
NODESET_KIND = "NodeSet"
NODESET_PLURAL = "nodesets"

LABEL_NODESET = PREFIX + "nodeset"
"""On slurmd Pod and Node, by the operator. NodeSet that the pod belongs to."""
LABEL_CLUSTER = PREFIX + "cluster"
"""On slurmd Pod and Node, by the operator. Slurm cluster that the pod belongs to."""
LABEL_NAMESPACE = PREFIX + "namespace"
"""On Node, by the operator. Namespace of the slurmd pod on this node."""
LABEL_POD = PREFIX + "pod"
"""On Node, by the operator. Name of the slurmd pod on this node."""
LABEL_ROLE = PREFIX + "role"
"""On slurmd Pod, by the operator. Always `compute`."""
LABEL_SLURM_NODE = PREFIX + "slurm-node"
"""On slurmd Pod and Node, by the operator. Name of the Slurm node. A Node keeps it after its slurmd pod is gone."""
LABEL_TEMPLATE_HASH = PREFIX + "template-hash"
"""On slurmd Pod, by the operator. Hash of the template that the pod was made from."""
LABEL_EVICTABLE = PREFIX + "evictable"
"""On slurmd Pod, by the operator. The Node is cordoned, drained and idle: the disruption budget lets the pod go."""
ROLE_COMPUTE = "compute"
LABEL_WANTED = PREFIX + "wanted-for"
"""On Pod, PodTemplate, CapacityBuffer and ProvisioningRequest, by the operator. NodeSet for which this object asks
autoscalers for nodes.
"""
ANNOTATION_WANTED_BY = PREFIX + "wanted-by"
"""On ProvisioningRequest, by the operator. Slurm job for which these nodes are wanted."""

ANNOTATION_LATE_AFTER = PREFIX + "late-after"
"""On CronJob of backups, by the chart. Seconds after which the newest backup is late."""

LABEL_LOGIN = PREFIX + "login"
"""On a personal login Pod and its StatefulSet, by the chart. Name of the StatefulSet."""

ANNOTATION_CORDON = PREFIX + "cordon"
"""On slurmd Pod, by the operator. A person cordoned the Node; the value is the reason."""
ANNOTATION_OFFERED = PREFIX + "offered"
"""On slurmd Pod, by the operator. CPUs, memory and GPUs that the Node had when the pod was made. If the Node offers
something else for a minute, the pod is rolled.
"""
ANNOTATION_FEATURES = PREFIX + "features"
"""On slurmd Pod, by the operator. Features that the pod's Slurm node has had since it was made."""
ANNOTATION_SMT = PREFIX + "smt"
"""On slurmd Pod, by the operator. `smt` of the NodeSet when the pod was made."""
ANNOTATION_PENDING_DELETION = PREFIX + "pending-deletion"
"""On slurmd Pod, by the operator. The pod has to go. The value is `<time>/<cause>`; the cause is `scale-down`,
`rollout`, `nodeset-deleted`, `node-left` with the reason, or `idle`.
"""
ANNOTATION_JOBS = PREFIX + "jobs"
"""On slurmd Pod, by the operator. Slurm jobs of the workload pods on this node, while a roll waits for them: `12,15`.
"""

ANNOTATION_SLURM_STATE = PREFIX + "slurm-state"
"""On slurmd Pod, by the syncer. State of the Slurm node as `scontrol` prints it, such as `IDLE+DRAIN`. On an open
node, a change that only jobs cause appears as late as in `SlurmRunning`.
"""
ANNOTATION_SLURMD_SINCE = PREFIX + "slurmd-since"
"""On slurmd Pod, by the syncer, while its Slurm node is closed. Time in RFC 3339 at which the slurmd started that
registered last. If the container has started again since, it has not registered yet, and its check of the machine may
still run.
"""
ANNOTATION_TOPOLOGY = PREFIX + "topology"
"""On slurmd Pod, by the syncer, with `topology.source` or a hand-written tree. Place of the node in the topology:
`spine1/leaf4`. If labels are missing for that, they follow in parentheses. Ranks of gangs follow this place.
"""
ANNOTATION_TOPOLOGY_AT = PREFIX + "topology-at"
"""On the ConfigMap of the topology, by the syncer. When the syncer wrote its file. It writes the next one ten minutes
later at the earliest.
"""
ANNOTATION_TOPOLOGY_WHY = PREFIX + "topology-why"
"""On the ConfigMap of the topology, by the syncer. Hash of its file, and the differences from the file before."""
ANNOTATION_DRAIN = PREFIX + "drain"
"""On slurmd Pod and Node, by the syncer, the operator or you. On a slurmd Pod: the reason of the drain in Slurm. On a
Node: the reason of its cordon. If you write a reason on a Node, the cordon counts as yours.
"""
ANNOTATION_DRAIN_BY = PREFIX + "drain-by"
"""On Node, by `sunkpy drain`. Name in Kubernetes of the person who asked for the cordon. Anybody who may patch the
Node can write it, so it proves nothing.
"""
ANNOTATION_DRAINED = PREFIX + "drained"
"""On slurmd Pod, by the syncer. Receipt that the pod may go: a copy of `pending-deletion`, set when Slurm says that
the node is drained and idle. If there is no `pending-deletion`, it is a copy of `drain-asked`.
"""
ANNOTATION_DRAINED_AT = PREFIX + "drained-at"
"""On slurmd Pod, by the syncer. When Slurm last confirmed `drained`. The syncer renews it every 10 s, and it is valid
for 30 s.
"""
ANNOTATION_REPLACEABLE = PREFIX + "replaceable"
"""On slurmd Pod, by the syncer. Receipt that a roll may replace the pod: a copy of `pending-deletion`, set when only
services run on the node. Services outlive a restart of slurmd.
"""
ANNOTATION_REPLACEABLE_AT = PREFIX + "replaceable-at"
"""On slurmd Pod, by the syncer. When Slurm last confirmed `replaceable`. The syncer renews it every 10 s, and it is
valid for 30 s.
"""

ANNOTATION_REMOVAL_CAP = PREFIX + "removal-cap"
"""On NodeSet, by you. How many pods may leave at once if their nodes no longer fit."""

ANNOTATION_SHARED_TMP = PREFIX + "shared-tmp"
"""On NodeSet, by chart slurm. Name of the value because of which the jobs of a node share /tmp and /dev/shm."""

ANNOTATION_CORDONED_BY = PREFIX + "cordoned-by"
"""On Node, by the operator. `slurm`: sunkpy set this cordon because of a drain in Slurm, and lifts it with that
drain.
"""
ANNOTATION_EMPTIED = PREFIX + "emptied"
"""On Node, by the operator. The slurmd pod was evicted from this cordoned Node. The Node gets no other slurmd pod
before `kubectl uncordon`.
"""
ANNOTATION_SLURM_DRAIN = PREFIX + "slurm-drain"
"""On Node, by the operator. Last known reason of a drain that was set in Slurm. It stays as long as nobody can tell
whether the drain is still there. Remove it by hand to forget the drain.
"""
ANNOTATION_SLURM_REFUSED = PREFIX + "slurm-refused"
"""On Node, by the operator. In place of `slurm-drain`: why Slurm refuses the slurmd there (`INVALID_REG`). The next
slurmd may start without a drain.
"""
CORDONED_BY_SLURM = "slurm"
ANNOTATION_RELEASED = PREFIX + "released"
"""On Node, by the operator. The slurmd pod of this NodeSet, `<namespace>/<name>`, left the idle Node, so that an
autoscaler may remove the Node. The Node gets no other slurmd pod before jobs want nodes.
"""

ANNOTATION_KEPT_BY_CLUSTER_AUTOSCALER = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""On Node, by the operator or you. The Cluster Autoscaler does not remove this Node. The operator sets the annotation
while the Node has a slurmd pod, unless the Slurm node is closed and idle.
"""
ANNOTATION_KEPT_BY_KARPENTER = "karpenter.sh/do-not-disrupt"
"""On Node, by the operator or you. Karpenter does not remove this Node. The operator sets and
removes it in the same cases as `scale-down-disabled`.
"""
ANNOTATION_KEPT = PREFIX + "kept-from-autoscalers"
"""On Node, by the operator. Names the annotations that the operator has set itself, `scale-down-disabled` and
`do-not-disrupt`. It removes only these. An annotation that you have set stays, and the operator does not replace its
value.
"""
AUTOSCALER_MARKS = (ANNOTATION_KEPT_BY_CLUSTER_AUTOSCALER, ANNOTATION_KEPT_BY_KARPENTER)

ANNOTATION_HEALTH = PREFIX + "health"
"""On Node, by the operator. Where the Node stands on its way back from a signal of `health.signals`, as JSON: `state`
is `well`, `suspect`, `closing`, `draining`, `drained`, `remedy`, `verify`, `returning` or `needs-a-person`; `past` has
the last steps, `log` the last lines of a check that failed. Remove it by hand to start over: a node that sunkpy drained
opens, unless the signal is still there.
"""
ANNOTATION_HEALTH_IGNORED = PREFIX + "health-ignored"
"""On Node, by you. With any value: no signal counts on this Node."""
ANNOTATION_HEALTH_DRAIN = PREFIX + "health-drain"
"""On slurmd Pod, by the operator. The Slurm node is to be drained for the health of its Node; the value is the
evidence.
"""
ANNOTATION_DRAIN_ASKED = PREFIX + "drain-asked"
"""On slurmd Pod, by the operator. A remedy is next, or a DrainRequest waits for an answer. The syncer copies the
value to `drained` when Slurm says that the node is drained and idle. The value is `<time>/health`, with the time
since which the signal has been there.
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
"""On slurmd Pod, by chart `slurm`. How many seconds the site's check (`compute.verify`) before slurmd may take. A
sick node comes back only after a slurmd has started whose check passed.
"""
ANNOTATION_IDLE_CHECK = PREFIX + "idle-check"
"""On slurmd Pod, by the syncer. How the last check of the idle machine ended (`compute.verify.idle`), as JSON: `job`,
`outcome` (`passed`, `failed`, `not made`) and `at`; after a failure also `text` and `log`.
"""

ANNOTATION_JOB_ID = PREFIX + "job-id"
"""On workload Pod, by the scheduler. Number of the pod's Slurm job. The scheduler writes it with the binding, or
after the pod has waited for 5 s.
"""
ANNOTATION_GANG_ID = PREFIX + "gang-id"
"""On workload Pod, by the scheduler. Gang under whose job the pod runs, as in the comment of the job. The scheduler
writes it with the binding. The next leader keeps the pod in this gang, even if other annotations of the pod have
changed by then.
"""
ANNOTATION_ASKED = PREFIX + "asked"
"""On workload Pod, by the scheduler, while the pod waits. The options with which its job was last submitted or
changed, as JSON. A new leader reads it to know what it may cancel.
"""
ANNOTATION_PLACED_ON = PREFIX + "slurm-node"
"""On workload Pod, by the scheduler. Slurm node to which the pod was bound."""
ANNOTATION_PLACE = PREFIX + "place"
"""On workload Pod, by the scheduler. Seat of the pod in a gang of several: `<role>/<index>`."""
ANNOTATION_GPU_INDICES = PREFIX + "gpu-indices"
"""On workload Pod, by the scheduler. Indices of the GPUs that Slurm holds for the pod on its node: `0,1`. A GRES
other than `gpu` has its name before the index: `nic:0`. A vendor's device plugin may hand out other GPUs. With a
replacement job the scheduler writes it again.
"""
ANNOTATION_DEVICES = PREFIX + "devices"
"""On workload Pod, by the scheduler. Devices of the pod's ResourceClaims, in the order of the claims, or those that
sunkpy's device plugin hands out. Each is `<pool>/<device>`: `node-1/gpu-0,node-1/gpu-3`.
"""
ANNOTATION_ALLOCATED_BY = PREFIX + "allocated-by"
"""On ResourceClaim, by the scheduler. Name of the scheduler that gives devices to the claim. The token of the
scheduler can write the status only of claims with this annotation.
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
"""On an owner of workload Pods, by the scheduler. The scheduler suspended the owner because its gang was preempted.
The value names scheduler and field: `slurm:spec.suspend`. The scheduler resumes the owner when its pods are gone.
Remove the annotation to keep the owner suspended.
"""

ANNOTATION_GANG = PREFIX + "gang"
"""On workload Pod, by you. Name of its gang: pods of one namespace with the same value start together."""
ANNOTATION_GANG_SIZE = PREFIX + "gang-size"
"""On workload Pod, by you. How many pods the gang has."""
ANNOTATION_GANG_ROLES = PREFIX + "gang-roles"
"""On workload Pod, by you. How many pods each role of the gang has, in place of `gang-size`: `leader=1,worker=4`."""
ANNOTATION_GANG_ROLE = PREFIX + "gang-role"
"""On workload Pod, by you. Role of the pod: one of those in `gang-roles`."""

ANNOTATION_USERS = PREFIX + "users"
"""On Namespace, by an administrator. Slurm users that pods of the namespace may name, with
`scheduler.annotatedAccess`. It is a list with commas. A pod that names no user gets the first one.
"""
ANNOTATION_PARTITIONS = PREFIX + "partitions"
"""On Namespace, by an administrator. Partitions that its pods may name, as `users`."""
ANNOTATION_ACCOUNTS = PREFIX + "accounts"
"""On Namespace, by an administrator. Accounts that its pods may name, as `users`."""
ANNOTATION_QOS = PREFIX + "qos"
"""On Namespace, by an administrator. QoS that its pods may name, as `users`."""
ANNOTATION_RESERVATIONS = PREFIX + "reservations"
"""On Namespace, by an administrator. Reservations that its pods may name, as `users`."""
ANNOTATION_LICENSES = PREFIX + "licenses"
"""On Namespace, by an administrator. Licenses that its pods may name, as `users`, without numbers."""

# Conditions of slurmd Pods, written by the syncer. NODE_CONDITIONS are copied to Nodes.
CONDITION_DRAIN = "SlurmDrain"
CONDITION_CORDON = "SlurmCordon"
CONDITION_RUNNING = "SlurmRunning"
CONDITION_NOT_RESPONDING = "SlurmNotResponding"
SLURM_CONDITIONS = (CONDITION_DRAIN, CONDITION_CORDON, CONDITION_RUNNING, CONDITION_NOT_RESPONDING)
NODE_CONDITIONS = (CONDITION_DRAIN, CONDITION_CORDON, CONDITION_NOT_RESPONDING)
REASON_INVALID = "InvalidInSlurm"  # of CONDITION_CORDON: Slurm refuses what slurmd reports about the machine
READINESS_GATE = PREFIX + "registered"

TAINT_LOCK = PREFIX + "lock"
"""On Node, by the operator while Slurm jobs run there, with `lock.enabled` and value `slurm-jobs`. slurmd pods and
workload pods tolerate it, so you may set it yourself to keep other pods away.
"""
LOCKED_FOR_JOBS = "slurm-jobs"
ANNOTATION_WOULD_LOCK = PREFIX + "would-lock"
"""On Node, by the operator. The taint that the Node would have now, with `lock.dryRun`."""

TAINT_DRAIN = PREFIX + "drain"
"""On Node, by the operator, with `slurmDrains.policy: taint`. The node is drained in Slurm."""

FINALIZER_NODESET = PREFIX + "nodeset"
"""On NodeSet, by the operator. The pods of the NodeSet are drained before the NodeSet is gone."""
ANNOTATION_SYNC_WAVE = "argocd.argoproj.io/sync-wave"
"""On NodeSet, by the operator. Argo CD deletes the NodeSet before the rest of its Application, and waits until it is
gone.
"""
GOES_FIRST = "1"  # not in the chart: there each sync would wait until all else is healthy, also one that mends it

# What belongs to sunkpy on the Slurm side.
REASON_PREFIX = "k8s: "
JOB_COMMENT_PREFIX = "k8s:"


def feature_of_label(label: str, value: str) -> str:
    """The feature of a Slurm node: `k8s/topology.kubernetes.io/zone=eu-1a`."""
    return f"k8s/{label}={value}"


# Who may call the scheduler's hooks, and with what.
HOOKS_AUDIENCE = "sunkpy-hooks"

SLURMD_CONTAINER = "slurmd"
