"""Runs commands by kubectl exec: in the scheduler's pod, which reaches slurmrestd, and in slurmctld's pod, which has
Slurm's commands.
"""

from __future__ import annotations

import asyncio
import shutil
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
from sunkpy.runtime.child import kill_child, start_child
from sunkpy.slurm.relay import Relay

_RELAY: Final = ("sunkpy", "slurm-relay")
_AGAIN: Final = (
    "ask again when a scheduler's pod is ready: "
    "kubectl -n {namespace} get pods -l app.kubernetes.io/name=slurm,app.kubernetes.io/component=scheduler"
)
_LIMIT_S: Final = 60.0


class NoWay(LookupError):
    """The person cannot run a command in a pod of a component, such as the scheduler; the text says why."""


class ExecFailed(Exception):
    """A command could not be run in a pod, or gave no usable answer; the text says why."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a command in a pod printed, and its exit code."""

    exit_code: int
    out: str
    error: str


async def relay_for(kube: Kube, access: Access) -> Relay:
    """Return a relay, which sends requests to slurmrestd through the scheduler's pod of the person's Slurm cluster.
    Nothing is started yet.

    Raises:
        NoWay: there is no such pod, several clusters may be meant, the person may not run a command in the pod, the
            apiserver did not answer, or kubectl is not installed.
    """
    namespace = (await find_pod(kube, access, "scheduler")).metadata.namespace
    tried: list[str] = []

    async def command() -> Sequence[str]:
        """Return the command line of kubectl exec, for a pod that has not been tried yet if there is one."""
        try:
            pods = await _ready_pods(kube, "scheduler", namespace)
        except KubeError as error:
            raise NoWay(str(error)) from error
        if not pods:
            raise NoWay(f"no scheduler's pod is ready in namespace {namespace}")
        pod = next((pod for pod in pods if pod.name not in tried), pods[0])
        tried.append(pod.name)
        return words_in(pod, access.kubeconfig, _RELAY, takes_input=True)

    return Relay(command, hint=_AGAIN.format(namespace=namespace))


async def find_pod(kube: Kube, access: Access, component: str) -> OurPod:
    """Return a ready pod of this component, such as the scheduler, in which the person may run commands.

    It is a pod of the Slurm cluster in `access.namespace`, or of the only cluster.

    Raises:
        NoWay: there is no such pod, several clusters have one, the person may not run commands there, the apiserver did
            not answer, or kubectl is not installed.
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
        raise NoWay(f"you may not create pods/exec in namespace {namespace}, where the {component}'s pod is")
    return pods[0]


def words_in(pod: OurPod, kubeconfig: Path | None, command: Sequence[str], *, takes_input: bool = False) -> list[str]:
    """Return the command line by which kubectl runs a command in the first container of the pod."""
    namespace, name = pod.key
    config = ["--kubeconfig", str(kubeconfig)] if kubeconfig is not None else []
    how = ["-i"] if takes_input else []
    return ["kubectl", *config, "-n", namespace, "exec", *how, name, "-c", pod.spec.containers[0].name, "--", *command]


async def run_there(words: Sequence[str]) -> Said:
    """Run a command line of `words_in` to its end, and return what it printed.

    Raises:
        ExecFailed: kubectl could not be run, or the command did not end within a minute.
    """
    try:
        process = await start_child(words)
    except OSError as error:
        raise ExecFailed(f"cannot run kubectl: {error.strerror}; install it, or see --slurmrestd") from error
    try:
        async with asyncio.timeout(_LIMIT_S):
            out, error_text = await process.communicate()
    except TimeoutError as error:
        await kill_child(process)
        raise ExecFailed(f"{' '.join(words)}: no answer in {_LIMIT_S:.0f} s") from error
    texts = (text.decode(errors="replace").strip() for text in (out, error_text))
    return Said(exit_code=process.returncode or 0, out=next(texts), error=next(texts))


def _only_namespace(pods: Sequence[OurPod], component: str, named: str) -> str:
    found = sorted({pod.metadata.namespace for pod in pods})
    if not found:
        raise NoWay(f"no {component} pod is ready{f' in namespace {named}' if named else ''}")
    if len(found) > 1:
        raise NoWay(f"there are {component} pods in the namespaces {', '.join(found)}: name one of them with -n")
    return found[0]


async def _ready_pods(kube: Kube, component: str, namespace: str) -> list[OurPod]:
    labels = f"app.kubernetes.io/name=slurm,app.kubernetes.io/component={component}"
    listed = await kube.list_objects(paths.pods(namespace), OurPod, label_selector=labels, may_be_old=True)
    return [pod for pod in listed if pod.is_ready and not pod.metadata.deletion_timestamp]
