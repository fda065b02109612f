"""The demo's manifests: a Deployment of inference pods, and a single pod, all scheduled by Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sunkpy.core import names

NAMESPACE: Final = "demo"
INFERENCE: Final = "inference"
ERRAND: Final = "errand"
GPU: Final = "nvidia.com/gpu"
_SERVER: Final = Path(__file__).with_name("inference.py")


def namespace(name: str) -> dict[str, object]:
    """Return the manifest of a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def inference(*, image: str, replicas: int, scheduler_name: str) -> Sequence[Mapping[str, object]]:
    """Return a ConfigMap with the server, a Deployment and a Service. Each pod requests half a CPU, 128 MiB and
    a GPU.
    """
    labels = {"app": INFERENCE}
    container = {
        "name": "server",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/app/inference.py"],
        "env": [_from_field("POD", "metadata.name"), _from_field("NODE", "spec.nodeName")],
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        "resources": requests(cpu="500m", memory="128Mi", gpus=1),
        "volumeMounts": [{"name": "app", "mountPath": "/app"}],
    }
    pod = {
        "schedulerName": scheduler_name,
        "terminationGracePeriodSeconds": 10,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "app", "configMap": {"name": INFERENCE}}],
    }
    return (
        _object("v1", "ConfigMap", INFERENCE, data={_SERVER.name: _SERVER.read_text()}),
        _object(
            "apps/v1",
            "Deployment",
            INFERENCE,
            spec={
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        ),
        _object("v1", "Service", INFERENCE, spec={"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]}),
    )


def errand(namespace: str, *, image: str, account: str, scheduler_name: str) -> Mapping[str, object]:
    """Return a pod that runs once, for two seconds, under a Slurm account."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "2"],
        "resources": requests(cpu="500m", memory="64Mi", gpus=0),
    }
    spec = {
        "schedulerName": scheduler_name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    metadata = {"name": ERRAND, "namespace": namespace, "annotations": {f"{names.PREFIX}account": account}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def requests(*, cpu: str, memory: str, gpus: int) -> dict[str, object]:
    """Return the resources of a container; GPUs, which cannot be overcommitted, are also limits."""
    gpu = {GPU: str(gpus)} if gpus else {}
    return {"requests": {"cpu": cpu, "memory": memory} | gpu, "limits": gpu}


def _object(api_version: str, kind: str, name: str, **rest: object) -> dict[str, object]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}} | rest


def _from_field(name: str, path: str) -> dict[str, object]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
