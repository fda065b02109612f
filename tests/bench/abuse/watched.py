"""The scheduler of a cluster, as it is, with a look at how long its event loop is held."""

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
"""So short that some are seen of any scheduler."""
_PACKAGE = "/opt/sunkpy-package"
"""Where the image has sunkpy (slurm-images/sunkpy.Dockerfile)."""


@contextlib.contextmanager
def watched(stack: Stack) -> Iterator[None]:
    """Within it, each scheduler writes its long turns into its log; before and after it they are rolled."""
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
    """Turns of all schedulers from then on that were long enough to be noted.

    Raises:
        LookupError: there is none, so nothing was watched.
    """
    asked = ("logs", "-n", stack.namespace, "-c", "scheduler", "--tail=-1", f"--since-time={since.isoformat()}")
    logs = (stack.kubectl(*asked, pod.name) for pod in processes.pods_of(stack, "scheduler"))
    if found := [hold for log in logs for hold in holds.read(log)]:
        return found
    raise LookupError(f"no scheduler has noted a turn of its event loop since {since}")
