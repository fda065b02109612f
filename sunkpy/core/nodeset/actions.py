"""What a NodeSet decision asks the operator to do, as plain data. `operator.execute` and `operator.create` do it."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import Token
from sunkpy.core.nodeset.slurmd_pod import Json


class AddFinalizer(msgspec.Struct, frozen=True):
    """Put a finalizer on the NodeSet, which holds it until its pods are drained and gone. So Argo CD deletes what the
    pods need only after them.
    """


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Remove the finalizer, so that the deleted NodeSet can go: none of its pods is left."""


class CreatePod(msgspec.Struct, frozen=True):
    """Create the slurmd pod `body` for a node. Its name is the same each time, so doing it twice is harmless."""

    node: str
    name: str
    body: Json


class MarkPending(msgspec.Struct, frozen=True):
    """Write the removal token on a slurmd pod. The syncer then drains its Slurm node."""

    pod: Pod
    token: Token


class CancelPending(msgspec.Struct, frozen=True):
    """Remove the token from a slurmd pod that need not go any more."""

    pod: Pod


class AnnotateJobs(msgspec.Struct, frozen=True):
    """Write on a slurmd pod which jobs the workload pods of its node have. The syncer asks Slurm whether these jobs
    outlive the slurmd.
    """

    pod: Pod
    jobs: str


class DeletePod(msgspec.Struct, frozen=True):
    """Delete exactly this slurmd pod as it was seen (uid and resourceVersion).

    `why` is `drained`, `replaced` (services on its node run on), `failed` (a finished pod makes room for the next try)
    or `drain-timeout`.
    """

    pod: Pod
    why: str


RemovalStep = MarkPending | CancelPending | AnnotateJobs | DeletePod
"""The actions on a slurmd pod that has to go, or no longer has to."""

FinalizerStep = AddFinalizer | RemoveFinalizer
"""The actions on the NodeSet itself."""

NodeSetAction = FinalizerStep | CreatePod | RemovalStep
