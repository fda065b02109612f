"""What an explanation is made from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core.gang.gang import Family
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Pod
from sunkpy.core.placement.admission import Admission


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A gang as it is known, and what surrounds it.

    Args:
        family: the one that took its pods.
        asked: name of the pod that the question is about; empty when it is about the gang.
        beyond: names of pods for which the gang has no seat: jobs of their own.
        states: Slurm node → its state by the last report of Slurm.
        places: Slurm node → where it stands in the network, if anybody knows.
        admissions: what the kubelet of its node would say, by uid of a pod that is to be bound.
        devices: those of the pods that have some, in words.
        growth: NodeSet → which nodes more are wanted of it; only while a job waits.
        unread: what could not be read, and why.
        is_slurm_asked: the jobs are from Slurm itself; else from what the scheduler wrote on the pods.
    """

    snapshot: Snapshot
    policy: Policy
    family: Family
    asked: str = ""
    beyond: tuple[str, ...] = ()
    states: Mapping[str, str] = {}
    places: Mapping[str, str] = {}
    admissions: Mapping[str, Admission] = {}
    devices: tuple[str, ...] = ()
    growth: Mapping[str, GrowthStatus | None] = {}
    unread: tuple[str, ...] = ()
    is_slurm_asked: bool = False

    @property
    def pod(self) -> Pod | None:
        """The pod that the question is about, if it is about one."""
        return next((pod for pod in self.snapshot.pods if pod.name == self.asked), None)
