"""Brings up the demo's stack: cluster, images, both charts. What is already there is not made again.

If `$KUBECONFIG` is set, that cluster is used. This module installs the charts there by helm. The story makes pods and
jobs, cordons and drains nodes and lifts that again, and scales the NodeSet and restores it. The nodes must be able to
get the images: either `$IMAGE_REGISTRY` names a registry to which the demo pushes them, or `$SUNKPY_IMAGES_LOADED=1`
says that the archives of build/images are already loaded on the nodes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import yaml

from demo import command, person
from demo.report import Tell
from demo.stack import JOBS, OPERATOR_NAMESPACE, ROOT, SUITES, Stack
from demo.workload import GPU, INFERENCE
from demo.workload import NAMESPACE as DEMO
from devcluster import Cluster, packages
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait
from sunkpy.core.model import quantity
from sunkpy.core.model.objects import Node, Pod

GPUS_PER_NODE: Final = 2
PAGE_PORT: Final = 8017
"""The local port to which a user forwards the web page."""
_IMAGES: Final = ROOT / "build" / "images"
_OF_OTHER_CHARTS: Final = ("openldap",)


class CannotStart(Exception):
    """Something that the demo needs is missing; the text says what to do."""


class Image(msgspec.Struct, frozen=True):
    """An image that was built: its reference and the archive that holds it."""

    ref: str
    archive: str


def bring_up(*, suite: str, name: str, nodes: int, gpus: int = GPUS_PER_NODE, tell: Tell) -> Stack:
    """Bring up the stack of a Slurm suite, and return it. A stack of another suite on the cluster is scaled to zero.

    `gpus`: the number of pretended GPUs on each node of a development cluster; a cluster of your own has its own.

    Raises:
        CannotStart, DevclusterError, CommandFailed, NeverSo: something is missing or fails; the text says what.
    """
    own = own_cluster(name)
    if own is None:
        images = build_images(suite, tell)
        stack = Stack(
            suite=suite, kubeconfig=Path(os.environ["KUBECONFIG"]), bin_dir=None, images=publish(images, suite, tell)
        )
        tell(f"using the cluster of KUBECONFIG={stack.kubeconfig}")
        check_gpus(stack)
    else:
        own.progress = tell
        images = build_beside(own, suite, nodes=nodes, tell=tell)
        loaded = own.load(sorted({Path(image.archive) for image in images.values()}))
        tell(f"images on {len(loaded)} nodes: {sum(map(len, loaded.values())) or 'nothing'} new")
        refs = {key: image.ref for key, image in images.items()}
        stack = Stack(suite=suite, kubeconfig=own.kubeconfig, bin_dir=own.bin, images=refs)
    for other in SUITES:
        if other != suite:
            put_to_sleep(Stack(suite=other, kubeconfig=stack.kubeconfig, bin_dir=stack.bin_dir, images={}), tell)
    install(stack, tell, slurm=slurm_values(stack, gpus=gpus))
    if own is not None:
        nodes_ = [each.name for each in own.nodes()]
        what = f"every node offers its {gpus} pretended GPUs"
        wait(lambda: all_offer_gpus(stack, nodes_, gpus=gpus), timeout_s=60, what=what)
    return stack


def build_beside(own: Cluster, suite: str, *, nodes: int, tell: Tell) -> Mapping[str, Image]:
    """Build the images while the development cluster gets its programs and starts."""
    # Packages come first, because apt serves one caller at a time.
    packages.ensure({**packages.PACKAGES, **packages.FOR_IMAGES}, progress=tell)
    with ThreadPoolExecutor(max_workers=1) as pool:
        up = pool.submit(own.up, nodes)
        images = build_images(suite, tell)
        up.result()
    return images


def own_cluster(name: str) -> Cluster | None:
    """Return the development cluster to use; None if `$KUBECONFIG` names another cluster."""
    cluster, given = Cluster(name), os.environ.get("KUBECONFIG")
    return cluster if not given or Path(given) == cluster.kubeconfig else None


# ---------------------------------------------------------------------------------------------------- images


def build_images(suite: str, tell: Tell) -> Mapping[str, Image]:
    """Build the images that have changed, and return all. It takes seconds if none has changed."""
    _build(suite, tell)
    return read_images(suite)


def _build(suite: str, tell: Tell, *more: str) -> None:
    command.follow(sys.executable, str(ROOT / "slurm-images" / "build"), "--suite", suite, *more, tell=tell)


def read_images(suite: str) -> Mapping[str, Image]:
    """Return the images of the last build: sunkpy, mariadb, slurmctld, slurmdbd, slurmrestd, slurmd, login."""
    path = _IMAGES / "images.json"
    try:
        images = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Image]])[suite]
    except (OSError, KeyError) as error:
        raise CannotStart(f"{path} has no images of {suite}: run `make images SLURM_SUITE={suite}`") from error
    return {name: image for name, image in images.items() if name not in _OF_OTHER_CHARTS}


def publish(images: Mapping[str, Image], suite: str, tell: Tell) -> Mapping[str, str]:
    """Return the references under which the nodes of your own cluster find the images; push these if a registry is
    named.
    """
    registry = os.environ.get("IMAGE_REGISTRY", "").rstrip("/")
    if not registry and os.environ.get("SUNKPY_IMAGES_LOADED") != "1":
        raise CannotStart(
            "KUBECONFIG is set, so the nodes need the images: set IMAGE_REGISTRY=registry.example/sunkpy to push them "
            f"there, or load {_IMAGES}/*.tar on each node and set SUNKPY_IMAGES_LOADED=1"
        )
    if not registry:
        return {key: image.ref for key, image in images.items()}
    _build(suite, tell, "--push", registry)
    return {key: f"{registry}/{image.ref.rpartition('/')[2]}" for key, image in images.items()}


# ---------------------------------------------------------------------------------------------------- charts


def install(
    stack: Stack, tell: Tell, *, slurm: Mapping[str, object] | None = None, operator: Mapping[str, object] | None = None
) -> None:
    """Install or upgrade both charts, and wait until their workloads are ready.

    `slurm`: values of charts/slurm in place of the demo's. `operator`: further values of charts/sunkpy.
    """
    charts = (
        ("sunkpy", OPERATOR_NAMESPACE, ROOT / "charts" / "sunkpy", {**operator_values(stack), **(operator or {})}),
        (stack.release, stack.namespace, ROOT / "charts" / "slurm", slurm or slurm_values(stack)),
    )
    for release, namespace, chart, values in charts:
        mark = fingerprint(chart, values)
        if is_installed(stack, release, namespace, mark):
            tell(f"helm release {release}: up to date")
            continue
        take_back_unfinished(stack, release, namespace, tell)
        try:
            stack.helm(
                "upgrade", "--install", release, str(chart), "--namespace", namespace, "--create-namespace",
                "--values=-", "--description", mark, "--wait", "--timeout", "5m", stdin=yaml.safe_dump(dict(values)),
            )  # fmt: skip
        except CommandFailed as error:
            raise CannotStart(f"{error}\n{describe_unready(stack, namespace)}") from error
        tell(f"helm release {release} in namespace {namespace}: installed")


def take_back_unfinished(stack: Stack, release: str, namespace: str, tell: Tell) -> None:
    """Undo an install or upgrade of a release that was killed halfway: else helm refuses the next one."""
    status = release_info(stack, release, namespace).status
    if status == "pending-install":
        stack.helm("uninstall", release, "--namespace", namespace, "--wait")
    elif status.startswith("pending"):
        stack.helm("rollback", release, "--namespace", namespace, "--wait")
    else:
        return
    tell(f"helm release {release} was {status}: taken back")


def describe_unready(stack: Stack, namespace: str) -> str:
    """Return, for an error, the pods of a namespace, its last warnings, and the last log lines of pods that are not
    ready.
    """
    what = (
        ["get", "pods", "--output=wide"],
        ["get", "events", "--field-selector=type=Warning", "--sort-by=.lastTimestamp"],
    )
    try:
        pods = stack.kubectl.list(Pod, "pods", "-n", namespace)
    except CommandFailed as error:
        return str(error)
    unready = (
        pod.name
        for pod in pods
        if pod.status.phase != "Succeeded"
        and (not (containers := pod.status.container_statuses) or not all(each.ready for each in containers))
    )
    # Without --ignore-errors kubectl prints no log of a pod if one of its containers has not started.
    logs = (["logs", name, "--all-containers", "--prefix", "--tail=20", "--ignore-errors"] for name in unready)
    told = []
    for args in (*what, *logs):
        try:
            told += [f"kubectl {' '.join(args)}", *stack.kubectl(*args, "-n", namespace).splitlines()[-20:]]
        except CommandFailed as error:
            told.append(str(error))
    return "\n".join(told)


def operator_values(stack: Stack) -> Mapping[str, object]:
    """Return the demo's values of charts/sunkpy."""
    return {"image": stack.images["sunkpy"]}


def slurm_values(stack: Stack, *, gpus: int = GPUS_PER_NODE) -> Mapping[str, object]:
    """Return the demo's values of charts/slurm. `gpus`: the number of pretended GPUs on each node."""
    # Pretended device files are made only on nodes without real ones.
    nodes = {"gpu": {"resource": GPU, "type": "h100"}, "fakeGpus": True}
    open_to = {key: ["*"] for key in ("partitions", "accounts", "qos", "reservations")}
    scheduler: dict[str, object] = {"access": [{"namespaces": ["default"], **open_to}, person.access()]}
    if stack.has_device_plugin:
        scheduler |= {"gpuSharing": "plugin", "devicePlugin": {"resource": GPU, "pretend": gpus}}
    values: dict[str, object] = {
        "images": dict(stack.images),
        "nodeSets": {stack.nodeset: nodes},
        "scheduler": scheduler,
        "page": {"enabled": True, "url": f"http://localhost:{PAGE_PORT}"},
        **person.values(),
    }
    if stack.bin_dir is not None:
        # All nodes of a devcluster are this machine: each would pin its first job to the same CPU.
        values["slurmConfig"] = {"cgroup": "disabled"}
    return values


def fingerprint(chart: Path, values: Mapping[str, object]) -> str:
    """Return a hash of the chart's files (links followed) and the values."""
    digest = hashlib.sha256(msgspec.json.encode(values, order="deterministic"))
    for folder, folders, files in os.walk(chart, followlinks=True):
        folders.sort()
        for file in sorted(files):
            digest.update(f"{folder}/{file}".removeprefix(str(chart)).encode())
            digest.update(Path(folder, file).read_bytes())
    return f"sha256:{digest.hexdigest()[:24]}"


class _Info(msgspec.Struct, frozen=True):
    status: str = ""
    description: str = ""


class _Release(msgspec.Struct, frozen=True):
    info: _Info = _Info()


def release_info(stack: Stack, release: str, namespace: str) -> _Info:
    """Return status and description of a helm release; empty if there is none."""
    try:
        out = stack.helm("status", release, "--namespace", namespace, "--output", "json")
    except CommandFailed:
        return _Info()
    return msgspec.json.decode(out, type=_Release).info


def is_installed(stack: Stack, release: str, namespace: str, mark: str) -> bool:
    """True if the release is deployed with this fingerprint, and not scaled to zero."""
    info = release_info(stack, release, namespace)
    return info.status == "deployed" and info.description == mark and not is_asleep(stack, namespace)


def is_asleep(stack: Stack, namespace: str) -> bool:
    """True if a Deployment or StatefulSet of the namespace is scaled to zero."""
    return (
        "0"
        in stack.kubectl(
            "get", "deploy,statefulset", "-n", namespace, "-o", "jsonpath={.items[*].spec.replicas}"
        ).split()
    )


def put_to_sleep(other: Stack, tell: Tell) -> None:
    """Scale the demo's other Slurm cluster to zero, so that its nodes are free; its state stays on its volumes."""
    found = other.kubectl("get", "namespace", other.namespace, "--ignore-not-found", "-o", "name").strip()
    if not found or is_asleep(other, other.namespace):
        return
    # Jobs and pods that the demo left would never end, and keep the nodes from draining.
    other.admin("scancel", "--quiet", f"--name={JOBS}")
    other.kubectl("delete", "deployment", INFERENCE, "-n", DEMO, "--ignore-not-found", "--wait")
    other.kubectl("scale", "nodesets", "--all", "-n", other.namespace, "--replicas=0")

    def pods_gone() -> bool:
        left = [pod.name for pod in other.slurmd_pods()]
        if left:
            raise NotYet(f"still there: {left}")
        return True

    wait(pods_gone, timeout_s=120, what=f"slurmd pods of {other.release} gone")
    other.kubectl("scale", "deploy,statefulset", "--all", "-n", other.namespace, "--replicas=0")
    # The other cluster's device plugin hands out the same resource. The next `helm upgrade` makes these objects again.
    plugin = f"app.kubernetes.io/instance={other.release},app.kubernetes.io/component=device-plugin"
    kinds = "daemonset,validatingadmissionpolicybinding"
    other.kubectl("delete", kinds, "-n", other.namespace, "-l", plugin, "--ignore-not-found", "--wait")
    # Ended pods, such as those of backups, stay.
    lives = "--field-selector=status.phase!=Succeeded,status.phase!=Failed"
    other.kubectl("wait", "pods", "--all", lives, "-n", other.namespace, "--for=delete", "--timeout=90s", timeout_s=100)
    tell(f"Slurm cluster {other.release} sleeps, its nodes are free")


def offered_gpus(stack: Stack) -> Mapping[str, int]:
    """Return the number of GPUs that each Kubernetes node offers."""
    nodes = stack.kubectl.list(Node, "nodes")
    return {node.name: quantity.whole(node.status.allocatable.get(GPU, "0")) for node in nodes}


def all_offer_gpus(stack: Stack, nodes: Collection[str], *, gpus: int) -> bool:
    """True if each of these nodes offers `gpus` GPUs, because its device plugin has registered.

    Raises:
        NotYet: a node offers another number.
    """
    offered = {name: count for name, count in offered_gpus(stack).items() if name in nodes}
    if set(offered.values()) != {gpus}:
        raise NotYet(f"they offer {offered}")
    return True


def check_gpus(stack: Stack) -> None:
    """Check that the cluster has GPUs, because the demo's pods request one each.

    Raises:
        CannotStart: no node offers a GPU.
    """
    if not any(offered_gpus(stack).values()):
        raise CannotStart(
            "no node has nvidia.com/gpu. For pretend ones: kubectl patch node NAME --subresource=status "
            """-p '{"status":{"capacity":{"nvidia.com/gpu":"2"}}}' on each node"""
        )


def take_down(name: str) -> None:
    """Remove the development cluster; a cluster of your own stays as it is."""
    own = own_cluster(name)
    if own is not None:
        own.down()


def how_to_use(stack: Stack, *, name: str) -> str:
    """Return the commands with which a user can try the cluster now."""
    own = own_cluster(name)
    forward = f"kubectl -n {stack.namespace} port-forward svc/{stack.release}-page {PAGE_PORT}:80"
    login = f"kubectl -n {stack.namespace} exec -it {stack.release}-login-0 -- bash -l"
    spec = json.dumps({"spec": {"schedulerName": stack.scheduler_name}})
    pod = f"kubectl run hello --image {stack.images['sunkpy']} --overrides '{spec}' --command -- sleep 600"
    lines = [
        "The cluster stays up. To use it:",
        *([f'  eval "$(.venv/bin/python -m devcluster env --name {name})"'] if own is not None else []),
        f"  kubectl -n {stack.namespace} get nodesets,pods",
        f"  {login}          # then: sinfo, squeue, sbatch, srun",
        f"  {login} -c 'sbatch --wrap hostname'",
        f"  {pod}          # a pod that Slurm schedules",
        f"  .venv/bin/sunkpy page -n {stack.namespace}          # all of it in a browser",
        f"  {forward}          # then open what my-page prints in the login pod",
    ]
    uninstall = f"helm -n {stack.namespace} uninstall {stack.release}; helm -n {OPERATOR_NAMESPACE} uninstall sunkpy"
    lines.append(f"To remove it: {f'make clean-cluster CLUSTER={name}' if own is not None else uninstall}")
    return "\n".join(lines)
