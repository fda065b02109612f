"""Objects by which another program asks that a node be drained, and waits for the answer: NVSentinel's DrainRequest.

NVSentinel makes one in place of evicting pods, for Nodes that its `customDrain.nodeSelector` chooses; its settings name
group, version and kind, and the condition that ends its wait. Source: docs.nvidia.com/nvsentinel, writing a drain
plugin.
"""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Condition, KubeObject, Wire


class DrainRequestSpec(Wire, frozen=True, kw_only=True):
    """The Node that is to be drained, and why."""

    node_name: str = ""
    check_name: str = ""
    reason: str = ""


class DrainRequestStatus(Wire, frozen=True, kw_only=True):
    """The conditions by which requests are answered."""

    conditions: tuple[Condition, ...] = ()


class DrainRequest(KubeObject, frozen=True, kw_only=True):
    """An object by which another program asks for a drain of a Node."""

    spec: DrainRequestSpec = DrainRequestSpec()
    status: DrainRequestStatus = DrainRequestStatus()

    @property
    def text(self) -> str:
        """The name of the request, and why it was made, for people."""
        why = " ".join(filter(None, (self.spec.check_name, self.spec.reason)))
        return f"{'/'.join(filter(None, self.key))}" + (f": {why}" if why else "")

    def is_answered(self, condition: str) -> bool:
        """True if the request has that condition."""
        return any(each.type == condition and each.status == "True" for each in self.status.conditions)

    def answered(self, condition: str, node: str, at: str) -> tuple[Condition, ...]:
        """All conditions of the request, with that one."""
        answer = Condition(
            type=condition,
            status="True",
            reason="Drained",
            message=f"the Slurm node of {node} is drained, and no job runs there",
            last_transition_time=at,
        )
        return (*(each for each in self.status.conditions if each.type != condition), answer)


class DrainRequests(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Where DrainRequests are read, as values say; none if `api_version` is empty. `resource`: their kind in URLs.
    `condition`: the answer.
    """

    api_version: str = ""
    resource: str = "drainrequests"
    namespace: str = "nvsentinel"
    condition: str = "DrainComplete"
