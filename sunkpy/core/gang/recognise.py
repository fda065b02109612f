"""From a pod and its owners to the gang that it belongs to.

Each family of workloads is one recogniser in `_RECOGNISERS`: a function that returns the gang, or None when the pod
is not of its family. The last one takes every pod as a gang of one. A new family is one more line there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from sunkpy.core.gang.options import JobOptions, Problem, read_options
from sunkpy.core.model.objects import Key, KubeObject, Pod


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that become one Slurm job.

    `uid` identifies the gang in the comment of its job: it is the uid of the object that makes the pods belong
    together, for a plain pod its own. `members` are in rank order; fewer than `minimum` are not submitted.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    members: tuple[Pod, ...]
    minimum: int
    options: JobOptions
    problems: tuple[Problem, ...] = ()

    @property
    def key(self) -> Key:
        """Namespace and name of the object whose uid the gang carries."""
        return (self.namespace, self.name)


Recogniser = Callable[[Pod, Sequence[KubeObject]], Gang | None]


def recognise(pod: Pod, owners: Sequence[KubeObject] = ()) -> Gang:
    """The gang of a pod; `owners` are the objects above it, nearest first, as far as they could be read."""
    return next(gang for recogniser in _RECOGNISERS if (gang := recogniser(pod, owners)) is not None)


def _plain_pod(pod: Pod, owners: Sequence[KubeObject]) -> Gang:
    options, problems = read_options([pod.annotations, *(owner.annotations for owner in owners)])
    return Gang(
        kind="Pod",
        namespace=pod.metadata.namespace,
        name=pod.name,
        uid=pod.uid,
        members=(pod,),
        minimum=1,
        options=options,
        problems=problems,
    )


_RECOGNISERS: tuple[Recogniser, ...] = (_plain_pod,)
