"""What pods with a job hold on each node of what Slurm does not count, kept from the watch of own pods."""

from __future__ import annotations

from collections.abc import Collection

from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod, PodSpec
from sunkpy.core.placement.occupancy import is_without_job, uncounted


class Held:
    """Amounts by Kubernetes node. `gpu_resources`: the extended resources that Slurm counts."""

    def __init__(self, *, gpu_resources: Collection[str]) -> None:
        self._gpu_resources = frozenset(gpu_resources)
        self.by_node: dict[str, matching.Amounts] = {}

    def needs(self, spec: PodSpec) -> matching.Amounts:
        """What such a pod needs of what Slurm does not count."""
        return uncounted(spec, gpu_resources=self._gpu_resources)

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of the watch of own pods."""
        if old is not None and new is not None and old.spec == new.spec and _holds(old) == _holds(new):
            return
        if old is not None and _holds(old):
            self._put(old, matching.subtracted(self._on(old), self.needs(old.spec)))
        if new is not None and _holds(new):
            self._put(new, matching.added(self._on(new), self.needs(new.spec)))

    def _on(self, pod: Pod) -> matching.Amounts:
        return self.by_node.get(pod.spec.node_name, {})

    def _put(self, pod: Pod, amounts: matching.Amounts) -> None:
        left = {name: amount for name, amount in amounts.items() if amount}
        if left:
            self.by_node[pod.spec.node_name] = left
        else:
            self.by_node.pop(pod.spec.node_name, None)


def _holds(pod: Pod) -> bool:
    """As the kubelet counts: what has not finished. Pods without a job count as those of others (`Occupancy`)."""
    return bool(pod.spec.node_name) and not pod.is_finished and not is_without_job(pod)
