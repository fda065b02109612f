"""A year with Argo CD or Flux in a quarter of an hour: install, change, refuse, heal, prune, revert, uninstall.

The bench makes its own cluster. The cluster `production` has two NodeSets, `compute` and `spare`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
import yaml

from devcluster import Cluster
from devcluster.kubectl import Kubectl
from devcluster.process import Daemon
from devcluster.waiting import wait, wait_until, wait_until_none
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.clusters import own_stack, recorded_once
from tests.bench.gitops.argocd import ArgoCD
from tests.bench.gitops.site import EXAMPLE, RELEASES, Site
from tests.integration.flux import Flux

POOLS: Final = {"node-1": "production", "node-2": "production", "node-3": "spare", "node-4": "staging"}
_FIRST_JOB_S: Final = 180.0
_CHANGE_S: Final = 120.0
_JOB_S: Final = 60
"""For how many seconds the job runs that a removal must wait for."""
_ENDS_S: Final = 60.0
_KEPT: Final = ("secret", "persistentvolumeclaim")
_OF_KUBERNETES: Final = frozenset({"kube-root-ca.crt", "default"})
_LEFT: Final = (
    "secrets,persistentvolumeclaims,configmaps,services,serviceaccounts,roles,rolebindings,deployments,statefulsets,"
    "daemonsets,jobs,cronjobs,pods,nodesets.sunkpy.dev,poddisruptionbudgets,networkpolicies"
)
_LEFT_OF_ALL: Final = (
    "clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies,validatingadmissionpolicybindings"
)


def measure(asked: Asked) -> list[report.Figure]:
    def up(cluster: Cluster, _: Sequence[Path]) -> None:
        cluster.up(len(POOLS), labels={node: {"node.example.com/pool": pool} for node, pool in POOLS.items()})

    with own_stack("gitops", up) as (stack, cluster):
        if asked.only == "flux":
            flux = _flux(cluster)
            site = Site(cluster, stack.images, keeper=flux)
            site.repositories.add_charts()
            flux.serve(site.repositories.folder)
            return run(site)
        argo = ArgoCD(cluster)
        argo.start(yaml.safe_load((EXAMPLE / "argocd-cm.yaml").read_text()))
        return run(Site(cluster, stack.images, keeper=argo))


def _flux(cluster: Cluster) -> Flux:
    """Start Flux on this cluster; its processes end with the cluster."""

    def run(program: str, args: list[str], env: Mapping[str, str]) -> None:
        cluster.daemons.start(Daemon(name=Path(program).name, argv=[program, *args], env=env))

    folder = cluster.layout.home / "flux"
    folder.mkdir(exist_ok=True)
    flux = Flux(Kubectl(cluster.kubeconfig, cluster.bin), cluster.binaries, folder, run=run)
    flux.start()
    return flux


def run(site: Site) -> list[report.Figure]:
    figures: list[report.Figure] = []
    for part in (install, sync_again, change, refuse, heal, prune, records, uninstall):
        began_s = time.monotonic()
        figures += part(site)
        click.echo(f"{part.__name__}: {time.monotonic() - began_s:.0f} s")
    return figures


def install(site: Site) -> list[report.Figure]:
    """Install all releases at once. Time until a job has ended in each Slurm cluster."""
    began_s = time.monotonic()
    site.keeper.kubectl("apply", "-f", str(site.repositories.site / site.keeper.example))
    figures = []
    for stack in (site.staging, site.production):
        submit = partial(site.submit, stack, script="hostname")
        job = wait(submit, timeout_s=1200, what=f"sbatch in {stack.release}")
        stack.wait_for_job(job, "COMPLETED", timeout_s=300)
        took_s = time.monotonic() - began_s
        what = f"kubectl apply → first job of {stack.release} has ended"
        figures.append(report.at_most(what, took_s, bound=_FIRST_JOB_S))
    for name in RELEASES:
        site.keeper.settled(name)
    took_s = time.monotonic() - began_s
    return [*figures, report.observed("… → all are as in Git, and healthy", took_s)]


def sync_again(site: Site) -> list[report.Figure]:
    """Compare and sync all releases again: nothing may differ, and no pod may be replaced."""
    before = site.pods()
    return [
        report.none("differences from Git after a second look and a second sync", site.keeper.synced_again(RELEASES)),
        report.none("pods made anew by a sync without a change", _anew(site, before)),
    ]


def change(site: Site) -> list[report.Figure]:
    """Change a value of slurm.conf while a job runs, then `git revert` it."""
    stack = site.production
    job = site.submit(stack, "--partition=low", script="sleep 900")
    stack.wait_for_job(job, "RUNNING")
    values = site.repositories.values("production")
    values["slurmConfig"]["conf"]["KillWait"] = 31
    figures = []
    for what, turn, seconds in (
        ("git push of a value → slurmctld has it", partial(site.push, values, "wait a second longer"), 31),
        ("git revert and push → slurmctld has the old value", site.revert, 30),
    ):
        began_s = turn()
        site.knows(seconds)
        took_s = time.monotonic() - began_s
        figures.append(report.at_most(what, took_s, bound=_CHANGE_S))
        site.keeper.settled("slurm")
    lost = [] if stack.job(job)["JobState"] == "RUNNING" and stack.job(job)["Restarts"] == "0" else [str(job)]
    stack.cancel_jobs([job])
    return [*figures, report.none("jobs lost or started again by both", lost)]


def refuse(site: Site) -> list[report.Figure]:
    """Push a value that slurmctld cannot read: no pod may be replaced, and Slurm's error must be in the log."""
    before = site.pods()
    values = site.repositories.values("production")
    values["slurmConfig"]["conf"]["SchedulerType"] = "sched/nonsense"
    site.push(values, "a mistake")
    click.echo(f"refused: {site.keeper.refused('slurm')}")
    words = site.keeper.kubectl("logs", "-n", site.production.namespace, "job/slurm-check", "-c", "slurmctld")
    anew = _anew(site, before)
    began_s = site.revert()
    site.keeper.settled("slurm")
    return [
        report.none("pods made anew by a value that slurmctld refuses", anew),
        report.none("refusals without Slurm's words", [] if "sched/nonsense" in words else [words]),
        report.observed("git revert of it → as in Git, and healthy", time.monotonic() - began_s),
    ]


def heal(site: Site) -> list[report.Figure]:
    """Delete a Deployment and change slurm.conf by hand. Time until both are as in Git."""
    kubectl, namespace = site.keeper.kubectl, site.production.namespace
    began_s = time.monotonic()
    kubectl("delete", "deployment", "slurm-syncer", "-n", namespace)
    patch = json.dumps({"data": {"slurm.conf": "ClusterName=other\n"}})
    kubectl("patch", "configmap", "slurm-slurm-config", "-n", namespace, "--type=merge", "-p", patch)

    def healed() -> bool:
        conf = kubectl("get", "configmap", "slurm-slurm-config", "-n", namespace, "-o", "jsonpath={.data}")
        deployment = kubectl("get", "deployment", "slurm-syncer", "-n", namespace, "-o", "name")
        return "ClusterName=other" not in conf and bool(deployment)

    wait(healed, timeout_s=240, what="both are as in Git")
    took_s = time.monotonic() - began_s
    site.keeper.settled("slurm")
    return [report.observed("a change by hand → as in Git again", took_s, n=2)]


def prune(site: Site) -> list[report.Figure]:
    """Remove a NodeSet from the values while a job runs on it: it must stay until the job has ended."""
    stack = site.production
    nodes = [pod.name for pod in stack.slurmd_pods() if pod.name.startswith("spare-")]
    job = site.submit(stack, "--partition=low", f"--nodelist={nodes[0]}", script=f"sleep {_JOB_S}")
    stack.wait_for_job(job, "RUNNING")
    values = site.repositories.values("production")
    del values["nodeSets"]["spare"]
    site.push(values, "without the spare nodes")

    def spare() -> list[str]:
        found = stack.kubectl("get", "nodesets", "-n", stack.namespace, "-o", "name").split()
        return [name for name in found if "spare" in name]

    wait_until_none(spare, timeout_s=300, what="NodeSet spare is gone")
    state = stack.wait_for_job(job, "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "PENDING", timeout_s=30)
    lost = [] if (state["JobState"], state["Restarts"]) == ("COMPLETED", "0") else [f"{job}: {state['JobState']}"]
    site.keeper.settled("slurm")
    return [report.none("jobs lost on a NodeSet that left the values", lost)]


def records(site: Site) -> list[report.Figure]:
    what = "records lost or doubled of"
    return [recorded_once(at, jobs, what=f"{what} {at.release}") for at, jobs in site.submitted.items()]


def uninstall(site: Site) -> list[report.Figure]:
    """Remove everything while a job runs: the job must end first."""
    stack = site.production
    job = stack.sbatch("--partition=low", script=f"sleep {_JOB_S}; touch ~/ended-in-order")
    stack.wait_for_job(job, "RUNNING")
    began_s = time.monotonic()
    site.keeper.remove()
    took_s = time.monotonic() - began_s
    # The last pods may still be ending.
    wait_until(lambda: not left_behind(site), timeout_s=_ENDS_S)
    left = left_behind(site)
    lost = [] if list(site.volumes.rglob("ended-in-order")) else [str(job)]
    return [
        report.observed(f"uninstall under a job of {_JOB_S} s", took_s),
        report.none("jobs lost by uninstalling", lost),
        report.none("objects left but keys and volumes", left),
    ]


def left_behind(site: Site) -> list[str]:
    """Return the objects that are left of all three releases, in namespaces and cluster-wide."""
    of_all = site.keeper.kubectl("get", _LEFT_OF_ALL, "-o", "name").split()
    inside = (each for namespace in ("sunkpy-system", *RELEASES[1:]) for each in left_in(site, namespace))
    return [*inside, *(each for each in of_all if "sunkpy" in each or "slurm" in each)]


def left_in(site: Site, namespace: str) -> list[str]:
    """Return the objects left in a namespace, except those kept on purpose and those that Kubernetes makes in each."""
    found = site.keeper.kubectl("get", _LEFT, "-n", namespace, "-o", "name").split()
    named = ((each, *each.split("/")) for each in found)
    return [f"{namespace}: {each}" for each, kind, name in named if kind not in _KEPT and name not in _OF_KUBERNETES]


def _anew(site: Site, before: Mapping[str, str]) -> list[str]:
    """Return the pods of production that were replaced since `before`."""
    return [name for name, _ in sorted(before.items() - site.pods().items())]
