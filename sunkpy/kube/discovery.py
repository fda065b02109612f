"""Finds out which kinds the apiserver serves, and at which paths, because clusters differ in both.

All kinds come in one answer for the named API groups and one for the group without a name (aggregated discovery,
KEP-3352, stable since Kubernetes 1.30), so the cost does not depend on how many kinds are looked for.

If an answer lacks a kind, that does not prove that the cluster has no such kind. An apiserver that has just started
learns of its CRDs a moment later, and an aggregated apiserver behind it may not answer for its groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from sunkpy.core.model.objects import Kind
from sunkpy.kube import paths
from sunkpy.kube.client import Kube

_FORM: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A kind in one API version, as the apiserver serves it. `plural` is the name of the kind in paths and roles."""

    kind: Kind
    api_version: str
    plural: str
    namespaced: bool

    @property
    def title(self) -> str:
        """The resource with its group, as in a role and on the command line: `jobsets.jobset.x-k8s.io`."""
        return f"{self.plural}.{self.kind.group}" if self.kind.group else self.plural

    @property
    def collection(self) -> str:
        """The path of all objects of the resource, in all namespaces."""
        return paths.collection(self.api_version, self.plural)

    def path(self, namespace: str, name: str) -> str:
        """Return the path of one object. The namespace does not matter for a kind that has none.

        The name is quoted, because a pod may name any text as its owner.
        """
        within = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{paths.root(self.api_version)}{within}/{self.plural}/{quote(name, safe='')}"


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds that the apiserver serves, according to one answer.

    `resources`: each kind in its versions, the preferred one first. `uncertain`: API groups that the apiserver marks as
    stale: what the answer says about their kinds may be old.
    """

    resources: Mapping[Kind, tuple[Resource, ...]] = {}
    uncertain: frozenset[str] = frozenset()

    def find(self, kind: Kind, *, rather: Resource | None = None) -> Resource | None:
        """Return the resource under which the kind is served; None if this answer lacks the kind. `rather`: the
        resource to return, in place of the preferred version, if the kind is still served there.
        """
        found = self.resources.get(kind, ())
        return rather if rather in found else next(iter(found), None)


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    scope: str = ""
    response_kind: _Kind | None = None


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_Entry, ...] = ()
    freshness: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()
    versions: tuple[_Version, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    """An answer of aggregated discovery. An answer without `items` has another form, and cannot be used."""

    items: tuple[_Group, ...]


async def read_served(kube: Kube) -> Served:
    """Ask the apiserver for all kinds that it serves.

    Raises:
        KubeError: the apiserver could not be asked.
    """
    groups = [group for path in ("/api", "/apis") for group in (await kube.get(path, _Groups, accept=_FORM)).items]
    resources: dict[Kind, list[Resource]] = defaultdict(list)
    for group in groups:
        for resource in _of_group(group):
            resources[resource.kind].append(resource)
    stale = (group.metadata.name for group in groups if any(each.freshness == "Stale" for each in group.versions))
    return Served(resources={kind: tuple(found) for kind, found in resources.items()}, uncertain=frozenset(stale))


def explain_absent(kind: Kind) -> str:
    """Return the message that the apiserver does not serve this kind."""
    name = f"{kind.kind} of {kind.group}" if kind.group else kind.kind
    return f"the apiserver knows no kind {name}: its CRD is not installed"


def _of_group(group: _Group) -> Iterable[Resource]:
    name = group.metadata.name
    for version in group.versions:
        api_version = f"{name}/{version.version}" if name else version.version
        for entry in version.resources:
            if entry.response_kind is not None and entry.response_kind.kind:
                kind = Kind(group=name, kind=entry.response_kind.kind)
                is_namespaced = entry.scope != "Cluster"
                yield Resource(kind=kind, api_version=api_version, plural=entry.resource, namespaced=is_namespaced)
