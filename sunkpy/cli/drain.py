"""`sunkpy drain` and `undrain`: with the rights of the person who asks, at the door that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import connected
from sunkpy.cli.options import NO_ANSWER, Form, Shown, present
from sunkpy.cli.overview import present_absent
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.core import names
from sunkpy.core.explain.explanation import render
from sunkpy.core.model.objects import Node, Wire
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.overview.drain_plan import (
    Asker,
    Cordon,
    Drain,
    NodeNow,
    Outcome,
    Resume,
    Step,
    Steps,
    Uncordon,
    explain_steps,
    plan_drain,
    plan_undrain,
)
from sunkpy.core.overview.drained import Door, HeldNode, find_holds
from sunkpy.core.overview.pool import PoolFacts, find_nodes, state_of
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.slurm import NodeChange, Slurm, errors
from sunkpy.slurm.nodes import UNDRAIN

_WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

Plan = Callable[[NodeNow, Asker], Steps]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for. `set_by`: whose holds they name; `is_trial`: change nothing."""

    node: str
    form: Form = "table"
    set_by: tuple[str, ...] = ()
    is_trial: bool = False


class _UserInfo(Wire, frozen=True, kw_only=True):
    username: str = ""


class _ReviewStatus(Wire, frozen=True, kw_only=True):
    user_info: _UserInfo = _UserInfo()


class _SelfReview(Wire, frozen=True, kw_only=True):
    status: _ReviewStatus = _ReviewStatus()


async def drain(access: Access, order: Order, door: Door, reason: str) -> Shown:
    """Take a node out of service at a door.

    Raises:
        BadSettings, KubeError, SlurmError: one of them did not answer, or refused.
    """
    return await _carry_out(access, order, lambda now, asker: plan_drain(now, door, reason, asker))


async def undrain(access: Access, order: Order, door: Door | None = None) -> Shown:
    """Give a node back; without a door at both.

    Raises:
        BadSettings, KubeError, SlurmError: one of them did not answer, or refused.
    """
    doors = (door,) if door else (Door.KUBERNETES, Door.SLURM)
    return await _carry_out(access, order, lambda now, asker: plan_undrain(now, doors, asker))


async def _carry_out(access: Access, order: Order, plan: Plan) -> Shown:
    async with connected(access) as sides:
        kube, slurm = sides.kube, sides.slurm
        reader = PoolReader.over(sides, namespace=access.namespace)
        facts = await reader.read()
        now = await _now(kube, slurm if facts.slurm_nodes is not None else None, facts, order.node)
        if now is None:
            return present_absent(order.node, order.form)
        asker = Asker(
            in_kubernetes=await _who_am_i(kube),
            in_slurm=slurm.user if slurm is not None else "",
            set_by=frozenset(order.set_by),
        )
        steps, is_done = plan(now, asker), not order.is_trial
        for step in steps.steps if is_done else ():
            await _do(step, now, kube, slurm)
    outcome = Outcome(
        node=now.held, is_done=is_done, steps=tuple(map(str, steps.steps)), left=steps.left, unread=facts.unread
    )
    explanation = explain_steps(now, steps, is_done=is_done, unread=facts.unread)
    return present(outcome, order.form, lambda: render(explanation), NO_ANSWER if steps.left and not steps.steps else 0)


async def _now(kube: Kube, slurm: Slurm | None, facts: PoolFacts, name: str) -> NodeNow | None:
    """The node of the pool by its name at either door, read again: what is written is decided on that."""
    line = next((line for line in find_nodes(facts) if name in (line.node, line.slurm_node)), None)
    if line is None:
        return None
    node = await kube.get(paths.node(line.node), Node)
    pod = next((each for each in facts.slurmd_pods if each.spec.node_name == line.node), None)
    state = await _in_slurm(slurm, line.slurm_node) if slurm is not None else None
    held = HeldNode(
        node=line.node,
        slurm_node=line.slurm_node,
        slurm=line.slurm,
        holds=tuple(find_holds(node, pod, state or (state_of(pod, facts) if pod is not None else None))),
        jobs=line.jobs,
        pods=line.pods,
    )
    return NodeNow(held=held, node=node, slurm=state)


async def _in_slurm(slurm: Slurm, name: str) -> SlurmNode:
    try:
        return await slurm.node(name)
    except errors.NotFound:
        return SlurmNode(name=name)


async def _who_am_i(kube: Kube) -> str:
    """By the name that the apiserver knows; empty when it does not tell."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        return msgspec.json.decode(await kube.create(_WHO_AM_I, body), type=_SelfReview).status.user_info.username
    except KubeError:
        return ""


async def _do(step: Step, now: NodeNow, kube: Kube, slurm: Slurm | None) -> None:
    match step:
        case Cordon(reason=reason, by=by):
            marks = {names.ANNOTATION_DRAIN: reason, names.ANNOTATION_DRAIN_BY: by or None}
            await _patch(kube, now.node, marks, unschedulable=True)
        case Uncordon():
            marks = {names.ANNOTATION_DRAIN: None, names.ANNOTATION_DRAIN_BY: None}
            await _patch(kube, now.node, marks, unschedulable=False)
        case Drain(reason=reason) if slurm is not None:
            await slurm.drain_node(now.held.slurm_node, reason)
        case Resume(state=state) if slurm is not None:
            change = UNDRAIN if state == "UNDRAIN" else NodeChange(state=(state,))
            await slurm.update_node(now.held.slurm_node, change)


async def _patch(kube: Kube, node: Node | None, annotations: dict[str, str | None], *, unschedulable: bool) -> None:
    """Only if the Node is as it was read."""
    assert node is not None
    seen = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
    spec = {"unschedulable": unschedulable or None}
    await kube.patch(paths.node(node.name), {"metadata": {**seen, "annotations": annotations}, "spec": spec})
