"""Owners that are suspended when their gang is preempted, and resumed when its pods are gone.

The owner itself bears the note of it: which scheduler did it, and by which field. So only what this scheduler has
suspended is ever resumed, and a new leader goes on where the old one ended. Who wants it to stay suspended takes the
note away; who resumes it earlier may leave it.
"""

from __future__ import annotations

import enum

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.gang import Suspension
from sunkpy.core.model.objects import KubeObject, Owner


class Step(enum.Enum):
    """What to do now about an owner with our note."""

    NOTHING = "nothing"
    RESUME = "resume"
    FORGET = "forget"  # somebody has resumed it: the note alone is taken away


def path_noted(owner: KubeObject, scheduler: str) -> tuple[str, ...]:
    """The field by which this scheduler has suspended the owner; empty when it has not."""
    by, _, path = owner.annotations.get(names.ANNOTATION_SUSPENDED_BY, "").rpartition(":")
    return tuple(path.split(".")) if path and by == scheduler else ()


def is_suspended(owner: Owner, path: tuple[str, ...]) -> bool:
    """The field at `path` is true."""
    found: object = {"spec": msgspec.json.decode(owner.spec)}
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found is True


def next_step(owner: Owner, scheduler: str, *, has_pods: bool) -> Step:
    """What to do about an owner; `has_pods`: some of its pods have not ended yet."""
    path = path_noted(owner, scheduler)
    if not path or owner.is_deleting:
        return Step.NOTHING
    if not is_suspended(owner, path):
        return Step.FORGET
    return Step.NOTHING if has_pods else Step.RESUME


def suspend(suspension: Suspension, scheduler: str) -> dict[str, object]:
    """The patch that suspends an owner, as it is in `suspension`."""
    note = f"{scheduler}:{'.'.join(suspension.path)}"
    return _patch(suspension.owner, note) | _at(suspension.path, True)


def resume(owner: Owner, scheduler: str) -> dict[str, object]:
    """The patch that resumes it and takes the note away."""
    return forget(owner) | _at(path_noted(owner, scheduler), False)


def forget(owner: Owner) -> dict[str, object]:
    """The patch that takes the note away."""
    return _patch(owner, None)


def _patch(owner: Owner, note: str | None) -> dict[str, object]:
    """Only if the owner is still as it was read."""
    guard = {"uid": owner.uid, "resourceVersion": owner.metadata.resource_version}
    return {"metadata": {**guard, "annotations": {names.ANNOTATION_SUSPENDED_BY: note}}}


def _at(path: tuple[str, ...], is_set: bool) -> dict[str, object]:
    nested: object = is_set
    for part in reversed(path):
        nested = {part: nested}
    assert isinstance(nested, dict)
    return nested
