"""Workload objects (owners of pods) that the scheduler suspends when their gang is preempted, and resumes when the
gang's pods are gone.

An annotation on the owner says which scheduler has suspended it, and by which field. So a scheduler resumes only owners
that it has suspended itself, also after a change of leader. A person who wants the owner to stay suspended removes the
annotation. A person who resumes the owner earlier can leave the annotation there: the scheduler removes it.
"""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.gang import Suspension
from sunkpy.core.model.objects import KubeObject, Owner


def path_noted(owner: KubeObject, scheduler: str) -> tuple[str, ...]:
    """Return the path of the field by which this scheduler has suspended the owner, as the owner's annotation says;
    empty if this scheduler has not suspended it.
    """
    by, _, path = owner.annotations.get(names.ANNOTATION_SUSPENDED_BY, "").rpartition(":")
    return tuple(path.split(".")) if path and by == scheduler else ()


def is_suspended(owner: Owner, path: tuple[str, ...]) -> bool:
    """True if the owner is suspended by the field at `path`: the field is true."""
    found: object = {"spec": msgspec.json.decode(owner.spec)}
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found is True


def suspend(suspension: Suspension, scheduler: str) -> dict[str, object]:
    """Return the merge patch that suspends an owner: it sets the field that `suspension` names, and an annotation that
    says which scheduler has done so.
    """
    note = f"{scheduler}:{'.'.join(suspension.path)}"
    return _note(suspension.owner, note) | _at(suspension.path, True)


def release(owner: Owner, scheduler: str, *, has_pods: bool) -> dict[str, object] | None:
    """Return the merge patch that resumes an owner whose pods are gone, and removes the annotation by which this
    scheduler has noted the suspension. `has_pods`: True if some pods of the owner have not ended.

    If somebody else has resumed the owner, the patch only removes the annotation. None if nothing is to be done now:
    this scheduler has not suspended the owner, the owner is being deleted, or it still has pods.
    """
    path = path_noted(owner, scheduler)
    if not path or owner.is_deleting:
        return None
    if not is_suspended(owner, path):
        return _note(owner, None)
    return None if has_pods else _note(owner, None) | _at(path, False)


def _note(owner: Owner, note: str | None) -> dict[str, object]:
    """Return a patch that only sets the annotation about the suspension to `note`; None removes the annotation. The
    apiserver refuses the patch if the owner has changed since it was read.
    """
    guard = {"uid": owner.uid, "resourceVersion": owner.metadata.resource_version}
    return {"metadata": {**guard, "annotations": {names.ANNOTATION_SUSPENDED_BY: note}}}


def _at(path: tuple[str, ...], is_set: bool) -> dict[str, object]:
    nested: object = is_set
    for part in reversed(path):
        nested = {part: nested}
    assert isinstance(nested, dict)
    return nested
