"""How jobs and pods are recognised as parts of a gang: by the comment of a job, and by the binding note, which is a set
of annotations on a bound pod.

The comment of a placeholder job (it holds the nodes for a gang's pods) is `k8s:<namespace>/<name>:<uid> <free text>`.
Only the comment says to which gang a job belongs. The scheduler writes it when it submits the job, and each Prolog and
Epilog can read it. A new leader searches Slurm for such comments before it submits any job. A running scheduler does
the same for a gang whose last submit got no answer.

The owner of a job may write its comment, so the comment alone proves nothing for a job of another user than the
scheduler. If the scheduler submits a job as another user, slurmctld copies the comment to the admin comment
(charts/slurm/files/job_submit.lua), which users cannot write.

The owner of pods can have several gangs: units (a group of a LeaderWorkerSet, a stage of a JobSet) and generations (all
pods made again after a restart). Unit and generation follow the uid:
`k8s:<namespace>/<name>:<uid>/<unit>@<generation>`. The free text begins with the kind of the job. The kind says how the
job's slots (its Slurm tasks) were chosen for the gang's seats (one for each pod):

* `+whole`: a slot for each seat. A job without a kind also has a slot for each seat, if its gang has one role. If pods
  name nodes, and several name the same node, the job has a slot for each node, and no kind; jobs of the previous
  version of sunkpy then have `+named`.
* `+shared=worker.4,launcher.1`: a slot for each of the 4 workers; the seats of the other roles are put into these slots
  in turn, in this order. The numbers are the seats of each role when the job was submitted.
* `+replacement`: a slot for each node on which pods of the gang were when their job was lost, and no room for other
  pods. A replacement that has as many slots as the gang has seats is `+whole`.

The scheduler writes the binding note on a pod with the binding, and the next leader reads it: gang, job, node, seat and
devices. Labels, annotations and owners of a pod may change at any time. An admission policy of the chart keeps the note
as the scheduler wrote it (`scheduler.protectJobNotes`). Without that policy anybody who may edit the pod can forge the
note. `sunkpy.core.gang.evidence` says how a note ranks among other evidence.

Source of the limit of comments: slurmctld, job_mgr.c, validate_job_create_req.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob

_FORM: Final = re.compile(
    re.escape(names.JOB_COMMENT_PREFIX)
    + r"(?P<namespace>[a-z0-9-]+)/(?P<name>[A-Za-z0-9._-]+):(?P<uid>[A-Za-z0-9-]+)"
    + r"(?:/(?P<unit>[A-Za-z0-9._-]+))?(?:@(?P<generation>[A-Za-z0-9._-]+))?(?: |$)"
)
_TOKEN: Final = re.compile(r"[^A-Za-z0-9._-]")


JOBS: Final = "Slurm"
PODS: Final = "Kubernetes"
"""The two doors (ways) by which work comes into the pool of nodes: people submit jobs to Slurm, and Kubernetes has
pods.
"""


class GangId(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a gang: namespace, name and uid of the object that makes its pods belong together, such as a
    JobSet. For a pod that starts alone, this object is the pod itself.

    `unit` tells apart the gangs of one object that exist at the same time. `generation` tells apart its gangs that
    follow one another, as after a restart: the later one waits until the earlier one has ended.
    """

    namespace: str
    name: str
    uid: str
    unit: str = ""
    generation: str = ""

    def __str__(self) -> str:
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.namespace}/{self.name}{unit}"

    def shares_owner_with(self, other: GangId) -> bool:
        """True if both gangs belong to the same object, whatever their unit and generation. The unit and generation of
        a pod are read only once, because the labels that say them may change later; they are not compared here.
        """
        return (self.namespace, self.name, self.uid) == (other.namespace, other.name, other.uid)

    def comment(self, text: str = "") -> str:
        """Return the comment by which a Slurm job is recognised as this gang's: `k8s:<namespace>/<name>:<uid>`, with
        unit and generation if there are any. `text` is appended for users to read.
        """
        unit = f"/{self.unit}" if self.unit else ""
        generation = f"@{self.generation}" if self.generation else ""
        own = f"{names.JOB_COMMENT_PREFIX}{self.namespace}/{self.name}:{self.uid}{unit}{generation}"
        return f"{own} {text}" if text else own


def turn(id: GangId) -> int:
    """Return the number at the end of the gang's unit, 3 for `group-3`: it differs between the gangs of an owner that
    numbers its gangs. For a unit without a number at its end, return a hash. Gangs that must not share a topology
    domain choose different domains by this number (`core.placement.domains`).
    """
    digits = re.search(r"[0-9]{0,9}\Z", id.unit)
    return int(digits[0]) if digits and digits[0] else zlib.crc32(id.comment().encode())


def token(text: str) -> str:
    """Return the text in a form that a job's comment can carry: characters other than letters, digits, `.`, `_` and `-`
    are replaced by `-`, and the result is cut to 63 characters.
    """
    return _TOKEN.sub("-", text)[:63]


def legible(id: GangId) -> GangId:
    """Return an identity that can be written into a job's comment and read from it again. This is `id` itself, unless a
    part of it has unusual characters or is empty where that is not allowed. Then these characters are replaced, and the
    uid becomes a digest of the other parts and the old uid.

    Unusual characters are possible because whoever makes a pod writes its owner references, and the apiserver accepts
    any text as their uid.
    """
    if parse_comment(id.comment()) == id:
        return id
    parts = (id.name, id.uid, id.unit, id.generation)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    name, _, unit, generation = map(token, parts)
    return GangId(namespace=id.namespace, name=name or "-", uid=f"of-{digest}", unit=unit, generation=generation)


def gang_of(job: SlurmJob, *, scheduler: str) -> GangId | None:
    """Return the gang for which a Slurm job was submitted; None if it is no placeholder job. `scheduler` is the
    scheduler's own Slurm user: the comment of this user's jobs counts, and for other users' jobs only the admin
    comment.
    """
    return parse_comment(job.comment if job.user == scheduler else job.admin_comment)


def is_anothers(job: SlurmJob, id: GangId, *, scheduler: str) -> bool:
    """True if `job`, which Slurm reports under the id of the gang's job, is another job: Slurm has used the id again.
    It is another job if no comment of it names the gang.

    But a job of the scheduler's own user (`scheduler`) whose comment names no gang at all may still be the gang's: an
    administrator may have changed the comment. The answer is then False.
    """
    if id in (parse_comment(job.comment), parse_comment(job.admin_comment)):
        return False
    return job.user != scheduler or parse_comment(job.comment) is not None


def parse_comment(comment: str) -> GangId | None:
    """Return the gang that a Slurm job's comment names; None if the comment does not have the form in which sunkpy
    writes it.
    """
    match = _FORM.match(comment)
    if match is None:
        return None
    return GangId(**{name: value or "" for name, value in match.groupdict().items()})


def door_of(comment: str) -> str:
    """Return from where a job with this comment came: `Kubernetes` if sunkpy submitted it for pods, `Slurm` if a person
    did.
    """
    return PODS if parse_comment(comment) is not None else JOBS


LONGEST_COMMENT: Final = 1024
"""The most bytes of a comment that slurmctld accepts."""

LONGEST_KIND: Final = 320
"""The most characters of a job's kind. A gang with so many roles that its kind is longer gets a slot for each seat."""

_KIND: Final = re.compile(r"k8s:\S+ \+(whole|named|replacement|shared=[\w.,-]+)(?: |$)", re.ASCII)
_SEATS: Final = re.compile(r"([\w.-]+)\.([1-9]\d{0,8})", re.ASCII)


class JobKind(msgspec.Struct, frozen=True):
    """How the slots (tasks) of a placeholder job were chosen for the seats of its gang, one seat for each pod. The
    job's comment carries the kind.

    `name`: `whole`, a slot for each seat; `shared`, slots that hold seats of several roles; `replacement`, slots only
    for pods that had nodes when their job was lost; `named`, an old name for jobs whose pods name nodes. `seats`: only
    for `shared`, each role and the number of its seats when the job was submitted.
    """

    name: str
    seats: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        seats = ",".join(f"{role}.{count}" for role, count in self.seats)
        return f"+{self.name}={seats}" if seats else f"+{self.name}"


WHOLE: Final = JobKind("whole")
REPLACEMENT: Final = JobKind("replacement")


def make_comment(id: GangId, kind: JobKind | None, text: str) -> str:
    """Return the comment of a placeholder job: its gang, its kind (how its tasks were chosen for the pods), and `text`
    for users. The comment is cut to the length that Slurm accepts.
    """
    if kind is None and text.startswith("+"):
        kind = WHOLE  # so that the user's text is not read as a kind
    words = id.comment(" ".join(filter(None, (str(kind or ""), text))))
    return words.encode()[:LONGEST_COMMENT].decode(errors="ignore")


def kind_in(comment: str) -> JobKind | None:
    """Return the kind of a placeholder job (how its tasks were chosen for the pods) that sunkpy wrote into this
    comment; None if the comment has none.
    """
    found = _KIND.match(comment)
    if found is None:
        return None
    name, _, seats = found.group(1).partition("=")
    words = seats.split(",") if seats else []
    pairs = {pair[1]: int(pair[2]) for word in words if (pair := _SEATS.fullmatch(word)) is not None}
    return JobKind(name, tuple(pairs.items())) if len(pairs) == len(words) else None


def shared_kind(seats: list[tuple[str, int]]) -> JobKind | None:
    """Return the kind of a job that has a slot (task) for each seat of the first role, where the seats of the other
    roles share these slots. `seats`: each role and the number of its seats.

    None if the kind would be too long for the job's comment, or if two roles would have the same name in it.
    """
    counts = {role_word(role): count for role, count in seats}
    kind = JobKind("shared", tuple(counts.items()))
    return kind if len(counts) == len(seats) and len(str(kind)) <= LONGEST_KIND else None


def role_word(role: str) -> str:
    """Return the name of a role as it is written in a job's comment: characters that cannot stand there are replaced by
    `-`.
    """
    return token(role) or "-"


_DIGITS: Final = 10
"""The most digits of a job id that are read from a note: Python refuses to read numbers of thousands of digits."""

_NO_JOB: Final = 2**31
"""Numbers from here on are no job ids. Slurm counts to 2**26, and slurm.h uses some higher numbers for "no value"
(NO_VAL).
"""


class BindingNote(msgspec.Struct, frozen=True, kw_only=True):
    """The binding note: what the scheduler writes on a pod, as annotations, when it binds the pod.

    `seat` is `<role>/<index>`, for a pod of a gang with several seats. `devices`: the indices of the node's GPUs that
    the job has for the pod, as `0,1`. `claimed`: the devices of the pod's ResourceClaims, or those that sunkpy's device
    plugin will hand out, as `node-1/gpu-0`. An empty text is not written.
    """

    job: JobId
    gang: GangId
    slurm_node: str = ""
    seat: str = ""
    devices: str = ""
    claimed: str = ""

    @property
    def annotations(self) -> dict[str, str]:
        """The pod annotations in which the binding note is written, name → text. Empty parts of the note have no
        annotation.
        """
        texts = {
            names.ANNOTATION_JOB_ID: str(self.job),
            names.ANNOTATION_GANG_ID: self.gang.comment(),
            names.ANNOTATION_PLACED_ON: self.slurm_node,
            names.ANNOTATION_PLACE: self.seat,
            names.ANNOTATION_GPU_INDICES: self.devices,
            names.ANNOTATION_DEVICES: self.claimed,
        }
        return {name: text for name, text in texts.items() if text}


def noted_gang(pod: Pod) -> GangId | None:
    """Return the gang that the pod's annotation names, whoever wrote the annotation; None if there is none that can be
    read. The scheduler writes it when it binds the pod, not on a pod that still waits.
    """
    return parse_comment(pod.annotations.get(names.ANNOTATION_GANG_ID, ""))


def noted_job(pod: Pod) -> JobId | None:
    """Return the job that the pod's annotation names, whoever wrote the annotation; None if there is none, or if it is
    no valid job id.
    """
    text = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return JobId(int(text)) if is_number and int(text) < _NO_JOB else None
