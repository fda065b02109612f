"""A gang: pods that start together, as one Slurm job.

Which pods belong together is the business of a *family* of workloads (`sunkpy.core.gang.families`). A family answers
two questions: whose gang is this pod (`identify`, asked of one pod as soon as it is seen), and what does the gang look
like (`assemble`, asked with all its pods that are there). Everything else, here and in the shell, knows gangs only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.options import JobOptions, Problem
from sunkpy.core.model.objects import KubeObject, Pod


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that become one Slurm job.

    `members` are the pods that are there, in rank order; fewer than `minimum` are not submitted.
    """

    id: GangId
    members: tuple[Pod, ...]
    minimum: int
    options: JobOptions
    problems: tuple[Problem, ...] = ()


Owners = Sequence[KubeObject]
"""The objects above a pod, nearest first, as far as they could be read."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of workload.

    `identify` gives the gang of a pod, or None when the pod is not of this family; it looks at nothing that changes
    during the pod's life. `assemble` gets at least one pod; pods and owners are as they are now.
    """

    name: str
    identify: Callable[[Pod, Owners], GangId | None]
    assemble: Callable[[GangId, Sequence[Pod], Owners], Gang]
