"""All that is known of one gang at this moment, as the one value that decisions read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from sunkpy.core.gang.access import Namespace, restricted, rule_for, unknown_namespace
from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.limits import (
    are_rivals,
    avoid_nodes,
    deciding_specs,
    looks_around,
    wants_to_be_alone,
    within_limits,
)
from sunkpy.core.gang.pins import eligible_pins, find_pins
from sunkpy.core.gang.slots import plan_slots
from sunkpy.core.gang.terms import takes_features
from sunkpy.core.gang.view import GangView, along_switches, explain_generation
from sunkpy.core.model.alike import one_of_each
from sunkpy.core.model.objects import Pod, PodSpec
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.placement.domains import Wish, in_one_domain
from sunkpy.core.placement.eligibility import Eligibility, by_names, in_common, minus
from sunkpy.core.placement.volumes import has_claims, within_reach
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.entries import Allowed, GangEntry
from sunkpy.scheduler.judgements import Judgement
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.settings import SchedulerSettings


class Collector:
    """Watches, polls and memory → `GangView`. No request is sent."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        members: MemberIndex,
        ledger: Ledger,
        settings: SchedulerSettings,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._members = members
        self._ledger = ledger
        self._clock = clock

    def view(self, entry: GangEntry) -> GangView:
        """The gang as it is known now."""
        view = self.known(entry)
        # Pods that have their nodes look for none; every prolog asks for the view.
        has_nodes = view.is_bound or any(job.start_nodes for job in view.live_jobs)
        is_namespace_known = self._cluster.namespace_of(entry.id.namespace) is not None
        if not self._ledger.is_whole or not is_namespace_known:  # nor is it known whose jobs keep this one away
            return msgspec.structs.replace(view, may_submit=False)
        return view if has_nodes else self._with_eligibility(view, entry)

    def known(self, entry: GangEntry) -> GangView:
        """The gang as it is known now, but for where it may go."""
        gang = self._gang(entry)
        for job in entry.jobs.values():
            job.recall(self._members.pods_of(entry.id))
        bound = [pod for pod in gang.members if pod.spec.node_name] if gang is not None else []
        placed = {pod.uid: self._cluster.slurm_node_on(pod.spec.node_name) for pod in bound}
        view = entry.view(gang, placed=placed, now=self._clock())
        if self._settings.switch_label:
            jobs = tuple(along_switches(job, self._switch_of) for job in view.jobs)
            view = msgspec.structs.replace(view, jobs=jobs)
        if gang is not None and (pins := find_pins(gang, self._cluster.slurm_node_at)):
            view = msgspec.structs.replace(view, pins=pins)
        waits_for = self._generation_in_the_way(entry.id)
        return msgspec.structs.replace(view, waits_for=waits_for) if waits_for else view

    def here(self, entry: GangEntry, node: str) -> GangView:
        """The gang with those of its pods alone that are on a Kubernetes node.

        For whoever asks about nothing else: hooks do so from all nodes of a gang at once, and each looks at all of it.
        """
        if entry.bound_to is None or entry.allowed is None:  # under which job they are is seen by the others
            return self.known(entry)
        bound = (*self._cluster.neighbours.sent_to(node), *self._members.on_node(node))
        pods = {pod.uid: pod for pod in bound if self._members.find_id(pod) == entry.id}
        role = Role(name="here", places=len(pods), first=0, members=tuple(Member(pod=pod) for pod in pods.values()))
        placed = dict.fromkeys(pods, self._cluster.slurm_node_on(node))
        gang = msgspec.structs.replace(entry.allowed.gang, roles=(role,))
        return entry.view(gang, placed=placed, now=self._clock())

    def _switch_of(self, slurm_node: str) -> str:
        node = self._cluster.node_behind(slurm_node)
        return node.labels.get(self._settings.switch_label, "") if node is not None else ""

    def judgements(self, view: GangView, entry: GangEntry) -> tuple[Judgement, ...] | None:
        """All that was asked of the nodes for this view, just made; None when more than that decides."""
        gang = view.gang
        if gang is None or view.eligibility is None or view.is_fickle or view.pins or gang.one_domain or entry.refusals:
            return None
        if _has_claims(gang):
            return None
        return tuple(self._judge(one_of_each(deciding_specs(gang), _asks)))

    def is_concerned(self, entry: GangEntry) -> bool:
        """Some node has changed since a decision was made about the gang, in a way that may matter to it."""
        judged_by = entry.judged_by
        return judged_by is None or not all(self._cluster.still_holds(judgement) for judgement in judged_by)

    def _judge(self, specs: Iterable[PodSpec]) -> list[Judgement]:
        """Each by itself; none while Slurm's nodes have not been read."""
        return [judgement for spec in specs if (judgement := self._cluster.judge(spec)) is not None]

    def _generation_in_the_way(self, id: GangId) -> str:
        """Another generation of the owner's pods that still has a job or a node, in words; empty when there is none."""
        now = self._clock()
        for other in self._ledger.other_generations(id):
            jobs = [job.view(now) for job in other.jobs.values()]
            pods = (_as_bound(other, pod) for pod in self._members.pods_of(other.id))
            if left := explain_generation(other.id, jobs, pods):
                return left
        return ""

    def _gang(self, entry: GangEntry) -> Gang | None:
        pods = [_as_bound(entry, pod) for pod in self._members.pods_of(entry.id)]
        gang = self._members.assemble(entry.id, pods)
        if gang is None:
            return None
        namespace = self._cluster.namespace_of(gang.id.namespace)
        if entry.allowed is None or entry.allowed.of is not gang or entry.allowed.namespace != namespace:
            limited = within_limits(gang, gpu_resources=self._settings.gpu_resources)
            entry.allowed = Allowed(of=gang, namespace=namespace, gang=self._restricted(limited, namespace))
        return entry.allowed.gang

    def _restricted(self, gang: Gang, namespace: Namespace | None) -> Gang:
        if namespace is None:
            return unknown_namespace(gang)
        rule = rule_for(self._settings.access, namespace, annotated=self._settings.annotated_access)
        return restricted(gang, rule, default_partition=self._settings.default_partition)

    def _with_eligibility(self, view: GangView, entry: GangEntry) -> GangView:
        """The nodes that all may use who decide: Slurm places the job, and any member may come to any of its nodes."""
        gang = view.gang
        if gang is None or gang.never_queues:
            return view
        if view.pins:
            return self._with_pins(view, gang, entry)
        unlike = list(one_of_each(deciding_specs(gang), _asks))
        common = in_common([judgement.eligibility for judgement in self._judge(unlike)])
        reachable = self._within_reach(common, gang.first_wave) if common is not None else None
        if reachable is None:
            return view
        # Which domain a job waits for is seen by the nodes that it excludes.
        if gang.one_domain or not takes_features(gang.options.constraint):
            reachable = by_names(reachable)
        avoided = self._avoided(gang.first_wave, entry)
        eligibility = entry.eligibility(minus(reachable, avoided), now=self._clock())
        if gang.one_domain and eligibility.eligible:
            eligibility = self._in_one_domain(gang, eligibility, view, entry)
        is_fickle = bool(avoided) or any(looks_around(spec) for spec in unlike)
        return msgspec.structs.replace(view, eligibility=eligibility, is_fickle=is_fickle)

    def _with_pins(self, view: GangView, gang: Gang, entry: GangEntry) -> GangView:
        each: dict[str, Eligibility] = {}
        for pod in gang.members:
            judgement = self._cluster.judge(pod.spec)
            if judgement is None:
                return view
            where = self._within_reach(judgement.eligibility, [pod])
            if where is None:
                return view
            each[pod.uid] = minus(where, self._avoided([pod], entry)) if looks_around(pod.spec) else where
        is_fickle = any(looks_around(pod.spec) for pod in gang.members)
        eligibility = eligible_pins(gang, view.pins, each)
        return msgspec.structs.replace(view, eligibility=eligibility, is_fickle=is_fickle)

    def _within_reach(self, eligibility: Eligibility, pods: Sequence[Pod]) -> Eligibility | None:
        """Those from which the pods' volumes can be had; None while that is not known."""
        pods = [pod for pod in pods if has_claims(pod.spec)]
        storage = self._cluster.volumes.storage
        if not pods:
            return eligibility
        return within_reach(eligibility, pods, self._cluster.all_candidates(), storage) if storage is not None else None

    def _avoided(self, pods: Sequence[Pod], entry: GangEntry) -> dict[str, str]:
        """Slurm nodes where pods of others keep one of these away, or are missing."""
        avoided = avoid_nodes(pods, self._cluster.surroundings(), but=entry.members)
        return {self._cluster.slurm_node_on(node): why for node, why in avoided.items()}

    def _in_one_domain(self, gang: Gang, eligibility: Eligibility, view: GangView, entry: GangEntry) -> Eligibility:
        try:
            slots = plan_slots(gang, eligibility)
        except BadQuantity:  # of a pod that is not there yet; told when the job is planned
            return eligibility
        job = next(iter(view.live_jobs), None)
        wish = Wish(
            label=gang.one_domain,
            slots=slots.count,
            needs=slots.needs,
            apart=gang.one_per_node,
            excluded=frozenset(job.excluded if job is not None else ()),
            refused=entry.refusals,
            alone=wants_to_be_alone(gang.members, gang.one_domain),
            rivals=self._excluded_by_rivals(gang, entry),
        )
        return in_one_domain(eligibility, self._cluster.candidates(), wish)

    def _excluded_by_rivals(self, gang: Gang, entry: GangEntry) -> set[tuple[str, ...]]:
        """The nodes that the jobs of others exclude which must not share a domain with this gang."""
        others = (other for other in self._ledger.excluding() if other is not entry)
        return {
            other.excluded
            for other in others
            if are_rivals(gang.members, self._members.pods_of(other.id), gang.one_domain)
        }


def _has_claims(gang: Gang) -> bool:
    return any(has_claims(pod.spec) for pod in gang.members)


def _as_bound(entry: GangEntry, pod: Pod) -> Pod:
    member = entry.members.get(pod.uid)
    return member.as_bound(pod) if member is not None else pod


def _asks(spec: PodSpec) -> tuple[object, ...]:
    """What decides where a pod may go: the same for all pods of a template."""
    where = (spec.node_selector, spec.affinity, spec.tolerations)
    return (*where, spec.containers, spec.init_containers, spec.overhead, spec.resources)
