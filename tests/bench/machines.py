"""Slurm on a node that is a machine: a kernel with cgroup v2 holds jobs to what they were given, and power may fail.

It has a cluster of its own: the control plane on a node of processes, slurmd on a virtual machine, in the pod that the
charts make. What is pretended: GPUs are device files without a driver. One that may be opened says that there is none.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from demo import slurm_text
from demo.bring_up import install
from demo.report import Tell
from demo.stack import Stack
from devcluster import Cluster
from devcluster.vm import guest
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.clusters import EVERYTHING, own_stack
from tests.e2e import workloads
from tests.e2e.workloads import NAMESPACE

NODE: Final = "vm-1"
GPUS: Final = 2
_PATIENCE_S: Final = 300.0
_SHARE_S: Final = 30
"""For how long a pod and a job compute side by side."""

_OPEN = "for each in /dev/null /dev/sunkpy/gpu*; do (: < $each) 2>&1 | grep -o '[A-Z][a-z].*' || echo open; done"
"""Says of each device how it opens: `open`, `No such device or address` (may be, but has no driver), or a refusal."""
_UNUSABLE: Final = frozenset({"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "INVALID_REG"})
_NO_DRIVER, _REFUSED = "No such device or address", "Operation not permitted"
_EAT = "head -c 300M /dev/zero | tail -c 300M > /dev/null"
_BURN = "bash -c 'while :; do :; done' {mark} & "
_JOB, _POD = "job-burns", "pod-burns"
_KEEPS = 0.8
"""Part of its one cpu that each must have at least: an emulated machine has much to do beside."""


def measure(_: Asked) -> list[report.Figure]:
    """All of it, on a cluster that is gone afterwards."""

    def up(cluster: Cluster, archives: Sequence[Path]) -> None:
        cluster.up(1, vms=1, gpus=GPUS, archives=archives)

    with own_stack("machines", click.echo, up) as (stack, cluster):
        # All but slurmd runs on the other node, which is faster and stays.
        stack.kubectl("cordon", NODE)
        install(stack, click.echo, slurm=slurm_values(stack))
        stack.kubectl("uncordon", NODE)
        wait(lambda: is_idle(stack), timeout_s=_PATIENCE_S, what="slurmd on the machine is idle", every_s=1.0)
        return run(stack, cluster, click.echo)


def slurm_values(stack: Stack) -> Mapping[str, object]:
    """Values of charts/slurm: the machine is the NodeSet. `slurmConfig.cgroup` is as everybody has it."""
    nodes = {
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "gpu": {"resource": "nvidia.com/gpu", "type": "h100"},
        "fakeGpus": True,
    }
    return {"images": dict(stack.images), "nodeSets": {stack.nodeset: nodes}, "scheduler": {"access": EVERYTHING}}


def run(stack: Stack, cluster: Cluster, tell: Tell) -> list[report.Figure]:
    """What is seen on a stack that is up."""
    figures: list[report.Figure] = []
    for part in (limits, private, memory, devices, shares, power):
        tell(f"{part.__name__} …")
        figures += part(stack, cluster)
    return figures


# ------------------------------------------------------------------- limits

_SHM = "shm=$(df --output=size /dev/shm | tail -n 1) all=$(awk '/MemTotal/ {print $2}' /proc/meminfo)"
_LIMITS = f"ulimit -l; ulimit -s; ulimit -n; {_SHM}; echo $(((shm * 200 + all) / all / 2))%"


def limits(stack: Stack, _: Cluster) -> list[report.Figure]:
    """What a job may lock, have on the stack and keep open, and how much of the memory /dev/shm may be."""
    said = stack.login(f"srun --mem=50M bash -c {shlex.quote(_LIMITS)}", timeout_s=_PATIENCE_S).split()
    wanted = {"locked memory": "unlimited", "stack": "unlimited", "open files": "131072", "/dev/shm": "50%"}
    return [as_told("limits in a job", dict(zip(wanted, said, strict=True)), wanted)]


# ------------------------------------------------------------------ private

_LEAVE = "touch /tmp/of-a-job /dev/shm/of-a-job"
_HAS_LEFT = "until [ -e /dev/shm/of-a-job ]; do sleep 0.2; done"
_SEEN = "ls /tmp /dev/shm | grep -c of-a-job; stat -c %a /tmp"


def private(stack: Stack, _: Cluster) -> list[report.Figure]:
    """A job beside one that has left files in /tmp and /dev/shm, and the later step of the one that left them."""
    leaves = submit(stack, f"{_LEAVE}; sleep 600", "--mem=100M")
    try:
        stack.wait_for_job(leaves, "RUNNING", timeout_s=_PATIENCE_S)
        own = seen(stack, f"--overlap --jobid={leaves}", f"{_HAS_LEFT}; {_SEEN}")[0]
        other, mode = seen(stack, "--mem=50M", _SEEN)
    finally:
        stack.cancel_jobs([leaves])
    found = {"a step of it": own, "another job": other, "mode of /tmp": mode}
    wanted = {"a step of it": "2", "another job": "0", "mode of /tmp": "700"}
    return [as_told("files of a job in /tmp and /dev/shm, as seen by", found, wanted)]


def seen(stack: Stack, options: str, script: str) -> list[str]:
    """Words that a step says."""
    return stack.login(f"srun {options} bash -c {shlex.quote(script)}", timeout_s=_PATIENCE_S).split()


# ------------------------------------------------------------------- memory


def memory(stack: Stack, _: Cluster) -> list[report.Figure]:
    """A job eats three times its memory, beside one that does not."""
    before = slurmd(stack)
    neighbour = submit(stack, "sleep 40", "--mem=100M")
    stack.wait_for_job(neighbour, "RUNNING", timeout_s=_PATIENCE_S)
    greedy = submit(stack, _EAT, "--mem=100M")
    ended = {"job": end_of(stack, greedy), "its neighbour": end_of(stack, neighbour)}
    return [
        as_told("a job above its memory", ended, {"job": "OUT_OF_MEMORY", "its neighbour": "COMPLETED"}),
        as_told("slurmd, while a job is killed for its memory", slurmd(stack), before),
    ]


def slurmd(stack: Stack) -> Mapping[str, str]:
    """What must not change of slurmd and its node."""
    (pod,) = stack.slurmd_pods()
    node = stack.kubectl("get", "node", NODE, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
    flags = slurm_text.node_flags(next(iter(stack.slurm_nodes().values())))
    return {
        "pod": pod.metadata.uid,
        "restarts": str(sum(each.restart_count for each in pod.status.container_statuses)),
        "Ready": node,
        "unusable": ",".join(sorted(flags & _UNUSABLE)),
    }


# ------------------------------------------------------------------ devices


def devices(stack: Stack, _: Cluster) -> list[report.Figure]:
    """What opens in a job with one GPU of two, in one with none, and in one with all."""
    figures = []
    for count, gpus in ((0, [_REFUSED] * 2), (1, [_REFUSED, _NO_DRIVER]), (2, [_NO_DRIVER] * 2)):
        null, *found = opened(stack, count)
        seen, wanted = ({"/dev/null": one, "GPUs": str(sorted(all_))} for one, all_ in ((null, found), ("open", gpus)))
        figures.append(as_told(f"devices in a job with {count} of {GPUS} GPUs", seen, wanted))
    return figures


def opened(stack: Stack, gpus: int) -> list[str]:
    """How each device opens in a step, /dev/null first."""
    options = f"--gres=gpu:{gpus}" if gpus else ""
    return stack.login(f"srun --mem=50M {options} bash -c {shlex.quote(_OPEN)}", timeout_s=_PATIENCE_S).splitlines()


# ------------------------------------------------------------------- shares


def shares(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    """A pod and a job, of one cpu each, that both would take all."""
    burn = {mark: _BURN.format(mark=mark) * 2 + "sleep 600" for mark in (_JOB, _POD)}
    job = submit(stack, burn[_JOB], "--mem=100M")
    stack.kubectl.apply(pod_of(stack, "machines-burns", burn[_POD], cpu="1"))
    try:
        stack.wait_for_job(job, "RUNNING", timeout_s=_PATIENCE_S)
        wait(lambda: all(taken(cluster)), timeout_s=_PATIENCE_S, what="both compute", every_s=1.0)
        begun_s, before = time.monotonic(), taken(cluster)
        time.sleep(_SHARE_S)
        took_s, after = time.monotonic() - begun_s, taken(cluster)
    finally:
        stack.cancel_jobs([job])
        stack.kubectl("delete", "pod", "-n", NAMESPACE, "machines-burns", "--ignore-not-found", "--wait")
    had = [(end - begin) / took_s for begin, end in zip(before, after, strict=True)]
    both = sum(had) / 2  # of the two cpus that there are while this machine has others to serve
    return [
        report.at_most(
            f"part of its cpu that a {who} lost to the other", max(0.0, 1 - part / both), unit="",
            bound=1 - _KEEPS,
            limited_by=f"job and pod had {had[0]:.2f} and {had[1]:.2f} s a second",
        )
        for who, part in zip(("job", "pod"), had, strict=True)
    ]  # fmt: skip


def taken(cluster: Cluster) -> list[float]:
    """Seconds of cpu that the job and the pod have had: the marked processes of the machine."""
    patterns = (f"[{mark[0]}]{mark[1:]}" for mark in (_JOB, _POD))
    cut = "do cut -d' ' -f14,15 /proc/$each/stat; done; true"
    commands = (f"for each in $(pgrep -f '{pattern}'); {cut}" for pattern in patterns)
    ticks = (guest.run(cluster.machines()[0], command).split() for command in commands)
    return [sum(map(int, each)) / os.sysconf("SC_CLK_TCK") for each in ticks]


def pod_of(stack: Stack, name: str, script: str, *, cpu: str) -> dict[str, object]:
    """A pod for Slurm."""
    return workloads.pod(
        name, image=stack.images["sunkpy"], scheduler=stack.scheduler_name, cpu=cpu, command=["bash", "-c", script]
    )


# -------------------------------------------------------------------- power

_NAME: Final = "machines-service"
_ASLEEP_IN: Final = {"job": "36001", "pod": "36002"}
"""Seconds for which the work of each door sleeps, to be found by."""


def power(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    """The machine is switched off while both doors' work runs on it, and on again once Kubernetes has noticed."""
    job = submit(stack, f"sleep {_ASLEEP_IN['job']}", "--mem=100M", "--requeue")
    stack.kubectl.apply(service(stack))
    try:
        stack.wait_for_job(job, "RUNNING", timeout_s=_PATIENCE_S)
        old = wait(lambda: running_pod(stack), timeout_s=_PATIENCE_S, what="the service runs", every_s=1.0)
        cluster.fault.power_off(NODE)
        stack.kubectl("wait", "--for=condition=Ready=Unknown", f"node/{NODE}", "--timeout=120s", timeout_s=130)
        begun_s = time.monotonic()
        cluster.fault.power_on(NODE)
        ready_s = time.monotonic() - begun_s
        wait(lambda: is_whole(stack, cluster, job, old), timeout_s=3 * _PATIENCE_S, what="work runs again", every_s=2.0)
        whole_s = time.monotonic() - begun_s
        return [
            *of_power(stack, cluster, job, old),
            report.observed("switched on → node Ready", ready_s),
            report.observed("switched on → work of both doors runs again", whole_s),
        ]
    finally:
        stack.cancel_jobs([job])
        stack.kubectl("delete", "deployment", _NAME, "-n", NAMESPACE, "--ignore-not-found", "--wait")


def of_power(stack: Stack, cluster: Cluster, job: int, old: Pod) -> list[report.Figure]:
    """What is there once all runs again."""
    live = sorted(int(line) for line in stack.squeue("-o", "%A").split())
    pod = running_pod(stack)
    wanted = sorted([job, int(pod.annotations[names.ANNOTATION_JOB_ID])])
    former = int(old.annotations[names.ANNOTATION_JOB_ID])
    there = {door: str(asleep(cluster, door)) for door in _ASLEEP_IN}
    return [
        as_told("slurmd after a power cut", slurmd(stack), {"unusable": "", "Ready": "True"}),
        as_told("jobs after a power cut", {"of the doors": str(live)}, {"of the doors": str(wanted)}),
        as_told("processes of each door after a power cut", there, {"job": "1", "pod": "1"}),
        as_told("job of sbatch, requeued by Slurm", {"restarts": stack.job(job)["Restarts"]}, {"restarts": "1"}),
        as_told("the pod's job of before", {"ended": str(former not in live)}, {"ended": "True"}),
    ]


def is_whole(stack: Stack, cluster: Cluster, job: int, old: Pod) -> bool:
    """Work of both doors runs again."""
    found = stack.job(job)
    if found["JobState"] != "RUNNING" or not asleep(cluster, "job"):
        raise NotYet(f"job {job} is {found['JobState']}, {found.get('Reason')}")
    number = running_pod(stack).annotations[names.ANNOTATION_JOB_ID]
    if number == old.annotations[names.ANNOTATION_JOB_ID] or not asleep(cluster, "pod"):
        raise NotYet(f"the pod has job {number} of before")
    return True


def asleep(cluster: Cluster, door: str) -> int:
    """How many processes of a door's work the machine has."""
    seconds = _ASLEEP_IN[door]
    return int(guest.run(cluster.machines()[0], f"pgrep -xcf 'sleep {seconds}' || true"))


def running_pod(stack: Stack) -> Pod:
    """The one pod of the service, which runs."""
    pods = stack.kubectl.list(Pod, "pods", "-n", NAMESPACE, "-l", f"app={_NAME}")
    running = [pod for pod in pods if pod.status.phase == "Running" and not pod.is_deleting]
    if len(pods) != 1 or not running:
        raise NotYet(str([(pod.name, pod.status.phase, pod.is_deleting) for pod in pods]))
    return running[0]


def service(stack: Stack) -> dict[str, object]:
    """A Deployment of one pod for Slurm."""
    body = pod_of(stack, _NAME, f"sleep {_ASLEEP_IN['pod']} & wait", cpu="500m")
    labels = {"app": _NAME}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": body["spec"]}}
    assert isinstance(body["spec"], dict)
    body["spec"]["restartPolicy"] = "Always"
    metadata = {"name": _NAME, "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


# ------------------------------------------------------------------- common


def submit(stack: Stack, script: str, *options: str) -> int:
    """A job on one cpu."""
    return stack.sbatch("-N1", "-n1", "-c1", "-o", "/dev/null", *options, script=script)


def end_of(stack: Stack, job: int) -> str:
    """How a job ends."""
    ends = ("COMPLETED", "OUT_OF_MEMORY", "FAILED", "NODE_FAIL", "CANCELLED", "TIMEOUT")
    return stack.wait_for_job(job, *ends, timeout_s=_PATIENCE_S)["JobState"]


def is_idle(stack: Stack) -> bool:
    """The machine's Slurm node takes jobs, and has none."""
    flags = {name: slurm_text.node_flags(node) for name, node in stack.slurm_nodes().items()}
    if len(flags) != 1 or not all("IDLE" in each and not each & _UNUSABLE for each in flags.values()):
        raise NotYet(str(flags))
    return True


def as_told(figure: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> report.Figure:
    """How many of these are not as they must be, and which."""
    wrong = [f"{key}: {found.get(key)}, not {value}" for key, value in wanted.items() if found.get(key) != value]
    return report.none(f"{figure}: not as they must be", wrong, n=len(wanted))
