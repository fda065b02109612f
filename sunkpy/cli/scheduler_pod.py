"""The pod of a scheduler, which reaches slurmrestd and has a key of Slurm: how a person who may enter it asks Slurm."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sunkpy.cli.access import Access
from sunkpy.cli.rights import may
from sunkpy.core.overview.installation import OurPod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.slurm.relay import Relay

_OF_SCHEDULERS: Final = "app.kubernetes.io/name=slurm,app.kubernetes.io/component=scheduler"
_RELAY: Final = ("sunkpy", "slurm-relay")


class NoWay(LookupError):
    """Why Slurm cannot be asked in a scheduler's pod."""


async def relay_for(kube: Kube, access: Access) -> Relay:
    """To the only Slurm cluster that the person can mean. Nothing is started yet.

    Raises:
        NoWay: there is none, or the person may not enter its pod.
    """
    if shutil.which("kubectl") is None:
        raise NoWay("kubectl is not installed here")
    try:
        namespace = await _namespace(kube, access.namespace)
        allowed = await may(kube, "create", "pods", subresource="exec", namespace=namespace)
    except KubeError as error:
        raise NoWay(str(error)) from error
    if not allowed:
        raise NoWay(f"you may not create pods/exec in namespace {namespace}, where the scheduler reaches Slurm")

    async def command() -> Sequence[str]:
        try:
            pods = await _ready_pods(kube, namespace)
        except KubeError as error:
            raise NoWay(str(error)) from error
        if not pods:
            raise NoWay(f"no pod of a scheduler is ready in namespace {namespace}")
        return words_in(pods[0], access.kubeconfig, _RELAY, takes_input=True)

    return Relay(command)


def words_in(pod: OurPod, kubeconfig: Path | None, command: Sequence[str], *, takes_input: bool = False) -> list[str]:
    """The command, run by kubectl in that pod."""
    namespace, name = pod.key
    config = ["--kubeconfig", str(kubeconfig)] if kubeconfig is not None else []
    how = ["-i"] if takes_input else []
    return ["kubectl", *config, "-n", namespace, "exec", *how, name, "-c", pod.spec.containers[0].name, "--", *command]


async def _namespace(kube: Kube, named: str) -> str:
    """Of the Slurm cluster: the named one, else the only one."""
    found = sorted({pod.metadata.namespace for pod in await _ready_pods(kube, named)})
    if not found:
        raise NoWay(f"no pod of a scheduler is ready{f' in namespace {named}' if named else ''}")
    if len(found) > 1:
        raise NoWay(f"there are schedulers in the namespaces {', '.join(found)}: name one with -n, or ask in its pod")
    return found[0]


async def _ready_pods(kube: Kube, namespace: str) -> list[OurPod]:
    listed = await kube.list_objects(paths.pods(namespace), OurPod, label_selector=_OF_SCHEDULERS, may_be_old=True)
    return [pod for pod in listed if pod.is_ready]
