"""`kubectl sunk roll`: shows how far the roll (replacement of the slurmd pods) of a NodeSet is; pauses, resumes or
hastens it.
"""

from __future__ import annotations

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import Sides, connected
from sunkpy.cli.elsewhere import namespaces_of
from sunkpy.cli.nodeset_reader import read_nodeset
from sunkpy.cli.options import NO_ANSWER, NO_SLURM, Form, Shown, present
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.cli.readable_cluster import or_not
from sunkpy.core.explain.explanation import Explained, Explanation
from sunkpy.core.explain.no_gang import absent, ambiguous
from sunkpy.core.explain.nodeset import NodeSetFacts
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.job_ends import JobEnd, find_job_ends
from sunkpy.core.overview.roll import RollChange, Verb, busy_nodes, explain_roll, plan_roll
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.connection import current_namespace


class RollOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks `kubectl sunk roll` to do with a NodeSet.

    `max_unavailable`: the new maxUnavailable, a number or a percentage; None leaves it as it is.
    """

    nodeset: str
    verb: Verb
    max_unavailable: int | str | None = None
    form: Form = "table"

    @property
    def command(self) -> str:
        """The command as the person types it, without the namespace."""
        pace = f" --max-unavailable {self.max_unavailable}" if self.max_unavailable is not None else ""
        return f"kubectl sunk roll {self.nodeset} {self.verb}{pace}"


async def roll(access: Access, order: RollOrder) -> Shown:
    """Change the roll of a NodeSet, if the person asks for a change, and return the command's output: how far the roll
    is.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or the NodeSet cannot be read or changed.
    """
    namespace = access.namespace or await _find(access, order)
    if isinstance(namespace, Explanation):
        return _none(namespace, order.form)
    async with connected(msgspec.structs.replace(access, namespace=namespace)) as sides:
        facts = await read_nodeset(sides.kube, namespace, order.nodeset)
        if facts is None:
            elsewhere = await namespaces_of(sides.kube, "NodeSet", order.nodeset)
            none = absent("NodeSet", namespace, order.nodeset, elsewhere=elsewhere, command=order.command)
            return _none(none, order.form)
        before, change = facts.nodeset, plan_roll(facts, order.verb, order.max_unavailable)
        if change.spec:
            facts = await _changed(sides.kube, facts, change)
        ends, silence = await _job_ends(sides, facts, namespace)
    explained = Explained(explanations=(explain_roll(facts, before, change, ends, silence or sides.not_asked),))
    code = NO_ANSWER if change.why_not else NO_SLURM if silence else 0
    return present(explained, order.form, lambda: explained.text, code)


def _none(why: Explanation, form: Form) -> Shown:
    explained = Explained(explanations=(why,))
    return present(explained, form, lambda: explained.text, NO_ANSWER)


async def _find(access: Access, order: RollOrder) -> str | Explanation:
    """Return the namespace of the NodeSet: the kubeconfig's, if it has such a NodeSet or if the person may not list
    NodeSets; or else the only namespace that has one. If none or several have one, return an explanation.
    """
    current, name = current_namespace(access.kubeconfig), order.nodeset
    async with await Kube.connect(access.kubeconfig) as kube:
        found = await or_not("NodeSets of all namespaces", kube.list_objects(paths.nodesets(), NodeSet), [])
    there = {each.metadata.namespace for each in found or () if each.metadata.name == name}
    if found is None or current in there:
        return current
    if len(there) > 1:
        return ambiguous("NodeSet", name, there, command=order.command)
    return there.pop() if there else absent("NodeSet", "", name)


async def _changed(kube: Kube, facts: NodeSetFacts, change: RollChange) -> NodeSetFacts:
    """Write the change if the NodeSet is still as it was read, and return the NodeSet read again."""
    meta, key = facts.nodeset.metadata, facts.nodeset.key
    seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    await kube.patch(paths.nodeset(*key), {"metadata": seen, "spec": change.spec})
    return await read_nodeset(kube, *key) or facts


async def _job_ends(sides: Sides, facts: NodeSetFacts, namespace: str) -> tuple[tuple[JobEnd, ...], str]:
    """Return when the jobs end for which the roll waits, and why Slurm did not answer (empty if it did, or was not
    asked).
    """
    if sides.slurm is None or not busy_nodes(facts):
        return (), ""
    reader = PoolReader.over(sides, namespace=namespace)
    found = await reader.read_queue()
    return find_job_ends(found.jobs or (), busy_nodes(facts)), reader.slurms_silence
