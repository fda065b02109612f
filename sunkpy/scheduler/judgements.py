"""Where pods may run, judged once for all pods of a template, and anew only when somebody asks after a change.

A judgement that comes out as before is the same object: so it is seen cheaply which of the gangs that wait have
something to gain from a change of a node, or to lose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import cachetools
import msgspec

from sunkpy.core.model import matching
from sunkpy.core.model.objects import PodSpec
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.placement.eligibility import Candidate, Eligibility, eligible_nodes

_TEMPLATES: Final = 4096


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Of pods that ask alike, which is what `key` says; empty when they cannot be judged."""

    key: bytes
    eligibility: Eligibility


class Judgements:
    """`candidates` gives the nodes as they are now."""

    def __init__(self, candidates: Callable[[], Sequence[Candidate]], *, gpu_resources: Mapping[str, str]) -> None:
        self._candidates = candidates
        self._gpu_resources = gpu_resources
        self._specs: cachetools.LRUCache[bytes, PodSpec] = cachetools.LRUCache(_TEMPLATES)
        self._last: cachetools.LRUCache[bytes, Judgement] = cachetools.LRUCache(_TEMPLATES)
        self._fresh: cachetools.LRUCache[bytes, bool] = cachetools.LRUCache(_TEMPLATES)

    def of(self, spec: PodSpec) -> Judgement:
        """Where such pods may run."""
        try:
            key = _signature(spec)
        except BadQuantity as error:
            return Judgement(key=b"", eligibility=Eligibility(eligible=(), refused={"": str(error)}))
        self._specs[key] = spec
        return self._judge(key)

    def still_holds(self, judgement: Judgement) -> bool:
        """It would come out the same now."""
        if not judgement.key:
            return True
        return judgement.key in self._specs and self._judge(judgement.key) is judgement

    def nodes_changed(self) -> None:
        """Every judgement is to be made anew when it is asked for."""
        self._fresh.clear()

    def _judge(self, key: bytes) -> Judgement:
        last = self._last.get(key)
        if last is not None and key in self._fresh:
            return last
        found = eligible_nodes(self._specs[key], self._candidates(), gpu_resources=self._gpu_resources)
        if last is None or last.eligibility != found:
            last = self._last[key] = Judgement(key=key, eligibility=found)
        self._fresh[key] = True
        return last


def _signature(spec: PodSpec) -> bytes:
    return msgspec.json.encode(
        (spec.node_selector, spec.affinity, spec.tolerations, sorted(matching.pod_requests(spec).items()))
    )
