"""Pods for tests of a real cluster."""

import hashlib
from pathlib import Path

from devcluster import Cluster
from devcluster.kubectl import Kubectl

PROBE = "docker.io/sunkpy/probe:1"
ROOT = Path("/var/lib", f"skd-{hashlib.sha256(__file__.encode()).hexdigest()[:8]}")
"""The folder of this checkout's clusters, where a run finds what an earlier one has left. No other checkout has it."""


def kubectl_of(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster.kubeconfig, cluster.bin)


def probe_pod(name: str, *, node: str, **spec: object) -> dict:
    container = {
        "name": "probe",
        "image": PROBE,
        "imagePullPolicy": "Never",
        "command": ["/probe", "serve", ":8080"],
    } | spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        | spec,
    }
