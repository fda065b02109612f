"""What an explanation is made from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core.gang.gang import Family
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView
from sunkpy.core.model.objects import Pod
from sunkpy.core.placement.admission import Admission


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A gang as it is known, and what surrounds it.

    Args:
        family: the one that took its pods.
        asked: name of the pod that the question is about; empty when it is about the gang.
        beyond: names of pods for which the gang has no place: jobs of their own.
        states: Slurm node → its state as Slurm last told it.
        admissions: what the kubelet of its node would say, by uid of a pod that is to be bound.
        unread: what could not be read, and why.
        is_slurm_asked: Slurm itself told of the jobs; else they are as the scheduler noted them on the pods.
    """

    view: GangView
    policy: Policy
    family: Family
    asked: str = ""
    beyond: tuple[str, ...] = ()
    states: Mapping[str, str] = {}
    admissions: Mapping[str, Admission] = {}
    unread: tuple[str, ...] = ()
    is_slurm_asked: bool = False

    @property
    def pod(self) -> Pod | None:
        """The pod that the question is about, if it is about one."""
        return next((pod for pod in self.view.pods if pod.name == self.asked), None)
