"""What a viewer of the page or commands may see. Pods that they may not see have no names there, or are left out."""

from __future__ import annotations

from typing import Final

import msgspec

HIDDEN: Final = "a pod"


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What one viewer may see. `namespaces`: whose pods are shown with names; None means all.

    `user`: if set, the viewer is this Slurm user and sees only their own jobs.
    """

    namespaces: frozenset[str] | None = frozenset()
    user: str = ""

    @property
    def sees_all_pods(self) -> bool:
        """True if the viewer may see the names of pods in all namespaces."""
        return not self.user and self.namespaces is None

    def sees_pods_of(self, namespace: str) -> bool:
        """True if the viewer may see the names of pods in this namespace, and messages about them."""
        return self.sees_all_pods or (not self.user and namespace in (self.namespaces or ()))

    def sees_pod(self, pod: str) -> bool:
        """True if the viewer may see the name of a pod, `namespace/name`."""
        return self.sees_pods_of(pod.partition("/")[0])

    def sees_jobs_of(self, user: str) -> bool:
        """True if the viewer may see the jobs of this Slurm user."""
        return not self.user or user == self.user


EVERYTHING: Final = Sight(namespaces=None)
