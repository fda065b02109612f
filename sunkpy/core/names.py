"""Every name that sunkpy reads or writes on Kubernetes and Slurm objects: the public interface in one place."""

PREFIX = "sunkpy.dev/"
API_GROUP = "sunkpy.dev"
API_VERSION = "v1alpha1"
NODESET_KIND = "NodeSet"
NODESET_PLURAL = "nodesets"

# Labels of slurmd Pods (and, the first three and POD, of Nodes).
LABEL_NODESET = PREFIX + "nodeset"
LABEL_CLUSTER = PREFIX + "cluster"
LABEL_NAMESPACE = PREFIX + "namespace"
LABEL_POD = PREFIX + "pod"
LABEL_ROLE = PREFIX + "role"
LABEL_SLURM_NODE = PREFIX + "slurm-node"
LABEL_TEMPLATE_HASH = PREFIX + "template-hash"
LABEL_EVICTABLE = PREFIX + "evictable"  # the disruption budget of the NodeSet does not cover the pod
ROLE_COMPUTE = "compute"

# Label of the login pod of one person, and of its StatefulSet, whose name it is.
LABEL_LOGIN = PREFIX + "login"

# Annotations of slurmd Pods written by the operator.
ANNOTATION_CORDON = PREFIX + "cordon"  # why the Node is cordoned, when it was not by us
ANNOTATION_OFFERED = PREFIX + "offered"  # what the Node offered when the pod was made
ANNOTATION_FEATURES = PREFIX + "features"  # with which features its Slurm node was made
ANNOTATION_PENDING_DELETION = PREFIX + "pending-deletion"  # token "<RFC 3339 time>/<cause>"
ANNOTATION_JOBS = PREFIX + "jobs"  # "12,15": those of the pods on its node, while a roll waits for them

# Annotations of slurmd Pods written by the syncer.
ANNOTATION_SLURM_STATE = PREFIX + "slurm-state"  # "IDLE+DRAIN"
ANNOTATION_DRAIN = PREFIX + "drain"  # Slurm's drain reason; on a Node: the reason of a cordon
ANNOTATION_DRAINED = PREFIX + "drained"  # the pending-deletion token it answers
ANNOTATION_DRAINED_AT = PREFIX + "drained-at"  # when that was last true, RFC 3339
ANNOTATION_REPLACEABLE = PREFIX + "replaceable"  # the token it answers: all that runs there outlives its slurmd
ANNOTATION_REPLACEABLE_AT = PREFIX + "replaceable-at"  # when that was last true, RFC 3339

# Annotation of NodeSets written by people.
ANNOTATION_REMOVAL_CAP = PREFIX + "removal-cap"  # how many pods may leave at once since their nodes no longer fit

# Annotations of Nodes written by the operator.
ANNOTATION_CORDONED_BY = PREFIX + "cordoned-by"
ANNOTATION_EMPTIED = PREFIX + "emptied"  # the slurmd pod was evicted from the cordoned Node; goes with the cordon
ANNOTATION_SLURM_DRAIN = PREFIX + "slurm-drain"  # reason of a drain from Slurm's side, as it was last told
ANNOTATION_SLURM_REFUSED = PREFIX + "slurm-refused"  # what Slurm refuses of the slurmd there, as it was last told
CORDONED_BY_SLURM = "slurm"

# Annotations of the workload pods that Slurm schedules, written by the scheduler.
ANNOTATION_JOB_ID = PREFIX + "job-id"
ANNOTATION_ASKED = PREFIX + "asked"  # JSON: for what the job was asked that the pod waits with
ANNOTATION_PLACED_ON = PREFIX + "slurm-node"
ANNOTATION_PLACE = PREFIX + "place"  # "<role>/<index>", of a member of a gang of several
ANNOTATION_GPU_INDICES = PREFIX + "gpu-indices"  # "0,1": those of its node that the job holds for the pod

# Annotation of owners of workload pods, written by the scheduler: "<scheduler>:<field>", as "slurm:spec.suspend".
ANNOTATION_SUSPENDED_BY = PREFIX + "suspended-by"

# Annotations of workload pods written by people: which pods are a gang.
ANNOTATION_GANG = PREFIX + "gang"  # its name within the namespace
ANNOTATION_GANG_SIZE = PREFIX + "gang-size"  # how many pods, or:
ANNOTATION_GANG_ROLES = PREFIX + "gang-roles"  # how many of each role, as "leader=1,worker=4"
ANNOTATION_GANG_ROLE = PREFIX + "gang-role"  # which of the roles this pod has

# Annotations of Namespaces written by administrators: what its pods may ask of Slurm, each a list with commas.
ANNOTATION_USERS = PREFIX + "users"
ANNOTATION_PARTITIONS = PREFIX + "partitions"
ANNOTATION_ACCOUNTS = PREFIX + "accounts"
ANNOTATION_QOS = PREFIX + "qos"
ANNOTATION_RESERVATIONS = PREFIX + "reservations"

# Conditions of slurmd Pods (written by the syncer); those that do not come and go with jobs are copied to Nodes.
CONDITION_DRAIN = "SlurmDrain"
CONDITION_CORDON = "SlurmCordon"
CONDITION_RUNNING = "SlurmRunning"
CONDITION_NOT_RESPONDING = "SlurmNotResponding"
SLURM_CONDITIONS = (CONDITION_DRAIN, CONDITION_CORDON, CONDITION_RUNNING, CONDITION_NOT_RESPONDING)
NODE_CONDITIONS = (CONDITION_DRAIN, CONDITION_CORDON, CONDITION_NOT_RESPONDING)
REASON_INVALID = "InvalidInSlurm"  # of CONDITION_CORDON: Slurm itself refuses what slurmd told of the machine
READINESS_GATE = PREFIX + "registered"

# Taint that keeps intolerant pods off a node while a Slurm job owns it.
TAINT_LOCK = PREFIX + "lock"

# Taint of a Node that is drained from Slurm's side, when the operator's policy is to taint.
TAINT_DRAIN = PREFIX + "drain"

# Finalizer of NodeSets: their pods are drained before they go.
FINALIZER_NODESET = PREFIX + "nodeset"

# What is ours on the Slurm side.
REASON_PREFIX = "k8s: "
JOB_COMMENT_PREFIX = "k8s:"

# Who may call the scheduler's hooks, and with what.
HOOKS_AUDIENCE = "sunkpy-hooks"

SLURMD_CONTAINER = "slurmd"
