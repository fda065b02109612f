"""A gang of pods on a real Slurm of five nodes. The scheduler's own parts read
and change Slurm.

The pods are values: decisions about them count as done, as if apiserver and kubelets had carried them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.gang import Gang, Suspension
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.request import GpuSharing, Policy
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.eligibility import Eligibility, NodeAmounts
from sunkpy.scheduler.hooks.proof import HookProof
from sunkpy.scheduler.jobs.poll import JobPoller
from sunkpy.scheduler.jobs.search import JobSearch
from sunkpy.scheduler.jobs.writer import JobWriter
from sunkpy.scheduler.record import GangRecord, Recognised
from sunkpy.slurm import Slurm
from tests.doubles.leading import make_leader
from tests.integration.slurm.daemons import Machines
from tests.ports import free_ports
from tests.unit.core.gang.families import workload
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.simulator import Pods

NODES: Final = ("n1", "n2", "n3", "n4", "n5")
CPUS: Final = 2
POLICY: Final = Policy(gpu_resources={"nvidia.com/gpu": "gpu"}, suspend_owners=True, gpu_sharing=GpuSharing.COUNT)

_CONF = """\
MaxNodeCount=16
PrologFlags=Alloc
Epilog=/etc/slurm/epilog.sh
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0
SlurmdTimeout=10
"""

_EPILOG = """\
#!/bin/bash
echo "$SLURM_JOB_ID $SLURMD_NODENAME" >> /var/log/epilogs
while [ -e /var/log/hold-epilogs ]; do sleep 0.1; done
"""

_PRIVATE: Final = ("/tmp", "/run", "/var/spool/slurmd")
_DEVICES: Final = Path("/dev/sunkpy")


def five_nodes(
    *, cpus: int = CPUS, gpus: int = 0, features: Sequence[str] = ("",) * len(NODES), conf: str = ""
) -> Machines:
    """Each has a slurmd that signals find by a name of its own, `slurmd-n1`, and pretended GPUs.

    Slurm itself goes by the first word of the command, and runs as slurmd under no other.
    """
    own = " && ".join(f"mkdir -p {folder} && mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in _PRIVATE)
    lines = []
    gres = {"gres.conf": f"Name=gpu Type=h100 File={_pretend_gpus(gpus)}\n"} if gpus else {}
    has_gpus = f" Gres=gpu:h100:{gpus}" if gpus else ""
    for node, port, feature in zip(NODES, free_ports(len(NODES)), features, strict=True):
        has_features = f" Feature={feature}" if feature else ""
        size = f"CPUs={cpus} RealMemory=4000{has_gpus}{has_features} Port={port}"
        start = f'{own} && exec -a slurmd /usr/sbin/slurmd-{node} -D -Z -N {node} --conf "{size}"'
        lines.append(f"ln /usr/sbin/slurmd /usr/sbin/slurmd-{node}\n")
        alone = f"unshare --mount --propagation unchanged bash -c '{start}'"
        lines.append(f"keep {alone} >> /var/log/slurmd-{node}.log 2>&1 &\n")
    return Machines(conf=_CONF + conf, start="".join(lines), files={"epilog.sh": _EPILOG} | gres)


def _pretend_gpus(count: int) -> str:
    """Device files, as start-slurmd makes them; Slurm's name for all of them."""
    _DEVICES.mkdir(exist_ok=True)
    for number in range(count):
        with contextlib.suppress(FileExistsError):  # all tests of this machine share them
            os.mknod(_DEVICES / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    return f"{_DEVICES}/gpu[0-{count - 1}]"


class Ring:
    """Pods, and what the scheduler knows of them: three, each with a node of its own, if nothing else is said.

    `asks`: what each of the pods requests. `size`: what Slurm offers of each node, devices and so on, if that matters.
    `states` are all in which its jobs were seen, in order.
    """

    def __init__(
        self,
        slurm: Slurm,
        name: str,
        *,
        nodes: Sequence[str] = NODES[:3],
        asks: Sequence[Mapping[str, str]] = (),
        room: NodeAmounts | None = None,
        restarts: str = "Never",
        **annotations: str,
    ) -> None:
        clock = asyncio.get_running_loop().time
        asks = asks or [{"cpu": str(CPUS)}] * len(nodes)
        marks = {"sunkpy.dev/gang": name, "sunkpy.dev/gang-size": str(len(asks))}
        marks |= {f"sunkpy.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
        same = {"annotations": marks, "restart_policy": restarts}
        pods = [(f"{name}-{number}", requests) for number, requests in enumerate(asks)]
        self._known = Pods(make_pod(pod, uid=pod, requests=requests, **same) for pod, requests in pods)
        self._rooms = frozenset([room] if room is not None else [])
        self.id: GangId = identify(self.pods[0])
        self.states: list[frozenset[str]] = []
        self._nodes = nodes
        self._clock = clock
        self.owner = workload.owner({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": name}})
        leader = make_leader(slurm, clock=clock)
        self._proof = HookProof(leader)
        self._writer = JobWriter(leader, JobSearch(leader, learned=lambda *_: None))
        self._poller = JobPoller(leader)
        self.record: GangRecord = leader.ledger.ensure(self.id)

    @property
    def pods(self) -> list[Pod]:
        """As they are now."""
        return list(self._known.pods.values())

    def take_pods_away(self) -> None:
        """All are gone."""
        self._known.pods.clear()

    @property
    def placed(self) -> dict[str, str]:
        """The Slurm node of each pod that was bound."""
        return self._known.placed

    @property
    def gang(self) -> Gang | None:
        """As its family makes it, below an owner that can be suspended."""
        if not self.pods:
            return None
        made = assemble(self.id, self.pods)
        return msgspec.structs.replace(made, suspension=Suspension(owner=self.owner))

    @property
    def job(self) -> JobId:
        """The id of the gang's last job."""
        return max(self.record.jobs)

    def snapshot(self) -> Snapshot:
        """What is known now."""
        refused = {node: "is another test's" for node in NODES if node not in self._nodes}
        snapshot = self.record.snapshot(Recognised(gang=self.gang), placed=self.placed, now=self._clock())
        eligibility = Eligibility(eligible=tuple(self._nodes), refused=refused, rooms=self._rooms)
        return msgspec.structs.replace(snapshot, eligibility=eligibility)

    async def look(self) -> list[act.GangAction]:
        """Ask Slurm, and decide."""
        await self._poller.poll()
        for known in self.record.jobs.values():
            if known.state and known.state not in self.states[-1:]:
                self.states.append(known.state)
        return decide_gang(self.snapshot(), POLICY)

    async def epilog_called(self) -> bool:
        """As when an epilog calls: Slurm is asked in full. Does the job run on?"""
        return (await self._proof.read_again(self.record, self.job)).is_running

    async def step(self) -> list[act.GangAction]:
        """Ask Slurm, decide, and do it."""
        actions = await self.look()
        for action in actions:
            await self._do(action)
        return actions

    async def until(self, kind: type[act.GangAction], *, timeout_s: float = 60.0) -> list[act.GangAction]:
        """Step until something of this kind is to be done; all that was decided then."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    actions = await self.step()
                    if any(isinstance(action, kind) for action in actions):
                        return actions
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"no {kind.__name__}; states seen: {self.states}; now {self.snapshot()}") from None

    async def _do(self, action: act.GangAction) -> None:
        match action:
            case act.Submit(request=request):
                await self._writer.submit(self.record, request)
            case act.Bind(job=job, bindings=bindings):
                self.record.now_under(job)
                self._known.apply(self.id, action)
                for binding in bindings:
                    self._known.enter(binding.pod, "Running", runs=True)
            case act.NoteJob(job=job):
                self.record.now_under(job)
                self._known.apply(self.id, action)
            case act.Cancel(job=job, why=why):
                await self._writer.cancel(self.record, job, why=why)
            case act.Finish():
                await self._writer.finish(self.record, action)
            case act.Evict() | act.NoteDevices():
                self._known.apply(self.id, action)
