"""The input of the decision about one NodeSet. The operator collects it before each decision."""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import datetime

import msgspec

from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.survey import Survey

WAVE = 250
"""The most slurmd pods that one pass creates, and the most that it marks or deletes, as in the DaemonSet controller."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """All that the decision about one NodeSet reads. The survey must not change during the decision.

    `failures`: Kubernetes node → how often in a row its slurmd pod has failed. `create_error`: what the apiserver said
    when it last refused a pod of the current template, in a create or a dry run; empty if it did not.
    `offers_settle_in_s`: the seconds until a change of what a node offers to Slurm may have lasted long enough to
    outdate its pod. `room_to_create`: how many pods may be created now. `idle`: uids of pods whose nodes have been idle
    for long enough to be released; `idle_in_s`: the seconds until there may be more such pods.
    """

    nodeset: NodeSet
    survey: Survey
    failures: Mapping[str, int] = {}
    create_error: str = ""
    offers_settle_in_s: float | None = None
    idle: Set[str] = frozenset()
    idle_in_s: float | None = None
    room_to_create: int = WAVE
    now: datetime
