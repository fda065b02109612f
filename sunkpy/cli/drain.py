"""`kubectl sunk drain`, `undrain` and `verify`: change nodes in Kubernetes or Slurm, with the person's rights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import connected
from sunkpy.cli.options import NO_ANSWER, NO_SLURM, Form, Shown, present, show
from sunkpy.cli.overview import absent_node
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.core import names
from sunkpy.core.explain.explanation import render
from sunkpy.core.model.objects import Node, Wire
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.overview.drain_plan import (
    Cordon,
    Drain,
    DrainAsker,
    DrainOutcome,
    DrainStep,
    NodeNow,
    Outcomes,
    Resume,
    Steps,
    Uncordon,
    Verify,
    explain_steps,
    outcome_table,
    plan_drain,
    plan_undrain,
    plan_verify,
)
from sunkpy.core.overview.drained import Door, HeldNode, find_holds
from sunkpy.core.overview.job_ends import JobEnd, by_slurm_node, find_job_ends, job_end_table
from sunkpy.core.overview.pool import NodeLine, PoolFacts, find_nodes, state_of
from sunkpy.kube import decoding, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.slurm import NodeChange, Slurm, errors
from sunkpy.slurm.nodes import NO_REASON

_NO_OPERATOR: Final = frozenset({2002, 2010})  # ESLURM_ACCESS_DENIED, ESLURM_USER_ID_MISSING
_WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

PlanSteps = Callable[[NodeNow, DrainAsker], Steps]


class DrainOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks `drain`, `undrain` or `verify` to do. `nodes`: names in Kubernetes or in Slurm.

    `selector`: also nodes with these labels. `set_by`: also change drains and cordons of these people. `is_trial`:
    change nothing (--dry-run).
    """

    nodes: tuple[str, ...]
    selector: str = ""
    form: Form = "table"
    set_by: tuple[str, ...] = ()
    is_trial: bool = False


class _UserInfo(Wire, frozen=True, kw_only=True):
    username: str = ""


class _ReviewStatus(Wire, frozen=True, kw_only=True):
    user_info: _UserInfo = _UserInfo()


class _SelfReview(Wire, frozen=True, kw_only=True):
    status: _ReviewStatus = _ReviewStatus()


async def drain(access: Access, order: DrainOrder, door: Door, reason: str) -> Shown:
    """Close nodes to new work on one side (`door`): by a cordon in Kubernetes, or by a drain in Slurm. If one of the
    names is no node of the pool, change none. Return the command's output.

    Raises:
        BadSettings, KubeError, SlurmError: Kubernetes or Slurm did not answer; or the order is for a single node, and
            Kubernetes or Slurm refused to change it.
    """
    return await _carry_out(access, order, lambda now, asker: plan_drain(now, door, reason, asker))


async def undrain(access: Access, order: DrainOrder, door: Door | None = None) -> Shown:
    """Lift the drains of nodes in Slurm or their cordons in Kubernetes (`door`), or both if `door` is None. Return the
    command's output.

    Raises:
        BadSettings, KubeError, SlurmError: Kubernetes or Slurm did not answer; or the order is for a single node, and
            Kubernetes or Slurm refused to change it.
    """
    doors = (door,) if door else (Door.KUBERNETES, Door.SLURM)
    return await _carry_out(access, order, lambda now, asker: plan_undrain(now, doors, asker))


async def verify(access: Access, order: DrainOrder) -> Shown:
    """Ask sunkpy's operator, by an annotation on the Nodes, to run the site's check on nodes. Return the command's
    output.

    Raises:
        BadSettings, KubeError: Kubernetes did not answer; or the order is for a single node, and Kubernetes refused to
            change it.
    """
    return await _carry_out(access, order, plan_verify)


async def _carry_out(access: Access, order: DrainOrder, plan: PlanSteps) -> Shown:
    async with connected(access) as sides:
        reader = PoolReader.over(sides, namespace=access.namespace)
        facts = await reader.read()
        lines, missing = await _named(sides.kube, order, facts)
        if missing:
            command = f"kubectl sunk explain node {missing}"
            return await absent_node(reader, missing, order.form, facts, command=command)
        slurm = sides.slurm if facts.slurm_nodes is not None else None
        asker = DrainAsker(
            in_kubernetes=await _who_am_i(sides.kube),
            in_slurm=sides.slurm.user if sides.slurm is not None else "",
            set_by=frozenset(order.set_by),
        )
        ends = find_job_ends(facts.jobs or (), {line.slurm_node for line in lines})
        of_nodes = by_slurm_node(ends)
        done = [
            await _at_node(line, facts, sides.kube, slurm, asker, order, plan, of_nodes.get(line.slurm_node, ()))
            for line in lines
        ]
    if len(done) == 1 and done[0].failure is not None:
        raise done[0].failure
    unread = dict.fromkeys((*facts.unread, *(each.unread for each in done if each.unread)))
    return _present(done, order.form, ends, tuple(unread))


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one node. `failure`: the error of Kubernetes or Slurm when the node was to be read or changed;
    None without one. `unread`: why Slurm did not say how the node is; empty if it did, or was not asked.
    """

    now: NodeNow
    steps: Steps
    outcome: DrainOutcome
    failure: KubeError | errors.SlurmError | None = None
    unread: str = ""

    @property
    def exit_code(self) -> int:
        if self.failure is not None:
            return NO_SLURM if isinstance(self.failure, errors.SlurmError) else NO_ANSWER
        if self.unread and self.steps.left:
            return NO_SLURM
        return NO_ANSWER if self.steps.left and not self.steps.steps else 0


async def _at_node(
    line: NodeLine,
    facts: PoolFacts,
    kube: Kube,
    slurm: Slurm | None,
    asker: DrainAsker,
    order: DrainOrder,
    plan: PlanSteps,
    job_ends: Sequence[JobEnd],
) -> _Done:
    """Read one node, plan its steps, and carry them out unless it is a trial. An error ends the steps of this node, and
    is returned in the result, so that other nodes are still changed and the output has what was done. If only Slurm
    does not say how the node is, Slurm was not asked.
    """
    slurm_state, unread = None, ""
    if slurm is not None:
        try:
            slurm_state = await _in_slurm(slurm, line.slurm_node)
        except errors.SlurmError as error:
            unread = f"Slurm's side: {error.message}"
    try:
        node = await kube.get(paths.node(line.node), Node)
    except KubeError as error:
        now = _now(facts, line, None, slurm_state)
        return _ended(order, now, Steps(left=(str(error),)), job_ends, failure=error, unread=unread)
    now = _now(facts, line, node, slurm_state)
    steps, failure = plan(now, asker), None
    for number, step in enumerate(steps.steps if not order.is_trial else ()):
        try:
            await _do(step, now, kube, slurm)
        except (KubeError, errors.SlurmError) as error:
            if isinstance(error, errors.SlurmError) and error.error_number in _NO_OPERATOR:
                error.hint = _elsewhere(step, now)
            steps, failure = Steps(steps=steps.steps[:number], left=(*steps.left, str(error))), error
            break
    return _ended(order, now, steps, job_ends, failure=failure, unread=unread)


def _ended(
    order: DrainOrder,
    now: NodeNow,
    steps: Steps,
    job_ends: Sequence[JobEnd],
    *,
    failure: KubeError | errors.SlurmError | None,
    unread: str,
) -> _Done:
    outcome = DrainOutcome(
        node=now.held,
        is_done=not order.is_trial,
        steps=tuple(map(str, steps.steps)),
        left=steps.left,
        job_ends=tuple(job_ends),
    )
    return _Done(now=now, steps=steps, outcome=outcome, failure=failure, unread=unread)


def _elsewhere(step: DrainStep, now: NodeNow) -> str:
    """Return what to do instead of a step for which this Slurm user has no right."""
    state = f"drain reason={step.reason!r}" if isinstance(step, Drain) else "resume"
    command = f"run in slurmctld's pod: scontrol update nodename={now.held.slurm_node} state={state}"
    cordon = "leave out --slurm, because a cordon drains the node in Slurm, too; or " if isinstance(step, Drain) else ""
    return f"this needs an operator of Slurm: {cordon}{command}; or give an operator's --slurm-token-file"


def _present(done: Sequence[_Done], form: Form, ends: Sequence[JobEnd], unread: tuple[str, ...]) -> Shown:
    outcomes = tuple(each.outcome for each in done)

    def text() -> str:
        if len(done) == 1:
            now, steps, did = done[0].now, done[0].steps, done[0].outcome
            return render(explain_steps(now, steps, is_done=did.is_done, job_ends=did.job_ends, unread=unread))
        return show((outcome_table(outcomes), job_end_table(ends)), unread=unread)

    exit_code = max(each.exit_code for each in done)
    return present(Outcomes(outcomes=outcomes, unread=unread), form, text, exit_code)


async def _named(kube: Kube, order: DrainOrder, facts: PoolFacts) -> tuple[list[NodeLine], str]:
    """Return the pool's nodes that the order names or selects by labels, each once; and the first name in the order
    that is no node of the pool (empty if there is none).
    """
    lines = find_nodes(facts)
    by_name = {name: line for line in lines for name in (line.slurm_node, line.node)}
    names_given = list(order.nodes)
    missing = next((name for name in names_given if name not in by_name), "")
    if order.selector:
        listed = await kube.list_objects(paths.NODES, Node, label_selector=order.selector)
        selected = {node.name for node in listed}
        names_given += [line.node for line in lines if line.node in selected]
        if not names_given and not missing:
            missing = f"with labels {order.selector}"
    found = {by_name[name].node: by_name[name] for name in names_given if name in by_name}
    return list(found.values()), missing


def _now(facts: PoolFacts, line: NodeLine, node: Node | None, slurm: SlurmNode | None) -> NodeNow:
    """Return a node as it was read right before its steps are planned. If its Node or its state in Slurm could not be
    read (None), its holds are those of `facts`.
    """
    listed = next((each for each in facts.nodes or () if each.name == line.node), None)
    pod = next((each for each in facts.slurmd_pods or () if each.spec.node_name == line.node), None)
    state = slurm or (state_of(pod, facts) if pod is not None else None)
    held = HeldNode(
        node=line.node,
        slurm_node=line.slurm_node,
        slurm=line.slurm,
        holds=tuple(find_holds(node or listed, pod, state)),
        jobs=line.jobs,
        pods=line.pods,
    )
    return NodeNow(held=held, node=node, pod=pod, slurm=slurm)


async def _in_slurm(slurm: Slurm, name: str) -> SlurmNode:
    try:
        return await slurm.node(name)
    except errors.NotFound:
        return SlurmNode(name=name)


async def _who_am_i(kube: Kube) -> str:
    """Return the person's user name as the apiserver knows it; empty if it does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await kube.create(_WHO_AM_I, body)
        return decoding.read_answer(f"POST {_WHO_AM_I}", answer, _SelfReview).status.user_info.username
    except KubeError:
        return ""


async def _do(step: DrainStep, now: NodeNow, kube: Kube, slurm: Slurm | None) -> None:
    match step:
        case Cordon(reason=reason, by=by):
            marks = {names.ANNOTATION_DRAIN: reason, names.ANNOTATION_DRAIN_BY: by or None}
            await _patch(kube, now.node, marks, unschedulable=True)
        case Uncordon():
            marks = {names.ANNOTATION_DRAIN: None, names.ANNOTATION_DRAIN_BY: None}
            await _patch(kube, now.node, marks, unschedulable=False)
        case Verify(by=by):
            await _patch(kube, now.node, {names.ANNOTATION_VERIFY: by})
        case Drain(reason=reason) if slurm is not None:
            await slurm.drain_node(now.held.slurm_node, reason)
        case Resume(state=state) if slurm is not None:
            change = NodeChange(state=(state,), reason=NO_REASON.reason)
            await slurm.update_node(now.held.slurm_node, change)


async def _patch(
    kube: Kube, node: Node | None, annotations: dict[str, str | None], *, unschedulable: bool | None = None
) -> None:
    """Write annotations and the cordon, if the Node is still as it was read. `unschedulable` None: the cordon stays."""
    assert node is not None
    seen = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
    spec = {"spec": {"unschedulable": unschedulable or None}} if unschedulable is not None else {}
    await kube.patch(paths.node(node.name), {"metadata": {**seen, "annotations": annotations}, **spec})
