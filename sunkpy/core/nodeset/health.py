"""`Ready`, `Reconciling` and `Stalled`: whether a NodeSet is as wanted, as kstatus reads it for Flux, Argo CD and helm.

A NodeSet whose rolling update only waits for jobs is Ready: that may take days, and a program that waits for the
NodeSet (`helm --wait`) would give up and undo the update. `Reconciling` and `Stalled` are there only while they are
True.

Source: sigs.k8s.io/cli-utils, pkg/kstatus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sunkpy.core.model.objects import Condition

OF_KSTATUS: Final = frozenset({"Ready", "Reconciling", "Stalled"})
_STALLED: Final = frozenset({"BadSpec", "CreateFailed", "TooManyAtOnce"})
"""Reasons of conditions that stay until a person acts."""


def health(found: Mapping[str, Condition], *, waits_for_jobs: bool) -> Iterator[Condition]:
    """Yield the condition `Ready` that follows from the NodeSet's other conditions (`found`: type → condition). If the
    NodeSet waits for a person, also yield `Stalled`; if the operator is at work on it, also yield `Reconciling`.

    `waits_for_jobs`: nothing is left to do but to wait for jobs, which does not count as work.
    """
    progressing = found["Progressing"]
    stalled = next((each for each in found.values() if each.reason in _STALLED), None)
    if stalled is not None:
        yield _ready("False", stalled)
        yield Condition(type="Stalled", status="True", reason=stalled.reason, message=stalled.message)
    elif progressing.status == "True" and not waits_for_jobs:
        yield _ready("False", progressing)
        yield Condition(type="Reconciling", status="True", reason=progressing.reason, message=progressing.message)
    elif progressing.reason == "PodsFailed":
        yield _ready("False", progressing)
    else:
        feasible = found.get("Feasible")
        decisive = found["Available"] if feasible is None or feasible.reason == "NodesFit" else feasible
        yield _ready(decisive.status, decisive)


def _ready(status: str, because: Condition) -> Condition:
    return Condition(type="Ready", status=status, reason=because.reason, message=because.message)
