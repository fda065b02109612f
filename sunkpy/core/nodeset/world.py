"""What a pass over one NodeSet looks at: the input of the decision, collected by the operator."""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import datetime

import msgspec

from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.survey import Survey

WAVE = 250
"""At most so many pods are created, and so many are marked or deleted, in one pass. The DaemonSet controller does the
same.
"""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a pass reads. The survey must not change during the pass.

    `failures` counts by node how often its pod has failed in a row; `create_error` is what the apiserver said when it
    last refused a pod of the current template, created or in a dry run. `offers_settle_in_s` is when a node's other
    offer may have lasted; `room_to_create` how many pods may be created now. `idle`: uids of pods on whose nodes
    nothing has run for long enough to release them; `idle_in_s` is when there may be more.
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
