"""What the scheduler can do about a gang. `decide_gang` returns these actions, and the scheduler executes them in one
`match`.
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
    """Submit a job to Slurm for these pods."""

    request: JobSpec
    pods: tuple[Pod, ...]


class UpdateExcluded(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the list of nodes that a pending job must not use."""

    job: JobId
    excluded: tuple[str, ...]


class UpdateTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Change a pending job as the annotations of its pods say now. An Event on `pod` reports the change."""

    job: JobId
    pod: Pod
    change: TermsChange


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to be bound, and the note that is written on it with the binding: its job, node, seat and GPUs."""

    pod: Pod
    note: BindingNote


class IfRefused(enum.Enum):
    """What the scheduler does with a gang if a node refuses one of its members."""

    GIVE_BACK = "the job is given back, and the next one keeps away from that node for a while"
    WAIT = "the member is tried again"
    GO_SOLO = "the member gets a job of its own"


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """Bind pods to nodes of their job. If a kubelet would refuse one of them, none is bound.

    `final_because`: why the owner does not replace these pods once they are evicted; empty if it does.
    """

    job: JobId
    bindings: tuple[Binding, ...]
    if_refused: IfRefused = IfRefused.GIVE_BACK
    final_because: str = ""


class BindDirectly(msgspec.Struct, frozen=True, kw_only=True):
    """Bind a pod of a DaemonSet to the Kubernetes node that it is made for, without a job, if the kubelet would admit
    it.
    """

    pod: Pod
    node: str


class NoteJob(msgspec.Struct, frozen=True, kw_only=True):
    """Note on a bound pod that another job holds its node from now on."""

    pod: Pod
    job: JobId


class NoteDevices(msgspec.Struct, frozen=True, kw_only=True):
    """Annotate a bound pod with the GPUs of the node that are its own (`gpus`); without any, remove the annotation."""

    pod: Pod
    gpus: str


class FreeDevices(msgspec.Struct, frozen=True, kw_only=True):
    """Release the devices that claims of a pod have reserved, because the pod was not bound with them."""

    pod: Pod


class MakeSolo(msgspec.Struct, frozen=True, kw_only=True):
    """Make a pod a gang of its own, because the job of its gang has no slot for it or does not have its node."""

    pod: Pod


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """End a job with the exit code of its pods: 0 if all succeeded, else 1."""

    job: JobId
    exit_code: int


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a Slurm job; `why` is for the log and the Event."""

    job: JobId
    why: str


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """Evict a pod, because its job has lost the node.

    `cause`: why the pod is evicted, if not for the end of its job. `suspension`: if the job was preempted, the
    scheduler suspends this owner instead of evicting the pod. `grace_s`: the grace period; None: the pod's own.
    """

    pod: Pod
    job: JobId | None
    suspension: Suspension | None = None
    grace_s: int | None = None
    cause: EndCause | None = None


class Shorten(msgspec.Struct, frozen=True, kw_only=True):
    """Shorten the grace period of a pod that somebody else has deleted, because its job has lost the node."""

    pod: Pod
    grace_s: int


class WaitCause(enum.Enum):
    """Why a pod is not bound yet."""

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
    """Set a condition on the pod that says why it is not bound yet.

    `needs_node`: True if no node could hold the pod, or Slurm has none free for it. Only then may an autoscaler add a
    node.
    """

    pod: Pod
    message: str
    cause: WaitCause
    needs_node: bool = False

    @property
    def is_problem(self) -> bool:
        """True if the pod waits until a person or the cluster changes something, not only for its turn."""
        return self.cause not in _PASSING


class Warn(msgspec.Struct, frozen=True, kw_only=True):
    """Write a warning Event on a pod, once."""

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
