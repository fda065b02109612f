"""The family of gangs of Armada: bare pods, one for each Armada job, with the annotations `armadaproject.io/gangId` and
`gangCardinality`.

Users choose gang ids, which are unique within an Armada queue. Armada leases all pods of a gang together and makes them
one by one, each with a nodeSelector for the node that Armada has chosen (`sunkpy.core.gang.seating.named_nodes`). The
annotation `gangNodeUniformityLabel` names a node label: all nodes of the gang must have the same value of this label.
The nodes on which Armada runs have this label.

Source: armada internal/common/constants, internal/executor/util/kubernetes_object.go, docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import named_id
from sunkpy.core.gang.families.declaration import BadDeclaration, about, current, options_of, role, size_in
from sunkpy.core.gang.gang import Family, Gang, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod

GANG_ID: Final = "armadaproject.io/gangId"
CARDINALITY: Final = "armadaproject.io/gangCardinality"
UNIFORMITY: Final = "armadaproject.io/gangNodeUniformityLabel"
QUEUE: Final = "armada_queue_id"
GONE: Final = "Armada makes no pod again: it leases the job once more if the job may be retried"


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    name = pod.annotations.get(GANG_ID, "").strip()
    # Armada takes cardinality 1 for a single job.
    if not name or pod.annotations.get(CARDINALITY, "").strip() == "1":
        return None
    queue = pod.labels.get(QUEUE, "")
    identity = named_id(pod, GANG_ID, f"{queue}\0{name}")
    return msgspec.structs.replace(identity, name=named_id(pod, GANG_ID, name).name)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    with about(annotation=CARDINALITY):
        seats = _cardinality(current(pods))
    options, problems = options_of(pods, owners)
    return Gang(
        id=id,
        roles=(role("pod", pods, seats),),
        options=options,
        problems=problems,
        kind=f"Armada gang {id}",
        one_domain=pods[0].annotations.get(UNIFORMITY, ""),
        final_because=GONE,
    )


def _cardinality(pods: Sequence[Pod]) -> int:
    said = {pod.annotations.get(CARDINALITY, "") for pod in pods}
    if len(said) > 1:
        raise BadDeclaration(f"pods of a gang must agree: {' and '.join(repr(text[:40]) for text in sorted(said)[:2])}")
    return size_in(said.pop())


FAMILY = Family(
    name="Armada gang",
    known_by="annotations armadaproject.io/gangId and gangCardinality",
    identify=_identify,
    assemble=_assemble,
)
