"""The status of a NodeSet: numbers, conditions, and Events for those changes of conditions that people should hear of.

Conditions: `Available` (some pods are wanted and possible, and no more than maxUnavailable of them are missing),
`Progressing` (False: nothing left to do, or stuck; the reason says which), `Feasible` (enough nodes fit; if not, which
rule excludes how many nodes), and, only while they are True, `RemovalHeld` (too many pods would have to leave at once),
`DrainTimeout` (a drain takes too long), `VersionSkew` (its chart does not fit this operator), `SharedTmp` and
`SharedPids` (jobs share /tmp or process ids, as its chart says). `sunkpy.core.nodeset.health` makes `Ready`,
`Reconciling` and `Stalled` from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.conditions import says_the_same, stamped
from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.actions import AddFinalizer, CreatePod
from sunkpy.core.nodeset.decide import Plan, annotated_cap
from sunkpy.core.nodeset.feasibility import explain_exclusions
from sunkpy.core.nodeset.health import health
from sunkpy.core.nodeset.pod_state import last_words
from sunkpy.core.nodeset.removal import RemovalCause
from sunkpy.core.nodeset.rollout import max_unavailable
from sunkpy.core.nodeset.slurmd_pod import GPUS_AWAY_S, lacks_gpus
from sunkpy.core.nodeset.spec import Ask, NodeSet, NodeSetStatus, rolls_now
from sunkpy.core.nodeset.verdict import Trait
from sunkpy.core.nodeset.version_skew import version_skew
from sunkpy.core.nodeset.windows import next_opening
from sunkpy.core.nodeset.world import World

_FLEETING: Final = frozenset({"Reconciling", "Stalled"})


class Notice(msgspec.Struct, frozen=True):
    """An Event on the NodeSet; `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


def report(world: World, plan: Plan) -> tuple[NodeSetStatus, list[Notice]]:
    """Return the status that the NodeSet should have, and an Event for each condition that has changed and that people
    should hear of.
    """
    status = make_status(world, plan)
    before = world.nodeset.status
    notices = []
    for condition in status.conditions:
        is_news = not says_the_same(before.condition(condition.type), condition)
        if is_news and (notice := _notice(condition)) is not None:
            notices.append(notice)
    return status, notices


def report_unreadable(nodeset: NodeSet, problem: str, now: datetime) -> tuple[NodeSetStatus, list[Notice]]:
    """Return the status and Events of a NodeSet whose template passes the CRD's schema, but cannot be read by the
    operator. The other parts of the status stay as they are.
    """
    message = f"{problem}; until the NodeSet is corrected, the operator makes and removes none of its pods"
    condition = Condition(type="Progressing", status="False", reason="BadSpec", message=message)
    generation = nodeset.metadata.generation
    is_news = not says_the_same(nodeset.status.condition(condition.type), condition)
    if not is_news and nodeset.status.observed_generation == generation:
        return nodeset.status, []
    found = [condition, *health({condition.type: condition}, waits_for_jobs=False)]
    found = [msgspec.structs.replace(each, observed_generation=generation) for each in found]
    stays = [each for each in nodeset.status.conditions if each.type not in {new.type for new in found} | _FLEETING]
    conditions = (*stays, *(stamped(new, nodeset.status.condition(new.type), rfc3339(now)) for new in found))
    status = msgspec.structs.replace(nodeset.status, conditions=conditions, observed_generation=generation)
    return status, [Notice("Warning", "BadSpec", message)] if is_news else []


def _notice(condition: Condition) -> Notice | None:
    match (condition.type, condition.status):
        case ("Feasible", "False") | ("RemovalHeld" | "DrainTimeout" | "VersionSkew", "True"):
            return Notice("Warning", condition.reason, condition.message)
        case ("Progressing", "False") if condition.reason == "CreateFailed":
            return Notice("Warning", condition.reason, condition.message)
        case _:
            return None


def make_status(world: World, plan: Plan) -> NodeSetStatus:
    """Return numbers and conditions as they are at this decision, before its actions have had any effect."""
    nodeset, counts = world.nodeset, world.survey.counts
    target = min(plan.desired, world.survey.possible)
    return NodeSetStatus(
        desired_number_scheduled=plan.desired,
        number_feasible=world.survey.possible,
        current_number_scheduled=counts[Trait.SCHEDULED],
        number_ready=counts[Trait.SCHEDULED_READY],
        number_drain=counts[Trait.DRAINS],
        number_running=counts[Trait.RUNS],
        number_unhealthy=counts[Trait.SICK],
        number_misscheduled=counts[Trait.LIVE] - counts[Trait.SCHEDULED],
        number_unavailable=max(target - counts[Trait.SCHEDULED_AVAILABLE], 0),
        updated_number_scheduled=counts[Trait.SCHEDULED_UPDATED],
        observed_generation=nodeset.metadata.generation,
        selector=nodeset.pod_selector,
        growth=nodeset.status.growth,
        conditions=_conditions(world, plan),
    )


def _conditions(world: World, plan: Plan) -> tuple[Condition, ...]:
    found = [_available(world, plan), _progressing(world, plan), _feasible(world, plan)]
    found += [_removal_held(world, plan), _drain_timeout(world, plan), _version_skew(world)]
    found += [_shared_tmp(world), _shared_pids(world)]
    kept = {condition.type: condition for condition in found if condition is not None}
    together = health(kept, waits_for_jobs=_waits_for_jobs(world, plan))
    return tuple(_with_times(world, condition) for condition in (*kept.values(), *together))


def _waits_for_jobs(world: World, plan: Plan) -> bool:
    """True if only Slurm has something left to do: it drains the nodes of pods that have to go. False while a pod is
    missing, being deleted or not Ready.
    """
    if world.nodeset.is_deleting or plan.missing or _pods(world, Trait.DELETING) or _pods(world, Trait.STAYING_UNREADY):
        return False
    return any(pod.uid in plan.wanted_gone for pod in _pods(world, Trait.MARKED))


def _with_times(world: World, condition: Condition) -> Condition:
    old, generation = world.nodeset.status.condition(condition.type), world.nodeset.metadata.generation
    return stamped(msgspec.structs.replace(condition, observed_generation=generation), old, rfc3339(world.now))


def _available(world: World, plan: Plan) -> Condition:
    target = min(plan.desired, world.survey.possible)
    available = world.survey.counts[Trait.STAYING_AVAILABLE]
    limit = max_unavailable(world.nodeset.spec.update_strategy, target)
    message = f"{available} of {target} pods are ready and not being removed"
    if target == 0:
        return Condition(type="Available", status="False", reason="NoPods", message="no pod is wanted or possible")
    if target - available > limit:
        return Condition(type="Available", status="False", reason="TooManyUnavailable", message=message)
    return Condition(type="Available", status="True", reason="MinimumAvailable", message=message)


def _progressing(world: World, plan: Plan) -> Condition:
    def condition(status: str, reason: str, message: str) -> Condition:
        return Condition(type="Progressing", status=status, reason=reason, message=message)

    if world.nodeset.is_deleting:
        return condition("True", "TearingDown", _going_text(world))
    if world.create_error:
        return condition("False", "CreateFailed", world.create_error)
    finished = [pod for pod in _pods(world, Trait.FINISHED) if not pod.is_deleting]
    if finished:
        reasons = sorted({pod.status.reason or pod.status.phase for pod in finished})
        return condition("False", "PodsFailed", f"{_range(finished)} failed ({', '.join(reasons)}); tried again later")
    if any(cause == RemovalCause.ROLLOUT for cause in plan.wanted_gone.values()) or _replaces_old_pods(world):
        return condition("True", "RollingOut", f"{_updated_text(world)}; {_going_text(world)}")
    acts = any(not isinstance(action, AddFinalizer) for action in plan.actions)
    if acts or plan.wanted_gone or plan.missing or _pods(world, Trait.DELETING):
        return condition("True", "Scaling", _creating_text(plan) or _going_text(world))
    waiting = _pods(world, Trait.STAYING_UNREADY)
    if waiting:
        return condition("True", "WaitingForReady", f"{_range(waiting)} not ready; {_updated_text(world)}")
    return _at_rest(world)


def _replaces_old_pods(world: World) -> bool:
    """True if a rolling update goes on although no pod is marked for it now: a pod is being deleted, and pods of an
    older template are left.
    """
    return rolls_now(world.nodeset.spec, world.now) and bool(
        _pods(world, Trait.DELETING) and _pods(world, Trait.OLD_TEMPLATE)
    )


def _at_rest(world: World) -> Condition:
    outdated, spec = _pods(world, Trait.OLD_TEMPLATE), world.nodeset.spec
    reason, message = "Complete", "all pods are ready and match the template"
    opens = next_opening(spec.update_strategy.rolling_update.windows, world.now)
    if outdated and opens is not None and not spec.paused and spec.update_strategy.type == "RollingUpdate":
        reason = "WaitsForWindow"
        message = f"{_range(outdated)} of an older template stay until the window at {rfc3339(opens)}"
    elif outdated:
        reason, until = "OnDelete", "they are deleted (updateStrategy OnDelete)"
        if spec.paused:
            reason, until = "Paused", "the roll is resumed or they are deleted"
        message = f"{_range(outdated)} of an older template stay until {until}"
    return Condition(type="Progressing", status="False", reason=reason, message=message)


def _pods(world: World, trait: Trait) -> list[Pod]:
    return [judged.pod for judged in world.survey.those(trait).values()]


def _updated_text(world: World) -> str:
    counts = world.survey.counts
    unready = _pods(world, Trait.STAYING_UNREADY)
    ended = next((f"; {pod.name} has ended: {why}" for pod in unready if (why := last_words(pod))), "")
    return f"{counts[Trait.STAYING_UPDATED]} of {counts[Trait.STAYING]} updated{ended}"


def _creating_text(plan: Plan) -> str:
    created = [action.name for action in plan.actions if isinstance(action, CreatePod)]
    more = plan.missing - len(created)
    parts = [f"creating {hostlist.describe(created)}"] if created else []
    parts += [f"{more} more to create"] if more else []
    return ", ".join(parts)


def _going_text(world: World) -> str:
    going = _pods(world, Trait.DELETING)
    draining = [pod for pod in _pods(world, Trait.MARKED) if not pod.is_deleting]
    parts = [f"waiting for Slurm to drain {_range(draining)}"] if draining else []
    parts += [f"{_range(going)} terminating"] if going else []
    return ", ".join(parts) or "choosing pods to remove"


def _feasible(world: World, plan: Plan) -> Condition | None:
    if world.nodeset.is_deleting:
        return None
    total, possible, away = world.survey.nodes, world.survey.possible, _gpus_away(world)
    why = explain_exclusions(world.survey.exclusions)
    nodes = f"{total} node{'' if total == 1 else 's'}"
    if possible == 0 and plan.desired == 0 and world.nodeset.spec.replicas == 0:
        return Condition(type="Feasible", status="True", reason="NothingWanted", message="replicas is 0")
    if possible == 0 and world.nodeset.spec.replicas is None and world.nodeset.spec.growth.ask is not Ask.NONE:
        message = f"{nodes}{': ' if why else ''}{why}; autoscalers are asked when jobs want some"
        return Condition(type="Feasible", status="True", reason="NothingWanted", message=message)
    if possible == 0:
        return Condition(
            type="Feasible", status="False", reason="NoNodeFits", message=f"{nodes}: {why}{away}" if why else "no nodes"
        )
    if possible < plan.desired:
        message = f"{plan.desired} wanted, {possible} of {nodes} fit; {why}{away}" if why else (
            f"{plan.desired} wanted, there are only {nodes}"
        )  # fmt: skip
        return Condition(type="Feasible", status="False", reason="TooFewNodes", message=message)
    return Condition(type="Feasible", status="True", reason="NodesFit", message=f"{possible} of {nodes} fit{away}")


def _gpus_away(world: World) -> str:
    """Return a text that names the pods which stay for a while although their nodes offer no GPUs now, because a device
    plugin may be away; empty if there are none.
    """
    others = world.survey.those(Trait.OTHER_OFFER).values()
    pods = [judged.pod for judged in others if lacks_gpus(world.nodeset, judged.offer)]
    if not pods:
        return ""
    stay = f"pods stay for {GPUS_AWAY_S / 60:g} minutes"
    return f"; no GPUs are offered on the nodes of {_range(pods)}: is a device plugin away? The {stay}"


def _removal_held(world: World, plan: Plan) -> Condition | None:
    held = plan.held
    if not held:
        return None
    message = (
        f"the nodes of {_range(held)} no longer fit: {explain_exclusions(world.survey.exclusions)}. At most "
        f"{plan.removal_cap} are removed at once without confirmation: restore the nodes' labels or the template, or "
        f"confirm with: kubectl annotate nodeset … {names.ANNOTATION_REMOVAL_CAP}={len(held)}"
    )
    said = world.nodeset.annotations.get(names.ANNOTATION_REMOVAL_CAP)
    if said is not None and annotated_cap(world.nodeset) is None:
        message += f"; {said[:40]!r}, its value now, is not a number of pods"
    return Condition(type="RemovalHeld", status="True", reason="TooManyAtOnce", message=message)


def _drain_timeout(world: World, plan: Plan) -> Condition | None:
    if not plan.overdue:
        return None
    limit_s, policy = world.nodeset.spec.drain_timeout_seconds, world.nodeset.spec.drain_timeout_policy
    what = "are deleted now" if policy == "Force" else "keep waiting for their jobs (drainTimeoutPolicy: Wait)"
    message = f"{_range(plan.overdue)} not drained after {limit_s} s; they {what}"
    return Condition(type="DrainTimeout", status="True", reason="DrainTimeout", message=message)


def _version_skew(world: World) -> Condition | None:
    problem = version_skew(world.nodeset.metadata.labels)
    if not problem:
        return None
    return Condition(type="VersionSkew", status="True", reason="VersionSkew", message=problem)


def _shared_tmp(world: World) -> Condition | None:
    value = world.nodeset.annotations.get(names.ANNOTATION_SHARED_TMP)
    if not value:
        return None
    message = f"the jobs of a node share /tmp and /dev/shm, because of {value[:100]}"
    return Condition(type="SharedTmp", status="True", reason="SharedTmp", message=message)


def _shared_pids(world: World) -> Condition | None:
    value = world.nodeset.annotations.get(names.ANNOTATION_SHARED_PIDS)
    if not value:
        return None
    message = (
        f"the jobs of a node share process ids, because of {value[:100]}: each job sees the processes of its user's "
        "other jobs there. slurmConfig.privatePids: true hides them. It needs slurmConfig.cgroup: auto, cgroup v2 and "
        "Slurm 25.11 or newer; set it while no job runs"
    )
    return Condition(type="SharedPids", status="True", reason="SharedPids", message=message)


def _range(pods: Sequence[Pod]) -> str:
    return hostlist.describe(pod.name for pod in pods)
