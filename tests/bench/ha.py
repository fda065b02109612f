"""The control plane loses a process and a machine, while pods and sbatch jobs come and go.

The bench makes its own cluster: two nodes for jobs, and two for the control plane. One of the latter has everything
that runs only once, and all leaders. In the first part it has the only slurmctld, in the second the first of two. When
it is switched off, only its disk is left.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import click

from demo.bring_up import GPUS_PER_NODE, install, slurm_values
from demo.stack import OPERATOR_NAMESPACE, Stack
from devcluster import Cluster
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait, wait_until_none
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.times import parse_rfc3339
from sunkpy.core.overview.installation import Lease
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.chaos.judge import SAVED_AFTER_S
from tests.bench.chaos.observer import Repeated
from tests.bench.clusters import own_stack, recorded_once
from tests.doubles.apiserver import merged
from tests.e2e import processes, workloads

MACHINES: Final = {1: "node-2", 2: "node-1"}
"""Number of slurmctld replicas → the machine that dies in that part. After the first part everything is on the other
machine.
"""
_POOL: Final = "node.example.com/pool"
_LABELS: Final = {name: {_POOL: "jobs"} for name in ("node-3", "node-4")}
_CPUS: Final = 8
_EVERY_S: Final = 8.0
_LOAD_S: Final = 45.0
"""For how many seconds the load runs before a fault: longer than SlurmctldTimeout, so both slurmctld know each
other.
"""
_PATIENCE_S: Final = 600.0
_APP: Final = "ha"
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_BOUND_S: Final = {"killed": 60.0, "dead machine": 180.0, "declared dead": 180.0}


class Sent(NamedTuple):
    """A submit by sbatch: the job's id, and when the answer came; both are 0 after an error."""

    name: str
    asked_s: float
    job: int = 0
    answered_s: float = 0.0


class Load:
    """A job and a pod every few seconds, and one of each that runs for the whole part."""

    def __init__(self, stack: Stack) -> None:
        self.sent: list[Sent] = []
        self._stack = stack
        self._numbers = itertools.count(1)
        self._pool = ThreadPoolExecutor(max_workers=64)
        self._repeated = Repeated({self._begin: _EVERY_S})

    def start(self) -> None:
        workloads.forget_stamps(self._stack)
        self._stack.login(f"rm -rf {_APP} go; mkdir {_APP}")
        self._sbatch(f"{_APP}-long", until="[ -e ~/go ]")
        self._create(f"{_APP}-long", "until [ -e /stamps/go ]; do sleep 1; done")
        self._repeated.start()

    def stop(self) -> None:
        self._repeated.stop()
        self._pool.shutdown()
        self._stack.login("touch go")
        workloads.stamps_of(self._stack).joinpath("go").touch()

    def answered(self, *, since_s: float) -> float:
        """Return when the first submit since then was answered with a job id."""
        times = [sent.answered_s for sent in self.sent if sent.asked_s > since_s and sent.answered_s]
        if not times:
            raise NotYet("no job was taken")
        return min(times)

    def bound(self, *, since_s: float) -> float:
        """Return when the first pod created since then was bound."""
        times = [time_of(pod, "PodScheduled") for pod in pods(self._stack) if created_s(pod) > since_s]
        if not any(times):
            raise NotYet("no pod was bound")
        return min(filter(None, times))

    def _begin(self) -> None:
        name = f"{_APP}-{next(self._numbers)}"
        self._pool.submit(self._sbatch, name)
        self._pool.submit(self._create, name, "sleep 2")

    def _sbatch(self, name: str, *, until: str = "true") -> None:
        asked_s, file = time.time(), f"~/{_APP}/{name}"
        script = f"echo start >> {file}; sleep 2; until {until}; do sleep 1; done; echo end >> {file}"
        sent = Sent(name, asked_s)
        with contextlib.suppress(CommandFailed):
            job = self._stack.sbatch("-J", name, "-n1", "--mem=16", "-o", "/dev/null", script=script)
            sent = Sent(name, asked_s, job, time.time())
        self.sent.append(sent)

    def _create(self, name: str, script: str) -> None:
        image, scheduler = self._stack.images["sunkpy"], self._stack.scheduler_name
        command, labels, stamps = ["sh", "-c", script], {"app": _APP}, workloads.stamps_of(self._stack)
        body = workloads.pod(name, image=image, scheduler=scheduler, command=command, labels=labels, stamps=stamps)
        self._stack.kubectl.apply(body)


def measure(_: Asked) -> list[report.Figure]:
    def up(cluster: Cluster, _: Sequence[Path]) -> None:
        cluster.up(4, gpus=GPUS_PER_NODE, cpus=_CPUS, labels=_LABELS)

    with own_stack("ha", up) as (stack, cluster):
        found: list[report.Figure] = []
        for replicas in (1, 2):
            install(stack, click.echo, slurm=values(stack, replicas=replicas))
            found += Run(stack, cluster, replicas=replicas).figures()
            report.save("ha", found)
        return found


def values(stack: Stack, *, replicas: int) -> Mapping[str, object]:
    """Return the values of charts/slurm. Everything that runs only once prefers the machine that is to die."""
    there, here = ({"affinity": _near(MACHINES[number])} for number in (replicas, 3 - replicas))
    shared = {"accessModes": ["ReadWriteMany"]}
    whole: Mapping[str, object] = merged(
        dict(slurm_values(stack)),
        {
            "compute": {"nodeSelector": {_POOL: "jobs"}},
            "slurmctld": {"replicas": replicas, "persistence": shared, "backup": {"enabled": False}, **there},
            "accounting": {"slurmdbd": there, "database": there},
            "slurmrestd": {"replicas": 2} if replicas == 2 else there,
            "accounts": there,
            "login": here,
        },
    )
    return whole


def _near(node: str) -> dict[str, object]:
    def term(weight: int, key: str, operator: str, *values: str) -> dict[str, object]:
        expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    near, off_jobs = term(100, "kubernetes.io/hostname", "In", node), term(50, _POOL, "DoesNotExist")
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near, off_jobs]}}


class Run:
    def __init__(self, stack: Stack, cluster: Cluster, *, replicas: int) -> None:
        self._stack = stack
        self._cluster = cluster
        self._replicas = replicas
        self._machine = MACHINES[replicas]
        self._load = Load(stack)
        self._kills: list[float] = []
        self._found: list[report.Figure] = []

    def figures(self) -> list[report.Figure]:
        self._gather()
        self._load.start()
        time.sleep(_LOAD_S)
        try:
            if self._replicas == 2:
                self._kill()
            self._switch_off()
            self._declare_dead()
            self._switch_on()
        finally:
            self._load.stop()
        self._compare()
        return self._found

    def _gather(self) -> None:
        """Move everything that runs only once, and all leaders, to the machine that is to die."""

        def gathered() -> bool:
            leases = [self._stack.kubectl.list(Lease, "leases", "-n", space) for space in spaces(self._stack)]
            leaders = " ".join(str(lease.spec.holder_identity) for lease in itertools.chain(*leases))
            found = control_plane(self._stack)
            away = [pod for pod in found if pod.spec.node_name != self._machine]
            once = _STAY if self._replicas == 2 else ("slurmrestd", *_STAY)
            wrong = [pod for pod in away if part_of(pod) in once and not pod.name.endswith("-slurmctld-1")]
            wrong += [pod for pod in away if pod.name in leaders]
            # Of a part with two replicas one must be on another machine, as on a healthy cluster.
            alone = {part_of(pod) for pod in found} - {part_of(pod) for pod in away} - {*once, "page"}
            wrong += [pod for pod in found if part_of(pod) in alone and pod.name not in leaders]
            # Delete one pod at a time, slurmctld first: it would wait for slurmdbd before it ends.
            for pod in sorted(wrong, key=lambda pod: "slurmctld" not in pod.name)[:1]:
                self._stack.kubectl("delete", "pod", pod.name, "-n", pod.metadata.namespace)
            self._wait_ready("all ready")
            return not wrong

        wait(gathered, timeout_s=_PATIENCE_S, what=f"all on {self._machine}", every_s=3.0)
        copy = ("test", "-e", "/var/lib/slurm/state/assoc_mgr_state")
        wait(lambda: not self._stack.admin(*copy), timeout_s=_PATIENCE_S, what="slurmctld's copy of what slurmdbd has")
        there = {part_of(pod) for pod in control_plane(self._stack) if pod.spec.node_name == self._machine}
        click.echo(f"on {self._machine}: {', '.join(sorted(there))}; load {os.getloadavg()[0]:.1f}")

    def _kill(self) -> None:
        pod = next(pod for pod in processes.pods_of(self._stack, "slurmctld") if pod.name.endswith("-0"))
        self._kills.append(time.time())
        processes.kill_program([pod], "slurmctld")
        self._until_served("killed")
        time.sleep(_LOAD_S)

    def _switch_off(self) -> None:
        since_s = time.time()
        self._cluster.fault.power_off(self._machine)
        self._kills.append(since_s)
        if self._replicas == 2:
            self._until_served("dead machine")
        self._until_elsewhere(_MOVE, after="dead machine", since_s=since_s)
        time.sleep(_LOAD_S)
        stays = [pod.name for pod in control_plane(self._stack) if pod.spec.node_name == self._machine]
        click.echo(f"left on the dead machine: {', '.join(stays)}")

    def _declare_dead(self) -> None:
        """Declare the machine dead as docs/tasks/dead-node.md says."""
        since_s = time.time()
        self._stack.kubectl("taint", "node", self._machine, f"{_OUT_OF_SERVICE}=nodeshutdown:NoExecute")
        if self._replicas == 1:
            self._until_served("declared dead", since_s)
        self._until_elsewhere(_STAY, after="declared dead", since_s=since_s)
        time.sleep(_LOAD_S)

    def _switch_on(self) -> None:
        since_s = time.time()
        self._cluster.fault.power_on(self._machine)
        self._stack.kubectl("taint", "node", self._machine, f"{_OUT_OF_SERVICE}-")
        self._wait_ready("all ready again")
        self._note("machine back → all pods ready", time.time() - since_s)

    def _until_served(self, after: str, since_s: float | None = None) -> None:
        since_s = since_s or self._kills[-1]
        for what, read in (("sbatch answers", self._load.answered), ("a new pod is bound", self._load.bound)):
            first = functools.partial(read, since_s=self._kills[-1])
            at_s = wait(first, timeout_s=_PATIENCE_S, what=what, every_s=1.0)
            self._note(f"{after} → {what}", at_s - since_s, bound=_BOUND_S[after])

    def _until_elsewhere(self, parts: Sequence[str], *, after: str, since_s: float) -> None:
        """Wait until each part has a ready pod on another machine that is newer than the fault."""

        def ready() -> Mapping[str, float]:
            new = [pod for pod in control_plane(self._stack) if created_s(pod) >= self._kills[-1] - 1]
            found = {part_of(pod): time_of(pod, "Ready") for pod in new if time_of(pod, "Ready")}
            missing = [part for part in parts if part not in found]
            if missing:
                raise NotYet(f"missing: {', '.join(missing)}")
            return found

        moved = wait(ready, timeout_s=_PATIENCE_S, what="pods elsewhere", every_s=2.0)
        for part in parts:
            self._note(f"{after} → {part} ready elsewhere", moved[part] - since_s)

    def _wait_ready(self, what: str) -> None:
        def late() -> list[str]:
            found = control_plane(self._stack)
            return [pod.name for pod in found if pod.is_deleting or not time_of(pod, "Ready")]

        wait_until_none(late, timeout_s=_PATIENCE_S, what=what, every_s=1.0)

    def _note(self, what: str, value_s: float, *, bound: float | None = None) -> None:
        figure, load = f"{self._replicas} slurmctld, {what}", os.getloadavg()[0]
        click.echo(f"{figure}: {value_s:.1f} s; load {load:.1f}")
        self._found.append(
            report.observed(figure, value_s) if bound is None else report.at_most(figure, value_s, bound=bound)
        )

    def _compare(self) -> None:
        """Check that each accepted job ran once and has one record. Jobs that slurmctld had not saved count apart."""
        wait_until_none(self._left, timeout_s=_PATIENCE_S, what="jobs and pods to end", every_s=2.0)
        said = self._ran()
        taken = {sent.name: sent.asked_s for sent in self._load.sent if sent.answered_s}
        young = {name for name, at_s in taken.items() if self._is_young(at_s)}
        wrong = {name: f"{name}: {said.get(name)}" for name in taken if said.get(name) != ["start", "end"]}
        self._none("jobs lost or run twice", [text for name, text in wrong.items() if name not in young], n=len(taken))
        figure = f"{self._replicas} slurmctld, jobs of the last {SAVED_AFTER_S:.0f} s before a kill, lost or run twice"
        self._found.append(report.observed(figure, len(wrong.keys() & young), unit="", n=len(young)))
        ended = {pod.name: pod.status.phase for pod in pods(self._stack)}
        made = {sent.name: ended.get(sent.name, "gone") for sent in self._load.sent}
        bad = [f"{name}: {phase}" for name, phase in made.items() if phase != "Succeeded"]
        self._none("pods lost", bad, n=len(made))
        wanted = [pod.annotations[names.ANNOTATION_JOB_ID] for pod in pods(self._stack)]
        wanted += [str(sent.job) for sent in self._load.sent if sent.job and sent.name not in young]
        what = f"{self._replicas} slurmctld, records lost or doubled"
        self._found.append(recorded_once(self._stack, wanted, by="jobid", what=what))
        self._stack.kubectl("delete", "pods", "-l", f"app={_APP}", "-n", workloads.NAMESPACE)

    def _is_young(self, asked_s: float) -> bool:
        return any(0 <= kill_s - asked_s <= SAVED_AFTER_S for kill_s in self._kills)

    def _none(self, what: str, wrong: Sequence[str], *, n: int) -> None:
        figure = report.none(f"{self._replicas} slurmctld, {what}", wrong, n=n)
        click.echo(f"{figure.figure}: {len(wrong)} of {n} {figure.limited_by}")
        self._found.append(figure)

    def _left(self) -> list[str]:
        jobs = self._stack.login("squeue -h -o '%j %T'").splitlines()
        return jobs + [pod.name for pod in pods(self._stack) if not pod.is_finished]

    def _ran(self) -> dict[str, list[str]]:
        said: dict[str, list[str]] = {}
        for line in self._stack.login(f"cd {_APP} && grep -H '' *").splitlines():
            name, _, word = line.partition(":")
            said.setdefault(name, []).append(word)
        return said


_MOVE: Final = ("slurmrestd", "operator", "syncer", "scheduler")
_STAY: Final = ("slurmctld", "mariadb", "slurmdbd", "accounts")
"""Parts that Kubernetes does not move from a dead machine: those with a volume, and those that need them."""


def pods(stack: Stack) -> Sequence[Pod]:
    return workloads.labelled(stack, _APP)


def spaces(stack: Stack) -> tuple[str, str]:
    return stack.namespace, OPERATOR_NAMESPACE


def control_plane(stack: Stack) -> list[Pod]:
    """Return the pods of both releases that do not end by themselves, except slurmd and login pods."""
    found = [pod for space in spaces(stack) for pod in stack.kubectl.list(Pod, "pods", "-n", space)]
    return [pod for pod in found if not pod.is_finished and part_of(pod) not in ("", "compute", "login")]


def part_of(pod: Pod) -> str:
    return pod.labels.get("app.kubernetes.io/component", "")


def time_of(pod: Pod, condition: str) -> float:
    """Return since when a condition of the pod is True, in seconds since the epoch; 0 if it is not."""
    found = pod.condition(condition)
    return (
        parse_rfc3339(found.last_transition_time or "").timestamp()
        if found is not None and found.status == "True"
        else 0.0
    )


def created_s(pod: Pod) -> float:
    return parse_rfc3339(pod.metadata.creation_timestamp).timestamp()
