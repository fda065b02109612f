"""Simulated machines: Nodes that the Cluster Autoscaler's provider `kwok` makes, each with a real slurmd.

slurmctld, slurmrestd and all slurmds are processes of this machine. A slurmd starts when its pod is bound, and is
killed when its pod or its Node is gone. Workload pods are only records: the bench says when they end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Set
from typing import Any, Final

from sunkpy.core import names
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.runtime.settings import SlurmSettings
from tests.bench import simulated
from tests.bench.asked import SUITE
from tests.bench.ground import USER, ControlPlane, RunningSlurm
from tests.bench.simulated import NAMESPACE
from tests.integration.cluster_autoscaler import CPUS, POOL, Kubelets, slurmd_node
from tests.integration.slurm.asking import connect
from tests.integration.slurm.daemons import Machines, RealSlurm
from tests.integration.slurm.kept_potential import KEEP_POTENTIAL
from tests.integration.slurm.site import slurm_conf
from tests.ports import free_ports

NODESET: Final = "compute"
_MEMORY: Final = "8192Mi"
WORKLOADS: Final = "/api/v1/namespaces/default/pods"
RELEASE_AFTER_S: Final = 20
_ENDED: Final = ("Succeeded", "Failed")
_START: Final = """\
run() { # a node and its port
  for folder in /run /var/spool/slurmd; do mkdir -p $folder; mount -t tmpfs -o mode=755 tmpfs $folder; done
  exec /usr/sbin/slurmd -D -Z -N "$1" --conf "CPUs=8 RealMemory=8192 Feature=compute Port=$2"
}
export -f run
mkfifo /var/tmp/machines && exec 3<> /var/tmp/machines
while read -r node port; do
  unshare --mount --propagation unchanged bash -c 'run "$@"' - $node $port >> /var/log/slurmd-$node.log 2>&1 &
done <&3 3<&- &
"""
_CONF: Final = """\
MaxNodeCount=256
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
PrologFlags=Alloc
ReturnToService=1
NodeSet={nodeset} Feature={nodeset}
{parameters}
"""


def nodeset(ask: str, *, potential: int) -> dict[str, object]:
    """Return a NodeSet without nodes that grows when a job needs one; `ask`: how it asks the autoscaler."""
    shape = {"cpus": CPUS, "memory": _MEMORY}
    growth = {"ask": ask, "potential": potential, "releaseAfterSeconds": RELEASE_AFTER_S, "shape": shape}
    slurmd = {"name": names.SLURMD_CONTAINER, "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return simulated.nodeset(NODESET, {"nodeSelector": {"pool": POOL}, "containers": [slurmd]}, growth=growth)


def start_slurm(plane: ControlPlane) -> RunningSlurm:
    parameters = next(line for line in slurm_conf({}).splitlines() if line.startswith("SchedulerParameters="))
    conf = _CONF.format(nodeset=NODESET, parameters=parameters)
    folder = plane.folder / "slurm"
    folder.mkdir()
    real = RealSlurm(folder, SUITE, machines=Machines(conf=conf, start=_START, slurmctld=KEEP_POTENTIAL))
    settings = SlurmSettings(url=real.url, user=USER, jwt_key_file=str(real.key_file))
    return RunningSlurm(connect(real, "slurm"), settings, real)


class Simulated(Kubelets):
    """All simulated machines. Each call of `turn` moves them one step on.

    `ending`: workload pods that `turn` ends as Succeeded. `slurmds`: the Slurm nodes whose slurmd runs. `node_of`:
    Slurm node → its Node, also of those that ended. `there`: the Nodes now; `most`: the most Nodes at one time.
    """

    def __init__(self, plane: ControlPlane, real: RealSlurm) -> None:
        super().__init__(plane, NAMESPACE)
        self._real = real
        self.ending: set[str] = set()
        self.slurmds: set[str] = set()
        self.node_of: dict[str, str] = {}
        self.there: Set[str] = frozenset()
        self.most = 0

    def turn(self) -> None:
        """Read Nodes and pods, and do what kubelets would: bind, start and end slurmds, start and end workload pods."""
        slurmds, workloads = self.slurmd_pods, self.items(WORKLOADS)
        self.there = self.boot().keys()  # read after the pods: a pod's Node that is missing here is gone
        self.most = max(self.most, len(self.there))
        for pod in slurmds:
            self._run_slurmd(pod)
        for pod in workloads:
            self._run_workload(pod)

    def _run_slurmd(self, pod: dict[str, Any]) -> None:
        name, node = pod["metadata"]["name"], slurmd_node(pod)
        if "deletionTimestamp" in pod["metadata"] or node not in self.there:
            self._end_slurmd(name)
            self.remove(pod)
        elif not pod["spec"].get("nodeName"):
            self.bind(pod)
        else:
            if not pod["status"].get("startTime"):
                self.patch(f"{self.pods_path}/{name}/status", {"status": {"startTime": rfc3339(utc_now())}})
            self._start_slurmd(name)
            self.node_of[name] = node
            gate = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
            is_ready = gate.get(names.READINESS_GATE, "False")
            told = {"ContainersReady": "True", "Ready": is_ready}
            if any(gate.get(type_) != status for type_, status in told.items()):
                self._say(f"{self.pods_path}/{name}", told)

    def _start_slurmd(self, name: str) -> None:
        if name not in self.slurmds:
            (port,) = free_ports(1)
            with (self._real.root / "var/tmp/machines").open("w") as machines:
                machines.write(f"{name} {port}\n")
            self.slurmds.add(name)

    def _end_slurmd(self, name: str) -> None:
        if name in self.slurmds:
            for pid in self._real.running(rf"/usr/sbin/slurmd .*-N {name} .*"):
                os.kill(pid, signal.SIGKILL)
            self.slurmds.remove(name)

    def _run_workload(self, pod: dict[str, Any]) -> None:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        path = f"{WORKLOADS}/{name}"
        if "deletionTimestamp" in pod["metadata"]:
            self.apiserver.ask("admin", "DELETE", path, {"gracePeriodSeconds": 0})
        elif pod["spec"].get("nodeName") and phase not in _ENDED:
            if pod["spec"]["nodeName"] not in self.there:
                self.patch(f"{path}/status", {"status": {"phase": "Failed"}})
            elif name in self.ending:
                self.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
            elif phase != "Running":
                self._say(path, {"Ready": "True", "ContainersReady": "True"})

    def _say(self, path: str, told: dict[str, str]) -> None:
        """Set conditions of a pod by a strategic merge patch, which keeps conditions that others have set."""
        conditions = [{"type": type_, "status": status} for type_, status in told.items()]
        body = {"status": {"phase": "Running", "conditions": conditions}}
        self.apiserver.ask("admin", "PATCH", f"{path}/status", body, patch="strategic-merge-patch")
