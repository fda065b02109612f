"""Where the objects of a kind live: asked of the apiserver, for people bring kinds and versions of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from sunkpy.core.model.objects import Kind
from sunkpy.kube import errors
from sunkpy.kube.client import Kube

_ABSENT_S: Final = 10.0
"""So long it is believed that there is no such kind: a CRD may be made later."""


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a kind in the version that the apiserver prefers; `plural` as rights name them."""

    kind: Kind
    api_version: str
    plural: str
    namespaced: bool

    @property
    def title(self) -> str:
        """`jobsets.jobset.x-k8s.io`, as in a role and on the command line."""
        return f"{self.plural}.{self.kind.group}" if self.kind.group else self.plural

    @property
    def collection(self) -> str:
        """Path of all objects, of all namespaces."""
        return f"{_root(self.api_version)}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Path of one object; the namespace does not matter for a kind that has none."""
        within = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{_root(self.api_version)}{within}/{self.plural}/{name}"


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    versions: tuple[_Version, ...] = ()
    preferred_version: _Version = _Version()


class _Entry(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = True


class _Entries(msgspec.Struct, frozen=True):
    resources: tuple[_Entry, ...] = ()


class Discovery:
    """Answers are kept; that there is none, for a short while. `clock` is monotonic, in seconds."""

    def __init__(self, kube: Kube, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._found: dict[Kind, Resource] = {}
        self._absent_since: dict[Kind, float] = {}

    async def find(self, kind: Kind) -> Resource | None:
        """Where the kind lives; None when the apiserver does not know it.

        Raises:
            KubeError: it could not be asked.
        """
        if kind in self._found:
            return self._found[kind]
        if self._clock() - self._absent_since.get(kind, float("-inf")) < _ABSENT_S:
            return None
        for version in await self._versions(kind.group):
            for entry in await self._entries(version):
                if entry.kind == kind.kind and "/" not in entry.name:
                    found = Resource(kind=kind, api_version=version, plural=entry.name, namespaced=entry.namespaced)
                    self._found[kind] = found
                    return found
        self._absent_since[kind] = self._clock()
        return None

    def forget(self, kind: Kind) -> None:
        """It is not where it was."""
        self._found.pop(kind, None)

    async def _versions(self, group: str) -> list[str]:
        """The versions of a group, the preferred one first."""
        if not group:
            return ["v1"]
        try:
            found = await self._kube.get(f"/apis/{group}", _Group)
        except errors.NotFound:
            return []
        return list(dict.fromkeys(each.group_version for each in (found.preferred_version, *found.versions)))

    async def _entries(self, version: str) -> tuple[_Entry, ...]:
        try:
            return (await self._kube.get(_root(version), _Entries)).resources
        except errors.NotFound:
            return ()


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
