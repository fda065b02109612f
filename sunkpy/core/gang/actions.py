"""What the scheduler can do about a gang: the output of `decide`, executed by one `match` in the shell."""

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
    """Hand a job to Slurm, for these pods."""

    request: JobSpec
    pods: tuple[Pod, ...]


class UpdateExcluded(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a pending job which nodes the pods may not use now."""

    job: JobId
    excluded: tuple[str, ...]


class UpdateTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Change a pending job after the annotations of its pods; `pod` gets an Event about it."""

    job: JobId
    pod: Pod
    change: TermsChange


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, and what is noted on it with the binding: the node of its job, its seat, and its GPUs on the node."""

    pod: Pod
    note: BindingNote


class IfRefused(enum.Enum):
    """What happens to a gang when a node refuses one of its members."""

    GIVE_BACK = "the job is given back, and the next one keeps away from that node for a while"
    WAIT = "the member is tried again"
    GO_SOLO = "the member gets a job of its own"


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """Put pods on nodes of their job: all of them, if the kubelets would admit all of them, else none.

    `final_because`: why these pods do not come back once they are evicted.
    """

    job: JobId
    bindings: tuple[Binding, ...]
    if_refused: IfRefused = IfRefused.GIVE_BACK
    final_because: str = ""


class BindDirectly(msgspec.Struct, frozen=True, kw_only=True):
    """Put a pod that never queues on the Kubernetes node it is made for, if the kubelet would admit it."""

    pod: Pod
    node: str


class NoteJob(msgspec.Struct, frozen=True, kw_only=True):
    """Note on a pod that is bound already which job holds its node from now on."""

    pod: Pod
    job: JobId


class NoteDevices(msgspec.Struct, frozen=True, kw_only=True):
    """Note on a pod that is bound already which GPUs of its node its job has for it. Empty: none are known."""

    pod: Pod
    gpus: str


class FreeDevices(msgspec.Struct, frozen=True, kw_only=True):
    """Take devices back from the claims of a pod that was not bound with them."""

    pod: Pod


class MakeSolo(msgspec.Struct, frozen=True, kw_only=True):
    """Make a pod a gang of its own: the job of its gang has no room for it, or does not have its node."""

    pod: Pod


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """End a job with the exit code of its pods: 0 when all succeeded, else 1."""

    job: JobId
    exit_code: int


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a job."""

    job: JobId
    why: str


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a pod to go because its job has lost the node.

    `cause`: why, where it is not the end of its job. `suspension`: if the job was preempted the owner is asked to take
    its pods back instead. `grace_s`: None is what the pod asks for.
    """

    pod: Pod
    job: JobId | None
    suspension: Suspension | None = None
    grace_s: int | None = None
    cause: EndCause | None = None


class Shorten(msgspec.Struct, frozen=True, kw_only=True):
    """Shorten the grace period of a pod that somebody else has deleted: its job has lost the node."""

    pod: Pod
    grace_s: int


class WaitCause(enum.Enum):
    """Why a pod is not scheduled yet."""

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
    """Say on the pod why it is not scheduled yet.

    `needs_node`: no node could hold it, or Slurm has none free for it. Only then an autoscaler may buy one.
    """

    pod: Pod
    message: str
    cause: WaitCause
    needs_node: bool = False

    @property
    def is_problem(self) -> bool:
        """True if somebody has to change something."""
        return self.cause not in _PASSING


class Warn(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a person something about a pod, once."""

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
