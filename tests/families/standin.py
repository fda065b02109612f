"""A manifest for a cluster without a registry and storage: what runs in its containers is changed, and how long.

Kinds, names, labels, sizes and schedulerName stay, and with them who makes which pods when. A container keeps its
command if its image is a shell's; all others sleep. What an operator adds to the pods itself is not seen here.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

Json = dict[str, Any]

SHELL: Final = re.compile(r"(.*/)?(busybox|alpine|bash|ubuntu|debian)(:.*)?")
SERVICES: Final = frozenset({
    "DaemonSet", "Deployment", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "ReplicaSet", "Service",
    "StatefulSet",
})  # fmt: skip
SERVERS: Final = frozenset({"PS", "ps", "mpiworker"})
"""Roles that do not end by themselves: somebody takes them away when the job has ended."""
NOT_THERE: Final = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "envFrom", "workingDir")
"""Fields that need the program, or an object, that is not there."""
FOREVER: Final = "infinity"


class StandIn(msgspec.Struct, frozen=True):
    """What runs instead: an image that is on the nodes, and for how long."""

    image: str
    seconds: int

    def change(self, document: Json) -> None:
        """Change a document in place."""
        self._walk(document, document["kind"], FOREVER if document["kind"] in SERVICES else str(self.seconds))

    def _walk(self, node: object, kind: object, lasts: str) -> None:
        if isinstance(node, list):
            for each in node:
                serves = isinstance(each, dict) and each.get("name") in SERVERS
                self._walk(each, kind, FOREVER if serves else lasts)
        if not isinstance(node, dict):
            return
        node.pop("volumeClaimTemplates", None)
        if isinstance(node.get("containers"), list):
            self._change_pod(node, lasts)
            return
        for key, value in node.items():
            if key == "container" and isinstance(value, dict):  # a step of an Argo Workflow
                self._change_container(value, lasts, mounted=frozenset())
            elif key == "trainer" and isinstance(value, dict):  # of a TrainJob: no pod spec, but image and command
                self._change_program(value, lasts)
            else:
                self._walk(value, kind, FOREVER if key in SERVERS or (kind, key) == ("MPIJob", "Worker") else lasts)

    def _change_pod(self, spec: Json, lasts: str) -> None:
        spec["volumes"] = [each for each in spec.get("volumes") or [] if "emptyDir" in each]
        mounted = frozenset(each["name"] for each in spec["volumes"])
        for each in spec.get("initContainers") or []:
            self._change_container(each, FOREVER if each.get("restartPolicy") == "Always" else "0", mounted=mounted)
        for each in spec["containers"]:
            self._change_container(each, lasts, mounted=mounted)

    def _change_container(self, container: Json, lasts: str, *, mounted: frozenset[str]) -> None:
        for field in NOT_THERE:
            container.pop(field, None)
        self._change_program(container, lasts)
        container["imagePullPolicy"] = "IfNotPresent"
        if container.get("volumeMounts"):
            container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] in mounted]
        if container.get("env"):
            container["env"] = [each for each in container["env"] if not _needs_object(each.get("valueFrom") or {})]

    def _change_program(self, program: Json, lasts: str) -> None:
        is_shell = SHELL.fullmatch(program.get("image") or "") is not None
        if not is_shell or not (program.get("command") or program.get("args")):
            program["command"] = ["sleep", lasts]
            program.pop("args", None)
        program["image"] = self.image


def _needs_object(source: Json) -> bool:
    return not source.keys().isdisjoint({"configMapKeyRef", "secretKeyRef"})
