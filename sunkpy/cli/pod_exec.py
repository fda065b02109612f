"""Pods that a person with kubectl may enter: the scheduler's reaches slurmrestd, slurmctld's has scontrol."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.rights import may
from sunkpy.core.overview.installation import OurPod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.slurm.relay import Relay

_RELAY: Final = ("sunkpy", "slurm-relay")
_AGAIN: Final = (
    "ask again when a scheduler's pod is ready: "
    "kubectl -n {namespace} get pods -l app.kubernetes.io/name=slurm,app.kubernetes.io/component=scheduler"
)
_LIMIT_S: Final = 60.0


class NoWay(LookupError):
    """No pod can be entered; the text says why."""


class ExecFailed(Exception):
    """kubectl could not run the command in the pod; the text is what kubectl said."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a command in a pod printed, and its exit code."""

    exit_code: int
    out: str
    error: str


async def relay_for(kube: Kube, access: Access) -> Relay:
    """A relay through the scheduler of the only Slurm cluster that the person can mean. Nothing is started yet.

    Raises:
        NoWay: there is none, or the person may not enter its pod.
    """
    namespace = (await find_pod(kube, access, "scheduler")).metadata.namespace
    tried: list[str] = []

    async def command() -> Sequence[str]:
        """The command line for kubectl exec. It takes a pod that has not been tried, if there is one, because the one
        that failed may be about to go.
        """
        try:
            pods = await _ready_pods(kube, "scheduler", namespace)
        except KubeError as error:
            raise NoWay(str(error)) from error
        if not pods:
            raise NoWay(f"no pod of a scheduler is ready in namespace {namespace}")
        pod = next((pod for pod in pods if pod.name not in tried), pods[0])
        tried.append(pod.name)
        return words_in(pod, access.kubeconfig, _RELAY, takes_input=True)

    return Relay(command, hint=_AGAIN.format(namespace=namespace))


async def find_pod(kube: Kube, access: Access, component: str) -> OurPod:
    """A ready pod that the person may enter: of the named Slurm cluster, or of the only one.

    Raises:
        NoWay: there is none.
    """
    if shutil.which("kubectl") is None:
        raise NoWay("kubectl is not installed here")
    try:
        pods = await _ready_pods(kube, component, access.namespace)
        namespace = _only_namespace(pods, component, access.namespace)
        allowed = await may(kube, "create", "pods", subresource="exec", namespace=namespace)
    except KubeError as error:
        raise NoWay(str(error)) from error
    if not allowed:
        raise NoWay(f"you may not create pods/exec in namespace {namespace}, for the pod of the {component}")
    return pods[0]


def words_in(pod: OurPod, kubeconfig: Path | None, command: Sequence[str], *, takes_input: bool = False) -> list[str]:
    """The command line by which kubectl runs the command in the first container of that pod."""
    namespace, name = pod.key
    config = ["--kubeconfig", str(kubeconfig)] if kubeconfig is not None else []
    how = ["-i"] if takes_input else []
    return ["kubectl", *config, "-n", namespace, "exec", *how, name, "-c", pod.spec.containers[0].name, "--", *command]


async def run_there(words: Sequence[str]) -> Said:
    """Run a command of `words_in`, to its end.

    Raises:
        ExecFailed: it could not be run, or did not end.
    """
    try:
        process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise ExecFailed(f"run kubectl: {error.strerror}; install it, or see --slurmrestd") from error
    try:
        async with asyncio.timeout(_LIMIT_S):
            out, error_text = await process.communicate()
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise ExecFailed(f"{' '.join(words)}: no answer in {_LIMIT_S:.0f} s") from error
    texts = (text.decode(errors="replace").strip() for text in (out, error_text))
    return Said(exit_code=process.returncode or 0, out=next(texts), error=next(texts))


def _only_namespace(pods: Sequence[OurPod], component: str, named: str) -> str:
    found = sorted({pod.metadata.namespace for pod in pods})
    if not found:
        raise NoWay(f"no pod of a {component} is ready{f' in namespace {named}' if named else ''}")
    if len(found) > 1:
        raise NoWay(f"there are {component} pods in the namespaces {', '.join(found)}: name one with -n, or ask there")
    return found[0]


async def _ready_pods(kube: Kube, component: str, namespace: str) -> list[OurPod]:
    labels = f"app.kubernetes.io/name=slurm,app.kubernetes.io/component={component}"
    listed = await kube.list_objects(paths.pods(namespace), OurPod, label_selector=labels, may_be_old=True)
    return [pod for pod in listed if pod.is_ready and not pod.metadata.deletion_timestamp]
