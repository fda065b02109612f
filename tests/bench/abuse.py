"""Who may only create pods, or submit jobs, stops nobody else.

A service, a job of `sbatch` and a preemption are timed in turn, on an idle cluster and again while everything below is
done at once, in a namespace of its own; then nobody may have lost the lease, and no node may be out of use. What of it
may run has one node, as it would have a share: the others have room.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from demo import slurm_text
from demo.stack import USER, Stack
from devcluster.shell import CommandFailed
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from tests.bench import latency, report
from tests.e2e import processes, workloads
from tests.e2e.agreement import wait_for_agreement
from tests.e2e.timeline import Timeline, watching

NAMESPACE = "abuse"
_PATIENCE_S = 120.0
_BESIDE_S = 30.0
"""So long the abuse works before anything is timed."""
_TIMES = 2.0
_SLACK_S = 0.5
"""Slurm looks at new jobs at full seconds: a median of few rounds moves by so much by itself."""
_TRAP = ["sh", "-c", "trap '' TERM; sleep 3000 & wait"]


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """How often each thing is timed, and how many pods exclude each other."""

    each: int = 12
    replicas: int = 240


class _Took(msgspec.Struct):
    bind: list[float]
    sbatch: list[float]
    evict: list[float]


async def measure(stack: Stack, rounds: Rounds) -> list[report.Figure]:
    """Run it on an idle cluster and leave it idle."""
    workloads.forget_stamps()
    wait_for_agreement(stack, timeout_s=60, after="nothing: abuse begins with an idle cluster")
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(workloads.NAMESPACE), Pod, label_selector=f"app={latency.LABEL}") as timeline,
    ):
        alone = await _rounds(stack, kube, timeline, rounds.each)
        leaders, restarts = _leaders(stack), _restarts(stack)
        stack.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        try:
            refused = await _abuse(stack, kube, rounds)
            beside = await _rounds(stack, kube, timeline, rounds.each)
            lost = _changed(leaders, _leaders(stack))
            killed = _changed(restarts, _restarts(stack))
        finally:
            stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
            # By force, nobody could shorten what their kubelets give them.
            how = ("--all", "--grace-period=1", "--wait=false")
            stack.kubectl("delete", "pods", "-n", NAMESPACE, *how, timeout_s=_PATIENCE_S)
            ours = f"--selector=app={latency.LABEL}"
            stack.kubectl("delete", "pods", "-n", workloads.NAMESPACE, ours, "--wait=false")
            stack.admin("scancel", "--quiet", f"--user={USER}")
        agreed_s = wait_for_agreement(stack, timeout_s=_PATIENCE_S, after="the abuse")
    out = [f"{name}: {node.get('Reason', '')}" for name, node in stack.slurm_nodes().items() if _is_out(node)]
    return [
        _beside("service created to bound", beside.bind, alone.bind),
        _beside("sbatch to start", beside.sbatch, alone.sbatch),
        _beside("preempting job submitted to pod told to go", beside.evict, alone.evict),
        report.at_most("leases that changed hands", len(lost), unit="", bound=0, n=len(leaders), limited_by=str(lost)),
        report.at_most("containers restarted", len(killed), unit="", bound=0, n=len(restarts), limited_by=str(killed)),
        report.at_most("nodes lost", len(out), unit="", bound=0, n=len(stack.slurm_nodes()), limited_by=str(out)),
        report.observed("pods and jobs refused at once", refused, unit="", n=refused),
        report.observed("abuse removed to agreement", agreed_s, unit="s", n=1),
    ]


def _beside(what: str, ours: Sequence[float], alone: Sequence[float]) -> report.Figure:
    ours_s, alone_s = report.median(ours), report.median(alone)
    bound = round(_TIMES * alone_s + _SLACK_S, 4)
    peer = report.against("on an idle cluster", alone_s, ours=ours_s)
    return report.at_most(f"{what}, median", ours_s, unit="s", bound=bound, n=len(ours), peer=peer)


def _is_out(node: Mapping[str, str]) -> bool:
    return bool(slurm_text.node_flags(node) & {"DOWN", "DRAIN", "FAIL"})


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [f"{name}: {before.get(name)} to {value}" for name, value in after.items() if before.get(name) != value]


def _leaders(stack: Stack) -> dict[str, str]:
    listed = stack.kubectl.json("leases", "-n", stack.namespace)["items"]
    return {
        lease["metadata"]["name"]: f"{lease['spec'].get('holderIdentity')} ({lease['spec'].get('leaseTransitions')})"
        for lease in listed
    }


def _restarts(stack: Stack) -> dict[str, str]:
    pods = [pod for part in ("operator", "syncer", "scheduler") for pod in processes.pods_of(stack, part)]
    return {pod.name: str(processes.restarts_of(pod)) for pod in pods}


# ---------------------------------------------------------------------- timing


async def _rounds(stack: Stack, kube: Kube, timeline: Timeline[Pod], n: int) -> _Took:
    took = _Took([], [], [])
    tag = uuid.uuid4().hex[:4]
    for number in range(n):
        name = f"beside-{tag}-{number}"
        took.bind.append(await latency.time_pod(stack, kube, timeline, name, restart_policy="Always"))
        took.sbatch.append(await asyncio.to_thread(latency.time_sbatch, stack, number))
        took.evict.append(await _time_eviction(stack, kube, timeline, f"victim-{tag}-{number}"))
    return took


async def _time_eviction(stack: Stack, kube: Kube, timeline: Timeline[Pod], name: str) -> float:
    """Seconds from a job of the higher partition, for the whole node, to the word to the pod that it must go."""
    slurmd = stack.slurmd_pods()[0]
    body = workloads.pod(
        name, image=stack.images["sunkpy"], scheduler=stack.scheduler_name, cpu="1", labels={"app": latency.LABEL},
        command=["sleep", "600"], restart_policy="Always", annotations={f"{names.PREFIX}partition": "low"},
    )  # fmt: skip
    spec = body["spec"]
    assert isinstance(spec, dict)
    spec["nodeSelector"] = {"kubernetes.io/hostname": slurmd.spec.node_name}
    created_s = time.time()
    await kube.create(paths.pods(workloads.NAMESPACE), body)
    await timeline.first(
        lambda seen: seen.name == name and seen.new is not None and seen.new.status.phase == "Running",
        what=f"{name} running", timeout_s=_PATIENCE_S, since_s=created_s,
    )  # fmt: skip
    node = slurmd.labels[names.LABEL_SLURM_NODE]
    submitted_s = time.time()
    options = ("-p", "high", "-w", node, "--exclusive", "-o", "/dev/null")
    job = await asyncio.to_thread(stack.sbatch, *options, script="sleep 300")
    told = await timeline.first(
        lambda seen: seen.name == name and (seen.new is None or seen.new.is_deleting),
        what=f"{name} told to go", timeout_s=_PATIENCE_S, since_s=submitted_s,
    )  # fmt: skip
    await asyncio.to_thread(stack.cancel_jobs, [job])
    await timeline.gone(name, since_s=created_s)
    return told.at_s - submitted_s


# ----------------------------------------------------------------------- abuse


async def _abuse(stack: Stack, kube: Kube, rounds: Rounds) -> int:
    """Do all of it; how many were refused by the apiserver or by Slurm, at once."""
    refused = 0
    for body in bodies(stack, replicas=rounds.replicas):
        try:
            await kube.create(paths.pods(NAMESPACE), body)
        except KubeError:
            refused += 1
    for comment in ("k8s:pod:default:x", "k8s:abuse/gang/0"):
        try:
            stack.sbatch("-n1", "--comment", comment, "-o", "/dev/null", script="sleep 1000")
        except CommandFailed:
            refused += 1
    await asyncio.sleep(_BESIDE_S)
    return refused


def bodies(stack: Stack, *, replicas: int) -> Iterator[dict[str, object]]:
    """Pods that nobody should be able to hurt others with."""
    nodes = [slurmd.spec.node_name for slurmd in stack.slurmd_pods()]
    pod = partial(_pod, stack, nodes[-1])
    for number in range(20):
        groups = [{"name": "g", "minMember": 65_532, "minResource": {"cpu": "10m"}}]
        yield pod(f"places-{number}", annotations=_task_groups(groups), labels={"applicationId": f"a-{number}"})
    groups = [{"name": f"g{n}", "minMember": 1} for n in range(6_000)]
    yield pod("roles", annotations=_task_groups(groups), labels={"applicationId": "roles"})
    for number in range(5):
        yield pod(f"no-daemon-{number}", **_of_daemon_set(nodes[0]))
    for number in range(3):
        yield pod(f"stubborn-{number}", grace_s=3600)
    yield pod("for-ever", grace_s=2**31 - 1)
    for number in range(10):
        yield pod(f"single-{number}", annotations={f"{names.PREFIX}dependency": "singleton"})
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(replicas):
        yield pod(f"apart-{number}", labels={"app": "apart"}, affinity=apart)


def _task_groups(groups: Sequence[Mapping[str, object]]) -> dict[str, str]:
    prefix = "yunikorn.apache.org/"
    return {f"{prefix}task-group-name": str(groups[0]["name"]), f"{prefix}task-groups": json.dumps(groups)}


def _pod(
    stack: Stack,
    node: str,
    name: str,
    *,
    grace_s: int = 1,
    affinity: Mapping[str, object] | None = None,
    **metadata: object,
) -> dict[str, object]:
    container = {
        "name": "main", "image": stack.images["sunkpy"], "command": _TRAP,
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
    }  # fmt: skip
    spec = {
        "schedulerName": stack.scheduler_name, "terminationGracePeriodSeconds": grace_s, "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "affinity": dict(affinity or {}), "automountServiceAccountToken": False,
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
    }  # fmt: skip


def _of_daemon_set(node: str) -> dict[str, object]:
    """What makes a pod look like one of a DaemonSet for this node; nobody has made that."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "none", "uid": str(uuid.uuid4()), "controller": True}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}
        }
    }
    return {"affinity": affinity, "ownerReferences": [owner]}
