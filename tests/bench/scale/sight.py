"""What the bench sees of the slurmd pods, by one watch, and when it saw it."""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Pod, PodSpec, PodStatus
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from tests.bench.pod_watch import PodWatch


class Pods(PodWatch):
    """The pods of a namespace: how many, and which of them their Slurm node has drained."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        super().__init__(Informer(kube, paths.pods(namespace), Pod, keep=_kept))
        self._informer.add_handler(self._see)
        self.told: set[str] = set()
        self.drained: set[str] = set()

    def __len__(self) -> int:
        return len(self._informer)

    @property
    def names(self) -> list[str]:
        """Of all that are there."""
        return [pod.name for pod in self._informer.values()]

    def _see(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.is_condition_true(names.CONDITION_DRAIN):
            self.drained.add(new.name)
        elif old is not None:
            self.drained.discard(old.name)
        if new is not None and new.condition(names.CONDITION_DRAIN) is not None:
            self.told.add(new.name)


def _kept(pod: Pod) -> Pod:
    return Pod(metadata=pod.metadata, spec=PodSpec(), status=PodStatus(conditions=pod.status.conditions))
