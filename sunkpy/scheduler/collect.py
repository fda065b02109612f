"""Collects what is known of one gang (the pods that one Slurm job stands for) into a `Snapshot`, the value from which
the scheduler decides what to do for the gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId, turn
from sunkpy.core.gang.job.job import along_switches
from sunkpy.core.gang.limits import deciding_specs, wants_to_be_alone
from sunkpy.core.gang.phases import PodPhase, pod_phase
from sunkpy.core.gang.seating.named_nodes import eligible_named_nodes
from sunkpy.core.gang.seating.slots import plan_slots
from sunkpy.core.gang.snapshot import Snapshot, explain_generation
from sunkpy.core.model.alike import one_of_each, template_of
from sunkpy.core.model.concerns import has_claimed_volumes
from sunkpy.core.model.objects import Pod
from sunkpy.core.placement.domains import DomainWish, in_one_domain
from sunkpy.core.placement.eligibility import Eligibility, by_names, in_common, minus, takes_features
from sunkpy.core.placement.needs import counted
from sunkpy.core.placement.volumes import within_reach
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.nodes.candidates import FullNodes
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.record import Grounds, Recognised
from sunkpy.scheduler.views import GangsView, LedgerView, PodsView, RecordView

_CLAIM_S = 3.0
"""Seconds that a pod waits for a missing ResourceClaim before its condition says so. Kubernetes makes a claim from a
template within a moment.
"""


class Collector:
    """Makes the `Snapshot` of a gang from what watches, polls and the gang's record have shown. A collector sends no
    requests and changes nothing. For records, pods and gangs the type checker ensures this (`scheduler.views`); for
    `cluster`, which caches its answers, a test does.
    """

    def __init__(self, leader: Leader, cluster: Cluster, members: PodsView, gangs: GangsView) -> None:
        self._clock = leader.clock
        self._policy = leader.settings.policy
        self._ledger: LedgerView = leader.ledger
        self._cluster = cluster
        self._members = members
        self._gangs = gangs

    def snapshot(self, record: RecordView) -> tuple[Snapshot, Grounds]:
        """Return the gang's snapshot, and the facts (`Grounds`) from which its eligible nodes were found.

        The snapshot has eligible nodes, on which the gang may run, only if the gang still needs nodes and they are
        known. It says that no job may be submitted as long as the gang may have a job that this leader does not know
        yet, the gang's namespace is unknown, or a ResourceClaim of the gang's pods does not exist.
        """
        seen = self._gangs.of(record)
        snapshot = self._known(record, seen)
        if seen.claiming is not None:
            snapshot = self._with_claims(snapshot, seen.pods)
        # Pods that have their nodes need not wait for others.
        has_nodes = snapshot.is_bound or any(job.start_nodes for job in snapshot.live_jobs)
        if not has_nodes:
            snapshot = msgspec.structs.replace(snapshot, waits_for=self._generation_in_the_way(record.id))
        nowhere = Grounds(is_all=seen.gang is not None and not seen.gang.is_sized)
        # This gang may have a job that is not known yet, or has to wait for one.
        if not self._ledger.all_jobs_known or not seen.is_of_known_namespace:
            return msgspec.structs.replace(snapshot, may_submit=False), nowhere
        if has_nodes:
            return snapshot, nowhere
        if seen.claiming is not None and (missing := self._cluster.devices.missing(snapshot.pods)):
            refused = f"waits for {missing}, which is not there" if self._clock() - record.seen_at > _CLAIM_S else ""
            waits = msgspec.structs.replace(snapshot, may_submit=False, refused=refused, is_to_be_polled=True)
            return waits, nowhere
        return self._with_eligibility(snapshot, record) or (snapshot, nowhere)

    def known(self, record: RecordView) -> Snapshot:
        """Return the gang's snapshot without its eligible nodes (the nodes on which the gang may run), for callers that
        do not need these nodes.
        """
        return self._known(record, self._gangs.of(record))

    def _known(self, record: RecordView, seen: Recognised) -> Snapshot:
        gang, along = seen.gang, self._cluster.has_paths
        bound = [pod for pod in gang.members if pod.spec.node_name] if gang is not None else []
        hosts = gang.named_hosts if gang is not None else {}
        placed = {pod.uid: self._cluster.slurm_node_on(pod.spec.node_name) for pod in bound}
        snapshot = record.snapshot(seen, placed=placed, now=self._clock())
        return msgspec.structs.replace(
            snapshot,
            has_left_out=any(pod_phase(pod) is PodPhase.WAITING for pod in seen.beyond),
            jobs=tuple(along_switches(job, self._cluster.path_to) for job in snapshot.jobs) if along else snapshot.jobs,
            named_nodes={uid: self._cluster.slurm_node_at(host) for uid, host in hosts.items()},
        )

    def on_node(self, record: RecordView, node: str) -> Snapshot:
        """Return the gang's snapshot with only those of its pods that are on one Kubernetes node, or are being bound to
        it. If the gang's record does not say under which job its pods were bound, the snapshot has all pods.

        The gate (the question of a Prolog whether pods of earlier jobs have left the node) needs this snapshot. All
        nodes of a gang may ask at once: with all pods in each snapshot, the time would grow with the square of the
        gang's size.
        """
        seen = record.recognised.gang
        if record.bound_to is None or seen is None:  # only the other pods show which job these are bound under
            return self.known(record)
        bound = (*self._cluster.neighbours.sent_to(node), *self._members.on_node(node))
        pods = {pod.uid: pod for pod in bound if self._members.find_id(pod) == record.id}
        role = Role(name="here", seats=len(pods), first=0, members=tuple(Member(pod=pod) for pod in pods.values()))
        placed = dict.fromkeys(pods, self._cluster.slurm_node_on(node))
        here = Recognised(gang=msgspec.structs.replace(seen, roles=(role,)))
        return record.snapshot(here, placed=placed, now=self._clock())

    def is_concerned(self, record: RecordView) -> bool:
        """True if a change of nodes, storage or other pods may have changed on which nodes the gang may run, since this
        was last worked out for the gang. The gang then needs a new decision.
        """
        found = record.grounds
        is_same = found.is_all and found.reach in (None, self._cluster.reach)
        is_same = is_same and all(map(self._cluster.may_run_as_before, found.templates))
        return not is_same or self.has_other_neighbours(record)

    def has_other_neighbours(self, record: RecordView) -> bool:
        """True if other pods have come or gone on nodes, and the nodes that the gang must avoid, or that are too full
        for it, may differ from those at its last decision. The gang then needs a new decision.
        """
        found = record.grounds
        is_same = all(map(self._cluster.avoid_as_before, found.avoided))
        return not is_same or not all(map(self._cluster.fullness.holds, found.full))

    def _with_claims(self, snapshot: Snapshot, pods: Sequence[Pod]) -> Snapshot:
        devices, all_known = self._cluster.devices, self._ledger.all_jobs_known
        reserved = devices.reserved(pods) if all_known else frozenset[str]()
        return msgspec.structs.replace(snapshot, reserved=reserved, lost_devices=devices.lost(pods))

    def _generation_in_the_way(self, id: GangId) -> str:
        """Return in words which other generation of the gang this one has to wait for, because that other one still has
        a job or a pod on a node; empty text if there is none. A generation is the pods that an owner makes between two
        restarts.
        """
        for other in self._ledger.other_generations(id):
            pods = (other.as_bound(pod) for pod in self._members.pods_of(other.id))
            if left := explain_generation(other.id, other.jobs.values(), pods):
                return left
        return ""

    def _with_eligibility(self, snapshot: Snapshot, record: RecordView) -> tuple[Snapshot, Grounds] | None:
        """Return the snapshot with the nodes on which the gang may run, and the facts from which these nodes were
        found.

        Slurm may give the job any of these nodes, and any pod may run on any node of the job. So a node is left out if
        one of the pods or templates that choose nodes does not fit there. If the pods name nodes, each pod has nodes of
        its own.

        None if the nodes are not known yet, if the gang has no pods or never queues, or if its number of pods is
        unknown. Without nodes if the gang has no job, and gets none because it is refused or pods are missing.
        """
        gang = snapshot.gang
        if gang is None or gang.never_queues or not gang.is_sized:
            return None
        if not snapshot.live_jobs and (gang.refused or gang.missing):  # its nodes would not be looked at
            return snapshot, Grounds(is_all=True)
        if snapshot.named_nodes:
            return self._with_named_nodes(snapshot, gang, record)
        unlike = list(one_of_each(deciding_specs(gang), template_of))
        templates = [found for spec in unlike if (found := self._cluster.eligibility(spec)) is not None]
        common = in_common([each.value for each in templates])
        may_grow = self._policy.may_grow(gang.options.partition)
        reachable = self._within_reach(common, gang.first_wave, may_grow=may_grow) if common is not None else None
        if common is None or reachable is None:
            return None
        # The nodes that a job excludes show for which domain it waits.
        if gang.one_domain or not takes_features(gang.options.constraint):
            reachable = by_names(reachable)
        avoided, full = self._cluster.avoided_nodes(gang.first_wave), self._cluster.fullness.of(unlike)
        crowded = self._cluster.fullness.too_many_pods(unlike, refusing=record.refusals)
        eligibility = record.eligibility(minus(reachable, {**avoided.value, **crowded, **_nodes(full)}))
        if gang.one_domain and eligibility.eligible:
            eligibility = self._in_one_domain(gang, eligibility, snapshot, record)
        # No event reports that a claim is free again, or that a node has room for one more pod.
        is_to_be_polled = bool(crowded) or "" in eligibility.refused
        has_other = is_to_be_polled or gang.one_domain or record.refusals
        grounds = Grounds(
            templates=tuple(templates),
            avoided=(avoided,),
            full=full,
            reach=self._cluster.reach if any(has_claimed_volumes(pod.spec) for pod in gang.members) else None,
            is_all=not has_other,
        )
        known = msgspec.structs.replace(
            snapshot,
            eligibility=eligibility,
            is_to_be_polled=is_to_be_polled,
            usable=common.eligible,
            may_submit=snapshot.may_submit or record.may_go_on(common.eligible, now=self._clock()),
        )
        return known, grounds

    def _with_named_nodes(self, snapshot: Snapshot, gang: Gang, record: RecordView) -> tuple[Snapshot, Grounds] | None:
        each: dict[str, Eligibility] = {}
        templates, avoided, full = [], [], list[FullNodes]()
        is_to_be_polled = False
        for pod in gang.members:
            found = self._cluster.eligibility(pod.spec)
            where = self._within_reach(found.value, [pod]) if found is not None else None
            if found is None or where is None:
                return None
            kept_away, lacking = self._cluster.avoided_nodes([pod]), self._cluster.fullness.of([pod.spec])
            crowded = self._cluster.fullness.too_many_pods([pod.spec], refusing=record.refusals)
            each[pod.uid] = minus(where, {**kept_away.value, **crowded, **_nodes(lacking)})
            is_to_be_polled |= bool(crowded)
            templates.append(found)
            avoided.append(kept_away)
            full.extend(lacking)
        eligibility = eligible_named_nodes(gang, snapshot.named_nodes, each)
        known = msgspec.structs.replace(snapshot, eligibility=eligibility, is_to_be_polled=is_to_be_polled)
        return known, Grounds(templates=tuple(templates), avoided=tuple(avoided), full=tuple(full))

    def _within_reach(
        self, eligibility: Eligibility, pods: Sequence[Pod], *, may_grow: bool = False
    ) -> Eligibility | None:
        """Return those of the eligible nodes from which the volumes of all these pods can be reached; None while the
        cluster's volumes are not known. If no pod has claims, the eligibility is returned unchanged.

        `may_grow`: an autoscaler may add nodes. Nodes that lack free storage are then excluded only if other nodes are
        left.
        """
        pods = [pod for pod in pods if has_claimed_volumes(pod.spec)]
        if not pods:
            return eligibility
        storage, candidates = self._cluster.volumes.storage, self._cluster.candidates.lasting()
        return within_reach(eligibility, pods, candidates, storage, may_grow=may_grow) if storage is not None else None

    def _in_one_domain(
        self, gang: Gang, eligibility: Eligibility, snapshot: Snapshot, record: RecordView
    ) -> Eligibility:
        slots = plan_slots(gang, eligibility, self._policy.gpu_resources)
        wish = DomainWish(
            label=gang.one_domain,
            slots=slots.count,
            needs=counted(slots.needs, self._policy.gpu_resources, gpu_type=gang.options.gpu_type),
            apart=gang.one_per_node,
            excluded=frozenset(next((job.slurm.excluded_nodes for job in snapshot.live_jobs), ())),
            refused=record.refusals,
            turn=turn(gang.id) if wants_to_be_alone(gang.members, gang.one_domain) else None,
        )
        return in_one_domain(eligibility, self._cluster.candidates.now(), wish)


def _nodes(full: Iterable[FullNodes]) -> dict[str, str]:
    """Return all Slurm nodes that these answers call full, each with the reason: the node has too little left of a
    resource that Slurm does not count, such as hugepages.
    """
    return {node: why for answer in full for node, why in answer.value.items()}
