"""The interface by which the page reads the pool; the readers of the command line implement it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sunkpy.core.explain.explanation import Explanation
from sunkpy.core.overview.history import History
from sunkpy.core.page.tables import PageFacts


class Story(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The page's detail view of one pod, gang, node or job: explanations, and a node's history."""

    explanations: Sequence[Explanation] = ()
    history: History | None = None


class PageSource(Protocol):
    """Reads Slurm and Kubernetes for the page. All methods raise `KubeError` if the apiserver cannot be read.

    `sees_all_pods`: the viewer may see the names of pods in all namespaces. If not, an answer about a pod or gang names
    no pods and claims of other namespaces, and an answer about a node names no workload pods.
    """

    async def read(self) -> PageFacts:
        """Read the pool and sunkpy's Events. The result names what could not be read."""

    async def explain_pod(self, namespace: str, name: str, *, sees_all_pods: bool) -> Story:
        """Return why a pod is in its state, and what a person can do about it."""

    async def explain_gang(self, namespace: str, name: str, *, sees_all_pods: bool) -> Story:
        """Return why gangs are in their state: those with this name, or with an owner of this name."""

    async def explain_node(self, name: str, *, sees_all_pods: bool) -> Story:
        """Return a node's history and, if the viewer sees all pods, who has its devices."""
