"""Removes the NodeSets of a Slurm cluster before the cluster itself.

Without a drain timeout, a NodeSet is gone only when Slurm says that its nodes are drained and idle. If Slurm and the
syncer were removed first, the NodeSet would stay for ever. So this code runs before `helm uninstall` removes anything,
and waits for the jobs, or ends the jobs by a drain timeout of one second.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject, Pod
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer

Say = Callable[[str], None]


class StillThere(Exception):
    """NodeSets were not gone in time. The text says which, and what to do."""


class Jobs(enum.Enum):
    """What happens to the jobs on the nodes of a NodeSet that is removed; the value is the text for people."""

    AWAIT = "draining; it is removed when no job runs on its nodes"
    END = "its slurmd pods are deleted, and the jobs on them end"


_NO_PATIENCE = {"spec": {"drainTimeoutSeconds": 1, "drainTimeoutPolicy": "Force"}}


async def remove_nodesets(kube: Kube, *, namespace: str, selector: str, timeout_s: float, jobs: Jobs, say: Say) -> None:
    """Delete the NodeSets with these labels and wait until they are gone. `jobs`: wait for the jobs there, or end them.
    `say` is called with a line about each NodeSet.

    Raises:
        StillThere: NodeSets are left after `timeout_s`; they keep draining.
        KubeError: the service account may not delete NodeSets, or the apiserver does not answer.
    """
    nodesets = Informer(kube, paths.nodesets(namespace), KubeObject, label_selector=selector)
    gone = asyncio.Event()

    def changed(_old: KubeObject | None, _new: KubeObject | None) -> None:
        if nodesets.synced.is_set() and not len(nodesets):
            gone.set()

    nodesets.add_handler(changed)
    following = asyncio.ensure_future(nodesets.run())
    try:
        async with asyncio.timeout(timeout_s):
            await nodesets.synced.wait()
            for nodeset in list(nodesets.values()):
                await _delete(kube, nodeset, jobs)
                say(f"NodeSet {namespace}/{nodeset.name}: {jobs.value}")
            changed(None, None)
            await gone.wait()
    except TimeoutError as error:
        left = ", ".join(sorted(nodeset.name for nodeset in nodesets.values()))
        pods = await kube.list_objects(
            paths.pods(namespace), Pod, label_selector=f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}"
        )
        busy = ", ".join(sorted(pod.name for pod in pods if pod.is_condition_true(names.CONDITION_RUNNING)))
        raise StillThere(
            f"NodeSets {left} are not gone after {timeout_s:.0f} s; jobs still run on: {busy or 'none'}. The "
            "NodeSets keep draining: run this again later, or end the jobs (squeue, scancel)"
        ) from error
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _delete(kube: Kube, nodeset: KubeObject, jobs: Jobs) -> None:
    try:
        if jobs is Jobs.END:
            await kube.patch(paths.nodeset(*nodeset.key), {"metadata": {"uid": nodeset.uid}, **_NO_PATIENCE})
        await kube.delete(paths.nodeset(*nodeset.key), uid=nodeset.uid)
    except errors.NotFound:
        return
