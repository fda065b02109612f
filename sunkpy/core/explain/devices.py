"""Builds the explanation of a node: which pod or job has each device, by Slurm's jobs and by annotations and claims of
pods.

The explanation also says whether Slurm has closed the node, the node's health, and its place in the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.explain.missing_rights import how_to_read
from sunkpy.core.gang.devices.asked import claim_names
from sunkpy.core.gang.devices.handout import devices_on
from sunkpy.core.gang.devices.indices import noted_indices, noted_on
from sunkpy.core.gang.identity import noted_job
from sunkpy.core.gang.phases import is_over
from sunkpy.core.health import Record, State
from sunkpy.core.health.idle_check import read_idle_check
from sunkpy.core.health.words import standing, what_comes_next
from sunkpy.core.model.devices import (
    PCI_ADDRESS,
    UUID,
    Device,
    DeviceId,
    ResourceClaim,
    SlurmDevice,
    read_extra,
    why_unproved,
)
from sunkpy.core.model.gres import gres_counts, gres_name, gres_types
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd
from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode, holds_something
from sunkpy.core.model.times import LATEST
from sunkpy.core.topology.places import problem_told

_NO_SLICE: Final = "in no ResourceSlice"
_NOT_SLURMS: Final = "unknown to Slurm"
_DIGITS: Final = re.compile(r"(\d+)")


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes node (`node`), and what Slurm and Kubernetes know about its devices.

    Args:
        slurm: its Slurm node; None when Slurm was not asked or did not answer, and then `jobs` is empty.
        jobs: all jobs that Slurm has.
        offered: the devices that drivers offer on the node, from ResourceSlices.
        claims: all ResourceClaims of the cluster.
        pods: the pods on the node.
        health: the Node's health record; None if it has none, or the Node was not read.
        unread: what could not be read, and why.
        now: the present time.
    """

    node: str
    slurm: SlurmNode | None = None
    jobs: tuple[SlurmJob, ...] = ()
    offered: Mapping[DeviceId, Device] = {}
    claims: tuple[ResourceClaim, ...] = ()
    pods: tuple[Pod, ...] = ()
    health: Record | None = None
    unread: tuple[str, ...] = ()
    now: datetime = LATEST


class DeviceOwner(msgspec.Struct, frozen=True):
    """A pod, job or claim that has a device, in words. `uid`: the pod's uid, if the owner is a pod. `namespace`: that
    of a pod or claim; empty for a job.
    """

    text: str
    uid: str = ""
    namespace: str = ""

    def seen_from(self, namespace: str) -> DeviceOwner:
        """Return the owner in words for people who may see the pods and claims of this namespace only."""
        if self.namespace in ("", namespace):
            return self
        return msgspec.structs.replace(self, text=f"a {'pod' if self.uid else 'claim'} of another namespace")


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One device of a node, with its owners. `name`: Slurm's GRES and index, or the driver's name. `known`: the
    device's type, address and so on.

    `is_driver_known`: a driver offers the device. `is_odd`: either Slurm or the driver does not know the device, but
    should.
    """

    name: str
    known: tuple[str, ...] = ()
    owners: tuple[DeviceOwner, ...] = ()
    is_driver_known: bool = True
    is_odd: bool = False

    def __str__(self) -> str:
        whose = " AND ".join(owner.text for owner in self.owners) or "free"
        known = f" ({', '.join(self.known)})" if self.known else ""
        return f"{self.name}{known}: {whose}"


def explain_node(facts: NodeFacts) -> Explanation:
    """Return the explanation of a node: who has each device, and what to do if a device has two owners, if Slurm and
    the driver do not know the same devices, or if the node is sick or closed.
    """
    rows = list(find_rows(facts))
    by_what = ", as far as could be read" if facts.unread else ""
    free = sum(not row.owners for row in rows)
    slurm = facts.slurm.name if facts.slurm is not None else ""
    known = f"has {len(rows)} devices, {free} free" if rows else "has no devices that Slurm or a driver knows"
    standing = known + by_what
    held = _held(facts)
    what_to_do = how_to_read(facts.unread) if facts.unread else "Nothing."
    if facts.health is not None and facts.health.state is State.PERSON:
        what_to_do = f"About its health: {what_comes_next(facts.health, facts.node)}"
    elif held:
        what_to_do = f"See who holds it, and what lifts that: kubectl sunk why-drained {facts.node}"
    elif why := problem_told(_told(facts)):
        labels = f"kubectl get node {facts.node} --show-labels"
        what_to_do = (
            f"Label the Node, or correct topology in the values: {why}. Until then the node keeps its place in Slurm's "
            f"topology. See its labels: {labels}"
        )
    if any(row.is_odd for row in rows):
        standing += "; Slurm and the driver do not know the same devices"
        what_to_do = (
            f"See whether the driver runs there: kubectl get pods -A --field-selector spec.nodeName={facts.node}; then "
            f"have a new slurmd pod list the devices: kubectl sunk drain {facts.node} --reason devices, delete the "
            f"slurmd pod once no job runs there, kubectl sunk undrain {facts.node}"
        )
    if any(len(row.owners) > 1 for row in rows):
        standing = "has a device with two owners"
        events = "kubectl get events -A --sort-by=.lastTimestamp"
        what_to_do = f"End one of the two owners; then find out who gave the device twice: {events}"
    return Explanation(
        subject=f"Node {facts.node}" + (f" (Slurm node {slurm})" if slurm else ""),
        standing=standing,
        lines=(
            Line(title="Slurm", texts=held),
            Line(title="health", texts=_health(facts)),
            Line(title="checked idle", texts=_checked(facts)),
            Line(title="topology", texts=_topology(facts)),
            Line(title="devices", texts=tuple(map(str, rows))),
            Line(title="not proved", texts=_unproved(facts)),
            Line(title="not read", texts=facts.unread),
        ),
        what_to_do=what_to_do,
    )


def _health(facts: NodeFacts) -> tuple[str, ...]:
    if facts.health is None:
        return ()
    return (standing(facts.health), f"next: {what_comes_next(facts.health, facts.node)}")


def _checked(facts: NodeFacts) -> tuple[str, ...]:
    check = read_idle_check(next(filter(is_slurmd, facts.pods), None))
    if check is None:
        return ()
    why = f": {check.text}" if check.text else ""
    passed = f"passed last: {check.passed}"
    is_older = check.passed not in ("", check.at)
    return (f"{check.outcome} at {check.at}, job {check.job}{why}", *((passed,) if is_older else ()))


def _topology(facts: NodeFacts) -> tuple[str, ...]:
    """Return texts with the node's place in the network, as the syncer wrote it on the slurmd pod, and as Slurm has it.
    A text is left out if the place is not known there.
    """
    told, record = _told(facts), facts.slurm.topology if facts.slurm is not None else ""
    return (*((told,) if told else ()), *((f"in Slurm: {record}",) if record else ()))


def _told(facts: NodeFacts) -> str:
    slurmd = next(filter(is_slurmd, facts.pods), None)
    return slurmd.annotations.get(names.ANNOTATION_TOPOLOGY, "") if slurmd is not None else ""


def _held(facts: NodeFacts) -> tuple[str, ...]:
    """Return the node's state and reason in Slurm as a text; empty if new jobs can start on the node, or Slurm was not
    read.
    """
    slurm = facts.slurm
    if slurm is None or not slurm.state or not (slurm.is_closed or slurm.is_down or slurm.is_not_responding):
        return ()
    return (f"{slurm.state_text}{f', {slurm.reason}' if slurm.reason else ''}: takes no new jobs",)


def _unproved(facts: NodeFacts) -> tuple[str, ...]:
    """Return as a text why no pod gets a device of this node now: Slurm's list of its devices may be an old one. Empty
    if that list is surely the present one, if Slurm lists no devices, or if Slurm or the slurmd pod could not be read.
    """
    slurmd = next(filter(is_slurmd, facts.pods), None)
    if facts.slurm is None or slurmd is None or not read_extra(facts.slurm.extra):
        return ()
    why = why_unproved(facts.slurm.extra, slurmd, facts.now)
    return (f"no pod gets a device of this node: {why}",) if why else ()


def devices_of(pod: Pod, facts: NodeFacts, *, names_all: bool) -> tuple[str, ...]:
    """Return the devices of one pod as lines of text. If no driver is known to offer any of them, a line with the
    devices in the pod's annotation is added. `names_all`: whether the lines name pods and claims of other namespaces
    that have such a device, too, for a reader who may see all pods.
    """
    rows = [row for row in find_rows(facts) if any(owner.uid == pod.uid for owner in row.owners)]
    if not names_all:
        rows = [_seen_from(pod.metadata.namespace, row) for row in rows]
    noted = pod.annotations.get(names.ANNOTATION_DEVICES, "")
    is_known = any(row.is_driver_known for row in rows)
    return (*map(str, rows), *((f"{noted}, as noted on the pod",) if noted and not is_known else ()))


def _seen_from(namespace: str, row: DeviceRow) -> DeviceRow:
    return msgspec.structs.replace(row, owners=tuple(owner.seen_from(namespace) for owner in row.owners))


def find_rows(facts: NodeFacts) -> Iterator[DeviceRow]:
    """Yield one row for each device of the node: first the devices that Slurm knows, by index, then those that only
    drivers know.
    """
    left, is_asked = dict(facts.offered), facts.slurm is not None
    drivers = set[str]()
    types = gres_types(facts.slurm.gres) if facts.slurm is not None else {}
    for gres, index, listed in _indices(facts):
        same = [id for id, device in left.items() if listed is not None and listed.agrees_with(device, id.driver)]
        known, owners = [*types.get(gres, ())[index : index + 1], str(listed or "")], [*_by_index(facts, gres, index)]
        for id in same[:1]:
            drivers.add(id.driver)
            known += [f"device {id}", *_taints(left.pop(id))]
            owners += _by_claim(facts, id)
        is_odd = is_asked and bool(facts.offered) and not same
        known += [_NO_SLICE] if is_odd else []
        yield DeviceRow(
            name=f"{gres} {index}",
            known=_words(known),
            owners=_merged(owners),
            is_driver_known=bool(same),
            is_odd=is_odd,
        )
    for id, device in sorted(left.items(), key=_order):
        known = [device.attribute(UUID, id.driver), device.attribute(PCI_ADDRESS, id.driver), *_taints(device)]
        known += [_NOT_SLURMS] if is_asked else []
        # A device is odd only if Slurm knows other devices of the same driver: Slurm does not count all kinds.
        is_odd = is_asked and id.driver in drivers
        yield DeviceRow(name=f"device {id}", known=_words(known), owners=_merged(_by_claim(facts, id)), is_odd=is_odd)


def _indices(facts: NodeFacts) -> Iterator[tuple[str, int, SlurmDevice | None]]:
    """Yield each GRES and index of the node, with the device that Slurm lists there (None if it lists none). If Slurm
    was not read, GRES and indices come from the annotations of pods that have no ResourceClaim.
    """
    if facts.slurm is not None:
        listed = read_extra(facts.slurm.extra)
        counts = gres_counts(facts.slurm.gres)
        for gres in sorted({*listed, *({"gpu"} & counts.keys())}):
            of_gres = listed.get(gres, ())
            for index in range(max(len(of_gres), counts.get(gres, 0))):
                yield gres, index, of_gres[index] if index < len(of_gres) else None
        return
    claimed = {claim_user for claim in facts.claims for claim_user in _users(claim)}
    notes = [noted_indices(noted_on(pod)) for pod in _holding(facts) if pod.uid not in claimed]
    for gres in sorted({gres_name(gres) for note in notes for gres in note}):
        for index in sorted({index for note in notes for index in note.get(gres, ())}):
            yield gres, index, None


def _by_index(facts: NodeFacts, gres: str, index: int) -> Iterator[DeviceOwner]:
    """Yield the owners of one index of a GRES: pods whose annotation names it, and jobs to which Slurm gave it."""
    node = facts.slurm.name if facts.slurm is not None else ""
    jobs: dict[JobId | None, SlurmJob] = {
        job.id: job
        for job in facts.jobs
        if holds_something(job.state) and index in job.devices.get(node, {}).get(gres, ())
    }
    for pod in _holding(facts):
        if index in noted_indices(noted_on(pod)).get(gres, ()):
            job = jobs.pop(noted_job(pod), None)
            yield _pod_owner(pod, _job(job) if job is not None else _job_lost(facts, pod))
    for job in jobs.values():
        yield DeviceOwner(_job(job))


def _by_claim(facts: NodeFacts, device: DeviceId) -> Iterator[DeviceOwner]:
    """Yield the owners of a device by ResourceClaims: the pods on this node for which a claim with the device is
    reserved. If there are none, the claim itself.
    """
    pods = {pod.uid: pod for pod in _holding(facts)}
    for claim in (claim for claim in facts.claims if device in claim.held):
        users = _users(claim)
        yield from (_pod_owner(pods[uid], _job_lost(facts, pods[uid])) for uid in users if uid in pods)
        if not any(uid in pods for uid in users):
            whom = ", ".join(user.name for user in claim.status.reserved_for)
            how = f"of {whom}, not on this node" if whom else "reserved for nobody"
            yield DeviceOwner(f"claim {'/'.join(claim.key)} {how}", namespace=claim.metadata.namespace)


def _pod_owner(pod: Pod, job: str) -> DeviceOwner:
    claims = ", ".join(claim_names(pod).values())
    is_handed_out = bool(devices_on(pod))
    by_count = (
        "by sunkpy's device plugin"
        if is_handed_out
        else "without a claim: the device plugin may have chosen another device"
    )
    how = f"claim {claims}" if claims else by_count
    text = ", ".join(filter(None, (f"pod {'/'.join(pod.key)}", how, job)))
    return DeviceOwner(text, pod.uid, namespace=pod.metadata.namespace)


def _job(job: SlurmJob) -> str:
    return f"Slurm job {job.id} of {job.user or 'unknown'}"


def _job_lost(facts: NodeFacts, pod: Pod) -> str:
    """Return the pod's Slurm job in words, for a pod that has a device which Slurm does not show for this job."""
    job = noted_job(pod)
    if job is None:
        return "no Slurm job"
    return f"Slurm job {job}" + (", to which Slurm gave another device" if facts.slurm is not None else "")


def _merged(owners: Iterable[DeviceOwner]) -> tuple[DeviceOwner, ...]:
    """Return the owners of a device, each pod only once. The first entry of a pod stays: the one by Slurm's index comes
    before the one by a claim.
    """
    found: dict[str, DeviceOwner] = {}
    for owner in owners:
        found.setdefault(owner.uid or owner.text, owner)
    return tuple(found.values())


def _holding(facts: NodeFacts) -> list[Pod]:
    return [pod for pod in facts.pods if not is_over(pod)]


def _words(known: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, known))


def _users(claim: ResourceClaim) -> list[str]:
    return [user.uid for user in claim.status.reserved_for]


def _taints(device: Device) -> list[str]:
    return [f"taint {taint.key}:{taint.effect}" for taint in device.taints]


def _order(item: tuple[DeviceId, Device]) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(str(item[0]))]
