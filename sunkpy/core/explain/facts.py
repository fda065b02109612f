"""All facts from which the explanation of a gang or pod is made."""

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
    """A gang as the scheduler would see it, and what else its explanation needs.

    Args:
        snapshot: what the scheduler decides on; it has the gang and its jobs.
        policy: the scheduler's settings for jobs.
        family: the family of workloads to which the gang's pods belong.
        asked: the name of the pod that the person asks about; empty if they ask about the gang.
        beyond: the names of pods for which the gang has no seat, and which have jobs of their own.
        states: Slurm node → its state by the last report of Slurm.
        places: Slurm node → its place in the network, if it is known.
        admissions: uid of a pod that is to be bound → what the kubelet of its node would answer.
        devices: the devices of the pods, in words.
        growth: NodeSet → how many more nodes it wants; only while a job waits.
        unread: what could not be read, and why.
        is_slurm_asked: the jobs come from Slurm itself; if False, from what the scheduler wrote on the pods.
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
        """The pod that the person asks about; None if they ask about the gang."""
        return next((pod for pod in self.snapshot.pods if pod.name == self.asked), None)
