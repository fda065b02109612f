"""The family of pods that start with no others: each is a gang of one, with the pod's name and uid as its identity.

This family has the pods of a Deployment, ReplicaSet or StatefulSet (Parallel or ordered), and those of workloads that
are built of these: Knative and KServe revisions, the JobManager and the TaskManagers of Flink, the parts of Pulsar.
Each of these pods can be evicted alone, and its controller replaces it. Bare pods, which nothing replaces, belong here,
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.families.belonging import top
from sunkpy.core.gang.gang import Family, Gang, Owners, solo
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.options import Problem, read_options
from sunkpy.core.model.objects import Pod

BARE: Final = "nothing makes a bare pod again"
_NOT_IN_TEMPLATE: Final = Problem(
    annotation=names.ANNOTATION_GANG,
    text="has no effect on the owner of pods; write it into the pod template",
    fatal=False,
)


def own_id(pod: Pod) -> GangId:
    """Return the identity of the gang that is this pod alone: the pod's namespace, name and uid."""
    return GangId(namespace=pod.metadata.namespace, name=pod.name, uid=pod.uid)


def alone(id: GangId, pod: Pod, owners: Owners) -> Gang:
    """Return a gang that is this pod alone, so the pod has a job of its own. Annotations of the pod and of its owners
    set the options of the job.
    """
    options, problems = read_options([(pod.name, pod.annotations)], [owner.annotations for owner in owners])
    above = {annotation for owner in owners for annotation in owner.annotations}
    if names.ANNOTATION_GANG in above - pod.annotations.keys():
        problems = (*problems, _NOT_IN_TEMPLATE)
    workload = top(pod, owners)
    return msgspec.structs.replace(
        solo(id, pod, options, problems),
        kind=f"{workload}, pod {pod.name}" if workload else f"Pod {'/'.join(pod.key)}",
        final_because="" if workload else BARE,
    )


def _identify(pod: Pod, _owners: Owners) -> GangId:
    return own_id(pod)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    return alone(id, pods[0], owners)


FAMILY = Family(
    name="plain pod", known_by="nothing declares that it starts with others", identify=_identify, assemble=_assemble
)
