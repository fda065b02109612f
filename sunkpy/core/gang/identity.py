"""How jobs and pods are recognised as parts of a gang: by the comment of a job, and by the note on a bound pod.

The comment of a placeholder job is `k8s:<namespace>/<name>:<uid> <free text>`. It alone says whose a job is: written
with the submit, readable in every prolog and epilog, and looked up before a gang is submitted again.

The owner of a job may write its comment, so that of a person's job proves nothing. slurmctld repeats it as the admin
comment of a job that the scheduler has submitted (charts/slurm/files/job_submit.lua), and that is believed.

An owner can have several gangs: units of it (a group of a LeaderWorkerSet, a stage of a JobSet) and generations (all
pods made again after a restart). They stand behind the uid: `k8s:<namespace>/<name>:<uid>/<unit>@<generation>`. The
free text begins with the kind of the job, for which the gang has asked:

* `+whole`: a slot for each seat. A job without such a word is one, too: that of a gang with one role, or one whose pods
  name nodes. Jobs of the version before say `+named` there.
* `+shared=worker.4,launcher.1`: a slot for each of the 4 workers; the seats of the other roles are put into these
  slots in turn, in this order. The numbers are those for which it was asked.
* `+replacement`: for the members that had nodes when their job was lost. Others have no slot there.

The note is what the scheduler writes on a pod with its binding, and the next leader believes: gang, job, node, seat and
devices. Labels, annotations and owners of a pod may change at any time. An admission policy of the chart keeps the note
as the scheduler wrote it (`scheduler.protectJobNotes`). Without that policy anybody who may edit the pod can forge it.
What counts for more than a note, and less: `sunkpy.core.gang.evidence`.

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
"""The doors by which jobs come."""


class GangId(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a gang: namespace, name and uid of the object that makes its pods belong together.

    For a plain pod that is the pod itself. `unit` tells apart the gangs of one owner that live side by side,
    `generation` those that follow one another: the later waits until the earlier is gone.
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
        """True if both are gangs of one owner. Which unit or generation a pod is of is asked once, because what says so
        may change later.
        """
        return (self.namespace, self.name, self.uid) == (other.namespace, other.name, other.uid)

    def comment(self, text: str = "") -> str:
        """The job's comment; `text` is what the user wants to see there."""
        unit = f"/{self.unit}" if self.unit else ""
        generation = f"@{self.generation}" if self.generation else ""
        own = f"{names.JOB_COMMENT_PREFIX}{self.namespace}/{self.name}:{self.uid}{unit}{generation}"
        return f"{own} {text}" if text else own


def turn(id: GangId) -> int:
    """A number that differs between the gangs of one owner, if the owner numbers them: 3 for `group-3`. Otherwise any
    number.
    """
    digits = re.search(r"[0-9]{0,9}\Z", id.unit)
    return int(digits[0]) if digits and digits[0] else zlib.crc32(id.comment().encode())


def token(text: str) -> str:
    """A text as it may stand in a comment: a uid, unit or generation made of a label or annotation."""
    return _TOKEN.sub("-", text)[:63]


def legible(id: GangId) -> GangId:
    """The identity as its comment can carry it; most are so already.

    A reference to an owner is written by whoever makes the pod, and the apiserver takes any text for its uid.
    """
    if parse_comment(id.comment()) == id:
        return id
    parts = (id.name, id.uid, id.unit, id.generation)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    name, _, unit, generation = map(token, parts)
    return GangId(namespace=id.namespace, name=name or "-", uid=f"of-{digest}", unit=unit, generation=generation)


def gang_of(job: SlurmJob, *, scheduler: str) -> GangId | None:
    """The gang that a job stands for, None when it is not a placeholder; `scheduler` is the scheduler's Slurm user."""
    return parse_comment(job.comment if job.user == scheduler else job.admin_comment)


def is_anothers(job: SlurmJob, id: GangId, *, scheduler: str) -> bool:
    """True if Slurm has given the number of the gang's job to another job: nothing in that job's record is about the
    gang.

    An administrator may have changed a comment. A sealed job has a second comment, and nobody else has jobs of the
    scheduler's own user.
    """
    if id in (parse_comment(job.comment), parse_comment(job.admin_comment)):
        return False
    return job.user != scheduler or parse_comment(job.comment) is not None


def parse_comment(comment: str) -> GangId | None:
    """The gang of the job with this comment; None if sunkpy did not write the comment."""
    match = _FORM.match(comment)
    if match is None:
        return None
    return GangId(**{name: value or "" for name, value in match.groupdict().items()})


def door_of(comment: str) -> str:
    """The door of a job with this comment."""
    return PODS if parse_comment(comment) is not None else JOBS


LONGEST_COMMENT: Final = 1024
"""The most bytes of a comment that slurmctld accepts."""

LONGEST_KIND: Final = 320
"""A gang with so many roles that its kind is longer is asked for with a slot for each seat."""

_KIND: Final = re.compile(r"k8s:\S+ \+(whole|named|replacement|shared=[\w.,-]+)(?: |$)", re.ASCII)
_SEATS: Final = re.compile(r"([\w.-]+)\.([1-9]\d{0,8})", re.ASCII)


class JobKind(msgspec.Struct, frozen=True):
    """`name` as in the comment. `seats`: for how many seats of each role a shared job was asked for."""

    name: str
    seats: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        seats = ",".join(f"{role}.{count}" for role, count in self.seats)
        return f"+{self.name}={seats}" if seats else f"+{self.name}"


WHOLE: Final = JobKind("whole")
REPLACEMENT: Final = JobKind("replacement")


def make_comment(id: GangId, kind: JobKind | None, text: str) -> str:
    """The comment of a job: whose it is, its kind, and what the user wants to see there, as much as Slurm takes."""
    if kind is None and text.startswith("+"):
        kind = WHOLE  # what people write is no kind
    words = id.comment(" ".join(filter(None, (str(kind or ""), text))))
    return words.encode()[:LONGEST_COMMENT].decode(errors="ignore")


def kind_in(comment: str) -> JobKind | None:
    """The kind that a comment of ours names; None when it names none."""
    found = _KIND.match(comment)
    if found is None:
        return None
    name, _, seats = found.group(1).partition("=")
    words = seats.split(",") if seats else []
    pairs = {pair[1]: int(pair[2]) for word in words if (pair := _SEATS.fullmatch(word)) is not None}
    return JobKind(name, tuple(pairs.items())) if len(pairs) == len(words) else None


def shared_kind(seats: list[tuple[str, int]]) -> JobKind | None:
    """The kind of a job with a slot for each seat of the first role; None when a comment cannot carry it."""
    counts = {role_word(role): count for role, count in seats}
    kind = JobKind("shared", tuple(counts.items()))
    return kind if len(counts) == len(seats) and len(str(kind)) <= LONGEST_KIND else None


def role_word(role: str) -> str:
    """The name of a role as it stands in a kind."""
    return token(role) or "-"


_DIGITS: Final = 10
"""At most so many digits are read: anybody who may edit a pod can write more, and Python reads only some thousands."""

_NO_JOB: Final = 2**31
"""Slurm counts to 2**26. Above this, slurmrestd takes some numbers for no number at all (slurm.h, NO_VAL)."""


class BindingNote(msgspec.Struct, frozen=True, kw_only=True):
    """The note on one bound pod.

    `seat` is `<role>/<index>` of a member of a gang of several. `devices` are the GPUs of the node that the job holds
    for the pod, as `0,1`; `claimed` the devices of its claims, as `node-1/gpu-0`.
    """

    job: JobId
    gang: GangId
    slurm_node: str = ""
    seat: str = ""
    devices: str = ""
    claimed: str = ""

    @property
    def annotations(self) -> dict[str, str]:
        """The note as it stands on the pod."""
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
    """The gang that is noted on a pod, whoever wrote it; a pod that waits has no more than its job."""
    return parse_comment(pod.annotations.get(names.ANNOTATION_GANG_ID, ""))


def noted_job(pod: Pod) -> JobId | None:
    """The job that is noted on a pod, whoever wrote it."""
    text = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return JobId(int(text)) if is_number and int(text) < _NO_JOB else None
