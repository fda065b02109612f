"""Watches ResourceClaims and the devices of each node (`resource.k8s.io/v1`).

The watches run only if the settings name a GRES for a DeviceClass. They show the claims of the whole cluster, because
the apiserver does not refuse to give a device to a second claim. What the scheduler has just written on a claim counts
before the watch shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import TypeVar

from sunkpy.core.gang.devices.asked import Claimed, claim_names, devices_counted, missing_claim
from sunkpy.core.gang.devices.chosen import OwnerOf, explain_loss, is_noted
from sunkpy.core.gang.devices.made import (
    OWN_NAME,
    asks_for_devices,
    claim_to_make,
    classes_by_resource,
    made_name,
    requests_of,
)
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.phases import is_over
from sunkpy.core.model.devices import (
    CounterId,
    Device,
    DeviceClass,
    DeviceId,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    current_counters,
    current_devices,
)
from sunkpy.core.model.objects import Key, KubeObject, Node, Pod, PodSpec
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.runtime.groups import Groups, Watched
from sunkpy.scheduler.owners.watch import OnUnreadable
from sunkpy.scheduler.settings import SchedulerSettings

T = TypeVar("T", bound=KubeObject)

_ABSENT_AGAIN_S = 15.0


class Devices:
    """Watches ResourceClaims, the devices of nodes, and DeviceClasses; each leader has its own object. `on_claim` is
    called with each of the scheduler's pods that a change of a claim may concern, and `on_classes` when a DeviceClass
    has changed.
    """

    def __init__(
        self,
        kube: Kube,
        settings: SchedulerSettings,
        nodes: Informer[Node],
        on_unreadable: OnUnreadable,
        *,
        on_claim: Callable[[Pod], None],
        on_classes: Callable[[], None],
    ) -> None:
        self.classes = classes = settings.device_classes
        """DeviceClass → name of the GRES that Slurm counts for it."""
        self._kube = kube
        self._handed_out = settings.handed_out
        self._nodes = nodes
        self._on_claim = on_claim
        self._on_unreadable = on_unreadable
        self._by_claim: Mapping[str, str] | None = None
        self._is_absent = not classes
        self._newest: dict[Key, ResourceClaim] = {}
        self._owners: Groups[DeviceId, Key, ResourceClaim] = Groups()
        self.users: Watched[Key, Pod] = Watched(self._claim_keys)
        """The scheduler's pods by the claims that they have or may get. The watch of these pods keeps this index up to
        date.
        """
        self._slices_on: Watched[str, ResourceSlice] = Watched(lambda each: [each.spec.node_name])
        self._claims = self._informer(paths.RESOURCE_CLAIMS, ResourceClaim)
        self._templates = self._informer(paths.RESOURCE_CLAIM_TEMPLATES, ResourceClaimTemplate)
        self._slices = self._informer(paths.RESOURCE_SLICES, ResourceSlice)
        self._device_classes = self._informer(paths.DEVICE_CLASSES, DeviceClass)
        self._claims.add_handler(self._claim_changed)
        self._slices.add_handler(self._slices_on.follow)
        self._device_classes.add_handler(lambda *_: on_classes())

    def _informer(self, path: str, type_: type[T]) -> Informer[T]:
        tell = partial(self._on_unreadable, type_.__name__)
        return Informer(self._kube, path, type_, tell=tell, until_served=self._until_served)

    async def run(self) -> None:
        """Run the watches until cancelled. They are not needed, and do not run, if the settings name no DeviceClass."""
        if self.classes:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._claims.run())
                group.create_task(self._templates.run())
                group.create_task(self._slices.run())
                group.create_task(self._device_classes.run())

    async def _until_served(self) -> None:
        """Wait a while before a watch is tried again whose API path is not served: the apiserver does not know
        `resource.k8s.io/v1`, or has just started.
        """
        self._is_absent = not self._claims.synced.is_set()
        await asyncio.sleep(_ABSENT_AGAIN_S)

    # ------------------------------------------------------- what decisions read

    def may_claim(self, gang: Gang) -> bool:
        """True if a pod of the gang has claims for devices, or may get some. The specs of its pods and the templates of
        pods that do not exist yet are looked at.
        """
        shapes = (role.shape for role in gang.roles if role.shape is not None)
        return any(map(self._may_ask, (*shapes, *(pod.spec for pod in gang.members))))

    def claimed(self, gang: Gang) -> Claimed | None:
        """Return the claims and claim templates of a gang's pods; None if the gang has none, or if the apiserver does
        not serve claims.
        """
        shapes = [role.shape for role in gang.roles if role.shape is not None and self._may_ask(role.shape)]
        pods = [pod for pod in gang.members if self._may_ask(pod.spec)]
        if (self._is_absent and not self._claims.synced.is_set()) or not (pods or shapes):
            return None
        names = {claim.resource_claim_template_name for shape in shapes for claim in shape.resource_claims}
        templates = {name: self._templates.get(gang.id.namespace, name) for name in names}
        claims = {pod.uid: found for pod in pods if (found := self.claims_of(pod))}
        is_any = bool(claims) or any(each.resource_claims for each in (*shapes, *(pod.spec for pod in pods)))
        if not is_any and not any(requests_of(shape, self.by_claim) for shape in shapes):
            return None
        return Claimed(
            classes=self.classes,
            claims=claims,
            templates={name: found.spec.spec for name, found in templates.items() if found is not None},
            by_claim=self.by_claim,
        )

    def _may_ask(self, spec: PodSpec) -> bool:
        return bool(spec.resource_claims) or (bool(self.classes) and asks_for_devices(spec))

    def claims_of(self, pod: Pod) -> dict[str, ResourceClaim]:
        """Return those claims of a pod that exist, by the names that the pod's spec gives them.

        If the scheduler has to create a claim for the pod's extended resources, this claim is included under the name
        `OWN_NAME`, also before it exists.
        """
        keys = ((name, (pod.metadata.namespace, made)) for name, made in claim_names(pod).items())
        found = {name: self._newest[key] for name, key in keys if key in self._newest}
        if OWN_NAME not in found and not pod.spec.node_name and self.classes and asks_for_devices(pod.spec):
            made, wanted = self._newest.get(_made_key(pod)), claim_to_make(pod, self.by_claim)
            # An allocated claim that the pod does not need any more has to be freed.
            own = (made or wanted) if wanted is not None or (made is not None and made.is_allocated) else None
            found |= {OWN_NAME: own} if own is not None else {}
        return found

    def as_written(self, pod: Pod) -> Pod:
        """Return the pod with all resource requests that its author wrote. In the pod that decisions use, extended
        resources are left out for which the scheduler creates a claim.
        """
        return next((each for each in self.users.of(_made_key(pod)) if each.uid == pod.uid), pod)

    def missing(self, pods: Iterable[Pod]) -> str:
        """Return in words the first claim of these pods that does not exist yet, looking only at pods without a node;
        empty text if all exist.
        """
        free = (pod for pod in pods if not pod.spec.node_name)
        asking = [pod for pod in free if self._may_ask(pod.spec) or devices_counted(pod)]
        if (
            asking
            and not self._is_absent
            and not (self._claims.synced.is_set() and self._device_classes.synced.is_set())
        ):
            return "the list of all ResourceClaims"
        return next((missing for pod in asking if (missing := missing_claim(pod, self.claims_of(pod)))), "")

    def reserved(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the uids of those pods for which a claim is reserved. A pod is left out if one of its claims is not
        known.
        """
        asking = ((pod, self.claims_of(pod)) for pod in pods if self._may_ask(pod.spec))
        found = ((pod, claims) for pod, claims in asking if not missing_claim(pod, claims))
        return frozenset(pod.uid for pod, claims in found if any(c.is_for(pod.uid) for c in claims.values()))

    def lost(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Return those bound pods (by uid) that no longer have their devices for themselves, each with the reason
        (`explain_loss`). Empty while the claims have not been listed.
        """
        if not self._claims.synced.is_set():
            return {}
        found = {}
        for pod in (pod for pod in pods if claim_names(pod) and pod.spec.node_name and not is_over(pod)):
            own = self.claims_of(pod).values()
            if why := explain_loss(pod, own, partial(self._second_owner, {claim.key for claim in own})):
                found[pod.uid] = why
        return found

    def rivals(self, pod: Pod) -> set[Key]:
        """Return the keys of all claims that have to be read to know whether a pod has its devices for itself: the
        pod's own claims, and other claims that have one of their devices.
        """
        keys = {(pod.metadata.namespace, made) for made in claim_names(pod).values()}
        held = [id for key in keys if key in self._newest for id in self._newest[key].held]
        return keys | {claim.key for id in held for claim in self._owners.of(id)}

    def _second_owner(self, own: Container[Key], id: DeviceId) -> ResourceClaim | None:
        """Return a claim, not among the keys in `own`, that also has this device; None if there is none.

        If pods of this scheduler use that claim, the claim counts only if the annotation of one of them names the
        device. If no annotation names it, that claim was changed after its pods were bound, and one of those pods has
        to go.
        """
        for claim in (claim for claim in self._owners.of(id) if claim.key not in own):
            users = self.users.of(claim.key)
            if not users or any(is_noted(pod, id) for pod in users):
                return claim
        return None

    def counters(self, node: str) -> dict[CounterId, int]:
        """Return the total of each counter that devices of a Kubernetes node share. A counter is an amount, such as the
        memory of a GPU, of which several devices take parts.
        """
        return current_counters(self._slices_on.of(node))

    def offered(self, node: str) -> dict[DeviceId, Device]:
        """Return the devices that the drivers on a Kubernetes node offer, by device id."""
        return current_devices(self._slices_on.of(node))

    def owner_but(self, uids: Container[str]) -> OwnerOf:
        """Return a function that finds the claim which has a given device. Claims with a uid in `uids` are left out."""
        return lambda id: next((claim for claim in self._owners.of(id) if claim.uid not in uids), None)

    def device_classes(self) -> dict[str, DeviceClass]:
        """Return, by name, those DeviceClasses that exist and for which the settings name a GRES."""
        found = {name: self._device_classes.get("", name) for name in self.classes}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def by_claim(self) -> Mapping[str, str]:
        """Extended resource → the DeviceClass from which a pod gets it by a claim. Resources that a device plugin of a
        node offers are not included.
        """
        if self._by_claim is None:
            found = classes_by_resource(self.device_classes().values())
            offers = (node.status.allocatable.items() for node in self._nodes.values())
            by_plugins = {self._handed_out, *(name for each in offers for name, amount in each if amount != "0")}
            self._by_claim = {resource: name for resource, name in found.items() if resource not in by_plugins}
        return self._by_claim

    def doubt_resources(self) -> None:
        """Let `by_claim` (extended resource → DeviceClass) be worked out again when it is next used, because
        DeviceClasses or the resources of nodes have changed.
        """
        self._by_claim = None

    # -------------------------------------------------------------- what changes

    def take(self, claim: ResourceClaim) -> None:
        """Remember a claim and which devices it has. Nothing happens if a newer version of the claim is known
        already.
        """
        known = self._newest.get(claim.key)
        if known is not None and _version(known) >= _version(claim):
            return
        self.forget(claim.key)
        self._newest[claim.key] = claim
        for id in claim.held:
            self._owners.put(id, claim.key, claim)

    def _claim_keys(self, pod: Pod) -> set[Key]:
        if not self._may_ask(pod.spec):
            return set()
        return {(pod.metadata.namespace, made) for made in claim_names(pod).values()} | {_made_key(pod)}

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            self.take(new)
        elif old is not None:
            self.forget(old.key)
        changed = new or old
        if changed is None:
            return
        keys = {changed.key, *(other.key for id in changed.held for other in self._owners.of(id))}
        for pod in [pod for key in keys for pod in self.users.of(key)]:
            self._on_claim(pod)

    def forget(self, key: Key) -> None:
        """Forget a claim that is gone, and which devices it had."""
        known = self._newest.pop(key, None)
        for id in known.held if known is not None else ():
            self._owners.drop(id, key)


def _made_key(pod: Pod) -> Key:
    return (pod.metadata.namespace, made_name(pod))


def _version(claim: ResourceClaim) -> int:
    """Return the resourceVersion of a claim as a number: of two versions, the higher one is newer (KEP-5504)."""
    return int(claim.metadata.resource_version or 0)
