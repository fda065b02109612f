"""A manifest on the cluster: the stand-in's version of it, known by a label, and taken away by it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import yaml

from demo.stack import Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait
from tests.families.cases import MANIFESTS
from tests.families.standin import StandIn

LABEL: Final = "sunkpy-families"
ALIASES: Final = ("slurm", "slurm-bridge-scheduler", "volcano", "yunikorn")
"""Scheduler names in the manifests: the cluster of the tests has one Slurm, under its release's name."""
MARK: Final = {"name": "CHAOS_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
"""A variable by which the observer knows to which pod a process belongs."""
ACCEPTED_S: Final = 60.0
GRACE_S: Final = 2
"""`sleep` does not heed SIGTERM: every end would take the 30 s that nobody asked for."""


class Workload:
    """Objects of one manifest; the context takes them away and waits until their pods are gone."""

    def __init__(self, stack: Stack, manifest: str, *, seconds: int) -> None:
        self._stack = stack
        self._documents = rendered(stack, manifest, seconds=seconds)

    def create(self) -> None:
        """Create it. Webhooks may refuse connections for a moment after their operator says that it is ready.

        Raises:
            NeverSo: with what the apiserver says.
        """
        for namespace in {_namespace(each) for each in self._documents} - {"default"}:
            if self._stack.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name"):
                continue
            metadata = {"name": namespace, "labels": {LABEL: "yes"}}
            self._stack.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for document in self._documents:
            self._resolve_owners(document)
            wait(partial(self._create, document), timeout_s=ACCEPTED_S, what="it is accepted")

    def delete(self) -> None:
        """Delete it; its pods may still be there: see `wait_until_gone`."""
        for document in reversed(self._documents):
            if document["kind"] == "Queue":
                continue  # Volcano refuses to lose its default queue; it goes with the CRD
            which = ("-n", _namespace(document), "-l", LABEL)
            if group := _kueue_group(document):
                # Kueue keeps ended pods for others that may replace them, as long as their Workload is there.
                self._stack.kubectl(
                    "delete", "workloads.kueue.x-k8s.io", group, "-n", _namespace(document), "--ignore-not-found"
                )
            self._stack.kubectl(
                "delete", _resource(document), *which, "--ignore-not-found", "--timeout=90s", timeout_s=100
            )

    def _resolve_owners(self, document: dict[str, object]) -> None:
        """Put in the uids of owners that a shape can only name; the garbage collector takes what has another owner."""
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        for owner in metadata.get("ownerReferences", []):
            if owner["uid"].endswith("_UID"):
                where = ("-n", _namespace(document), "-o", "jsonpath={.metadata.uid}")
                owner["uid"] = self._stack.kubectl("get", _resource(owner), owner["name"], *where)

    def _create(self, document: Mapping[str, object]) -> bool:
        try:
            # A field too much is told, not refused: some manifests have one.
            lenient = ("--validate=warn", "-f", "-")
            self._stack.kubectl("create", "-n", _namespace(document), *lenient, stdin=json.dumps(document))
        except CommandFailed as error:
            if "AlreadyExists" in error.output:
                return True
            raise
        return True


def _kueue_group(document: Mapping[str, object]) -> str:
    """The group of Kueue to which a bare pod says that it belongs; its Workload has the same name."""
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    is_pod = document["kind"] == "Pod"
    return str(metadata.get("labels", {}).get("kueue.x-k8s.io/pod-group-name", "")) if is_pod else ""


def wait_until_gone(stack: Stack) -> None:
    """Wait for the pods of all workloads.

    Raises:
        NeverSo: with those that are still there.
    """

    def gone() -> bool:
        selector = f"--field-selector=spec.schedulerName={stack.scheduler_name}"
        left = stack.kubectl("get", "pods", "-A", selector, "-o", "name").split()
        if left:
            raise NotYet(f"still there: {', '.join(left)}")
        return True

    wait(gone, timeout_s=90, what="its pods are gone", every_s=0.5)


def remove_namespaces(stack: Stack) -> None:
    """Take away the namespaces that manifests named and nobody had made."""
    stack.kubectl("delete", "namespaces", "-l", LABEL, "--timeout=90s", timeout_s=100)


def rendered(stack: Stack, manifest: str, *, seconds: int) -> list[dict[str, object]]:
    """The documents of a manifest, with an image that is on the nodes and the scheduler of this cluster."""
    text = (MANIFESTS / manifest).read_text().replace("sleep infinite", "sleep infinity")  # as coreutils has it
    documents = [document for document in yaml.safe_load_all(text) if document]
    stand_in = StandIn(stack.images["sunkpy"], seconds)
    for document in documents:
        stand_in.change(document)
        adapt(document, scheduler=stack.scheduler_name)
        document["metadata"].setdefault("labels", {})[LABEL] = "yes"
    return documents


def adapt(node: object, *, scheduler: str) -> None:
    """Scheduler names and the observer's mark, wherever they belong."""
    if isinstance(node, list):
        for item in node:
            adapt(item, scheduler=scheduler)
    if not isinstance(node, dict):
        return
    if node.get("schedulerName") in ALIASES:
        node["schedulerName"] = scheduler
    for container in _containers(node):
        node.setdefault("terminationGracePeriodSeconds", GRACE_S)
        container["env"] = [*(container.get("env") or []), dict(MARK)]  # it may stand there and be null
    for value in node.values():
        adapt(value, scheduler=scheduler)


def _containers(node: Mapping[str, object]) -> Iterator[dict[str, list[object]]]:
    found = node.get("containers")
    if isinstance(found, list):
        yield from (each for each in found if isinstance(each, dict) and "image" in each)


def _namespace(document: Mapping[str, object]) -> str:
    metadata = document["metadata"]
    assert isinstance(metadata, Mapping)
    return str(metadata.get("namespace") or "default")


def _resource(document: Mapping[str, object]) -> str:
    """`JobSet.v1alpha2.jobset.x-k8s.io`; plain `Pod` where there is no group."""
    group, _, version = str(document["apiVersion"]).rpartition("/")
    return f"{document['kind']}.{version}.{group}" if group else str(document["kind"])
