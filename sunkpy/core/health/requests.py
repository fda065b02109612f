"""NVSentinel's DrainRequest: an object by which another program asks for a drain of a Node and waits for the answer.

NVSentinel creates one instead of evicting pods, for Nodes that its `customDrain.nodeSelector` chooses. NVSentinel's
settings name the group, version and kind of the object, and the condition that ends its wait. Source:
docs.nvidia.com/nvsentinel, writing a drain plugin.
"""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Condition, KubeObject, Wire


class DrainRequestSpec(Wire, frozen=True, kw_only=True):
    """The spec of a DrainRequest: which Node is to be drained, and why."""

    node_name: str = ""
    check_name: str = ""
    reason: str = ""


class DrainRequestStatus(Wire, frozen=True, kw_only=True):
    """The status of a DrainRequest: one of its conditions is the answer."""

    conditions: tuple[Condition, ...] = ()


class DrainRequest(KubeObject, frozen=True, kw_only=True):
    """A DrainRequest object, by which another program asks for a drain of a Node."""

    spec: DrainRequestSpec = DrainRequestSpec()
    status: DrainRequestStatus = DrainRequestStatus()

    @property
    def text(self) -> str:
        """The name of the request and its reason, as one line for people."""
        why = " ".join(filter(None, (self.spec.check_name, self.spec.reason)))
        return f"{'/'.join(filter(None, self.key))}" + (f": {why}" if why else "")

    def is_answered(self, condition: str) -> bool:
        """True if the request's condition of this type is True: the drain that it asked for is done."""
        return any(each.type == condition and each.status == "True" for each in self.status.conditions)

    def answered(self, condition: str, node: str, at: str) -> tuple[Condition, ...]:
        """Return all conditions of the request, with the one of type `condition` set to True: Node `node` is drained
        since `at`.
        """
        answer = Condition(
            type=condition,
            status="True",
            reason="Drained",
            message=f"the Slurm node of {node} is drained, and no job runs there",
            last_transition_time=at,
        )
        return (*(each for each in self.status.conditions if each.type != condition), answer)


class DrainRequests(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The chart's value that says where DrainRequests are; sunkpy reads none if `api_version` is empty.

    `resource`: their kind in URLs, in the plural. `condition`: the condition that answers a request.
    """

    api_version: str = ""
    resource: str = "drainrequests"
    namespace: str = "nvsentinel"
    condition: str = "DrainComplete"
