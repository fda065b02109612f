"""What a NodeSet decision asks the shell to do: plain data, run by one `match`."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import Token
from sunkpy.core.nodeset.slurmd_pod import Json


class AddFinalizer(msgspec.Struct, frozen=True):
    """Hold the NodeSet until its pods are drained and gone; Argo CD then deletes nothing that this needs before it."""


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Allow the deletion of the NodeSet: no pod of it is left."""


class CreatePod(msgspec.Struct, frozen=True):
    """POST `body`; the name is the same for the same node, so doing it twice is harmless."""

    node: str
    name: str
    body: Json


class MarkPending(msgspec.Struct, frozen=True):
    """Ask the syncer to drain: write the token on the pod."""

    pod: Pod
    token: Token


class CancelPending(msgspec.Struct, frozen=True):
    """The pod need not go any more: remove the token."""

    pod: Pod


class AnnotateJobs(msgspec.Struct, frozen=True):
    """Write the jobs of the pods on its node for the syncer, which asks Slurm whether they outlive the slurmd."""

    pod: Pod
    jobs: str


class DeletePod(msgspec.Struct, frozen=True):
    """Delete exactly this pod as it was seen (uid and resourceVersion).

    `why` is `drained`, `replaced` (services on its node run on), `failed` (a finished pod makes room for the next
    try) or `drain-timeout`.
    """

    pod: Pod
    why: str


RemovalStep = MarkPending | CancelPending | AnnotateJobs | DeletePod
"""The actions on a pod that has to go, or no longer has to."""

FinalizerStep = AddFinalizer | RemoveFinalizer
"""The actions on the NodeSet itself."""

NodeSetAction = FinalizerStep | CreatePod | RemovalStep
