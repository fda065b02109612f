"""Reads the objects that own pods, and their owners, each once, in the same way as the scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from sunkpy.core.gang.gang import Family, Link
from sunkpy.core.gang.owners import Above, Absence, climb
from sunkpy.core.model.objects import Owner, Pod
from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.kube.discovery import Served, explain_absent, read_served


class OwnerLookup:
    """Finds the owners of pods. It reads each owner once, when it first needs this owner, and keeps the result."""

    def __init__(self, kube: Kube, families: Iterable[Family]) -> None:
        self._kube = kube
        self._families = tuple(families)
        self._served: Served | None = None
        self._found: dict[Link, Owner | Absence] = {}
        self._unreadable: dict[Link, str] = {}

    async def above(self, pod: Pod) -> Above:
        """Return the owners above the pod, as far as they are known. If the pod's gang cannot be found without an
        object that is unreadable or does not exist, `waits_for` in the result names that object.

        Raises:
            KubeError: a read failed otherwise, for example because the apiserver did not answer.
        """
        while True:
            above = climb(pod, self._families, lambda link: self._found.get(link, Absence.UNKNOWN))
            if above.waits_for is None or above.waits_for in self._found:
                return above
            self._found[above.waits_for] = await self._read(above.waits_for)

    def why_unreadable(self, link: Link) -> str:
        """Return why this owner cannot be read; empty if it can, or is gone."""
        return self._unreadable.get(link, "")

    async def _read(self, link: Link) -> Owner | Absence:
        try:
            self._served = self._served or await read_served(self._kube)
            resource = self._served.find(link.kind)
            if resource is None:
                self._unreadable[link] = explain_absent(link.kind)
                return Absence.UNREADABLE
            owner = await self._kube.get(resource.path(link.namespace, link.name), Owner)
        except errors.NotFound:
            return Absence.GONE
        except errors.NotServed:
            self._unreadable[link] = explain_absent(link.kind)
            return Absence.UNREADABLE
        except errors.Forbidden as error:
            self._unreadable[link] = f"you may not read it: {error.message}"
            return Absence.UNREADABLE
        except errors.UnreadableAnswer as error:
            self._unreadable[link] = f"the answer cannot be read: {error.message}"
            return Absence.UNREADABLE
        return owner if link.leads_to(owner) else Absence.GONE
