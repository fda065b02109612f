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
"""On slurmd Pod and Node, by the operator. Name in Slurm. A Node keeps it after its slurmd pod is gone."""
LABEL_TEMPLATE_HASH = PREFIX + "template-hash"
"""On slurmd Pod, by the operator. Hash of the template that the pod was made from."""
LABEL_EVICTABLE = PREFIX + "evictable"
"""On slurmd Pod, by the operator. The Node is cordoned, drained and idle: the disruption budget lets the pod go."""
ROLE_COMPUTE = "compute"
LABEL_WANTED = PREFIX + "wanted-for"
"""On Pod, PodTemplate, CapacityBuffer and ProvisioningRequest, by the operator. NodeSet for which it asks autoscalers
for nodes.
"""
ANNOTATION_WANTED_BY = PREFIX + "wanted-by"
"""On ProvisioningRequest, by the operator. Slurm job that lacks these nodes."""

ANNOTATION_LATE_AFTER = PREFIX + "late-after"
"""On CronJob of backups, by the chart. Seconds after which the newest backup is late."""

LABEL_LOGIN = PREFIX + "login"
"""On a personal login Pod and its StatefulSet, by the chart. Name of the StatefulSet."""

ANNOTATION_CORDON = PREFIX + "cordon"
"""On slurmd Pod, by the operator. A person cordoned the Node; the value is the reason."""
ANNOTATION_OFFERED = PREFIX + "offered"
"""On slurmd Pod, by the operator. CPUs, memory and GPUs that the Node had when the pod was made. When they differ for
a minute, the pod is rolled.
"""
ANNOTATION_FEATURES = PREFIX + "features"
"""On slurmd Pod, by the operator. Features with which its Slurm node was made."""
ANNOTATION_SMT = PREFIX + "smt"
"""On slurmd Pod, by the operator. `smt` of the NodeSet when the pod was made."""
ANNOTATION_PENDING_DELETION = PREFIX + "pending-deletion"
"""On slurmd Pod, by the operator. The pod has to go: `<time>/<cause>`. The cause is `scale-down`, `rollout`,
`nodeset-deleted`, `node-left` with the reason, or `idle`.
"""
ANNOTATION_JOBS = PREFIX + "jobs"
"""On slurmd Pod, by the operator. Slurm jobs of the workload pods on this node, while a roll waits for them: `12,15`.
"""

ANNOTATION_SLURM_STATE = PREFIX + "slurm-state"
"""On slurmd Pod, by the syncer. State as `scontrol` prints it, such as `IDLE+DRAIN`. On an open node a change that
only jobs cause appears as late as in `SlurmRunning`.
"""
ANNOTATION_SLURMD_SINCE = PREFIX + "slurmd-since"
"""On slurmd Pod, by the syncer. While its Slurm node is closed: when the slurmd started that registered last, in
RFC 3339. A start of the container after that has not registered, so its check of the machine may still run.
"""
ANNOTATION_TOPOLOGY = PREFIX + "topology"
"""On slurmd Pod, by the syncer, with `topology.source` or a hand-written tree. Where its node stands: `spine1/leaf4`;
what is missing for that is in parentheses behind it. Ranks of gangs follow it.
"""
ANNOTATION_TOPOLOGY_AT = PREFIX + "topology-at"
"""On the ConfigMap of the topology, by the syncer. When its file was written. The next one comes ten minutes later."""
ANNOTATION_TOPOLOGY_WHY = PREFIX + "topology-why"
"""On the ConfigMap of the topology, by the syncer. Hash of its file, and in what it differs from the one before."""
ANNOTATION_DRAIN = PREFIX + "drain"
"""On slurmd Pod and Node, by the syncer, the operator or you. On a pod: the drain reason in Slurm. On a Node: the
reason of its cordon. A reason that you write on a Node makes the cordon yours.
"""
ANNOTATION_DRAIN_BY = PREFIX + "drain-by"
"""On Node, by `sunkpy drain`. Who asked for the cordon, by their name in Kubernetes. It says so, and proves nothing."""
ANNOTATION_DRAINED = PREFIX + "drained"
"""On slurmd Pod, by the syncer. Receipt: a copy of `pending-deletion`, set when Slurm says drained and idle. The pod
may go. Without `pending-deletion`: a copy of `drain-asked`.
"""
ANNOTATION_DRAINED_AT = PREFIX + "drained-at"
"""On slurmd Pod, by the syncer. When Slurm last confirmed `drained`. Renewed every 10 s, valid for 30 s."""
ANNOTATION_REPLACEABLE = PREFIX + "replaceable"
"""On slurmd Pod, by the syncer. Receipt for a roll: a copy of `pending-deletion`, set when only services run on the
node. Services outlive a restart of slurmd.
"""
ANNOTATION_REPLACEABLE_AT = PREFIX + "replaceable-at"
"""On slurmd Pod, by the syncer. When Slurm last confirmed `replaceable`. Renewed every 10 s, valid for 30 s."""

ANNOTATION_REMOVAL_CAP = PREFIX + "removal-cap"
"""On NodeSet, by you. How many pods may leave at once because their nodes no longer fit."""

ANNOTATION_SHARED_TMP = PREFIX + "shared-tmp"
"""On NodeSet, by chart slurm. The value for which the jobs of a node share /tmp and /dev/shm."""

ANNOTATION_CORDONED_BY = PREFIX + "cordoned-by"
"""On Node, by the operator. `slurm`: sunkpy set this cordon because of a drain in Slurm, and lifts it with that
drain.
"""
ANNOTATION_EMPTIED = PREFIX + "emptied"
"""On Node, by the operator. The slurmd pod was evicted from this cordoned Node. None comes back before `kubectl
uncordon`.
"""
ANNOTATION_SLURM_DRAIN = PREFIX + "slurm-drain"
"""On Node, by the operator. Last known reason of a drain that was set in Slurm. It stays while nobody can tell.
Remove it by hand to forget the drain.
"""
ANNOTATION_SLURM_REFUSED = PREFIX + "slurm-refused"
"""On Node, by the operator. In place of `slurm-drain`: what Slurm refuses of the slurmd there (`INVALID_REG`). The
next slurmd may start without a drain.
"""
CORDONED_BY_SLURM = "slurm"
ANNOTATION_RELEASED = PREFIX + "released"
"""On Node, by the operator. The slurmd pod of this NodeSet, `<namespace>/<name>`, left the idle Node, so that an
autoscaler may remove it. None comes back before jobs want nodes.
"""

ANNOTATION_KEPT_BY_CLUSTER_AUTOSCALER = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""On Node, by the operator or you. The Cluster Autoscaler does not remove this Node. The operator sets it while a
slurmd pod is there, unless its Slurm node is closed and idle.
"""
ANNOTATION_KEPT_BY_KARPENTER = "karpenter.sh/do-not-disrupt"
"""On Node, by the operator or you. The same for Karpenter."""
ANNOTATION_KEPT = PREFIX + "kept-from-autoscalers"
"""On Node, by the operator. Which of `scale-down-disabled` and `do-not-disrupt` it has set, and takes away again. One
that you set stays; with another value than `true` none is set in its place.
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
"""On slurmd Pod, by the operator. A remedy is next, or a DrainRequest waits for an answer: the syncer copies this to
`drained` when Slurm says drained and idle. `<time>/health`, since when the signal has been there.
"""
ANNOTATION_HEALTH_LIFT = PREFIX + "health-lift"
"""On slurmd Pod, by the operator. The reason of a drain that others set in Slurm, and that a rule lets sunkpy lift, as
long as it reads exactly so.
"""

ANNOTATION_VERIFY = PREFIX + "verify"
"""On Node, by `kubectl sunk verify` or you. The site's check (`compute.verify`) is to run: the node is drained, and
checked once it is idle. The value says who asks. The operator removes it when the check has ended; remove it to call it
off.
"""
ANNOTATION_VERIFY_SECONDS = PREFIX + "verify-seconds"
"""On slurmd Pod, by chart `slurm`. The site's check (`compute.verify`) runs before slurmd, and may take so long. A sick
node comes back only when a start of slurmd has passed it since.
"""
ANNOTATION_IDLE_CHECK = PREFIX + "idle-check"
"""On slurmd Pod, by the syncer. How the last check of the idle machine ended (`compute.verify.idle`), as JSON: `job`,
`outcome` (`passed`, `failed`, `not made`), `at`, and of one that failed `text` and `log`.
"""

ANNOTATION_JOB_ID = PREFIX + "job-id"
"""On workload Pod, by the scheduler. Its Slurm job. Written with the binding, or after the pod has waited for 5 s."""
ANNOTATION_GANG_ID = PREFIX + "gang-id"
"""On workload Pod, by the scheduler. The gang whose job it runs under, as in the comment of the job. Written with the
binding: the next leader keeps the pod in this gang, whatever else is written on it by then.
"""
ANNOTATION_ASKED = PREFIX + "asked"
"""On workload Pod, by the scheduler. What its job last asked for, as JSON, while the pod waits. A new leader reads it
to know what it may cancel.
"""
ANNOTATION_PLACED_ON = PREFIX + "slurm-node"
"""On workload Pod, by the scheduler. Slurm node that the pod was bound to."""
ANNOTATION_PLACE = PREFIX + "place"
"""On workload Pod, by the scheduler. Seat of the pod in a gang of several: `<role>/<index>`."""
ANNOTATION_GPU_INDICES = PREFIX + "gpu-indices"
"""On workload Pod, by the scheduler. GPUs of its node that Slurm holds for the pod: `0,1`. A GRES other than `gpu`
comes with its name: `nic:0`. The device plugin may hand out others. Written again with a replacement job.
"""
ANNOTATION_DEVICES = PREFIX + "devices"
"""On workload Pod, by the scheduler. Devices of its ResourceClaims, in their order, or for sunkpy's device plugin, as
`<pool>/<device>`: `node-1/gpu-0,node-1/gpu-3`.
"""
ANNOTATION_ALLOCATED_BY = PREFIX + "allocated-by"
"""On ResourceClaim, by the scheduler. The scheduler that gives it devices. Its token can write the status of no other
claim.
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
"""On an owner of workload Pods, by the scheduler. The owner was suspended because its gang was preempted. The value
names scheduler and field: `slurm:spec.suspend`. It resumes when its pods are gone. Remove the annotation to keep it
suspended.
"""

ANNOTATION_GANG = PREFIX + "gang"
"""On workload Pod, by you. Name of its gang: pods of one namespace with the same value start together."""
ANNOTATION_GANG_SIZE = PREFIX + "gang-size"
"""On workload Pod, by you. How many pods the gang has."""
ANNOTATION_GANG_ROLES = PREFIX + "gang-roles"
"""On workload Pod, by you. In place of `gang-size`: how many pods of each role, `leader=1,worker=4`."""
ANNOTATION_GANG_ROLE = PREFIX + "gang-role"
"""On workload Pod, by you. Which of these roles the pod has."""

ANNOTATION_USERS = PREFIX + "users"
"""On Namespace, by an administrator. Slurm users that its pods may name, with `scheduler.annotatedAccess`. A list
with commas; a pod that names none gets the first.
"""
ANNOTATION_PARTITIONS = PREFIX + "partitions"
"""On Namespace, by an administrator. The same as `users`, for partitions."""
ANNOTATION_ACCOUNTS = PREFIX + "accounts"
"""On Namespace, by an administrator. The same as `users`, for accounts."""
ANNOTATION_QOS = PREFIX + "qos"
"""On Namespace, by an administrator. The same as `users`, for QoS."""
ANNOTATION_RESERVATIONS = PREFIX + "reservations"
"""On Namespace, by an administrator. The same as `users`, for reservations."""
ANNOTATION_LICENSES = PREFIX + "licenses"
"""On Namespace, by an administrator. The same as `users`, for licenses, without numbers."""

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
"""On Node, by the operator. The node is drained in Slurm, with `slurmDrains.policy: taint`."""

FINALIZER_NODESET = PREFIX + "nodeset"
"""On NodeSet, by the operator. The pods of the NodeSet are drained before it goes."""
ANNOTATION_SYNC_WAVE = "argocd.argoproj.io/sync-wave"
"""On NodeSet, by the operator. Argo CD deletes it before the rest of its Application, and waits for that."""
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
