"""A year with Argo CD in a quarter of an hour: install, change, refuse, heal, prune, take back, uninstall.

On a cluster of its own that is gone afterwards. Production has two NodeSets, `compute` and `spare`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import yaml

from demo.bring_up import build_images
from demo.report import Tell
from demo.stack import Stack
from devcluster import Cluster
from devcluster.waiting import NotYet, wait
from sunkpy.core.model.objects import Pod
from tests.bench import report
from tests.bench.gitops.argocd import NAMESPACE, ArgoCD
from tests.bench.gitops.repositories import EXAMPLE, Repositories
from tests.bench.own_cluster import own_cluster

POOLS: Final = {"node-1": "production", "node-2": "production", "node-3": "spare", "node-4": "staging"}
APPLICATIONS: Final = ("sunkpy", "slurm", "slurm-staging")
_FIRST_JOB_S: Final = 180.0
_CHANGE_S: Final = 120.0
_JOB_S: Final = 60
"""How long a job runs that a removal must wait for."""
_CORES: Final = "two shared cores run both clusters and Argo CD"
_KEPT: Final = ("Secret", "PersistentVolumeClaim")
_OF_KUBERNETES: Final = frozenset({"kube-root-ca.crt", "default"})
_LEFT: Final = (
    "secrets,persistentvolumeclaims,configmaps,services,serviceaccounts,roles,rolebindings,deployments,statefulsets,"
    "daemonsets,jobs,cronjobs,pods,nodesets.sunkpy.dev,poddisruptionbudgets,networkpolicies"
)
_LEFT_OF_ALL: Final = (
    "clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies,validatingadmissionpolicybindings"
)


class Site:
    """Both Slurm clusters, and what changes them."""

    def __init__(self, cluster: Cluster, images: Mapping[str, str], suite: str, tell: Tell) -> None:
        def stack(release: str) -> Stack:
            made = Stack(suite=suite, kubeconfig=cluster.kubeconfig, bin_dir=cluster.bin, images=images)
            made.release = made.namespace = made.scheduler_name = made.cluster = release
            return made

        self.argo = ArgoCD(cluster)
        self.production, self.staging = stack("slurm"), stack("slurm-staging")
        home = cluster.layout.home
        self.repositories = Repositories(home / "git", images, markers=home / "markers")
        self.volumes = cluster.layout.volumes
        self.tell = tell

    def push(self, values: Mapping[str, object], why: str) -> float:
        """Push values of production and have Argo CD read them; when that began."""
        began_s = time.monotonic()
        self.repositories.push("production", values, why)
        self.argo.refresh("slurm")
        return began_s

    def kill_wait(self) -> str:
        """A key of production's slurm.conf, as slurmctld has it."""
        lines = self.production.scontrol("show", "config").splitlines()
        return next(line.split("=")[1].split()[0] for line in lines if line.startswith("KillWait"))

    def knows(self, seconds: int) -> None:
        """Wait until slurmctld of production has this KillWait."""

        def check() -> bool:
            if self.kill_wait() != str(seconds):
                raise NotYet(self.kill_wait())
            return True

        wait(check, timeout_s=300, what=f"slurmctld has KillWait={seconds}")

    def pods(self) -> Mapping[str, str]:
        """What runs in production: name -> uid."""
        pods = self.production.kubectl.list(Pod, "pods", "-n", self.production.namespace)
        return {pod.metadata.name: pod.metadata.uid for pod in pods if pod.status.phase == "Running"}


def measure(*, suite: str, name: str, tell: Tell) -> list[report.Figure]:
    """All of it, in the order in which an admin would meet it."""
    images = build_images(suite, tell)
    with own_cluster(f"{name}-fresh", tell) as cluster:
        labels = {node: {"node.example.com/pool": pool} for node, pool in POOLS.items()}
        cluster.up(len(POOLS), labels=labels)
        cluster.load(sorted({Path(image.archive) for image in images.values()}))
        site = Site(cluster, {key: image.ref for key, image in images.items()}, suite, tell)
        site.argo.start(yaml.safe_load((EXAMPLE / "argocd-cm.yaml").read_text()))
        return run(site)


def run(site: Site) -> list[report.Figure]:
    """What is seen on a cluster that has Argo CD and nothing else."""
    figures: list[report.Figure] = []
    for part in (install, sync_again, change, refuse, heal, prune, uninstall):
        site.tell(f"{part.__name__} …")
        figures += part(site)
    return figures


def install(site: Site) -> list[report.Figure]:
    """All Applications at once, up to a job that has ended in each Slurm cluster."""
    began_s = time.monotonic()
    site.argo.kubectl("apply", "-f", str(site.repositories.applications))
    figures = []
    for stack in (site.staging, site.production):
        job = wait(lambda at=stack: at.sbatch(script="hostname"), timeout_s=600, what=f"sbatch in {stack.release}")
        stack.wait_for_job(job, "COMPLETED", timeout_s=120)
        took_s = time.monotonic() - began_s
        what = f"kubectl apply of the Applications → first job of {stack.release} has ended"
        figures.append(report.at_most(what, took_s, unit="s", bound=_FIRST_JOB_S, n=1, limited_by=_CORES))
    for name in APPLICATIONS:
        site.argo.settled(name)
    took_s = time.monotonic() - began_s
    return [*figures, report.observed("… → all are Synced and Healthy", took_s, unit="s", n=1)]


def sync_again(site: Site) -> list[report.Figure]:
    """Compared anew and synced once more: nothing differs, and no pod is made anew."""
    drifted = [f"{name}: {each}" for name in APPLICATIONS for each in site.argo.looked_again(name).drifted]
    before = site.pods()
    last = site.argo.status("slurm").operation_state.started_at
    site.argo.sync("slurm")
    wait(lambda: site.argo.status("slurm").operation_state.started_at != last, timeout_s=60, what="a sync began")
    drifted += site.argo.settled("slurm").drifted
    anew = sorted(before.items() - site.pods().items())
    return [
        _none("objects that differ from Git after a second look and a second sync", drifted),
        _none("pods made anew by a sync without a change", [name for name, _ in anew]),
    ]


def change(site: Site) -> list[report.Figure]:
    """A value of slurm.conf, beside a job that goes on; then `git revert`."""
    stack = site.production
    job = stack.sbatch("--partition=low", script="sleep 300")
    stack.wait_for_job(job, "RUNNING")
    figures = []
    values = site.repositories.values("production")
    values["slurmConfig"]["conf"]["KillWait"] = 31
    began_s = site.push(values, "wait a second longer")
    site.knows(31)
    figures.append(_change("git push of a value → slurmctld has it", time.monotonic() - began_s))
    site.argo.settled("slurm")
    began_s = time.monotonic()
    site.repositories.revert()
    site.argo.refresh("slurm")
    site.knows(30)
    figures.append(_change("git revert and push → slurmctld has the old value", time.monotonic() - began_s))
    site.argo.settled("slurm")
    lost = [] if stack.job(job)["JobState"] == "RUNNING" and stack.job(job)["Restarts"] == "0" else [str(job)]
    stack.cancel_jobs([job])
    return [*figures, _none("jobs lost or started again by both", lost)]


def refuse(site: Site) -> list[report.Figure]:
    """What slurmctld cannot read reaches nobody; a corrected commit is taken, though the bad one is tried for ever."""
    before = site.pods()
    values = site.repositories.values("production")
    values["slurmConfig"]["conf"]["SchedulerType"] = "sched/nonsense"
    site.push(values, "a mistake")

    def refused() -> bool:
        operation = site.argo.status("slurm").operation_state
        if "unsuccessfully" not in operation.message:
            raise NotYet(f"{operation}")
        return True

    wait(refused, timeout_s=240, what="the check has failed the sync")
    anew = sorted(before.items() - site.pods().items())
    began_s = time.monotonic()
    site.repositories.revert()
    site.argo.refresh("slurm")
    site.argo.settled("slurm")
    return [
        _none("pods made anew by a value that slurmctld refuses", [name for name, _ in anew]),
        report.observed("git revert of it → Synced and Healthy", time.monotonic() - began_s, unit="s", n=1),
    ]


def heal(site: Site) -> list[report.Figure]:
    """Somebody deletes a Deployment, and changes slurm.conf by hand."""
    kubectl, namespace = site.argo.kubectl, site.production.namespace
    began_s = time.monotonic()
    kubectl("delete", "deployment", "slurm-syncer", "-n", namespace)
    patch = json.dumps({"data": {"slurm.conf": "ClusterName=other\n"}})
    kubectl("patch", "configmap", "slurm-slurm-config", "-n", namespace, "--type=merge", "-p", patch)

    def healed() -> bool:
        conf = kubectl("get", "configmap", "slurm-slurm-config", "-n", namespace, "-o", "jsonpath={.data}")
        if "ClusterName=other" in conf:
            raise NotYet("slurm.conf is not as in Git")
        return bool(kubectl("get", "deployment", "slurm-syncer", "-n", namespace, "-o", "name"))

    wait(healed, timeout_s=120, what="both are as in Git")
    took_s = time.monotonic() - began_s
    site.argo.settled("slurm")
    return [report.observed("a change by hand → as in Git again", took_s, unit="s", n=2)]


def prune(site: Site) -> list[report.Figure]:
    """A NodeSet that leaves the values while a job runs on it: it goes when the job has ended."""
    stack = site.production
    nodes = [pod.name for pod in stack.slurmd_pods() if pod.name.startswith("spare-")]
    job = stack.sbatch("--partition=low", f"--nodelist={nodes[0]}", script=f"sleep {_JOB_S}")
    stack.wait_for_job(job, "RUNNING")
    values = site.repositories.values("production")
    del values["nodeSets"]["spare"]
    site.push(values, "without the spare nodes")

    def is_gone() -> bool:
        found = stack.kubectl("get", "nodesets", "-n", stack.namespace, "-o", "name")
        if "spare" in found:
            raise NotYet(f"{found}; {site.argo.status('slurm').operation_state}")
        return True

    wait(is_gone, timeout_s=300, what="NodeSet spare is gone")
    state = stack.wait_for_job(job, "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "PENDING", timeout_s=30)
    lost = [] if (state["JobState"], state["Restarts"]) == ("COMPLETED", "0") else [f"{job}: {state['JobState']}"]
    site.argo.settled("slurm")
    site.argo.looked_again("slurm")
    site.argo.settled("slurm")
    return [_none("jobs lost on a NodeSet that left the values", lost)]


def uninstall(site: Site) -> list[report.Figure]:
    """One Application after the other, the operator's last; a job that still runs is waited for."""
    kubectl, stack = site.argo.kubectl, site.production
    job = stack.sbatch("--partition=low", script=f"sleep {_JOB_S}; touch ~/ended-in-order")
    stack.wait_for_job(job, "RUNNING")
    figures: list[report.Figure] = []
    left: list[str] = []
    for name in reversed(APPLICATIONS):
        began_s = time.monotonic()
        kubectl("delete", "application", name, "-n", NAMESPACE, "--timeout=300s", timeout_s=310)
        what = f"kubectl delete application {name}"
        figures.append(report.observed(what, time.monotonic() - began_s, unit="s", n=1))
        namespace = "sunkpy-system" if name == "sunkpy" else name
        left += left_in(site, namespace)
    left += [
        each
        for each in kubectl("get", _LEFT_OF_ALL, "-o", "name").split()
        if "sunkpy" in each or "slurm" in each
    ]  # fmt: skip
    lost = [] if list(site.volumes.rglob("ended-in-order")) else [str(job)]
    return [*figures, _none("jobs lost by uninstalling", lost), _none("objects left but keys and volumes", left)]


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Object(msgspec.Struct, frozen=True):
    kind: str
    metadata: _Named


def left_in(site: Site, namespace: str) -> list[str]:
    """What is left in a namespace, but for what is kept on purpose and what Kubernetes puts into each."""
    found = site.argo.kubectl.list(_Object, _LEFT, "-n", namespace)
    return [
        f"{namespace}: {each.kind}/{each.metadata.name}"
        for each in found
        if each.kind not in _KEPT and each.metadata.name not in _OF_KUBERNETES
    ]


def _change(what: str, seconds: float) -> report.Figure:
    return report.at_most(what, seconds, unit="s", bound=_CHANGE_S, n=1, limited_by=_CORES)


def _none(what: str, found: list[str]) -> report.Figure:
    return report.at_most(what, len(found), unit="", bound=0, n=1, limited_by=", ".join(found)[:500])
