"""A node of eight GPUs, filled with pods and jobs of two GPUs each. In each round some end and others begin, while
parts of the cluster are killed.

The bench makes its own cluster. The GPUs are simulated: names in the environment, without device files. Pods get them
by claims, or by number from sunkpy's device plugin.
"""

from __future__ import annotations

import contextlib
import enum
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from demo.bring_up import install
from demo.stack import USER, Stack
from devcluster import Cluster, dra
from devcluster.node import GPU_RESOURCE
from devcluster.shell import CommandFailed
from devcluster.waiting import NeverSo, NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.chaos.record import Owner
from tests.bench.chaos.schedule import Door
from tests.bench.clusters import EVERYTHING, own_stack
from tests.bench.devices.observer import Compared, Devices, Observer, double_owners
from tests.e2e import processes, workloads
from tests.e2e.agreement import wait_for_agreement
from tests.e2e.workloads import NAMESPACE

ROUNDS: Final = 500
QUICK_ROUNDS: Final = 20
EVENT_EVERY: Final = 5
DEVICES: Final = 8
CPUS: Final = 16
TOGETHER: Final = 4
"""How many pods or jobs fill the node."""
EACH: Final = DEVICES // TOGETHER
LABEL: Final = "sunkpy-devices"
_PATIENCE_S = 120.0
_TIMED = 20
_ADDED_S = 0.3
_LOW, _HIGH = "low", "high"
_LIVES = frozenset({"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "PREEMPTED", "REQUEUED", "SUSPENDED"})
"""States of a job that has not ended for good."""


class Event(enum.StrEnum):
    """What else happens in a round: a part of the cluster is killed, or a pod or job loses its devices."""

    PREEMPTION = enum.auto()
    REQUEUE = enum.auto()
    SCHEDULER = enum.auto()
    KUBELET = enum.auto()
    DRIVER = enum.auto()
    SLURMD = enum.auto()


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round: `leaving` of the running pods and jobs end, then each of `coming` begins, after its delay in s."""

    number: int
    leaving: int
    coming: tuple[tuple[Door, float], ...]
    event: Event | None


def rounds(count: int, *, seed: int) -> Iterator[Round]:
    """Yield rounds, each with enough pods and jobs to fill the node; those for which no GPUs are free are left out."""
    rng = random.Random(seed)
    events = list(Event)
    for number in range(1, count + 1):
        if number % (EVENT_EVERY * len(events)) == 1:
            rng.shuffle(events)
        event = events[number // EVENT_EVERY % len(events)] if number % EVENT_EVERY == 0 else None
        coming = tuple((rng.choice((Door.POD, Door.SBATCH)), round(rng.uniform(0.0, 0.5), 2)) for _ in range(TOGETHER))
        yield Round(number=number, leaving=rng.randint(1, TOGETHER), coming=coming, event=event)


class _Member(NamedTuple):
    name: str
    door: Door
    job: int = 0


def measure(asked: Asked) -> list[report.Figure]:
    count, by_plugin = QUICK_ROUNDS if asked.quick else ROUNDS, asked.only == "plugin"
    with ground(by_plugin=by_plugin) as (stack, cluster):
        return run(stack, cluster, count=count, seed=asked.seed, by_plugin=by_plugin)


@contextlib.contextmanager
def ground(*, devices: int = DEVICES, by_plugin: bool = False) -> Iterator[tuple[Stack, Cluster]]:
    """Yield a cluster of one node with `devices` GPUs and both charts installed."""

    def up(cluster: Cluster, _: Sequence[Path]) -> None:
        cluster.up(1, gpus=0, dra_gpus=0 if by_plugin else devices, cpus=CPUS)

    with own_stack("devices", up) as (stack, cluster):
        (node,) = cluster.nodes()
        install(stack, click.echo, slurm=slurm_values(stack, str(node.device_plugins) if by_plugin else ""))
        wait_for_agreement(stack, timeout_s=_PATIENCE_S, after="the installation")
        yield stack, cluster


def slurm_values(stack: Stack, kubelet_folder: str) -> Mapping[str, object]:
    """Return the values of charts/slurm: the NodeSet has the DRA driver's GPUs, and claims for them become GRES of
    jobs.

    With `kubelet_folder`, the kubelet's folder for device plugins, the GPUs are those of sunkpy's device plugin.
    """
    plugin = {"pretend": DEVICES, "kubeletFolder": kubelet_folder}
    by_plugin = {"gpuSharing": "plugin", "devicePlugin": plugin}
    gpu = {"type": "h100"} | ({} if kubelet_folder else {"driver": dra.DRIVER})
    return {
        "images": dict(stack.images),
        "nodeSets": {stack.nodeset: {"gpu": gpu, "fakeGpus": True}},
        # The node claims more cpus than the machine has: jobs fail if cgroups limit them to such cpus.
        "slurmConfig": {"cgroup": "disabled"},
        "scheduler": {"access": EVERYTHING} | (by_plugin if kubelet_folder else {"deviceClasses": {dra.DRIVER: "gpu"}}),
    }


def run(stack: Stack, cluster: Cluster, *, count: int, seed: int, by_plugin: bool) -> list[report.Figure]:
    load = Load(stack, cluster, seed=seed, by_plugin=by_plugin)
    load.prepare()
    timed = [load.time_pod(number, has_gpus=number % 2 == 0) for number in range(2 + max(_TIMED, count // 25))]
    added = timed[2:]  # the first pod of each kind is slower
    observer = Observer(stack, cluster, [f"gpu{at}" for at in range(DEVICES)] if by_plugin else [])
    observer.start()
    compared: list[Compared] = []
    try:
        for round_ in rounds(count, seed=seed):
            late = load.take(round_)
            compared += load.compare(observer)
            wrong = [pod.text for pod in compared if not pod.is_equal]
            click.echo(
                f"round {round_.number}: {round_.event or 'no event'}; {len(wrong)} wrong, late: {late or 'none'}"
            )
    finally:
        load.clear()
        observer.stop()
    return figures(load, observer, compared, added)


def figures(
    load: Load, observer: Observer, compared: Sequence[Compared], added: Sequence[float]
) -> list[report.Figure]:
    """Return the figures: what must not have happened, and how much longer a pod with GPUs takes to start."""
    double = double_owners(observer.samples)
    wrong = [pod.text for pod in compared if not pod.is_equal]
    with_s, without_s = report.median(added[::2]), report.median(added[1::2])
    none = [
        ("devices with two owners at a sampled moment", double, len(observer.samples)),
        ("pods whose devices are not those of their job", wrong, len(compared)),
        (f"pods and jobs that did not run in {_PATIENCE_S:g} s", load.late, load.come),
    ]
    peer = report.against("pod without GPUs", without_s, ours=with_s)
    what, added_s = "created to running, median, added by GPUs", with_s - without_s
    return [
        *(report.none(what, found, n=n) for what, found, n in none),
        report.at_most(what, added_s, bound=_ADDED_S, n=len(added) // 2, peer=peer),
        report.observed("pods that the device plugin refused", len(load.refused), unit="", n=load.come),
        report.observed("looks at which claims or jobs could not be read", observer.blind, unit=""),
    ]


class Load:
    """The pods with GPUs and the jobs of `sbatch` that run on the node."""

    def __init__(self, stack: Stack, cluster: Cluster, *, seed: int, by_plugin: bool) -> None:
        self._by_plugin = by_plugin
        self.late: list[str] = []
        self.refused: list[str] = []
        self.come = 0
        self._living: dict[str, _Member] = {}
        self._cancelled: set[int] = set()
        self._stack = stack
        self._cluster = cluster
        self._rng = random.Random(seed)
        (self._node,) = (node.name for node in cluster.nodes())

    def prepare(self) -> None:
        """Remove what an earlier run has left, and make the template of the claims."""
        self.clear()
        if self._by_plugin:
            return
        exactly = {"deviceClassName": dra.DRIVER, "allocationMode": "ExactCount", "count": EACH}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
        self._stack.kubectl.apply(kind | {"metadata": {"name": LABEL, "namespace": NAMESPACE}, "spec": {"spec": spec}})

    def clear(self) -> None:
        self._stack.kubectl("delete", "pods", "-n", NAMESPACE, "-l", f"app={LABEL}", "--ignore-not-found")
        self._stack.admin("scancel", "--quiet", f"--user={USER}")
        self._living.clear()

    def take(self, round_: Round) -> str:
        """Do one round. Return in words which pods and jobs did not run in time."""
        for member in self._rng.sample([*self._living.values()], min(round_.leaving, len(self._living))):
            self._end(member)
        mend = self._break(round_.event)
        coming = round_.coming[: TOGETHER - len(self._living)]
        with ThreadPoolExecutor(max_workers=TOGETHER) as pool:
            begun = pool.map(
                lambda index, door, delay_s: self._begin(f"devices-{round_.number}-{index}", door, delay_s=delay_s),
                range(len(coming)), *zip(*coming, strict=True),
            ) if coming else ()  # fmt: skip
            self._living |= {member.name: member for member in begun}
        self.come += len(coming)
        mend()
        late = self._settle()
        if round_.event in (Event.PREEMPTION, Event.REQUEUE) and not late:
            self._disturb(round_)
            late = self._settle()
        return late

    def compare(self, observer: Observer) -> list[Compared]:
        found: list[Compared] = []
        none: Devices = frozenset()
        seen, claims, jobs, pods = observer.processes(), observer.claims(), observer.jobs(), self._pods()
        for name, member in self._living.items():
            pod, owner = pods.get(name), Owner("pod", name)
            if member.door is Door.POD and pod is not None and not pod.is_deleting:
                _, given = jobs.get(int(pod.annotations.get(names.ANNOTATION_JOB_ID, "0")), ("", none))
                has = Compared(name=name, seen=seen.get(owner, none), claimed=claims.get(owner, none), given=given)
                found.append(has)
        return found

    def time_pod(self, number: int, *, has_gpus: bool) -> float:
        """Return the seconds from the creation of a pod until it is Ready, then delete it."""
        name = f"devices-timed-{number}"
        begun_s = time.monotonic()
        self._stack.kubectl.apply(self._body(name, has_gpus=has_gpus))
        self._stack.kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
        took_s = time.monotonic() - begun_s
        self._stack.kubectl("delete", "pod", "-n", NAMESPACE, name, "--wait")
        return took_s

    def _begin(self, name: str, door: Door, *, delay_s: float) -> _Member:
        time.sleep(delay_s)
        if door is Door.POD:
            self._stack.kubectl.apply(self._body(name, has_gpus=True))
            return _Member(name, door)
        return _Member(name, door, self._sbatch(name, _LOW, gpus=EACH, seconds=3600))

    def _sbatch(self, name: str, partition: str, *, gpus: int, seconds: int) -> int:
        options = f"-p {partition} -J {name} -N1 -n1 -c1 --mem=32 --gres=gpu:{gpus} -o /dev/null".split()
        script = f"trap 'exit 0' TERM; sleep {seconds} & wait $!"

        def submit() -> int:
            try:
                return self._stack.sbatch(*options, f"--export=ALL,CHAOS_JOB={name}", script=script)
            except CommandFailed as error:
                # A kubelet that has just started knows no pods yet. After any other error Slurm may have the job.
                if "unable to upgrade connection" in str(error):
                    raise NotYet(str(error)) from error
                raise AssertionError(f"sbatch: {error}") from error

        return wait(submit, timeout_s=_PATIENCE_S, what=f"{name} submitted", every_s=1.0)

    def _end(self, member: _Member) -> None:
        self._living.pop(member.name, None)
        if member.door is Door.POD:
            how = ("--ignore-not-found", "--wait=false")
            self._stack.kubectl("delete", "pod", "-n", NAMESPACE, member.name, *how)
        else:
            self._stack.cancel_jobs([member.job])
            self._cancelled.add(member.job)

    def _cancel_again(self, jobs: Mapping[int, Mapping[str, str]]) -> None:
        """Cancel jobs that slurmctld 24.11 requeued after their cancellation, because their slurmd came back without
        them.

        This may happen rounds later, and such a job would take the place of one that the run waits for.
        """
        self._cancelled &= jobs.keys()
        self._stack.cancel_jobs([job for job in self._cancelled if jobs[job]["JobState"] in ("PENDING", "RUNNING")])

    def _body(self, name: str, *, has_gpus: bool) -> dict[str, object]:
        body = workloads.pod(
            name, image=self._stack.images["sunkpy"], scheduler=self._stack.scheduler_name, restart_policy="Always",
            command=["env", f"CHAOS_POD={name}", "sleep", "3600"], labels={"app": LABEL},
            annotations={f"{names.PREFIX}partition": _LOW},
        )  # fmt: skip
        spec = body["spec"]
        assert isinstance(spec, dict)
        if has_gpus and self._by_plugin:
            spec["containers"][0]["resources"]["limits"] = {GPU_RESOURCE: str(EACH)}
        elif has_gpus:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": LABEL}]
            spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return body

    def _settle(self) -> str:
        """Wait until all pods and jobs run. Those that do not in time are ended, and returned in words."""
        try:
            wait(self._all_run, timeout_s=_PATIENCE_S, what="pods and jobs run")
        except NeverSo as error:
            states = self._states()
            waiting = [member for name, member in self._living.items() if states[name] != "Running"]
            for member in waiting:
                self._end(member)
            self.late += [member.name for member in waiting]
            return str(error)
        return ""

    def _all_run(self) -> bool:
        states = self._states()
        for name in [name for name, state in states.items() if state == "gone"]:
            del self._living[name], states[name]
        # The device plugin refuses a pod unless its devices are certainly free. An owner would replace the pod.
        for name in [name for name, state in states.items() if state == "Failed" and self._by_plugin]:
            self._end(self._living[name])
            self.refused.append(name)
            del states[name]
        waiting = {name: state for name, state in states.items() if state != "Running"}
        if waiting:
            raise NotYet(str(waiting))
        return True

    def _states(self) -> dict[str, str]:
        pods, jobs = self._pods(), self._stack.jobs()
        self._cancel_again(jobs)
        return {
            name: _state_of_pod(pods.get(name))
            if member.door is Door.POD
            else self._state_of_job(jobs.get(member.job, {}))
            for name, member in self._living.items()
        }

    def _state_of_job(self, job: Mapping[str, str]) -> str:
        if job.get("Reason") == "BeginTime":  # requeued: Slurm would wait for two minutes
            with contextlib.suppress(CommandFailed):
                self._stack.scontrol("update", f"jobid={job['JobId']}", "starttime=now")
        state = job.get("JobState", "")
        return state.capitalize() if state in _LIVES else "gone"

    def _pods(self) -> dict[str, Pod]:
        return {pod.name: pod for pod in workloads.labelled(self._stack, LABEL)}

    def _break(self, event: Event | None) -> Callable[[], object]:
        """Kill a part of the cluster. Return a function that brings it back."""
        fault = self._cluster.fault
        match event:
            case Event.KUBELET:
                # Restart it at once: without a kubelet `kubectl exec` cannot submit jobs from the login pod.
                fault.kubelet_stop(self._node)
                fault.kubelet_start(self._node)
            case Event.DRIVER if self._by_plugin:
                selector = "app.kubernetes.io/component=device-plugin"
                pods = self._stack.kubectl.list(Pod, "pods", "-n", self._stack.namespace, "-l", selector)
                processes.kill_program(pods, "sunkpy")
            case Event.DRIVER:
                fault.driver_stop(self._node)
                return lambda: fault.driver_start(self._node)
            case Event.SCHEDULER:
                processes.kill_program(processes.pods_of(self._stack, "scheduler"), "scheduler")
            case Event.SLURMD:
                processes.kill_program(self._stack.slurmd_pods(), "slurmd")
        return lambda: None

    def _disturb(self, round_: Round) -> None:
        """Take devices from a running pod or job, by a preemption or a requeue."""
        if round_.event is Event.PREEMPTION:
            job = self._sbatch(f"devices-{round_.number}-high", _HIGH, gpus=2 * EACH, seconds=2)
            self._stack.wait_for_job(job, "COMPLETED", timeout_s=_PATIENCE_S)
            return
        jobs = [member.job for member in self._living.values() if member.door is Door.SBATCH]
        if jobs:
            with contextlib.suppress(CommandFailed):  # Slurm may have requeued it just now
                self._stack.scontrol("requeue", str(self._rng.choice(jobs)))


def _state_of_pod(pod: Pod | None) -> str:
    if pod is None:
        return "gone"
    return "Ending" if pod.is_deleting else pod.status.phase
