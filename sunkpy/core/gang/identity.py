"""The comment by which a placeholder job is known to belong to a gang: `k8s:<namespace>/<name>:<uid> <free text>`.

It alone says whose a job is: written with the submit, readable in every prolog and epilog, and looked up before a gang
is submitted again. Whose a pod is, it does not say alone: see `sunkpy.core.gang.evidence`.

The owner of a job may write its comment, so that of a person's job proves nothing. slurmctld repeats it as the admin
comment of a job that the scheduler has submitted (charts/slurm/files/job_submit.lua), and that is believed.

An owner can have several gangs: units of it (a group of a LeaderWorkerSet, a stage of a JobSet) and generations (all
pods made again after a restart). They stand behind the uid: `k8s:<namespace>/<name>:<uid>/<unit>@<generation>`. The
free text begins with the kind of the job (`sunkpy.core.gang.job.kind`).
"""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.model.states import SlurmJob

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
    """Whether the number of a gang's job is another job's now: nothing that this one says leads to the gang.

    An administrator may have changed a comment. Of a sealed job there is a second one, and of the scheduler's own user
    nobody else has jobs.
    """
    if id in (parse_comment(job.comment), parse_comment(job.admin_comment)):
        return False
    return job.user != scheduler or parse_comment(job.comment) is not None


def parse_comment(comment: str) -> GangId | None:
    """Whose job it is, or None when the comment is not one of ours."""
    match = _FORM.match(comment)
    if match is None:
        return None
    return GangId(**{name: value or "" for name, value in match.groupdict().items()})


def door_of(comment: str) -> str:
    """The door of a job with this comment."""
    return PODS if parse_comment(comment) is not None else JOBS
