"""Where the page gets what it shows: the same readers that answer on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sunkpy.core.explain.explanation import Explanation
from sunkpy.core.overview.history import History
from sunkpy.core.page.tables import PageFacts


class Story(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The text about one thing."""

    explanations: Sequence[Explanation] = ()
    history: History | None = None


class PageSource(Protocol):
    """Reads for the page. All methods raise `KubeError`."""

    async def read(self) -> PageFacts:
        """Read both sides. The result names what could not be read."""

    async def explain_pod(self, namespace: str, name: str) -> Story:
        """A pod."""

    async def explain_gang(self, namespace: str, name: str) -> Story:
        """Gangs of that name, or below an owner of that name."""

    async def explain_node(self, name: str, *, with_devices: bool) -> Story:
        """A node, its past, and who has its devices: that names pods of all namespaces."""
