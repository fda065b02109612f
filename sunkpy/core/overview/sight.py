"""What a viewer may see. About pods of others it is only shown that there are some."""

from __future__ import annotations

from typing import Final

import msgspec

HIDDEN: Final = "a pod"


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """`namespaces`: whose pods have names; None: all. `user`: a Slurm user, who sees only their own jobs."""

    namespaces: frozenset[str] | None = frozenset()
    user: str = ""

    def sees_pods_of(self, namespace: str) -> bool:
        """True if the viewer may see names of pods in a namespace, and what is said about them."""
        return not self.user and (self.namespaces is None or namespace in self.namespaces)

    def sees_pod(self, pod: str) -> bool:
        """True if the viewer may see the name of a pod, `namespace/name`."""
        return self.sees_pods_of(pod.partition("/")[0])

    def sees_jobs_of(self, user: str) -> bool:
        """True if the viewer may see jobs of a Slurm user."""
        return not self.user or user == self.user


EVERYTHING: Final = Sight(namespaces=None)
