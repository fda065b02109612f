"""The input of the decision about one NodeSet, which the operator collects for each pass."""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import datetime

import msgspec

from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.survey import Survey

WAVE = 250
"""The most slurmd pods that one pass creates, and the most that it marks or deletes, as in the DaemonSet controller."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """All that the decision about one NodeSet reads. The survey must not change during the pass.

    `failures`: how often in a row the pod of each node has failed. `create_error`: what the apiserver said when it last
    refused a pod of the current template, created or in a dry run. `offers_settle_in_s`: the seconds until a node's
    changed offer may have lasted long enough. `room_to_create`: how many pods may be created now. `idle`: uids of pods
    on whose nodes nothing has run for long enough to release them; `idle_in_s`: the seconds until there may be more of
    them.
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
