"""Watches PersistentVolumeClaims, PersistentVolumes, StorageClasses and the free storage that drivers report, and
writes the selected node on claims.

If the class of a claim has the binding mode WaitForFirstConsumer, the claim gets no volume before a scheduler has
written the node of its pod on it (`selected-node`). A provisioner that cannot make the volume on that node removes the
annotation again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from sunkpy.core.model.objects import Key, KubeObject, Node, Pod
from sunkpy.core.model.storage import (
    SELECTED_NODE,
    Claim,
    ClaimReference,
    Driver,
    FreeStorage,
    StorageClass,
    Volume,
    VolumeSpec,
)
from sunkpy.core.placement.free_storage import Asked, FreeRoom, decides
from sunkpy.core.placement.volumes import (
    Storage,
    claims_awaited,
    claims_to_place,
    claims_under_way,
    claims_used,
    find_user,
    given_back,
    storage_asked,
    why_out_of_reach,
)
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.runtime.groups import Watched
from sunkpy.scheduler.owners.watch import OnUnreadable

_GATHERED_S: Final = 0.5
_AT_ONCE: Final = 32


class Volumes:
    """Watches volumes and the claims for them.

    Args:
        on_claim: called with each waiting pod whose claim or volume has changed.
        on_free_storage: called with each waiting pod whose volume can perhaps be made on other nodes now.
        on_change: called if a change may concern pods of any claim.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        on_claim: Callable[[Pod], None],
        on_free_storage: Callable[[Pod], None],
        on_change: Callable[[], None],
        on_unreadable: OnUnreadable,
    ) -> None:
        self._kube = kube
        self._on_claim = on_claim
        self._on_free_storage = on_free_storage
        self._on_change = on_change
        self._chosen: dict[str, str] = {}
        self._given_back: dict[str, str] = {}
        self.used: Watched[Key, Pod] = Watched(claims_used)
        """The scheduler's pods that are on nodes, by the claims that they use."""
        self.awaited: Watched[Key, Pod] = Watched(claims_awaited)
        """The scheduler's pods that have no node yet, by the claims that they need."""
        on_claim_odd = partial(on_unreadable, "PersistentVolumeClaim")
        self._asking: Watched[Asked, Claim] = Watched(storage_asked)
        self._claims = Informer(kube, paths.ALL_CLAIMS, Claim, tell=on_claim_odd, are_large=True)
        self._volumes = Informer(kube, paths.VOLUMES, Volume, tell=partial(on_unreadable, "PersistentVolume"))
        self._classes = Informer(kube, paths.STORAGE_CLASSES, StorageClass, tell=partial(on_unreadable, "StorageClass"))
        self._drivers = Informer(kube, paths.STORAGE_DRIVERS, Driver, tell=partial(on_unreadable, "CSIDriver"))
        on_free_odd = partial(on_unreadable, "CSIStorageCapacity")
        self._free = Informer(kube, paths.FREE_STORAGE, FreeStorage, tell=on_free_odd)
        self._room = FreeRoom()
        self._changed_for: set[Asked] = set()
        self._has_changed = asyncio.Event()
        for informer in (self._claims, self._volumes, self._classes, self._drivers):
            informer.add_handler(self._changed)
        self._claims.add_handler(self._asking.follow)
        self._free.add_handler(self._free_changed)
        self._storage = Storage(
            claim=lambda key: self._claims.get(*key),
            volume=lambda name: self._volumes.get("", name),
            storage_class=lambda name: self._classes.get("", name),
            user_of=self.user_of,
            driver=lambda name: self._drivers.get("", name) if self._free.synced.is_set() else None,
            free=self._room,
        )

    @property
    def storage(self) -> Storage | None:
        """The claims, volumes and classes of the cluster; None until all of them have been listed once. Pods without
        claims do not wait for that.
        """
        is_listed = all(each.synced.is_set() for each in (self._claims, self._volumes, self._classes))
        return self._storage if is_listed else None

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Take one change of a pod with claims into account: which claims it uses, and which it waits for."""
        self.used.follow(old, new)
        self.awaited.follow(old, new)

    def user_of(self, claim: Key, but: Pod) -> str:
        """Return the name of a pod other than `but` that is on a node and uses this claim; empty text if there
        is none.
        """
        return find_user(claim, but, self.used.of(claim))

    async def run(self) -> None:
        """Run the watches of claims, volumes, classes, drivers and free storage until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._claims, self._volumes, self._classes, self._drivers, self._free):
                group.create_task(informer.run())
            group.create_task(self._report_free_storage())
            for informer in (self._claims, self._volumes, self._classes):
                await informer.synced.wait()
            self._on_change()
            await self._free.synced.wait()
            self._on_change()

    def why_not_on(self, pod: Pod, node: Node) -> str:
        """Return in words why the pod could not reach its volumes from this node. Empty text if it could, or if the
        volumes of the cluster are not known yet.
        """
        return why_out_of_reach(pod, node, self._storage) if self.storage is not None else ""

    def under_way(self, pod: Pod) -> str:
        """Return in words which volume of the pod is still being made for the node that was chosen for it; empty text
        if there is none.
        """
        waits = claims_under_way(pod, self._storage)
        waits += (claim for claim in claims_to_place(pod, self._storage) if claim.uid in self._chosen)
        first = next(iter(waits), None)
        if first is None:
            return ""
        node = first.selected_node or self._chosen[first.uid]
        return f"the volume of claim {first.name} is being made for node {node}"

    def take_refusal(self, pod: Pod, node: str) -> str:
        """Return in words that a provisioner has refused to make a volume for the pod on this node; empty text if none
        has. A refusal is returned once and then forgotten.
        """
        for claim in claims_to_place(pod, self._storage):
            if self._given_back.pop(claim.uid, None) == node:
                return (
                    f"no volume is made on node {node} for claim {claim.name}: its provisioner has taken the choice "
                    f"back; kubectl describe pvc {claim.name} says why"
                )
        return ""

    async def choose_node(self, pod: Pod, node: str) -> bool:
        """Write the node on those claims of the pod whose volumes are made only when a node has been chosen. Return
        True if it was written on a claim.

        Raises:
            KubeError: a claim was not written; the call may be repeated.
        """
        is_named = False
        for claim in claims_to_place(pod, self._storage):
            # Pods of one gang may share a claim, and the watch shows the choice later.
            if claim.uid in self._chosen:
                continue
            self._chosen[claim.uid] = node
            body = {"metadata": {"uid": claim.uid, "annotations": {SELECTED_NODE: node}}}
            try:
                await self._kube.patch(paths.claim(*claim.key), body)
                is_named = True
            except errors.NotFound:
                pass  # the kubelet reports that the claim is missing
            except errors.KubeError:
                del self._chosen[claim.uid]
                raise
        return is_named

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        for each in (old, new):
            if each is not None and (new is None or each.uid != new.uid or SELECTED_NODE in each.annotations):
                self._chosen.pop(each.uid, None)
                self._given_back.pop(each.uid, None)
        if isinstance(old, Claim) and isinstance(new, Claim) and old.uid == new.uid and (node := given_back(old, new)):
            self._given_back[new.uid] = node
        if self.storage is not None and (old is None or new is None or _facts(old) != _facts(new)):
            self._wake(old, new)

    def _free_changed(self, old: FreeStorage | None, new: FreeStorage | None) -> None:
        """Take into account that a driver reports other free storage, and note which waiting claims this concerns. Most
        reports concern no claim.
        """
        self._room.follow(old, new)
        if self.storage is None or not self._free.synced.is_set():
            return
        if concerned := {asked for asked in self._asking if decides(asked, old, new)}:
            self._changed_for |= concerned
            self._has_changed.set()

    async def _report_free_storage(self) -> None:
        """After changes of free storage, call `on_free_storage` for the waiting pods that they concern; this runs until
        cancelled. Changes are first gathered for a moment, because drivers report many nodes at about the same time.
        """
        while True:
            await self._has_changed.wait()
            await asyncio.sleep(_GATHERED_S)
            self._has_changed.clear()
            concerned, self._changed_for = self._changed_for, set()
            claims = (claim for asked in concerned for claim in self._asking.of(asked) if claim.key in self.awaited)
            for count, claim in enumerate(claims, start=1):
                for pod in self.awaited.of(claim.key):
                    self._on_free_storage(pod)
                if count % _AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _wake(self, *changed: KubeObject | None) -> None:
        claims = {_claim_of(each) for each in changed if each is not None}
        if None in claims:
            self._on_change()
            return
        for pod in {pod.uid: pod for claim in claims if claim for pod in self.awaited.of(claim)}.values():
            self._on_claim(pod)


def _claim_of(changed: KubeObject) -> Key | None:
    """Return the key of the claim, if only one claim can be concerned by a change of this object (the claim itself, or
    a volume for a certain claim). None if other claims may be concerned.
    """
    match changed:
        case Claim():
            return changed.key
        case Volume(spec=VolumeSpec(claim_ref=ClaimReference() as claim)):
            return (claim.namespace, claim.name)
    return None


def _facts(found: KubeObject) -> object:
    """Return those parts of an object that matter for decisions: for a claim some of its fields, for a volume or class
    all.
    """
    if isinstance(found, Claim):
        return (found.uid, found.is_deleting, found.is_bound, found.selected_node, found.spec)
    return found
