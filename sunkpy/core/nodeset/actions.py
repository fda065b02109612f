"""The actions that a decision about a NodeSet asks of the operator, as plain data. `operator.execute` and
`operator.create` carry them out.
"""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import Token
from sunkpy.core.nodeset.slurmd_pod import Json


class AddFinalizer(msgspec.Struct, frozen=True):
    """Action: put a finalizer on the NodeSet, so that the object stays until its pods are drained and gone. Argo CD
    waits until the NodeSet is gone, and only then deletes the objects that its pods need.
    """


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Action: remove the finalizer of a NodeSet that is being deleted, so that the object can go. None of its pods is
    left.
    """


class CreatePod(msgspec.Struct, frozen=True):
    """Action: create the slurmd pod `body` for a node. The pod has the same name in each try, so creating it twice is
    harmless.
    """

    node: str
    name: str
    body: Json


class MarkPending(msgspec.Struct, frozen=True):
    """Action: write the removal token on a slurmd pod. The syncer then drains the pod's Slurm node."""

    pod: Pod
    token: Token


class CancelPending(msgspec.Struct, frozen=True):
    """Action: remove the removal token from a slurmd pod that no longer has to go."""

    pod: Pod


class AnnotateJobs(msgspec.Struct, frozen=True):
    """Action: write on a slurmd pod which Slurm jobs the workload pods on its node belong to. The syncer asks Slurm
    whether these jobs outlive the slurmd.
    """

    pod: Pod
    jobs: str


class DeletePod(msgspec.Struct, frozen=True):
    """Action: delete this slurmd pod, if it has not changed since it was read (same uid and resourceVersion).

    `why` is `drained`, `replaced` (services on its node go on), `failed` (a finished pod makes room for the next try)
    or `drain-timeout`.
    """

    pod: Pod
    why: str


RemovalStep = MarkPending | CancelPending | AnnotateJobs | DeletePod
"""The actions on a slurmd pod that has to go, or no longer has to."""

FinalizerStep = AddFinalizer | RemoveFinalizer
"""The actions on the NodeSet itself."""

NodeSetAction = FinalizerStep | CreatePod | RemovalStep
