"""Imports the parts of the official Kubernetes client that sunkpy uses. The other parts are loaded only if somebody
uses them, because loading them took a third of the time in which a command starts.

`import kubernetes` imports all parts of the client, for threads and for asyncio, and with them requests, oauthlib and
jsonschema. In place of each part that `_USED` does not name, an empty module is made (`importlib.util.LazyLoader`),
which loads itself at its first use.
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
    """An import hook that postpones the loading of those parts of the official client that sunkpy does not use."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec with which the module is loaded at its first use; None for a module that is to be imported as
        usual.
        """
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
