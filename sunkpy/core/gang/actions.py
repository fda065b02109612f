"""The actions that the scheduler can take for a gang, as data. `decide_gang` returns them, and the scheduler executes
them in one `match`.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Suspension
from sunkpy.core.gang.identity import BindingNote
from sunkpy.core.gang.job.ends import EndCause
from sunkpy.core.gang.job.terms import TermsChange
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """Action: submit a placeholder job to Slurm. The job will hold nodes for these pods."""

    request: JobSpec
    pods: tuple[Pod, ...]


class UpdateExcluded(msgspec.Struct, frozen=True, kw_only=True):
    """Action: tell Slurm that a pending job must not use the nodes in `excluded`. This list replaces the list of nodes
    that were excluded before.
    """

    job: JobId
    excluded: tuple[str, ...]


class UpdateTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Action: change the terms of a pending Slurm job (partition, time limit …) to what its pods ask for by annotations
    now. An Event on `pod` reports the change, or why Slurm refuses it.
    """

    job: JobId
    pod: Pod
    change: TermsChange


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is to be bound, and the annotations that are written on the pod with the binding (`note`): its job,
    gang, Slurm node, seat and devices.
    """

    pod: Pod
    note: BindingNote


class IfRefused(enum.Enum):
    """What the scheduler does with a gang if a node refuses one of the gang's pods that was to be bound there."""

    GIVE_BACK = "the gang's job is cancelled, and its next jobs avoid that node for a while, if there are others"
    WAIT = "the pod is tried again on that node after a pause"
    GO_SOLO = "the pod becomes a gang of its own, with a job of its own"


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """Action: bind pods to nodes that `job` holds. If a kubelet would refuse one of the pods, none of them is bound,
    and `if_refused` says what the scheduler does instead. If one of them only has to wait, for a volume or for other
    pods to end, none is bound yet.

    `final_because`: why the owner of these pods does not replace them if they are evicted later; empty if the owner
    does, or is then suspended, or if that is not known.
    """

    job: JobId
    bindings: tuple[Binding, ...]
    if_refused: IfRefused = IfRefused.GIVE_BACK
    final_because: str = ""


class BindDirectly(msgspec.Struct, frozen=True, kw_only=True):
    """Action: bind a pod of a DaemonSet to the Kubernetes node that the pod is made for, without a Slurm job. The pod
    is not bound if the kubelet would refuse it.
    """

    pod: Pod
    node: str


class NoteJob(msgspec.Struct, frozen=True, kw_only=True):
    """Action: annotate a bound pod with `job`, the replacement job that holds the pod's node from now on."""

    pod: Pod
    job: JobId


class NoteDevices(msgspec.Struct, frozen=True, kw_only=True):
    """Action: annotate a bound pod with `gpus`, the indices of its GPUs on the node. If `gpus` is empty, the annotation
    is removed.
    """

    pod: Pod
    gpus: str


class FreeDevices(msgspec.Struct, frozen=True, kw_only=True):
    """Action: release the devices that are reserved by the ResourceClaims of a pod, because the pod was not bound with
    them.
    """

    pod: Pod


class MakeSolo(msgspec.Struct, frozen=True, kw_only=True):
    """Action: take a pod out of its gang and make it a gang of its own, with its own job. For example, the job of its
    gang has no room for the pod, or does not have the pod's node.
    """

    pod: Pod


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """Action: end the job of a gang with an exit code: 0 if the gang's work has succeeded (`Gang.has_succeeded`), else
    1.
    """

    job: JobId
    exit_code: int


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Action: cancel a Slurm job. `why` is the reason, for the log."""

    job: JobId
    why: str


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """Action: evict a pod, because its job has lost the node, the pod has lost its devices, or Slurm has given the node
    to another job.

    `cause`: why the pod is evicted; None: because of the way its job ended. `suspension`: if the job was preempted, the
    scheduler suspends this owner instead of evicting the pod. It evicts the pod if that fails, or if the pod stays.
    `grace_s`: the grace period in seconds; None: the pod's own.
    """

    pod: Pod
    job: JobId | None
    suspension: Suspension | None = None
    grace_s: int | None = None
    cause: EndCause | None = None


class Shorten(msgspec.Struct, frozen=True, kw_only=True):
    """Action: shorten the grace period of a pod whose job has lost the node. Somebody else has deleted the pod already,
    with a longer grace period.
    """

    pod: Pod
    grace_s: int


class WaitCause(enum.Enum):
    """The reasons why a pod is not bound to a node yet."""

    NO_NAMED_NODE = "never queues, and its affinity names no node"
    REFUSED = "something that it asks for or declares cannot be done"
    NO_SEATS = "the owner declares no pods"
    OTHERS_FIRST = "other pods of the owner have to go first"
    GATED = "a scheduling gate holds another pod"
    MEMBERS = "pods of the first wave are missing"
    NOT_SUBMITTED = "Slurm did not take the job"
    NO_NODE = "no node fits"
    IN_QUEUE = "the job is in the queue"
    NEVER_STARTS = "the job stays in the queue until a person changes something"
    SEATS_TAKEN = "no seat of the job is left"
    VOLUME = "its volume is being made"
    KUBELET = "its kubelet would refuse it"


_PASSING: Final = frozenset({
    WaitCause.OTHERS_FIRST, WaitCause.GATED, WaitCause.MEMBERS, WaitCause.IN_QUEUE, WaitCause.SEATS_TAKEN,
    WaitCause.VOLUME,
})  # fmt: skip


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Action: set a condition on a pod that says why the pod is not bound yet.

    `needs_node`: True if the pod has to ask autoscalers for a node: no existing node could hold it, or Slurm has none
    free for it, and no NodeSet asks for one already. If False, autoscalers add no node for the pod.
    """

    pod: Pod
    message: str
    cause: WaitCause
    needs_node: bool = False

    @property
    def is_problem(self) -> bool:
        """True if the pod waits until a person or the cluster changes something. False if it only waits for its turn in
        the queue, for other pods, for a scheduling gate, for a seat or for its volume.
        """
        return self.cause not in _PASSING


class Warn(msgspec.Struct, frozen=True, kw_only=True):
    """Action: write a warning Event on a pod, with this reason and the text `note`. The Event is not written again as
    long as each decision about the gang gives the same warning.
    """

    pod: Pod
    reason: str
    note: str


GangAction = (
    Submit
    | UpdateExcluded
    | UpdateTerms
    | Bind
    | BindDirectly
    | NoteJob
    | MakeSolo
    | NoteDevices
    | FreeDevices
    | Finish
    | Cancel
    | Evict
    | Shorten
    | Report
    | Warn
)
