"""Pods and jobs whose life can be measured from inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.stack import Stack
from devcluster.waiting import NotYet, wait
from sunkpy.core.model.objects import Pod

NAMESPACE = "default"

# Writes the time each 5 ms until it dies: the last stamp is the last moment at which it provably lived.
_LIVING = """
import os, signal, sys, time
stamp = os.open("/stamps/" + sys.argv[1], os.O_CREAT | os.O_WRONLY)
tidy_s = float(sys.argv[2])
end = [float("inf")]
def stop(*_):
    end[0] = min(end[0], time.time() + tidy_s)
if tidy_s >= 0:
    signal.signal(signal.SIGTERM, stop)
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while (now := time.time()) < end[0]:
    os.pwrite(stamp, b"%.6f" % now, 0)
    time.sleep(0.005)
"""

IGNORES_SIGTERM = -1.0


def stamps_of(stack: Stack) -> Path:
    """The folder that all nodes of a development cluster share. It is in the cluster's folder, and goes with it."""
    return stack.kubeconfig.parent / "stamps"


def living_pod(
    name: str, *, stack: Stack, cpu: str, tidy_s: float, grace_s: int, labels: dict[str, str]
) -> dict[str, object]:
    """A pod that stamps the file of its name in `stamps_of(stack)` while it lives.

    It ends `tidy_s` after SIGTERM, or ignores SIGTERM (`IGNORES_SIGTERM`) and is killed after `grace_s`.
    """
    return pod(
        name,
        image=stack.images["sunkpy"],
        scheduler=stack.scheduler_name,
        cpu=cpu,
        labels=labels,
        grace_s=grace_s,
        stamps=stamps_of(stack),
        command=["python3", "-c", _LIVING, name, str(tidy_s)],
    )


def pod(
    name: str,
    *,
    image: str,
    scheduler: str,
    cpu: str = "100m",
    memory: str = "32Mi",
    limits: Mapping[str, str] | None = None,
    command: list[str],
    grace_s: int = 1,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    restart_policy: str = "Never",
    node: str = "",
    stamps: Path | None = None,
) -> dict[str, object]:
    """A pod of one container that runs once; with Always it is a service. With `node` it runs there or nowhere. It has
    the node's folder `stamps` at /stamps.
    """
    source = {"hostPath": {"path": str(stamps), "type": "DirectoryOrCreate"}}
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": dict(limits or {})},
        "volumeMounts": [{"name": "stamps", "mountPath": "/stamps"}] if stamps else [],
        "securityContext": {"runAsUser": 0},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": restart_policy,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": grace_s,
            "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
            "containers": [container],
            "volumes": [{"name": "stamps", **source}] if stamps else [],
        },
    }


def labelled(stack: Stack, app: str) -> Sequence[Pod]:
    """All pods with this label `app`."""
    return stack.kubectl.list(Pod, "pods", "-n", NAMESPACE, "-l", f"app={app}")


def wait_for_running(stack: Stack, name: str) -> Pod:
    """The pod once it runs.

    Raises:
        NeverSo: it does not, within a minute.
    """

    def running() -> Pod:
        found = stack.kubectl.get(Pod, "pod", name, "-n", NAMESPACE)
        if found.status.phase != "Running":
            raise NotYet(found.status.phase)
        return found

    return wait(running, timeout_s=60, what=f"pod {name} Running")


def last_stamp_s(stack: Stack, name: str) -> float:
    """Last moment at which the pod provably lived.

    Raises:
        FileNotFoundError: its container never ran, or the nodes do not share this machine.
    """
    return float((stamps_of(stack) / name).read_text())


def forget_stamps(stack: Stack) -> None:
    """Remove what earlier runs left."""
    for stamp in stamps_of(stack).glob("*"):
        stamp.unlink()
