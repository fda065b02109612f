"""Everything that users who may only create pods could try against others, in the order of what was found to hurt.

An abuse is a number of objects to create. A deed is a request about a running pod.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core import names

Body = dict[str, object]
Abuses = Mapping[str, Sequence[Body]]

NAMESPACE: Final = "abuse"
STUBBORN: Final = "grace-that-is-allowed"
"""The name of a pod that ignores SIGTERM. Pods of other abuses may not be on its node, and the deeds are done to it."""
_TRAP: Final = ["sh", "-c", "trap '' TERM; sleep 3000 & wait"]
_MANY: Final = 65_532
_ALLOWED_S: Final = 300
"""The default of hooks.longestGraceSeconds."""
_FOR_EVER_S: Final = 2**31 - 1
_PORT: Final = 18_080
_HOST: Final = "kubernetes.io/hostname"
_GPU: Final = "nvidia.com/gpu"


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """A request about a running pod; `part` is appended to the pod's path."""

    name: str
    method: str
    part: str = ""
    body: Body


DEEDS: Final = (
    Deed(name="resized-in-place", method="PATCH", part="/resize", body={
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    }),
    Deed(name="deleted-by-force", method="DELETE", body={"gracePeriodSeconds": 0}),
    Deed(name="deleted-for-ever", method="DELETE", body={"gracePeriodSeconds": _FOR_EVER_S}),
    Deed(name="evicted-by-force", method="POST", part="/eviction", body={
        "apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"gracePeriodSeconds": 0}
    }),
    Deed(name="evicted-for-ever", method="POST", part="/eviction", body={
        "apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"gracePeriodSeconds": _FOR_EVER_S}
    }),
)  # fmt: skip


class Place(msgspec.Struct, frozen=True, kw_only=True):
    image: str
    scheduler: str
    node: str

    def pod(
        self, *, grace_s: int = 1, resources: Body | None = None, spec: Body | None = None, **metadata: object
    ) -> Body:
        """Return a pod that asks for 10m of cpu and does not end by itself."""
        asked = {"requests": {"cpu": "10m", "memory": "8Mi"} | (resources or {}), "limits": resources or {}}
        main = {"name": "main", "image": self.image, "command": _TRAP, "resources": asked}
        own = {
            "schedulerName": self.scheduler, "terminationGracePeriodSeconds": grace_s, "containers": [main],
            "nodeSelector": {_HOST: self.node}, "automountServiceAccountToken": False,
        }  # fmt: skip
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own | (spec or {})}


def abuses(place: Place, *, replicas: int) -> Abuses:
    """Return the objects of all abuses by name. `replicas` pods exclude each other; half as many wait for a pod that
    does not exist, and half as many for a host port.
    """
    port = {"ports": [{"containerPort": 80, "hostPort": _PORT}]}
    probe = {"exec": {"command": ["false"]}, "terminationGracePeriodSeconds": _FOR_EVER_S}
    apart = {"app": "apart"}
    return {
        STUBBORN: _pods(1, place.pod(grace_s=_ALLOWED_S, labels=apart, spec=_with(place, port))),
        **_declarations(place),
        **_daemons(place),
        "grace-of-an-hour": _pods(3, place.pod(grace_s=3600)),
        "grace-for-ever": _pods(1, place.pod(grace_s=_FOR_EVER_S)),
        "grace-of-a-probe": _pods(1, place.pod(spec=_with(place, {"livenessProbe": probe}))),
        "named-node": _pods(3, place.pod(spec={"nodeName": place.node})),
        "singleton": _pods(10, place.pod(annotations={f"{names.PREFIX}dependency": "singleton"})),
        "exclusive-user": _pods(10, place.pod(annotations={f"{names.PREFIX}exclusive": "user"})),
        "not-counted": [
            *_pods(5, place.pod(resources={"ephemeral-storage": "10Pi"})),
            *_pods(5, place.pod(resources={"hugepages-2Mi": "64Gi"})),
            *_pods(5, place.pod(resources={"example.com/rdma": "1"})),
        ],
        "long-lists": [
            *_pods(2, place.pod(spec={"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(5000)]})),
            *_pods(2, place.pod(spec=_near("podAntiAffinity", *({"app": f"a{n}"} for n in range(2000))))),
        ],
        "apart": _pods(replicas, place.pod(labels=apart, spec=_near("podAntiAffinity", apart))),
        "near-nobody": _pods(replicas // 2, place.pod(spec=_near("podAffinity", {"app": "nobody"}))),
        "host-port": _pods(replicas // 2, place.pod(spec=_with(place, port))),
    }


def _pods(count: int, pod: Body) -> list[Body]:
    return [pod] * count


def _with(place: Place, container: Mapping[str, object]) -> Body:
    """Return the pod's only container with these fields added, as part of a spec."""
    spec = place.pod()["spec"]
    assert isinstance(spec, dict)
    return {"containers": [spec["containers"][0] | container]}


def _near(how: str, *labels: Mapping[str, str]) -> Body:
    terms = [{"labelSelector": {"matchLabels": each}, "topologyKey": _HOST} for each in labels]
    return {"affinity": {how: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _declarations(place: Place) -> Abuses:
    """Return pods that declare more pods or roles than a gang can have."""

    def annotated(gang: str, sizes: str) -> Body:
        said = {"gang": gang, "gang-role": "r0", "gang-roles": sizes}
        return place.pod(annotations={f"{names.PREFIX}{key}": value for key, value in said.items()})

    return {
        "places-by-annotation": [annotated(f"p{number}", f"r0=1,b={_MANY}") for number in range(5)],
        # The scheduler keeps only the beginning of a long annotation.
        "roles-by-annotation": [annotated("r", ",".join(f"r{number}=1" for number in range(20_000)))],
    }


def _daemons(place: Place) -> Abuses:
    """Return pods that name as owner a DaemonSet that does not exist, and a DaemonSet that no administrator lists."""
    kind = {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    nobody = {**kind, "name": "none", "uid": str(uuid.uuid4()), "controller": True}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [place.node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    by_name: Body = {"affinity": {"nodeAffinity": required}}
    gpu: Body = {_GPU: "1"}
    made = place.pod(resources=gpu, labels={"app": "daemon"})
    template = {"metadata": made["metadata"], "spec": made["spec"]}
    spec = {"selector": {"matchLabels": {"app": "daemon"}}, "template": template}
    return {
        "daemons-of-nobody": _pods(5, place.pod(spec=by_name, ownerReferences=[nobody])),
        "daemons-of-nobody-with-gpus": _pods(5, place.pod(spec=by_name, resources=gpu, ownerReferences=[nobody])),
        "daemonset-with-gpus": [{**kind, "metadata": {}, "spec": spec}],
    }
