"""The observer: reads processes, claims and Slurm's jobs several times a second, each where its own side keeps them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from demo.stack import Stack
from devcluster import Cluster, dra
from devcluster.errors import DevclusterError
from sunkpy.core.handout import devices_on
from sunkpy.core.model.objects import Pod
from sunkpy.core.names import JOB_COMMENT_PREFIX
from tests.bench.chaos.observer import Repeated, node_folders, owner_of, processes, variables
from tests.bench.chaos.record import Owner
from tests.bench.devices.judge import Devices, Held, Sample, devices_of, in_order, indices, shared
from tests.e2e.workloads import NAMESPACE

SAMPLE_EVERY_S = 0.25
LOOK_EVERY_S = 1.0
_HOLDS = frozenset({"RUNNING", "COMPLETING", "SUSPENDED"})

PROCESSES, CLAIMS, JOBS, BETWEEN = "processes", "claims", "Slurm's jobs", "claims and jobs of sbatch"


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Result(msgspec.Struct, frozen=True):
    device: str


class _Results(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...] = ()


class _Allocation(msgspec.Struct, frozen=True):
    devices: _Results = _Results()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    allocation: _Allocation = _Allocation()
    reserved_for: tuple[_Named, ...] = ()


class Claim(msgspec.Struct, frozen=True):
    """A ResourceClaim: what is allocated, and the pods it is reserved for."""

    status: _Status = _Status()


class _Offer(msgspec.Struct, frozen=True):
    driver: str
    devices: tuple[_Named, ...] = ()


class Slice(msgspec.Struct, frozen=True):
    """A ResourceSlice: a driver and its devices."""

    spec: _Offer


class Observer:
    """What each side says, from `start` to `stop`, of a cluster of one node. `names`: where there are no claims."""

    def __init__(self, stack: Stack, cluster: Cluster, names: Sequence[str] = ()) -> None:
        self.samples: list[Sample] = []
        self.names = names or _devices(stack)
        self._by_notes = bool(names)
        self.blind = 0
        self._stack = stack
        (self._folder,) = node_folders(cluster).values()
        self._between: Held = {}
        self._repeated = Repeated({self._sample: SAMPLE_EVERY_S, self._look: LOOK_EVERY_S})

    def start(self) -> None:
        """Begin."""
        self._repeated.start()

    def stop(self) -> None:
        """End."""
        self._repeated.stop()

    def processes(self) -> Held:
        """By the environment of what runs. Where a device has two owners, both were there before and after."""
        held = scan(self._folder, self.names)
        return both(held, scan(self._folder, self.names)) if shared(held) else held

    def claims(self) -> Held:
        """Pods to the devices of the claims that are reserved for them, or to those that are noted on them."""
        if self._by_notes:
            return held_by_notes(self._stack.kubectl.list(Pod, "pods", "-n", NAMESPACE))
        return held_by_claims(self._stack.kubectl.list(Claim, "resourceclaims", "-n", NAMESPACE))

    def jobs(self) -> dict[int, tuple[str, Devices]]:
        """Name and devices of each job that Slurm has not taken them from; one that stands for pods has no name."""
        return held_by_jobs(self._stack.jobs(), self.names)

    def _sample(self) -> None:
        self._note(PROCESSES, self.processes)

    def _look(self) -> None:
        try:
            claims, jobs = self.claims(), self.jobs()
        except DevclusterError:  # the apiserver or slurmctld is away
            self.blind += 1
            return
        self._note(CLAIMS, lambda: claims)
        self._note(JOBS, lambda: {Owner("job", str(number)): devices for number, (_, devices) in jobs.items()})
        natives = {Owner("job", name): devices for name, devices in jobs.values() if name}
        # The two are not read at one moment: what is seen of both twice, a second apart, is no hand-over.
        now = {**claims, **natives}
        self._note(BETWEEN, lambda: both(self._between, now))
        self._between = now

    def _note(self, side: str, read: Callable[[], Held]) -> None:
        at_s = time.time()
        self.samples.append(Sample(at_s=at_s, side=side, held=read()))


def scan(folder: Path, names: Sequence[str]) -> Held:
    """Owners to devices, of the processes of the load in the pods of a node."""
    found: defaultdict[Owner, Devices] = defaultdict(frozenset)
    for _, _, environ in processes(folder):
        owner = owner_of(environ)
        if owner is not None:
            found[owner] |= devices_of(variables(environ), names)
    return found


def both(one: Held, other: Held) -> Held:
    """What was held in both."""
    return {owner: devices & other[owner] for owner, devices in one.items() if owner in other}


def held_by_claims(claims: Sequence[Claim]) -> Held:
    """Pods to the devices of the claims that are reserved for them."""
    found: defaultdict[Owner, Devices] = defaultdict(frozenset)
    for claim in claims:
        for pod in claim.status.reserved_for:
            found[Owner("pod", pod.name)] |= {each.device for each in claim.status.allocation.devices.results}
    return found


def held_by_notes(pods: Sequence[Pod]) -> Held:
    """Pods that are not over to the devices that were noted on them with the binding."""
    return {
        Owner("pod", pod.name): frozenset(name.rpartition("/")[2] for name in devices_on(pod))
        for pod in pods
        if devices_on(pod) and not pod.is_finished
    }


def held_by_jobs(jobs: Mapping[int, Mapping[str, str]], names: Sequence[str]) -> dict[int, tuple[str, Devices]]:
    """Number to name and devices of each job that Slurm has not taken them from; one for pods has no name."""
    return {
        number: (_name(job), frozenset(names[index] for index in indices(job.get("GRES", ""))))
        for number, job in jobs.items()
        if job["JobState"] in _HOLDS
    }


def _name(job: Mapping[str, str]) -> str:
    return "" if job.get("Comment", "").startswith(JOB_COMMENT_PREFIX) else job["JobName"]


def _devices(stack: Stack) -> list[str]:
    """Devices of the node, in Slurm's order."""
    specs = [each.spec for each in stack.kubectl.list(Slice, "resourceslices")]
    return in_order(device.name for spec in specs if spec.driver == dra.DRIVER for device in spec.devices)
