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
_LABELS: Final = "app.kubernetes.io/name=slurm,app.kubernetes.io/component={component}"
_AGAIN: Final = f"ask again when a scheduler's pod is ready: kubectl -n {{namespace}} get pods -l {_LABELS}"
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
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


def relay_for(kube: Kube, namespace: str, kubeconfig: Path | None) -> Relay:
    """Return a relay, which sends requests to slurmrestd through a scheduler's pod of the Slurm cluster in this
    namespace. Nothing is started yet.
    """
    tried: list[str] = []

    async def command() -> Sequence[str]:
        """Return the command line of kubectl exec, for a pod that has not been tried yet if there is one."""
        try:
            pods = await _list_pods(kube, "scheduler", namespace)
        except KubeError as error:
            raise NoWay(str(error)) from error
        ready = _ready(pods, "scheduler", namespace)
        pod = next((pod for pod in ready if pod.name not in tried), ready[0])
        tried.append(pod.name)
        return words_in(pod, kubeconfig, _RELAY, takes_input=True)

    return Relay(command, hint=_AGAIN.format(namespace=namespace, component="scheduler"))


async def find_pod(kube: Kube, access: Access, component: str) -> OurPod:
    """Return a ready pod of this component, such as the scheduler, in which the person may run commands.

    It is a pod of the Slurm cluster in `access.namespace`, or of the only cluster. A cluster whose pods are not ready
    counts, too: otherwise the command would reach another cluster than the person means.

    Raises:
        NoWay: no such pod is ready, several clusters have one, the person may not run commands there, the apiserver did
            not answer, or kubectl is not installed.
    """
    if shutil.which("kubectl") is None:
        raise NoWay("kubectl is not installed here")
    try:
        pods = await _list_pods(kube, component, access.namespace)
        namespace = _only_namespace(pods, component, access.namespace)
        ready = _ready(pods, component, namespace)
        allowed = await may(kube, "create", "pods", subresource="exec", namespace=namespace)
    except KubeError as error:
        raise NoWay(str(error)) from error
    if not allowed:
        raise NoWay(f"you may not create pods/exec in namespace {namespace}, where the {component}'s pod is")
    return ready[0]


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


async def _list_pods(kube: Kube, component: str, namespace: str) -> list[OurPod]:
    """Return the pods of this component that have not ended, ready or not."""
    labels = _LABELS.format(component=component)
    where = paths.pods(namespace)
    return await kube.list_objects(where, OurPod, label_selector=labels, field_selector=_NOT_ENDED, may_be_old=True)


def _only_namespace(pods: Sequence[OurPod], component: str, named: str) -> str:
    found = sorted({pod.metadata.namespace for pod in pods})
    if not found:
        where = f"there is no {component} pod{f' in namespace {named}' if named else ''}"
        raise NoWay(f"{where}; give the namespace of the Slurm cluster: -n")
    if len(found) > 1:
        raise NoWay(f"there are {component} pods in the namespaces {', '.join(found)}: name one of them with -n")
    return found[0]


def _ready(pods: Sequence[OurPod], component: str, namespace: str) -> list[OurPod]:
    """Return the ready ones of these pods of a namespace; at least one."""
    ready = [pod for pod in pods if pod.is_ready and not pod.metadata.deletion_timestamp]
    if not ready:
        see_why = f"kubectl -n {namespace} describe pods -l {_LABELS.format(component=component)}"
        raise NoWay(f"no {component} pod is ready in namespace {namespace}; see why: {see_why}")
    return ready
