"""Where pods may run, worked out once for all pods of a template, and again when somebody asks after a change of nodes.

A result that comes out as before is the same object: so it is cheap to see which of the gangs that wait a change of
nodes concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import cachetools
import msgspec

from sunkpy.core.model import matching
from sunkpy.core.model.objects import PodSpec
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.placement.eligibility import Candidate, TemplateEligibility, eligible_nodes, nowhere

_TEMPLATES: Final = 4096


@dataclass(slots=True)
class _Template:
    """The last result, and after how many changes of nodes it was worked out."""

    spec: PodSpec
    result: TemplateEligibility
    changes: int


class EligibilityCache:
    """`candidates` gives the nodes as they are now."""

    def __init__(self, candidates: Callable[[], Sequence[Candidate]], *, gpu_resources: Mapping[str, str]) -> None:
        self._candidates = candidates
        self._gpu_resources = gpu_resources
        self._templates: cachetools.LRUCache[bytes, _Template] = cachetools.LRUCache(_TEMPLATES)
        self._changes = 0

    def of(self, spec: PodSpec) -> TemplateEligibility:
        """Where such pods may run."""
        try:
            key = _signature(spec)
        except BadQuantity as error:
            return TemplateEligibility(key=b"", eligibility=nowhere(str(error)))
        template = self._templates.get(key)
        if template is None or template.changes != self._changes:
            template = self._templates[key] = self._worked_out(key, spec, template)
        return template.result

    def is_current(self, result: TemplateEligibility) -> bool:
        """It would come out the same now."""
        if not result.key:
            return True
        template = self._templates.get(result.key)
        return template is not None and self.of(template.spec) is result

    def nodes_changed(self) -> None:
        """Every result is to be worked out again when it is asked for."""
        self._changes += 1

    def _worked_out(self, key: bytes, spec: PodSpec, before: _Template | None) -> _Template:
        changes = self._changes
        found = eligible_nodes(spec, self._candidates(), gpu_resources=self._gpu_resources)
        if before is not None and before.result.eligibility == found:
            return _Template(spec, before.result, changes)
        return _Template(spec, TemplateEligibility(key=key, eligibility=found), changes)


def _signature(spec: PodSpec) -> bytes:
    return msgspec.json.encode(
        (spec.node_selector, spec.affinity, spec.tolerations, sorted(matching.pod_requests(spec).items()))
    )
