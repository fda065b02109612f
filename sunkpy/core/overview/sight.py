"""What a viewer may see. Of others' pods it is said that there are some, and no more."""

from __future__ import annotations

from typing import Final

import msgspec

HIDDEN: Final = "a pod"


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """`namespaces`: whose pods have names; None: all. `user`: a Slurm user, who sees their own jobs and no more."""

    namespaces: frozenset[str] | None = frozenset()
    user: str = ""

    def sees_pods_of(self, namespace: str) -> bool:
        """Their names, and what is said of them."""
        return not self.user and (self.namespaces is None or namespace in self.namespaces)

    def sees_pod(self, pod: str) -> bool:
        """Its name, which is `namespace/name`."""
        return self.sees_pods_of(pod.partition("/")[0])

    def sees_jobs_of(self, user: str) -> bool:
        """Whether they are in its queue."""
        return not self.user or user == self.user


EVERYTHING: Final = Sight(namespaces=None)
