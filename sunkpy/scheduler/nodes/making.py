"""For which resources of pods claims are made: those that stand for a known DeviceClass, and that no kubelet offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final

from sunkpy.core.gang.devices.made import classes_by_resource
from sunkpy.core.model.devices import DeviceClass
from sunkpy.core.model.objects import Node

_STOPPED_S: Final = 300.0


class Making:
    """Of one leader. `of_kubelets`: which of some resources device plugins offer. `on_change` is called when no claims
    are made any more, or again.
    """

    def __init__(
        self,
        of_kubelets: Callable[[Iterable[str]], Set[str]] = frozenset,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.on_change = on_change
        self.why_not = ""
        self._of_kubelets = of_kubelets
        self._by_claim: Mapping[str, str] | None = None

    def by_claim(self, classes: Callable[[], Iterable[DeviceClass]]) -> Mapping[str, str]:
        """Resource → DeviceClass."""
        if self._by_claim is None:
            found = classes_by_resource(classes())
            offered = self._of_kubelets(found)
            self._by_claim = {resource: name for resource, name in found.items() if resource not in offered}
        return self._by_claim

    def doubt(self) -> None:
        """Classes, or what kubelets offer, may be others than before."""
        self._by_claim = None

    def stop(self, why: str) -> None:
        """The apiserver does not keep for whom a claim was made: no pod that needs one gets a job for a while."""
        self.why_not = why
        self.on_change()
        asyncio.get_running_loop().call_later(_STOPPED_S, self._begin_again)

    def _begin_again(self) -> None:
        self.why_not = ""
        self.on_change()


def offered_by_kubelets(nodes: Callable[[], Iterable[Node]], own: str, resources: Iterable[str]) -> frozenset[str]:
    """Those of the resources that device plugins hand out on some node, and `own`, of sunkpy's own plugin."""
    there = {name for node in nodes() for name, amount in node.status.allocatable.items() if amount != "0"}
    return frozenset(resources) & (there | {own})
