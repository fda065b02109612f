"""Users who may only create pods or submit jobs cannot stop the work of others.

The bench times a service, a job of `sbatch` and a preemption, first on an idle cluster. It does so again while an
account that may only make pods in a namespace of its own does everything in `tests.bench.abuse.table`. Then no leader
may have lost its lease, and no node may be out of use. Abusive pods that can run are on one node, as if that were the
account's share.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
import uuid
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from demo import slurm_text
from demo.stack import USER, Stack
from devcluster.shell import CommandFailed
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import STRATEGIC_PATCH, Kube
from sunkpy.kube.connection import JSON
from sunkpy.kube.errors import KubeError
from tests.bench import latency, report
from tests.bench.abuse import table
from tests.bench.abuse.table import NAMESPACE
from tests.bench.abuse.watched import held, watched
from tests.bench.asked import Asked
from tests.bench.clusters import idle_demo, time_sbatch
from tests.e2e import processes, workloads
from tests.e2e.agreement import wait_for_agreement
from tests.e2e.handover import is_running
from tests.e2e.timeline import Sighting, Timeline, watching

_PATIENCE_S = 120.0
_BESIDE_S = 30.0
"""For how many seconds the abuse works before anything is timed."""
_TIMES = 2.0
_SLACK_S = 0.5
"""How far a median of few rounds varies by chance: Slurm looks at new jobs at full seconds."""
_HELD_S = 0.1
_OUT = frozenset({"DOWN", "DRAIN", "FAIL"})
_COMMENTS = ("k8s:pod:default:x", "k8s:abuse/gang/0")
_RIGHTS = {"": ["pods", "pods/resize", "pods/eviction"], "apps": ["daemonsets"]}


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """How often each thing is timed, and how many abusive pods exclude each other."""

    each: int = 12
    replicas: int = 240


class _Took(msgspec.Struct):
    bind: list[float]
    sbatch: list[float]
    evict: list[float]


def measure(asked: Asked) -> list[report.Figure]:
    """Run the bench on an idle cluster and leave it idle."""
    return asyncio.run(_measure(idle_demo(), Rounds(each=4, replicas=60) if asked.quick else Rounds()))


async def _measure(stack: Stack, rounds: Rounds) -> list[report.Figure]:
    with watched(stack):
        wait_for_agreement(stack, timeout_s=60, after="nothing: abuse begins with an idle cluster")
        async with (
            await Kube.connect(stack.kubeconfig) as kube,
            watching(kube, paths.pods(workloads.NAMESPACE), Pod, label_selector=f"app={latency.LABEL}") as timeline,
            watching(kube, paths.pods(NAMESPACE), Pod) as abusing,
        ):
            alone = await _rounds(stack, kube, timeline, rounds.each)
            leaders, restarts, since = _leaders(stack), _restarts(stack), datetime.now(UTC)
            try:
                tried, refused = await _abuse(stack, rounds)
                beside = await _rounds(stack, kube, timeline, rounds.each)
                lost, killed = _changed(leaders, _leaders(stack)), _changed(restarts, _restarts(stack))
            finally:
                _end(stack)
            agreed_s = wait_for_agreement(stack, timeout_s=_PATIENCE_S, after="the abuse")
            turns = held(stack, since)
    nodes = stack.slurm_nodes()
    out = [f"{name}: {node.get('Reason', '')}" for name, node in nodes.items() if slurm_text.node_flags(node) & _OUT]
    return [
        _beside("service created to bound", beside.bind, alone.bind),
        _beside("sbatch to start", beside.sbatch, alone.sbatch),
        _beside("preempting job submitted to pod told to go", beside.evict, alone.evict),
        report.longest_turn(turns, bound_s=_HELD_S),
        report.none("leases that changed hands", lost, n=len(leaders)),
        report.none("containers restarted", killed, n=len(restarts)),
        report.none("nodes lost", out, n=len(nodes)),
        report.none("pods of abuse on a node without a job", without_job(abusing.sightings), n=tried),
        report.observed("refused at once", refused, unit="", n=tried),
        report.observed("abuse removed to agreement", agreed_s),
    ]


def _beside(what: str, ours: Sequence[float], alone: Sequence[float]) -> report.Figure:
    ours_s, alone_s = report.median(ours), report.median(alone)
    bound = round(_TIMES * alone_s + _SLACK_S, 4)
    peer = report.against("on an idle cluster", alone_s, ours=ours_s)
    return report.at_most(f"{what}, median", ours_s, bound=bound, n=len(ours), peer=peer)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [f"{name}: {before.get(name)} to {value}" for name, value in after.items() if before.get(name) != value]


def _leaders(stack: Stack) -> dict[str, str]:
    lease = "{.metadata.name} {.spec.holderIdentity} ({.spec.leaseTransitions})"
    every = f'jsonpath={{range .items[*]}}{lease}{{"\\n"}}{{end}}'
    listed = stack.kubectl("get", "leases", "-n", stack.namespace, "-o", every)
    return dict(each.split(maxsplit=1) for each in listed.splitlines())


def _restarts(stack: Stack) -> dict[str, str]:
    pods = [pod for part in ("operator", "syncer", "scheduler") for pod in processes.pods_of(stack, part)]
    return {pod.name: str(processes.restarts_of(pod)) for pod in pods}


async def _rounds(stack: Stack, kube: Kube, timeline: Timeline[Pod], n: int) -> _Took:
    took = _Took([], [], [])
    tag = uuid.uuid4().hex[:4]
    for number in range(n):
        name = f"beside-{tag}-{number}"
        took.bind.append(await latency.time_pod(stack, kube, timeline, name, restart_policy="Always"))
        took.sbatch.append(await asyncio.to_thread(time_sbatch, stack, f"bench-{number}"))
        took.evict.append(await _time_eviction(stack, kube, timeline, f"victim-{tag}-{number}"))
    return took


async def _time_eviction(stack: Stack, kube: Kube, timeline: Timeline[Pod], name: str) -> float:
    """Return the seconds from the submit of a job that takes a pod's whole node to the pod's deletion timestamp."""
    slurmd = stack.slurmd_pods()[0]
    body = workloads.pod(
        name, image=stack.images["sunkpy"], scheduler=stack.scheduler_name, cpu="1", labels={"app": latency.LABEL},
        command=["sleep", "600"], restart_policy="Always", annotations={f"{names.PREFIX}partition": "low"},
        node=slurmd.spec.node_name,
    )  # fmt: skip
    created_s = time.time()
    await kube.create(paths.pods(workloads.NAMESPACE), body)
    await timeline.first(is_running(name), what=f"{name} running", timeout_s=_PATIENCE_S, since_s=created_s)
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


async def _abuse(stack: Stack, rounds: Rounds) -> tuple[int, int]:
    """Do everything in the table. Return how much was tried, and how much the apiserver or Slurm refused at once."""
    slurmd = stack.slurmd_pods()[-1]
    place = table.Place(image=stack.images["sunkpy"], scheduler=stack.scheduler_name, node=slurmd.spec.node_name)
    tries = _Tries()
    with _account(stack) as kubeconfig:
        async with await Kube.connect(kubeconfig) as kube:
            for name, bodies in table.abuses(place, replicas=rounds.replicas).items():
                await tries.each(name, [_create(kube, f"{name}-{at}", body) for at, body in enumerate(bodies)])
            stubborn = f"{table.STUBBORN}-0"
            stack.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod", stubborn, "-n", NAMESPACE)
            for deed in table.DEEDS:
                await tries.each(deed.name, [_do(kube, deed, stubborn)])
    await tries.each("comments", [_submit(stack, comment) for comment in _COMMENTS])
    await asyncio.sleep(_BESIDE_S)
    return tries.tried, tries.refused


class _Tries:
    """Counts what was tried, and what was refused at once."""

    def __init__(self) -> None:
        self.tried = self.refused = 0

    async def each(self, name: str, tries: Sequence[Coroutine[object, object, None]]) -> None:
        """Await the tries one after another, and report how many were refused and why the first was."""
        why = []
        for each in tries:
            try:
                await each
            except (KubeError, CommandFailed) as error:
                why.append(str(error))
        self.tried += len(tries)
        self.refused += len(why)
        click.echo(f"{name}: {len(tries)} tried" + (f", {len(why)} refused: {why[0][-300:]}" if why else ""))


async def _create(kube: Kube, name: str, body: table.Body) -> None:
    given = body["metadata"]
    assert isinstance(given, dict)
    kind = "pods" if body["kind"] == "Pod" else "daemonsets"
    path = f"/{'api' if kind == 'pods' else 'apis'}/{body['apiVersion']}/namespaces/{NAMESPACE}/{kind}"
    await kube.create(path, body | {"metadata": {"name": name, "namespace": NAMESPACE} | given})


async def _do(kube: Kube, deed: table.Deed, pod: str) -> None:
    named = {"metadata": {"name": pod}} if deed.method == "POST" else {}
    content_type = STRATEGIC_PATCH if deed.method == "PATCH" else JSON
    path = f"{paths.pod(NAMESPACE, pod)}{deed.part}"
    await kube.request(deed.method, path, body=deed.body | named, content_type=content_type)


async def _submit(stack: Stack, comment: str) -> None:
    options = ("-n1", "--comment", comment, "-o", "/dev/null")
    await asyncio.to_thread(stack.sbatch, *options, script="sleep 1000")


@contextlib.contextmanager
def _account(stack: Stack) -> Iterator[Path]:
    """Yield a kubeconfig of an account that may only make pods and DaemonSets in the namespace `abuse`."""
    about, api = {"name": NAMESPACE, "namespace": NAMESPACE}, "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [group], "resources": what, "verbs": ["*"]} for group, what in _RIGHTS.items()]
    role, account = {"apiGroup": api, "kind": "Role", "name": NAMESPACE}, {"kind": "ServiceAccount", **about}
    stack.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    stack.kubectl.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": about, "rules": rules},
        {"apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": about, "roleRef": role, "subjects": [account]},
    )
    token = stack.kubectl("create", "token", NAMESPACE, "-n", NAMESPACE).strip()
    config = msgspec.yaml.decode(stack.kubeconfig.read_bytes())
    for user in config["users"]:
        user["user"] = {"token": token}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        file.write_bytes(msgspec.yaml.encode(config))
        yield file


def without_job(sightings: Iterable[Sighting[Pod]]) -> list[str]:
    """Return the names of pods that were seen on a node before they had a Slurm job."""
    seen = (sighting.new for sighting in sightings if sighting.new is not None)
    return sorted({pod.name for pod in seen if pod.spec.node_name and names.ANNOTATION_JOB_ID not in pod.annotations})


def _end(stack: Stack) -> None:
    """Remove everything of this bench. Pods are deleted before their namespace: a deletion of the namespace would
    give each pod its own grace period.
    """
    there = stack.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name")
    if there:
        stack.kubectl("delete", "daemonsets", "-n", NAMESPACE, "--all", "--cascade=orphan")
        how = ("--all", "--grace-period=1", "--wait=false")
        stack.kubectl("delete", "pods", "-n", NAMESPACE, *how, timeout_s=_PATIENCE_S)
        stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    ours = f"--selector=app={latency.LABEL}"
    stack.kubectl("delete", "pods", "-n", workloads.NAMESPACE, ours, "--wait=false")
    stack.admin("scancel", "--quiet", f"--user={USER}")
