"""Watches ResourceClaims and the devices of each node (`resource.k8s.io/v1`).

The watches run only if the settings name a GRES for a DeviceClass. They follow all claims of the cluster, because the
apiserver does not refuse a device that another claim has. What was just written on a claim counts before the watch
shows it.
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
    """Follows ResourceClaims, devices and DeviceClasses; each leader has its own. `on_claim` is called with each of the
    scheduler's pods whose claim changed, `on_classes` when a DeviceClass changed.
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
        """The scheduler's pods by the claims that they have or may get; the watch of these pods keeps it."""
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
        """Run the watches until cancelled."""
        if self.classes:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._claims.run())
                group.create_task(self._templates.run())
                group.create_task(self._slices.run())
                group.create_task(self._device_classes.run())

    async def _until_served(self) -> None:
        """Wait before the next try: the apiserver is older than `resource.k8s.io/v1`, or has just started."""
        self._is_absent = not self._claims.synced.is_set()
        await asyncio.sleep(_ABSENT_AGAIN_S)

    # ------------------------------------------------------- what decisions read

    def may_claim(self, gang: Gang) -> bool:
        """True if a pod of the gang has claims or may get some, by its own spec or by the template of its role."""
        shapes = (role.shape for role in gang.roles if role.shape is not None)
        return any(map(self._may_ask, (*shapes, *(pod.spec for pod in gang.members))))

    def claimed(self, gang: Gang) -> Claimed | None:
        """Return the claims and claim templates of a gang's pods; None if the gang has none, or the apiserver serves
        none.
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
        """Return a pod's claims that exist, by the names in its spec. With `OWN_NAME`: the claim that is made for its
        extended resources, before and after it is made.
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
        """Return the pod as its author wrote it. Decisions see it without the resources for which claims are made."""
        return next((each for each in self.users.of(_made_key(pod)) if each.uid == pod.uid), pod)

    def missing(self, pods: Iterable[Pod]) -> str:
        """Return the first claim of these unbound pods that does not exist yet; empty if all exist."""
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
        """Return the uids of pods for which a claim is reserved; a pod with an unknown claim is left out."""
        asking = ((pod, self.claims_of(pod)) for pod in pods if self._may_ask(pod.spec))
        found = ((pod, claims) for pod, claims in asking if not missing_claim(pod, claims))
        return frozenset(pod.uid for pod, claims in found if any(c.is_for(pod.uid) for c in claims.values()))

    def lost(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Return the bound pods (by uid) that have lost their devices, each with the reason (`explain_loss`)."""
        if not self._claims.synced.is_set():
            return {}
        found = {}
        for pod in (pod for pod in pods if claim_names(pod) and pod.spec.node_name and not is_over(pod)):
            own = self.claims_of(pod).values()
            if why := explain_loss(pod, own, partial(self._second_owner, {claim.key for claim in own})):
                found[pod.uid] = why
        return found

    def rivals(self, pod: Pod) -> set[Key]:
        """Return the keys of a pod's claims, and of all other claims that hold one of their devices."""
        keys = {(pod.metadata.namespace, made) for made in claim_names(pod).values()}
        held = [id for key in keys if key in self._newest for id in self._newest[key].held]
        return keys | {claim.key for id in held for claim in self._owners.of(id)}

    def _second_owner(self, own: Container[Key], id: DeviceId) -> ResourceClaim | None:
        """Return another claim that has the device. A claim whose pods are the scheduler's counts only if one of them
        notes the device; else the claim was changed later, and its pod is the one that goes.
        """
        for claim in (claim for claim in self._owners.of(id) if claim.key not in own):
            users = self.users.of(claim.key)
            if not users or any(is_noted(pod, id) for pod in users):
                return claim
        return None

    def counters(self, node: str) -> dict[CounterId, int]:
        """Return the total of each counter that the devices of a Kubernetes node share."""
        return current_counters(self._slices_on.of(node))

    def offered(self, node: str) -> dict[DeviceId, Device]:
        """Return the devices that drivers offer on a Kubernetes node."""
        return current_devices(self._slices_on.of(node))

    def owner_but(self, uids: Container[str]) -> OwnerOf:
        """Return a function that finds the claim which has a device, other than claims with these uids."""
        return lambda id: next((claim for claim in self._owners.of(id) if claim.uid not in uids), None)

    def device_classes(self) -> dict[str, DeviceClass]:
        """Return the existing DeviceClasses for which the settings name a GRES, by name."""
        found = {name: self._device_classes.get("", name) for name in self.classes}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def by_claim(self) -> Mapping[str, str]:
        """Extended resource → DeviceClass, for resources that pods get by a claim: no device plugin offers them."""
        if self._by_claim is None:
            found = classes_by_resource(self.device_classes().values())
            offers = (node.status.allocatable.items() for node in self._nodes.values())
            by_plugins = {self._handed_out, *(name for each in offers for name, amount in each if amount != "0")}
            self._by_claim = {resource: name for resource, name in found.items() if resource not in by_plugins}
        return self._by_claim

    def doubt_resources(self) -> None:
        """Compute `by_claim` again at its next use, because DeviceClasses or the kubelets' resources have changed."""
        self._by_claim = None

    # -------------------------------------------------------------- what changes

    def take(self, claim: ResourceClaim) -> None:
        """Remember a claim and the devices it holds. A version older than the known one is ignored."""
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
        """Forget a claim that is gone, and its devices."""
        known = self._newest.pop(key, None)
        for id in known.held if known is not None else ():
            self._owners.drop(id, key)


def _made_key(pod: Pod) -> Key:
    return (pod.metadata.namespace, made_name(pod))


def _version(claim: ResourceClaim) -> int:
    """Resource versions of one kind are in order (KEP-5504)."""
    return int(claim.metadata.resource_version or 0)
