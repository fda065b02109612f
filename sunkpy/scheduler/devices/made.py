"""Creates ResourceClaims for pods that ask for devices as an extended resource, if apiserver and kubelet support that.

If the feature gate for this is off in one of them, the pod would run without its devices, and no error would say so. So
the kubelet is asked before each binding. The scheduler also writes the name of the claim into the pod's status. An
apiserver with the gate off answers 200 to this write, but drops the name; so the answer is checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.devices.chosen import Chosen, DeviceLack, lacking
from sunkpy.core.model.devices import MADE, PROTECTION, ResourceClaim
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.placement.admission import Admission, Verdict
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import read_answer
from sunkpy.kube.kubelet import feature_gates
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.devices.watch import Devices
from sunkpy.scheduler.settings import SchedulerSettings

GATE: Final = "DRAExtendedResource"
_TOKEN_S: Final = 600


class Refused(Exception):
    """The error that `pod` cannot be bound to `node`. The text says why, and what a person can do about it.
    `is_of_others` is True if other pods are in the way, which may leave.
    """

    def __init__(self, pod: Pod, why: str, *, node: str = "", is_of_others: bool = False) -> None:
        super().__init__(why)
        self.pod = pod
        self.node = node
        self.is_of_others = is_of_others

    @property
    def kind(self) -> str:
        """The text without the node's name, so that refusals of several nodes can be compared. It is empty if other
        pods are in the way: then another node may well accept the pod.
        """
        if self.is_of_others:
            return ""
        return str(self).replace(self.node, "N") if self.node else str(self)


class ClaimMaker:
    """Creates ResourceClaims for pods that ask for devices as an extended resource; each leader has its own claim
    maker. `mark`: the annotation of all claims to which this scheduler gives devices.
    """

    def __init__(
        self, kube: Kube, devices: Devices, settings: SchedulerSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._devices = devices
        self.mark = {names.ANNOTATION_ALLOCATED_BY: settings.scheduler_name}
        self._account = paths.service_account_token(settings.namespace, settings.kubelet_account)
        self._clock = clock
        self._token, self._renew_at = "", 0.0

    async def blind(self, nodes: Mapping[str, Node]) -> dict[str, Admission]:
        """Return the nodes, by name, whose kubelet would ignore a claim that was created for an extended resource, each
        with the reason. A node whose kubelet does not say whether it would is returned, too.
        """
        found: dict[str, Admission] = {}

        async def ask(name: str, node: Node) -> None:
            try:
                port = node.status.daemon_endpoints.kubelet_endpoint.port
                gates = await feature_gates(node.internal_ip, port, token=await self._kubelet_token())
            except errors.KubeError as error:
                why = f"the kubelet of node {name} does not say whether its gate {GATE} is on: {error}"
                found[name] = lacking(DeviceLack.GATE, why)
                return
            if not gates.get(GATE):
                why = (
                    f"the kubelet of node {name} has gate {GATE} off and would run the pod without its devices: {_CURE}"
                )
                found[name] = lacking(DeviceLack.GATE, why, verdict=Verdict.REFUSE)

        await fan_out(partial(ask, name, node) for name, node in nodes.items())
        return found

    async def _kubelet_token(self) -> str:
        if self._clock() >= self._renew_at:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
            answer = await self._kube.create(self._account, {**body, "spec": {"expirationSeconds": _TOKEN_S}})
            self._token = read_answer(f"POST {self._account}", answer, _TokenRequest).status.token
            self._renew_at = self._clock() + _TOKEN_S / 2
        return self._token

    async def make(self, chosen: Chosen) -> ResourceClaim:
        """Create the claim for a pod in the apiserver and return it. From the start it has the finalizer that protects
        it, and the annotation of this scheduler.

        Raises:
            KubeError: the claim was not created.
        """
        pod, claim = chosen.pod, chosen.claim
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        metadata = {
            "name": claim.name,
            "annotations": {MADE: "true", **self.mark},
            "ownerReferences": [owner],
            "finalizers": [PROTECTION],
        }
        body = {"metadata": metadata, "spec": msgspec.to_builtins(claim.spec)}
        path = paths.resource_claims(pod.metadata.namespace)
        made = read_answer(f"POST {path}", await self._kube.create(path, body), ResourceClaim)
        self._devices.take(made)
        return made

    async def tell(self, chosen: Chosen) -> None:
        """Write into the pod's status which container gets which request of the claim that was created for the pod.
        Nothing happens if the claim was not created by the scheduler.

        Raises:
            KubeError: the status was not written.
            Refused: the apiserver dropped that part of the status, or the claim has other requests than the pod needs.
        """
        pod, made_status = chosen.pod, chosen.made_status
        if made_status is None:
            return
        requests = {each.name for each in chosen.claim.spec.devices.requests}
        if {each.request_name for each in made_status.request_mappings} != requests:
            raise Refused(pod, f"claim {chosen.claim.name} is not for what pod {pod.name} asks for: delete it")
        body = {
            "metadata": {"uid": pod.uid},
            "status": {"extendedResourceClaimStatus": msgspec.to_builtins(made_status)},
        }
        path = paths.status(paths.pod(*pod.key))
        written = read_answer(f"PATCH {path}", await self._kube.patch(path, body), Pod)
        if written.status.extended_resource_claim_status != made_status:
            raise Refused(pod, f"the apiserver drops a pod's extendedResourceClaimStatus (gate {GATE} is off): {_CURE}")


_CURE: Final = "turn the gate on at apiserver and kubelets, or ask for the devices by a ResourceClaim"


class _Token(msgspec.Struct, frozen=True):
    token: str = ""


class _TokenRequest(msgspec.Struct, frozen=True):
    status: _Token = _Token()
