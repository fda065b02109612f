"""Builds the explanation of a NodeSet, with the same functions by which the operator decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from sunkpy.core import names
from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.growth.words import describe
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.decide import Plan, decide_nodeset
from sunkpy.core.nodeset.health import OF_KSTATUS
from sunkpy.core.nodeset.removal import RemovalCause
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus, rolls_now
from sunkpy.core.nodeset.status import make_status
from sunkpy.core.nodeset.verdict import NodeView, Trait, judge
from sunkpy.core.nodeset.world import World

_SHOWN: Final = 16


class NodeSetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeSet, and all that its explanation needs.

    `world`: the value that the operator decides on; None if it could not be read, or if the spec is wrong (`problem`
    says why). `views`: the nodes that the NodeSet may or may not use. `unread`: what could not be read, and why.
    """

    nodeset: NodeSet
    world: World | None = None
    views: Sequence[NodeView] = ()
    problem: str = ""
    unread: tuple[str, ...] = ()


class _Words(NamedTuple):
    standing: str
    what_to_do: str


_OPERATOR: Final = "See that an operator leads, and what it logs: kubectl get leases -A"
_WORDS: Final = {
    "BadSpec": _Words(
        "cannot be read, so the operator makes and removes none of its pods",
        "Correct the template in the values of the chart, or, if the NodeSet is not of a chart: "
        "kubectl -n {namespace} edit nodeset {name}",
    ),
    "CreateFailed": _Words(
        "has a template whose pods the apiserver refuses, so no pod is rolled",
        "Correct what refuses the pods, which the message names, or the template in the values of the chart. If the "
        "NodeSet is not of a chart: kubectl -n {namespace} edit nodeset {name}",
    ),
    "PodsFailed": _Words("has slurmd pods that failed", "Read their logs: kubectl -n {namespace} logs POD --previous"),
    "RollingOut": _Words(
        "rolls out its template",
        "Nothing: idle nodes go first, the others when their jobs have ended. To lift the limit maxUnavailable: "
        "kubectl sunk roll {name} now -n {namespace}; to pause: kubectl sunk roll {name} pause -n {namespace}",
    ),
    "Scaling": _Words("creates or removes slurmd pods", "Nothing."),
    "TearingDown": _Words("is being deleted", "Nothing: it ends when the jobs on its nodes have ended."),
    "WaitingForReady": _Words(
        "waits for slurmd pods to be ready",
        "If it stays so, see why a slurmd pod is not ready: "
        "kubectl -n {namespace} get pods -l sunkpy.dev/nodeset={name}, then kubectl -n {namespace} describe pod POD. "
        "Closed nodes: kubectl sunk why-drained",
    ),
    "Paused": _Words(
        "is paused, with pods of an older template", "To roll them: kubectl sunk roll {name} resume -n {namespace}"
    ),
    "WaitsForWindow": _Words(
        "has pods of an older template, which wait for a maintenance window",
        "Nothing; to roll them earlier: kubectl sunk roll {name} now -n {namespace}",
    ),
    "OnDelete": _Words(
        "has pods of an older template",
        "Delete them one by one (kubectl -n {namespace} delete pod POD), or set updateStrategy: RollingUpdate.",
    ),
    "Complete": _Words("has all pods that it wants", "Nothing."),
}
_NEW: Final = _Words("has no status yet", _OPERATOR)
_UNKNOWN: Final = _Words(
    "has no status that could be read",
    "Ask as somebody who may read nodes and pods; to see your own rights: kubectl auth can-i --list",
)
_NO_NODE: Final = _Words(
    "fits no node",
    "Label nodes, or change nodeSelector, tolerations or requests of the template: "
    "kubectl -n {namespace} edit nodeset {name}",
)
_TOO_FEW: Final = _Words(
    "fits fewer nodes than are wanted",
    "Add or label nodes, or lower spec.replicas: kubectl -n {namespace} scale nodeset {name} --replicas=…",
)
_HELD: Final = _Words(
    "would lose too many pods at once, and keeps them",
    "Condition RemovalHeld says how to confirm it: kubectl -n {namespace} describe nodeset {name}",
)


def explain_nodeset(facts: NodeSetFacts) -> Explanation:
    """Return the explanation of a NodeSet: how many pods it wants and has, which nodes it cannot use and why, and what
    the removal or replacement of its slurmd pods waits for.
    """
    nodeset, world = facts.nodeset, facts.world
    plan = decide_nodeset(world) if world is not None else None
    status = make_status(world, plan) if world is not None and plan is not None else nodeset.status
    words = _words(facts, status)
    return Explanation(
        subject=f"NodeSet {'/'.join(nodeset.key)}",
        standing=words.standing,
        lines=(
            Line(title="pods", texts=(_counts(status),)),
            Line(title="because", texts=tuple(filter(None, (facts.problem, *_conditions(status))))),
            Line(title="growth", texts=tuple(describe(status.growth))),
            Line(title="not feasible", texts=tuple(_infeasible(facts))),
            Line(title="have to go", texts=tuple(_going(world, plan)) if world is not None and plan else ()),
            Line(title="then", texts=tuple(_next(world, plan)) if world is not None and plan else ()),
            Line(title="operator", texts=_operator(nodeset)),
            Line(title="not read", texts=facts.unread),
        ),
        what_to_do=_OPERATOR
        if _operator(nodeset)
        else words.what_to_do.format(name=nodeset.name, namespace=nodeset.metadata.namespace),
    )


def _words(facts: NodeSetFacts, status: NodeSetStatus) -> _Words:
    conditions = {condition.type: condition for condition in status.conditions}
    if facts.problem:
        return _WORDS["BadSpec"]
    progress, feasible = conditions.get("Progressing"), conditions.get("Feasible")
    if "RemovalHeld" in conditions:
        return _HELD
    stuck = progress is not None and progress.reason in ("CreateFailed", "PodsFailed", "BadSpec")
    if not stuck and feasible is not None and feasible.status == "False":
        return _NO_NODE if feasible.reason == "NoNodeFits" else _TOO_FEW
    return _WORDS.get(progress.reason if progress is not None else "", _UNKNOWN if facts.unread else _NEW)


def _counts(status: NodeSetStatus) -> str:
    return (
        f"{status.desired_number_scheduled} desired, {status.number_feasible} feasible, "
        f"{status.current_number_scheduled} there, {status.number_ready} ready, "
        f"{status.updated_number_scheduled} of the current template, {status.number_running} with jobs, "
        f"{status.number_drain} drained or draining"
        + (f", {status.number_unhealthy} sick" if status.number_unhealthy else "")
    )


def _conditions(status: NodeSetStatus) -> Iterator[str]:
    """Yield the NodeSet's conditions as text. Conditions that only repeat others for kstatus are left out."""
    for each in status.conditions:
        if each.type not in OF_KSTATUS:
            yield f"{each.type}={each.status}, {each.reason}: {each.message}"


def _infeasible(facts: NodeSetFacts) -> Iterator[str]:
    """Yield the nodes that the NodeSet cannot use, with the rule that excludes them; the most frequent rule first."""
    if facts.world is None:
        return
    found: defaultdict[str, list[str]] = defaultdict(list)
    for view in facts.views:
        exclusion = judge(facts.world.survey.wanted, view).exclusion if view.node is not None else None
        if exclusion is not None:
            found[str(exclusion)].append(view.name)
    for why, nodes in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:_SHOWN]:
        yield f"{hostlist.describe(nodes)}: {why}"


def _going(world: World, plan: Plan) -> Iterator[str]:
    """Yield texts that say what each slurmd pod that is to be removed waits for; pods that wait for the same are in one
    text.
    """
    found: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    marked, answered = world.survey.those(Trait.MARKED), world.survey.those(Trait.ANSWERED)
    for uid, cause in plan.wanted_gone.items():
        pod = world.survey.pods[uid].pod
        if pod.is_deleting:
            waits = "is ending"
        elif uid in answered:
            waits = "is drained and idle, and goes next"
        elif uid in marked:
            waits = f"waits for its jobs; in Slurm {pod.annotations.get(names.ANNOTATION_SLURM_STATE) or 'not known'}"
        else:
            waits = "is marked next"
        found[_cause(cause), waits].append(pod)
    for (why, waits), pods in found.items():
        yield f"{_named(pods)}: {why}: {waits}"


def _cause(cause: RemovalCause) -> str:
    return cause.value.replace("-", " ")


def _next(world: World, plan: Plan) -> Iterator[str]:
    """Yield texts that say what the operator does later: which outdated slurmd pods it will replace, and how many it
    will create.
    """
    left = [judged.pod for judged in world.survey.outdated if judged.pod.uid not in plan.wanted_gone]
    outdated = [pod for pod in left if not pod.is_deleting]
    if outdated and world.nodeset.spec.update_strategy.type == "RollingUpdate":
        paused = ", when the roll is no longer paused" if world.nodeset.spec.paused else ""
        paused = paused or ("" if rolls_now(world.nodeset.spec, world.now) else ", in the next window")
        yield f"{_named(outdated)}: of an older template or with outdated resources, each in its turn{paused}"
    if plan.missing:
        yield f"{plan.missing} more to create"


def _named(pods: Iterable[Pod]) -> str:
    return hostlist.describe(pod.name for pod in pods)


def _operator(nodeset: NodeSet) -> tuple[str, ...]:
    if nodeset.status.observed_generation >= nodeset.metadata.generation:
        return ()
    return ("the operator has not seen the last change of the NodeSet",)
