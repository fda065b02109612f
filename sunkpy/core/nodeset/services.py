"""What a rolling update has to know before it replaces a slurmd under services, which are jobs without a process on the
node: which jobs are there, and whether the same Slurm node comes back.

The syncer proves that the jobs outlive their slurmd (`core.mirror.services`); `rollout.choose_replaceable` then chooses
the pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.naming import remembered_name
from sunkpy.core.nodeset.slurmd_pod import features, is_offer_of, offer
from sunkpy.core.nodeset.spec import NodeSet


def has_successor(nodeset: NodeSet, node: Node | None, pod: Pod) -> bool:
    """True if a pod that is made now on this node would be the same Slurm node as this pod, of the same size and
    features.

    While a node has jobs, Slurm keeps its record, and rejects a slurmd smaller than the record with INVALID_REG. False
    for a cordoned node, which may get no new pod; for a pod of an older operator, which wrote no annotations to
    compare; and if the site has a check before slurmd, because slurmctld may give up the node with its services before
    the check ends.
    """
    if node is None or not node.is_ready or node.spec.unschedulable or pod.is_deleting or pod.is_finished:
        return False
    if has_check(nodeset):
        return False
    return (
        remembered_name(nodeset, node) == pod.name
        and pod.labels.get(names.LABEL_CLUSTER) == nodeset.spec.cluster
        and is_offer_of(pod, offer(nodeset, node))
        and pod.annotations.get(names.ANNOTATION_FEATURES) == features(nodeset, node)
        and pod.annotations.get(names.ANNOTATION_SMT, "") == nodeset.spec.smt
    )


def has_check(nodeset: NodeSet) -> bool:
    """True if a check of the site runs in the NodeSet's pods before slurmd."""
    meta = nodeset.spec.template.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    return isinstance(notes, dict) and names.ANNOTATION_VERIFY_SECONDS in notes


def jobs_of_pods(occupants: Iterable[Pod]) -> str:
    """Return the job IDs in the annotations of the pods on a node, `12,15` or empty. They are a hint, which the syncer
    checks in Slurm.
    """
    notes = {pod.annotations.get(names.ANNOTATION_JOB_ID, "") for pod in occupants if not pod.is_finished}
    return ",".join(sorted(note for note in notes if note.isascii() and note.isdecimal()))
