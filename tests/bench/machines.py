"""Slurm on a node that is a virtual machine: its kernel with cgroup v2 limits jobs to what they were given, and its
power may fail.

The bench makes its own cluster. The control plane runs on a node of processes. slurmd runs on a machine of two sockets,
each with a core of two threads, in the pod that the charts make. The machine's systemd manages the cgroups of the
kubelet's pods. GPUs are simulated by device files without a driver: a job that may open one gets "No such device or
address".
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from demo import slurm_text
from demo.bring_up import install
from demo.stack import USER, Stack
from devcluster import Cluster
from devcluster.vm import guest
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model import quantity
from sunkpy.core.model.objects import Pod
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.clusters import EVERYTHING, own_stack
from tests.e2e import workloads
from tests.e2e.workloads import NAMESPACE

NODE: Final = "vm-1"
KEEP_OFF: Final = "sunkpy.test/keep-off"
GPUS: Final = 2
_PATIENCE_S: Final = 900.0
_SHARE_S: Final = 30
"""For how many seconds a pod and a job compute at the same time."""

_OPEN = "for each in /dev/null /dev/sunkpy/gpu*; do (: < $each) 2>&1 | grep -o '[A-Z][a-z].*' || echo open; done"
"""A shell loop that prints for each device how it opens: `open`, `No such device or address` (allowed, but without
driver), or a refusal.
"""
_UNUSABLE: Final = frozenset({"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "INVALID_REG"})
_NO_DRIVER, _REFUSED = "No such device or address", "Operation not permitted"
_EAT = "head -c 300M /dev/zero | tail -c 300M > /dev/null"
_BURN = "bash -c 'while :; do :; done' {mark} & "
_JOB, _POD = "job-burns", "pod-burns"
_KEEPS = 0.8
"""The least part of its one cpu that job and pod must each get: an emulated machine has much else to do."""
PERSON, UID = "ann", 2001
"""A second user with jobs, besides the user of the login pod."""
_CPUS, _OF_CORE = 4, 2
"""The threads of the machine, and those of one core."""


def measure(_: Asked) -> list[report.Figure]:
    def up(cluster: Cluster, archives: Sequence[Path]) -> None:
        cluster.up(1, vms=1, gpus=GPUS, archives=archives)

    with own_stack("machines", up) as (stack, cluster):
        install_beside(stack, slurm_values(stack))
        wait(lambda: is_idle(stack), timeout_s=_PATIENCE_S, what="slurmd on the machine is idle", every_s=1.0)
        return run(stack, cluster)


def install_beside(stack: Stack, values: Mapping[str, object]) -> None:
    """Install or upgrade the charts so that everything but slurmd is on the other node, which is faster.

    A taint keeps the pods off the machine during the installation. A cordon would not, because Slurm's control plane
    tolerates it. It does not evict a running slurmd pod, and a new one comes when the taint is gone.
    """
    stack.kubectl("taint", "node", NODE, f"{KEEP_OFF}=:NoSchedule", "--overwrite")
    install(stack, click.echo, slurm=values, operator={"replicas": 1})
    stack.kubectl("taint", "node", NODE, f"{KEEP_OFF}-")


def slurm_values(stack: Stack) -> Mapping[str, object]:
    """Return the values of charts/slurm: the machine is the NodeSet, with the chart's default of `slurmConfig.cgroup`.

    Each part has one replica, because a second one would run on the machine, which has enough to do.
    """
    nodes = {
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "gpu": {"resource": "nvidia.com/gpu", "type": "h100"},
        "fakeGpus": True,
    }
    accounts: Mapping[str, object] = {name: {"accounts": {"default": {}}} for name in (USER, PERSON)}
    return {
        "images": dict(stack.images),
        "nodeSets": {stack.nodeset: nodes},
        "scheduler": {"access": EVERYTHING, "replicas": 1},
        "syncer": {"replicas": 1},
        "slurmConfig": {"conf": {"TaskPlugin": "task/affinity", "SchedulerParameters": {"spec_cores_first": True}}},
        "users": {"people": {PERSON: {"uid": UID}}},
        "accounts": {"wanted": {"users": accounts}},
    }


def run(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    figures: list[report.Figure] = []
    for part in (cgroups, cores, limits, private, memory, devices, shares, power, static):
        click.echo(f"{part.__name__} …")
        figures += part(stack, cluster)
    return figures


_OF_MACHINE: Final = "cat /proc/1/comm; stat -fc %T /sys/fs/cgroup"
_WHERE: Final = "head -n 1 /proc/$(pgrep -xo {program})/cgroup"
_CONTROLLERS: Final = "cat /sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cgroup.controllers"
_OF_POD: Final = re.compile(r"0::/kubepods\.slice/kubepods-.*\.slice/kubepods-.*pod.*\.slice/system\.slice/.*\.scope/")


def cgroups(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    """Check that systemd manages the cgroups of pods, as on a site's machines, with all controllers of slurmd."""
    machine = cluster.machines()[0]
    init, kind = guest.run(machine, _OF_MACHINE).split()
    config = json.loads(stack.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/configz"))["kubeletconfig"]
    where = guest.run(machine, _WHERE.format(program="slurmd")).strip()
    has = in_slurmd(stack, "bash", "-c", _CONTROLLERS).split()
    found = {
        "first program": (init, "systemd"),
        "cgroups": (kind, "cgroup2fs"),
        "the kubelet asks": (config["cgroupDriver"], "systemd"),
        "slurmd is below its pod": (bool(_OF_POD.match(where)), True),
        "the kubelet counts what slurmd requests": (counts_as_requested(stack), True),
        "controllers that it lacks": ({"cpu", "cpuset", "memory", "pids"} - set(has), set()),
        "log of slurmd": ("check-cgroups: jobs are held by cgroup v2" in log_of_slurmd(stack), True),
    }
    return [as_wanted("cgroups of the machine", found)]


def counts_as_requested(stack: Stack) -> bool:
    """True if the kubelet counts no more cpu for slurmd's pod than it requests. From 1.36 on it counts the weight of
    the pod's cgroup.
    """
    (pod,) = stack.slurmd_pods()
    of_pod = ("get", "pod", "-n", stack.namespace, pod.name, "-o")
    counted, requested = (
        stack.kubectl(*of_pod, f"jsonpath={{{path}}}") or "0"
        for path in (".status.resources.requests.cpu", ".spec.containers[0].resources.requests.cpu")
    )
    return quantity.millicores(counted) <= quantity.millicores(requested)


def log_of_slurmd(stack: Stack) -> str:
    (pod,) = stack.slurmd_pods()
    return stack.kubectl("logs", "-n", stack.namespace, pod.name, "-c", "slurmd")


_CORES: Final = {
    "Sockets": "2", "CoresPerSocket": "1", "ThreadsPerCore": "2", "CPUTot": str(_CPUS), "CPUEfctv": str(_CPUS),
}  # fmt: skip
_SLEEPS: Final = {USER: "36011", PERSON: "36012"}
_BOUND: Final = "grep Cpus_allowed_list /proc/self/status"


def cores(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    """Check the cores that slurmd's pod and Slurm know, and the threads to which the kernel limits tasks and jobs."""
    (node,) = stack.slurm_nodes().values()
    core_of = cores_of_threads(cluster)
    held = of_two_people(stack, cluster)
    one, no_smt = (bound(stack, *options) for options in (["--ntasks=1"], ["--ntasks=2", "--hint=nomultithread"]))
    whole = held_threads(stack, cluster, "36013", "--exclusive")
    are_whole = [each == {t for t in core_of if core_of[t] in cores_in(each, core_of)} for each in held]
    found = {
        "threads of each job": ([len(each) for each in held], [2, 2]),
        "whole cores": (are_whole, [True, True]),
        "cores in common": (set.intersection(*(cores_in(each, core_of) for each in held)), set()),
        "a task": ([len(each) for each, _ in one], [2]),
        "tasks without multithreading": ([len(each) for each, _ in no_smt], [1, 1]),
        "their cores": (len(set[int]().union(*(cores_in(each, core_of) for each, _ in no_smt))), 2),
        "masks that srun tells": ([told == each for each, told in (*one, *no_smt)], [True, True, True]),
        "--exclusive": (whole, {0, 1, 2, 3}),
    }
    return [
        as_told("cores that lscpu counts in slurmd's pod", lscpu(stack), _CORES),
        as_told("cores that Slurm knows", node, _CORES),
        as_wanted("cores of jobs", found),
    ]


def lscpu(stack: Stack) -> Mapping[str, str]:
    """Return what lscpu counts in slurmd's pod, by Slurm's names."""
    said = in_slurmd(stack, "lscpu", "--parse=CPU,CORE,SOCKET").splitlines()
    cpus, all_cores, sockets = (set(each) for each in zip(*(x.split(",") for x in said if x[0] != "#"), strict=True))
    each_core, each_socket = len(cpus) // len(all_cores), len(all_cores) // len(sockets)
    counted = {"Sockets": len(sockets), "CoresPerSocket": each_socket, "ThreadsPerCore": each_core}
    return {key: str(value) for key, value in (counted | dict.fromkeys(("CPUTot", "CPUEfctv"), len(cpus))).items()}


def in_slurmd(stack: Stack, *command: str, stdin: str = "") -> str:
    (pod,) = stack.slurmd_pods()
    exec_ = ("exec", "-i", "-n", stack.namespace, pod.name, "-c", "slurmd", "--")
    return stack.kubectl(*exec_, *command, stdin=stdin, timeout_s=_PATIENCE_S)


def of_two_people(stack: Stack, cluster: Cluster) -> list[set[int]]:
    """Return the threads of two jobs that run at the same time, one for each of two users."""
    as_person = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--reset-env")
    script = f"#!/bin/bash\nsleep {_SLEEPS[PERSON]}\n"
    options = ("--parsable", "--chdir=/tmp", "-o", "/dev/null", "-N1", "-n1", "--mem=50M")
    jobs = [submit(stack, f"sleep {_SLEEPS[USER]}", "--mem=50M")]
    try:
        jobs.append(int(in_slurmd(stack, *as_person, "sbatch", *options, stdin=script)))
        for job in jobs:
            stack.wait_for_job(job, "RUNNING", timeout_s=_PATIENCE_S)
        return [wait_for_threads(cluster, f"sleep {seconds}") for seconds in _SLEEPS.values()]
    finally:
        end(stack, *jobs)


def held_threads(stack: Stack, cluster: Cluster, seconds: str, *options: str) -> set[int]:
    """Return the threads that a job may use; it sleeps for `seconds`, by which its process is found."""
    job = submit(stack, f"sleep {seconds}", "--mem=50M", *options)
    try:
        stack.wait_for_job(job, "RUNNING", timeout_s=_PATIENCE_S)
        return wait_for_threads(cluster, f"sleep {seconds}")
    finally:
        end(stack, job)


def end(stack: Stack, *jobs: int) -> None:
    """Cancel jobs, and wait until their cores are free."""
    stack.cancel_jobs(jobs)
    wait(lambda: is_idle(stack), timeout_s=_PATIENCE_S, what="the jobs have ended", every_s=1.0)


def bound(stack: Stack, *options: str) -> list[tuple[set[int], set[int]]]:
    """Return for each task of a step the threads that it may use, and the threads that srun reports for it."""
    script = f"srun --label --nodes=1 --mem=50M --cpu-bind=verbose {' '.join(options)} {_BOUND} 2>&1"
    lines = stack.login(script, timeout_s=_PATIENCE_S).splitlines()
    wait(lambda: is_idle(stack), timeout_s=_PATIENCE_S, what="the step has ended", every_s=1.0)
    held = {line.partition(":")[0].strip(): threads(line) for line in lines if "Cpus_allowed" in line}
    told = (re.search(r"task +([0-9]+) .*: mask 0x([0-9A-F]+) set", line) for line in lines)
    masks = {found[1]: int(found[2], 16) for found in told if found}
    return [
        (each, {thread for thread in range(_CPUS) if masks.get(task, 0) & 1 << thread})
        for task, each in sorted(held.items())
    ]


def cores_of_threads(cluster: Cluster) -> dict[int, int]:
    """Return thread → core of the machine, by its kernel; a core has the number of its first thread."""
    said = guest.run(cluster.machines()[0], "grep -H . /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
    lines = (line.partition("/topology/thread_siblings_list:") for line in said.splitlines())
    return {int(path.rpartition("cpu")[2]): min(threads(siblings)) for path, _, siblings in lines}


def cores_in(some: set[int], core_of: Mapping[int, int]) -> set[int]:
    return {core_of[thread] for thread in some}


def threads(text: str) -> set[int]:
    """Return the numbers in a list as the kernel writes it: `0-1,4`."""
    ranges = (part.partition("-") for part in text.rpartition(":")[2].strip().split(","))
    return {thread for first, _, last in ranges for thread in range(int(first), int(last or first) + 1)}


def wait_for_threads(cluster: Cluster, command: str) -> set[int]:
    """Wait for a process of the machine with this command. Return the threads that it may use."""
    asked = f"grep Cpus_allowed_list /proc/$(pgrep -xof '{command}')/status || true"
    what = f"`{command}` runs on the machine"

    def found() -> set[int]:
        said = guest.run(cluster.machines()[0], asked)
        if "Cpus_allowed_list" not in said:
            raise NotYet(said)
        return threads(said)

    return wait(found, timeout_s=_PATIENCE_S, what=what, every_s=1.0)


_SHM = "shm=$(df --output=size /dev/shm | tail -n 1) all=$(awk '/MemTotal/ {print $2}' /proc/meminfo)"
_LIMITS = f"ulimit -l; ulimit -s; ulimit -n; {_SHM}; echo $(((shm * 200 + all) / all / 2))%"


def limits(stack: Stack, _: Cluster) -> list[report.Figure]:
    """Check a job's limits for locked memory, stack and open files, and the size of /dev/shm."""
    said = stack.login(f"srun --mem=50M bash -c {shlex.quote(_LIMITS)}", timeout_s=_PATIENCE_S).split()
    wanted = {"locked memory": "unlimited", "stack": "unlimited", "open files": "131072", "/dev/shm": "50%"}
    return [as_told("limits in a job", dict(zip(wanted, said, strict=True)), wanted)]


_LEAVE = "touch /tmp/of-a-job /dev/shm/of-a-job"
_HAS_LEFT = "until [ -e /dev/shm/of-a-job ]; do sleep 0.2; done"
_SEEN = "ls /tmp /dev/shm | grep -c of-a-job; stat -c %a /tmp"


def private(stack: Stack, _: Cluster) -> list[report.Figure]:
    """Check that a job's files in /tmp and /dev/shm are seen by a later step of it, and not by another job."""
    leaves = submit(stack, f"{_LEAVE}; sleep 600", "--mem=100M")
    try:
        stack.wait_for_job(leaves, "RUNNING", timeout_s=_PATIENCE_S)
        own = seen(stack, f"--overlap --jobid={leaves}", f"{_HAS_LEFT}; {_SEEN}")[0]
        other, mode = seen(stack, "--mem=50M", _SEEN)
    finally:
        stack.cancel_jobs([leaves])
    found = {"a step of it": (own, "2"), "another job": (other, "0"), "mode of /tmp": (mode, "700")}
    return [as_wanted("files of a job in /tmp and /dev/shm, as seen by", found)]


def seen(stack: Stack, options: str, script: str) -> list[str]:
    return stack.login(f"srun {options} bash -c {shlex.quote(script)}", timeout_s=_PATIENCE_S).split()


def memory(stack: Stack, _: Cluster) -> list[report.Figure]:
    """Run a job that uses three times its memory: only this job may be killed."""
    before = slurmd(stack)
    neighbour = submit(stack, "sleep 40", "--mem=100M")
    stack.wait_for_job(neighbour, "RUNNING", timeout_s=_PATIENCE_S)
    greedy = submit(stack, _EAT, "--mem=100M")
    job, other = end_of(stack, greedy), end_of(stack, neighbour)
    ended = {"job": (job, "OUT_OF_MEMORY"), "its neighbour": (other, "COMPLETED")}
    return [
        as_wanted("a job above its memory", ended),
        as_told("slurmd, while a job is killed for its memory", slurmd(stack), before),
    ]


def slurmd(stack: Stack) -> Mapping[str, str]:
    """Return what must not change about slurmd's pod and its node."""
    (pod,) = stack.slurmd_pods()
    node = stack.kubectl("get", "node", NODE, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
    flags = slurm_text.node_flags(next(iter(stack.slurm_nodes().values())))
    return {
        "pod": pod.metadata.uid,
        "restarts": str(sum(each.restart_count for each in pod.status.container_statuses)),
        "Ready": node,
        "unusable": ",".join(sorted(flags & _UNUSABLE)),
    }


def devices(stack: Stack, _: Cluster) -> list[report.Figure]:
    """Check which GPUs open in a job with none, one or all of them."""
    figures = []
    for count, gpus in ((0, [_REFUSED] * 2), (1, [_REFUSED, _NO_DRIVER]), (2, [_NO_DRIVER] * 2)):
        null, *found = opened(stack, count)
        seen = {"/dev/null": (null, "open"), "GPUs": (sorted(found), sorted(gpus))}
        figures.append(as_wanted(f"devices in a job with {count} of {GPUS} GPUs", seen))
    return figures


def opened(stack: Stack, gpus: int) -> list[str]:
    """Return how each device opens in a step, /dev/null first."""
    options = f"--gres=gpu:{gpus}" if gpus else ""
    return stack.login(f"srun --mem=50M {options} bash -c {shlex.quote(_OPEN)}", timeout_s=_PATIENCE_S).splitlines()


def shares(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    """Check that job and pod get their cpu each, while the job tries to use its whole core and the pod the machine, as
    far as its cpu limit allows. Tell what a job has beside a pod without a limit.
    """
    free, held = (had_beside(stack, cluster, limits) for limits in ({}, {"cpu": "1"}))
    cpu = sum(free) / _CPUS  # the cpu time that the host gives to each cpu of the machine when all are busy
    return [
        *(
            report.at_most(
                f"part of its cpu that a {who} lost to the other; the pod has a cpu limit", max(0.0, 1 - part / cpu),
                unit="", bound=1 - _KEEPS, limited_by=f"job and pod had {held[0]:.2f} and {held[1]:.2f} s a second",
            )
            for who, part in zip(("job", "pod"), held, strict=True)
        ),
        report.observed("part of a cpu that a job has beside a pod without a cpu limit", free[0] / cpu, unit=""),
    ]  # fmt: skip


def had_beside(stack: Stack, cluster: Cluster, limits: Mapping[str, str]) -> list[float]:
    """Return the cpu seconds a second that a job and a pod, of one cpu each, have beside each other; `limits`: those of
    the pod.
    """
    burn = {mark: _BURN.format(mark=mark) * count + "sleep 600" for mark, count in ((_JOB, _OF_CORE), (_POD, _CPUS))}
    job = submit(stack, burn[_JOB], "--mem=100M")
    stack.kubectl.apply(pod_of(stack, "machines-burns", burn[_POD], cpu="1", limits=limits))
    try:
        stack.wait_for_job(job, "RUNNING", timeout_s=_PATIENCE_S)
        wait(lambda: all(taken(cluster)), timeout_s=_PATIENCE_S, what="both compute", every_s=1.0)
        begun_s, before = time.monotonic(), taken(cluster)
        time.sleep(_SHARE_S)
        took_s, after = time.monotonic() - begun_s, taken(cluster)
    finally:
        stack.kubectl("delete", "pod", "-n", NAMESPACE, "machines-burns", "--ignore-not-found", "--wait")
        end(stack, job)
    return [(now - then) / took_s for then, now in zip(before, after, strict=True)]


def taken(cluster: Cluster) -> list[float]:
    """Return the cpu seconds that the job and the pod have used: processes of the machine that carry their marks."""
    patterns = (f"[{mark[0]}]{mark[1:]}" for mark in (_JOB, _POD))
    cut = "do cut -d' ' -f14,15 /proc/$each/stat; done; true"
    commands = (f"for each in $(pgrep -f '{pattern}'); {cut}" for pattern in patterns)
    ticks = (guest.run(cluster.machines()[0], command).split() for command in commands)
    return [sum(map(int, each)) / os.sysconf("SC_CLK_TCK") for each in ticks]


def pod_of(
    stack: Stack, name: str, script: str, *, cpu: str, limits: Mapping[str, str] | None = None
) -> dict[str, object]:
    command = ["bash", "-c", script]
    image, scheduler = stack.images["sunkpy"], stack.scheduler_name
    return workloads.pod(name, image=image, scheduler=scheduler, cpu=cpu, limits=limits, command=command)


_NAME: Final = "machines-service"
_ASLEEP_IN: Final = {"job": "36001", "pod": "36002"}
"""The seconds for which the work of each door sleeps, by which its process is found."""


def power(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    """Switch the machine off while a job and a pod run on it, and on again when Kubernetes has noticed."""
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
    live = {int(line) for line in stack.squeue("-o", "%A").split()}
    pod_job, former = (int(pod.annotations[names.ANNOTATION_JOB_ID]) for pod in (running_pod(stack), old))
    return [
        as_told("slurmd after a power cut", slurmd(stack), {"unusable": "", "Ready": "True"}),
        as_wanted("jobs after a power cut", {"of the doors": (live, {job, pod_job})}),
        as_wanted(
            "processes of each door after a power cut", {each: (asleep(cluster, each), 1) for each in _ASLEEP_IN}
        ),
        as_wanted("job of sbatch, requeued by Slurm", {"restarts": (stack.job(job)["Restarts"], "1")}),
        as_wanted("the pod's job of before", {"ended": (former not in live, True)}),
    ]


def is_whole(stack: Stack, cluster: Cluster, job: int, old: Pod) -> bool:
    """True if the job and a pod of the service run again."""
    found = stack.job(job)
    if found["JobState"] != "RUNNING" or not asleep(cluster, "job"):
        raise NotYet(f"job {job} is {found['JobState']}, {found.get('Reason')}")
    number = running_pod(stack).annotations[names.ANNOTATION_JOB_ID]
    if number == old.annotations[names.ANNOTATION_JOB_ID] or not asleep(cluster, "pod"):
        raise NotYet(f"the pod has job {number} of before")
    return True


def asleep(cluster: Cluster, door: str) -> int:
    """Return how many processes of a door's work run on the machine."""
    seconds = _ASLEEP_IN[door]
    return int(guest.run(cluster.machines()[0], f"pgrep -xcf 'sleep {seconds}' || true"))


def running_pod(stack: Stack) -> Pod:
    """Return the service's only pod, which runs."""
    pods = workloads.labelled(stack, _NAME)
    running = [pod for pod in pods if pod.status.phase == "Running" and not pod.is_deleting]
    if len(pods) != 1 or not running:
        raise NotYet(str([(pod.name, pod.status.phase, pod.is_deleting) for pod in pods]))
    return running[0]


def service(stack: Stack) -> dict[str, object]:
    body = pod_of(stack, _NAME, f"sleep {_ASLEEP_IN['pod']} & wait", cpu="500m")
    labels = {"app": _NAME}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": body["spec"]}}
    assert isinstance(body["spec"], dict)
    body["spec"]["restartPolicy"] = "Always"
    metadata = {"name": _NAME, "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


_STATIC: Final = 'cpuManagerPolicy: static\\nreservedSystemCPUs: "0"\\n'
_GUARANTEED: Final = "machines-guaranteed"


def static(stack: Stack, cluster: Cluster) -> list[report.Figure]:
    """Let the kubelet give whole threads to pods of QoS Guaranteed and reserve thread 0: Slurm must then leave out the
    first core.

    Such a pod gets the other thread of that core, and no job may use it. slurmd may: the kubelet limits slurmd's
    container, and Slurm makes its cgroup beside that container's.
    """
    machine = cluster.machines()[0]
    restart = f"systemctl restart daemon@{machine.daemon('kubelet')}"
    change = f"printf '{_STATIC}' >> {machine.home}/kubelet.yaml; rm -f {machine.kubelet_root}/cpu_manager_state"
    guest.run(machine, f"{change}; {restart}")
    wait(lambda: has_less(stack), timeout_s=2 * _PATIENCE_S, what="slurmd offers the other core", every_s=2.0)
    stack.kubectl.apply(guaranteed(stack, "sleep 36016 & wait"))
    try:
        of_pod = wait_for_threads(cluster, "sleep 36016")
        of_job = held_threads(stack, cluster, "36015")
        said = guest.run(machine, "grep Cpus_allowed_list /proc/$(pgrep -xo slurmd)/status")
    finally:
        stack.kubectl("delete", "pod", "-n", NAMESPACE, _GUARANTEED, "--ignore-not-found", "--wait")
    found = {
        "the pod has": (of_pod, {1}),
        "slurmd has": (threads(said), {0, 1}),
        "the job has": (of_job, {2, 3}),
        "log of slurmd": ("check-cgroups: this pod may use cpus" in log_of_slurmd(stack), True),
    }
    return [as_wanted("threads beside a pod of a static kubelet", found)]


def has_less(stack: Stack) -> bool:
    """True if slurmd runs in a pod that came after the change of the kubelet, and offers one core less."""
    is_idle(stack)
    (node,) = stack.slurm_nodes().values()
    if node["CPUEfctv"] != str(_CPUS - _OF_CORE):
        raise NotYet(f"CPUEfctv={node['CPUEfctv']}")
    return True


def guaranteed(stack: Stack, script: str) -> dict[str, object]:
    """Return a pod of one whole cpu that is not scheduled by Slurm."""
    resources = {"limits": {"cpu": "1", "memory": "64Mi"}}
    command = ["bash", "-c", script]
    container = {"name": "main", "image": stack.images["sunkpy"], "command": command, "resources": resources}
    spec = {"nodeName": NODE, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _GUARANTEED, "namespace": NAMESPACE}, "spec": spec}


def submit(stack: Stack, script: str, *options: str) -> int:
    return stack.sbatch("-N1", "-n1", "-c1", "-o", "/dev/null", *options, script=script)


def end_of(stack: Stack, job: int) -> str:
    ends = ("COMPLETED", "OUT_OF_MEMORY", "FAILED", "NODE_FAIL", "CANCELLED", "TIMEOUT")
    return stack.wait_for_job(job, *ends, timeout_s=_PATIENCE_S)["JobState"]


def is_idle(stack: Stack) -> bool:
    flags = {name: slurm_text.node_flags(node) for name, node in stack.slurm_nodes().items()}
    if len(flags) != 1 or not all("IDLE" in each and not each & _UNUSABLE for each in flags.values()):
        raise NotYet(str(flags))
    return True


def as_told(figure: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> report.Figure:
    """Return a figure of the values in `found` that differ from `wanted`."""
    return as_wanted(figure, {key: (found.get(key), value) for key, value in wanted.items()})


def as_wanted(figure: str, found: Mapping[str, tuple[object, object]]) -> report.Figure:
    """Return a figure of the values that are not the wanted ones; each has both."""
    wrong = [f"{key}: {value}, not {wanted}" for key, (value, wanted) in found.items() if value != wanted]
    return report.none(f"{figure}: not as they must be", wrong, n=len(found))
