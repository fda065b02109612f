"""Which feature gates this Kubernetes cannot turn off. A test of what happens without them has nothing to show then."""

from __future__ import annotations

from devcluster.binaries import KUBERNETES_VERSION

_MINOR = tuple(map(int, KUBERNETES_VERSION.split(".")[:2]))

ALWAYS_FOR_RESOURCES = _MINOR >= (1, 37)
"""Claims that are made for pods that ask for a resource (DRAExtendedResource)."""
