"""What can change about a pending job, and what is sent to Slurm when the annotations of its pods have changed.

Only the changed fields are sent: Slurm, its plugins and administrators may have changed other fields of the job since.
The size of a job follows from its pods and cannot change. The user of a job cannot change either, and only an
administrator of Slurm may change its wckey and exclusive. If a pod asks for such a change, an Event on the pod says so.
Source: slurmctld, job_mgr.c, _update_job, which handles the job_desc_msg of POST job/{id}.

What was last asked for is noted on the pods, so that a new leader can tell values that sunkpy set from values that
others have changed. Anybody who may edit the pod can forge this note. So a request has only values that the gang may
ask for now.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from sunkpy.core.model.job_spec import JobSpec, Switches
from sunkpy.core.model.states import JobId, SlurmJob

_LONGEST_NOTE: Final = 16384
_LAST_TURN: Final = 10**9
"""The highest turn in a note that is read. Only a forged note has a higher one."""


_FIXED: Final = {
    "shared": "exclusive: only an administrator of Slurm may change who shares the nodes of a job",
    "wckey": "wckey: only an administrator of Slurm may change that of a job",
    "segment": "segment: how a job is cut into segments is part of its size",
    "gpu_type": "gpu-type: the GPUs of a job are part of its size",
    "user": "user: a job stays that of the user who submitted it",
}
"""Options that cannot change after the submit, each with the reason, by their field in JobSpec."""

_FIELDS: Final = (
    "name", "comment", "partition", "account", "qos", "reservation", "constraint", "licenses", "dependency", "switches",
    "time_limit_min",
)  # fmt: skip
_NOTED: Final = (*(field for field in _FIELDS if field not in ("name", "comment")), *_FIXED)
"""The fields that a note has. Name and comment are left out: Slurm always reports these."""

_CAN_BE_EMPTIED: Final = frozenset({"comment", "reservation", "constraint", "licenses", "dependency"})


class AskedTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A note on a pod, as an annotation: the terms (partition, time limit …) that its job was last asked to have.
    `turn` is how often the terms have changed; if the pods of a gang have several notes, the one with the highest
    `turn` counts.
    """

    job: int
    turn: Annotated[int, msgspec.Meta(ge=0, le=_LAST_TURN)] = 0
    terms: JobSpec = JobSpec()

    def __str__(self) -> str:
        bare = JobSpec(**_only(_NOTED, self.terms))
        return msgspec.json.encode(msgspec.structs.replace(self, terms=bare)).decode()


class TermsChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a pending job. `to`: all terms of the job after the change; `asked`: the terms that the pods ask for.

    `fields`: the fields to send to Slurm. `fixed`: fields that the pods ask to change and that cannot change. If a
    partition, an account, a QoS, a number of switches or a time limit is removed from the annotations, the job keeps
    it: Slurm has no value that unsets these.
    """

    to: JobSpec
    asked: JobSpec
    fields: tuple[str, ...]
    fixed: tuple[str, ...] = ()

    @property
    def refusal(self) -> str:
        """Why a part of the change is impossible, and what to do instead; empty if all of it is possible."""
        if not self.fixed:
            return ""
        why = "; ".join(_FIXED[field] for field in self.fixed)
        return f"{why}. To change it, delete the pods: the next ones are submitted with the new value"

    def __str__(self) -> str:
        words = ((field.removesuffix("_min").replace("_", " "), getattr(self.to, field)) for field in self.fields)
        return ", ".join(f"{name} {value or 'none'}" for name, value in words)


def spec_of(job: SlurmJob) -> JobSpec:
    """Return the terms of a job (partition, time limit …) as Slurm reports them, without the job's size."""
    return JobSpec(
        name=job.name,
        comment=job.comment,
        partition=job.partition,
        account=job.account,
        qos=job.qos,
        reservation=job.reservation,
        constraint=job.constraint,
        licenses=job.licenses,
        switches=Switches(count=job.switches) if job.switches else None,
        time_limit_min=job.time_limit_min,
        by_slurm=True,
    )


def last_asked(job: JobId, by_slurm: JobSpec, notes: Iterable[str]) -> AskedTerms | None:
    """Return the terms that an earlier leader last asked for, from its notes on the pods; None if there is no readable
    note for this job. `by_slurm`: the terms that Slurm reports, for the fields that a note does not have.
    """
    asked = [found for text in notes if (found := _read_note(text)) is not None and found.job == job]
    newest = max(asked, key=lambda each: each.turn, default=None)
    if newest is None:
        return None
    spec = msgspec.structs.replace(by_slurm, by_slurm=False, **_only(_NOTED, newest.terms))
    return msgspec.structs.replace(newest, terms=spec)


def _read_note(text: str) -> AskedTerms | None:
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(text, type=AskedTerms) if 0 < len(text) <= _LONGEST_NOTE else None
    return None


def find_change(has: JobSpec, wants: JobSpec) -> TermsChange | None:
    """Return what to change in a job whose terms are `has`, so that it gets the terms `wants`; None if nothing is to be
    changed.
    """
    unlike = [field for field in _FIELDS if _is_unlike(field, has, wants)]
    # A value that the pods do not ask for may be Slurm's own choice.
    given = [field for field in unlike if getattr(wants, field) not in ("", None)]
    gone = [field for field in unlike if field not in given and field in _CAN_BE_EMPTIED and not has.by_slurm]
    fields = (*given, *gone)
    # The fixed options of a job from an earlier leader are unknown: take them for what is asked for now.
    fixed = () if has.by_slurm else tuple(field for field in _FIXED if _is_unlike(field, has, wants))
    if not fields and not fixed:
        return None
    taken = (*_FIELDS, *_FIXED) if has.by_slurm else _FIELDS
    to = msgspec.structs.replace(has, by_slurm=False, **_only(taken, wants))
    return TermsChange(to=to, asked=wants, fields=fields, fixed=fixed)


def _is_unlike(field: str, has: JobSpec, wants: JobSpec) -> bool:
    if field == "dependency" and has.by_slurm:
        return False  # Slurm reports in its own words which dependencies are left
    if field == "switches" and has.by_slurm and has.switches is not None and wants.switches is not None:
        return has.switches.count != wants.switches.count  # slurmrestd does not report the longest wait for switches
    return bool(getattr(has, field) != getattr(wants, field))


def _only(fields: Iterable[str], spec: JobSpec) -> dict[str, Any]:
    return {field: getattr(spec, field) for field in fields}
