"""What is used of the official client. The rest is loaded when somebody uses it: it took a third of a command's start.

`import kubernetes` imports all of its parts, for threads and for asyncio, and below them requests, oauthlib and
jsonschema. Of the parts that stand beside those named in `_USED` only the names are made here
(`importlib.util.LazyLoader`); they work as ever for whoever else imports them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Final

_PACKAGES: Final = ("kubernetes", "kubernetes.aio")
_USED: Final = ("kubernetes.aio", "kubernetes.aio.client", "kubernetes.aio.config", "kubernetes.aio.utils")


class _Later(MetaPathFinder):
    """Finds the other parts, and does not run them yet."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None: found as ever."""
        if fullname.rpartition(".")[0] not in _PACKAGES or fullname in _USED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


_later = _Later()
sys.meta_path.insert(0, _later)
try:
    from kubernetes.aio import config
    from kubernetes.aio.client.api_client import ApiClient
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.client.rest import RESTClientObject
finally:
    sys.meta_path.remove(_later)

__all__ = ["ApiClient", "Configuration", "RESTClientObject", "config"]
