"""Which pod or job has which device, read several times a second from three independent sources, and conflicts among
them.

The sources are: the environment of running processes (pods get it from their driver, jobs from Slurm), the claims, and
the jobs that Slurm reports.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from demo.slurm_text import gres_indices
from demo.stack import Stack
from devcluster import Cluster, dra
from devcluster.errors import DevclusterError
from sunkpy.core.gang.devices.handout import devices_on
from sunkpy.core.model.devices import ResourceClaim, ResourceSlice
from sunkpy.core.model.objects import Pod
from tests.bench.chaos.judge import placeholder_of
from tests.bench.chaos.observer import Repeated, node_folders, owner_of, processes, variables
from tests.bench.chaos.record import Owner
from tests.e2e.workloads import NAMESPACE

_OF_A_POD = re.compile(r"GPU_DEVICE_\d+")

Devices = frozenset[str]
Held = Mapping[Owner, Devices]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Which devices each pod or job had at one moment, by one of the sources (`side`)."""

    at_s: float
    side: str
    held: Held


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a running pod: those of its processes (`seen`), its claims (`claimed`) and its job (`given`)."""

    name: str
    seen: Devices
    claimed: Devices
    given: Devices

    @property
    def is_equal(self) -> bool:
        """True if all three sources name the same devices, and at least one."""
        return bool(self.seen) and self.seen == self.claimed == self.given

    @property
    def text(self) -> str:
        said = {"processes": self.seen, "claims": self.claimed, "job": self.given}
        return f"{self.name}: " + ", ".join(f"{side} {' '.join(sorted(has)) or 'none'}" for side, has in said.items())


def in_order(devices: Iterable[str]) -> list[str]:
    """Return the devices sorted by the numbers in their names, as Slurm counts them."""
    return sorted(devices, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def devices_of(environ: Mapping[str, str], names: Sequence[str]) -> Devices:
    """Return the devices in the environment of a process; `names` are the node's devices in Slurm's order."""
    of_a_pod = [value for key, value in environ.items() if _OF_A_POD.fullmatch(key)]
    # Only for pods: in jobs this variable does not name devices.
    of_a_pod += filter(None, environ.get("NVIDIA_VISIBLE_DEVICES", "").split(",") if "CHAOS_POD" in environ else ())
    of_a_job = gres_indices(f"gpu(IDX:{environ.get('SLURM_JOB_GPUS', '')})")
    return frozenset([*of_a_pod, *(names[index] for index in of_a_job)])


def shared(held: Held) -> dict[str, frozenset[Owner]]:
    """Return device → its owners, for devices that several pods or jobs have."""
    owners: defaultdict[str, set[Owner]] = defaultdict(set)
    for owner, devices in held.items():
        for device in devices:
            owners[device].add(owner)
    return {device: frozenset(found) for device, found in owners.items() if len(found) > 1}


def double_owners(samples: Sequence[Sample]) -> list[str]:
    """Return in words, with the first time, each device that had several owners in a sample."""
    first: dict[tuple[str, str, frozenset[Owner]], float] = {}
    for sample in samples:
        for device, owners in shared(sample.held).items():
            first.setdefault((sample.side, device, owners), sample.at_s)
    return [
        f"{device} by {side}: {' and '.join(sorted(owner.text for owner in owners))}, from {at_s:.2f}"
        for (side, device, owners), at_s in first.items()
    ]


SAMPLE_EVERY_S = 0.25
LOOK_EVERY_S = 1.0
_HOLDS = frozenset({"RUNNING", "COMPLETING", "SUSPENDED"})

PROCESSES, CLAIMS, JOBS, BETWEEN = "processes", "claims", "Slurm's jobs", "claims and jobs of sbatch"


class Observer:
    """Reads all three sources from `start` to `stop`, on a cluster of one node. `names`: the node's devices, if pods
    get them from the device plugin; notes on pods then stand for claims.
    """

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
        self._repeated.start()

    def stop(self) -> None:
        self._repeated.stop()

    def processes(self) -> Held:
        """Return each owner's devices, from environments. If a device has two owners, a second scan must agree."""
        held = scan(self._folder, self.names)
        return both(held, scan(self._folder, self.names)) if shared(held) else held

    def claims(self) -> Held:
        """Return the devices of each pod, from the claims that are reserved for it, or from the note on it."""
        if self._by_notes:
            return held_by_notes(self._stack.kubectl.list(Pod, "pods", "-n", NAMESPACE))
        return held_by_claims(self._stack.kubectl.list(ResourceClaim, "resourceclaims", "-n", NAMESPACE))

    def jobs(self) -> dict[int, tuple[str, Devices]]:
        """Return name and devices of each job that holds some, by job id; the name of a placeholder job is empty."""
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
        # Claims and jobs are not read at the same moment: an overlap counts only if the next look shows it, too.
        now = {**claims, **natives}
        self._note(BETWEEN, lambda: both(self._between, now))
        self._between = now

    def _note(self, side: str, read: Callable[[], Held]) -> None:
        at_s = time.time()
        self.samples.append(Sample(at_s=at_s, side=side, held=read()))


def scan(folder: Path, names: Sequence[str]) -> Held:
    """Return the devices of each owner, from the processes of the load in the pods of a node."""
    found: defaultdict[Owner, Devices] = defaultdict(frozenset)
    for _, _, environ in processes(folder):
        owner = owner_of(environ)
        if owner is not None:
            found[owner] |= devices_of(variables(environ), names)
    return found


def both(one: Held, other: Held) -> Held:
    return {owner: devices & other[owner] for owner, devices in one.items() if owner in other}


def held_by_claims(claims: Sequence[ResourceClaim]) -> Held:
    found: defaultdict[Owner, Devices] = defaultdict(frozenset)
    for status in (claim.status for claim in claims):
        devices = {each.device for each in status.allocation.devices.results} if status.allocation else frozenset[str]()
        for pod in status.reserved_for:
            found[Owner("pod", pod.name)] |= devices
    return found


def held_by_notes(pods: Sequence[Pod]) -> Held:
    """Return the devices in the note on each pod that has not ended."""
    return {
        Owner("pod", pod.name): frozenset(name.rpartition("/")[2] for name in devices_on(pod))
        for pod in pods
        if devices_on(pod) and not pod.is_finished
    }


def held_by_jobs(jobs: Mapping[int, Mapping[str, str]], names: Sequence[str]) -> dict[int, tuple[str, Devices]]:
    """Return name and devices of each job that holds some, by job id; the name of a placeholder job is empty."""
    return {
        number: (
            "" if placeholder_of(job) else job["JobName"],
            frozenset(names[index] for index in gres_indices(job.get("GRES", ""))),
        )
        for number, job in jobs.items()
        if job["JobState"] in _HOLDS
    }


def _devices(stack: Stack) -> list[str]:
    specs = [each.spec for each in stack.kubectl.list(ResourceSlice, "resourceslices")]
    return in_order(device.name for spec in specs if spec.driver == dra.DRIVER for device in spec.devices)
