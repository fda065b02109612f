"""Measures how long the event loop of a cluster's scheduler is held, by a module that is added to its pods."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from demo.stack import Stack
from tests.bench import holds
from tests.e2e import processes

_NAME = "sunkpy-bench-holds"
_FOLDER = "/holds"
_FROM_S = 0.002
"""Turns of the event loop from this length on are noted: short enough that every scheduler has some."""
_PACKAGE = "/opt/sunkpy-package"
"""The folder of sunkpy in the image (slurm-images/sunkpy.Dockerfile)."""


@contextlib.contextmanager
def watched(stack: Stack) -> Iterator[None]:
    """Run the block with schedulers that log their long turns: their pods are replaced before and after it."""
    data = {
        "holds.py": Path(holds.__file__).read_text(),
        "sitecustomize.py": f"import holds; holds.watch(holds.log, from_s={_FROM_S})\n",
    }
    metadata = {"name": _NAME, "namespace": stack.namespace}
    stack.kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    container = {
        "name": "scheduler",
        "env": [{"name": "PYTHONPATH", "value": f"{_FOLDER}:{_PACKAGE}"}],
        "volumeMounts": [{"name": "holds", "mountPath": _FOLDER, "readOnly": True}],
    }
    pod = {"containers": [container], "volumes": [{"name": "holds", "configMap": {"name": _NAME}}]}
    _roll(stack, "patch", "--patch", json.dumps({"spec": {"template": {"spec": pod}}}))
    try:
        yield
    finally:
        _roll(stack, "rollout", "undo")
        stack.kubectl("delete", "configmap", _NAME, "-n", stack.namespace)


def _roll(stack: Stack, *how: str) -> None:
    deployment = (f"deployment/{stack.release}-scheduler", "-n", stack.namespace)
    stack.kubectl(*how, *deployment)
    stack.kubectl("rollout", "status", *deployment, "--timeout=180s", timeout_s=190)


def held(stack: Stack, since: datetime) -> list[holds.Hold]:
    """Return the long turns that all schedulers have logged since then.

    Raises:
        LookupError: there is none, so nothing was watched.
    """
    asked = ("logs", "-n", stack.namespace, "-c", "scheduler", "--tail=-1", f"--since-time={since.isoformat()}")
    logs = (stack.kubectl(*asked, pod.name) for pod in processes.pods_of(stack, "scheduler"))
    if found := [hold for log in logs for hold in holds.read(log)]:
        return found
    raise LookupError(f"no scheduler has noted a turn of its event loop since {since}")
