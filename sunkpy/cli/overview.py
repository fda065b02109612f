"""`kubectl sunk status`, `queue`, `why-drained` and `history`: read the pool, and show it in tables."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from sunkpy.cli.access import Access
from sunkpy.cli.connected import connected
from sunkpy.cli.options import NO_ANSWER, NO_KUBERNETES, NO_SLURM, Form, Shown, present, show
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.core.explain.explanation import Explained, render
from sunkpy.core.explain.no_gang import absent, not_in_cluster, unfindable, without_slurmd
from sunkpy.core.gang.identity import JOBS
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.overview.drained import HeldNode, HeldNodes, explain_held, find_held, held_table
from sunkpy.core.overview.history import find_history, history_table
from sunkpy.core.overview.pool import (
    PoolFacts,
    PoolView,
    explain_missing,
    find_growth,
    find_nodes,
    find_stuck,
    headline,
    pool_tables,
)
from sunkpy.core.overview.queue import Queue, find_queue, queue_table

AskPool = Callable[[PoolReader, Form], Awaitable[Shown]]


async def status(reader: PoolReader, form: Form) -> Shown:
    """Return the answer of `kubectl sunk status`: the pool as it is now."""
    facts = await reader.read()
    pool = pool_of(facts)
    is_wide = form == "wide"

    def text() -> str:
        return show(pool_tables(pool, is_wide=is_wide), is_wide=is_wide, before=headline(pool), unread=pool.unread)

    return present(pool, form, text, _exit_code(facts))


def _exit_code(facts: PoolFacts) -> int:
    match facts.missing:
        case ():
            return 0
        case (side,):
            return NO_SLURM if side == JOBS else NO_KUBERNETES
        case _:
            return NO_ANSWER


def pool_of(facts: PoolFacts) -> PoolView:
    """Return the overview of the pool that `status` shows, from what was read."""
    return PoolView(
        nodes=find_nodes(facts),
        waiting=find_queue(facts.jobs, facts.pods, facts.tiers, time.time()),
        nodesets=tuple("/".join(nodeset.key) for nodeset in facts.nodesets or ()),
        at=rfc3339(utc_now()),
        growth=find_growth(facts),
        stuck=find_stuck(facts),
        unread=facts.unread,
        missing=facts.missing,
    )


async def queue(reader: PoolReader, form: Form) -> Shown:
    """Return the answer of `kubectl sunk queue`: the jobs and pods that wait now."""
    facts = await reader.read_queue()
    waiting = find_queue(facts.jobs, facts.pods, facts.tiers, time.time())
    found = Queue(waiting=waiting, unread=facts.unread, missing=facts.missing)
    none = "Nothing waits." if not found.unread else "Nothing waits, as far as could be read."
    is_empty = not waiting and len(found.missing) < 2
    before = " ".join(filter(None, (none if is_empty else "", explain_missing(found.missing))))
    rows, is_wide = queue_table(waiting), form == "wide"

    def text() -> str:
        return show([rows], is_wide=is_wide, before=before, unread=found.unread)

    return present(found, form, text, _exit_code(facts))


async def why_drained(reader: PoolReader, form: Form, name: str = "") -> Shown:
    """Return the answer of `kubectl sunk why-drained`: who has closed nodes. `name`: only this node; empty for all."""
    facts = await reader.read()
    is_known = not name or any(name in (line.node, line.slurm_node) for line in find_nodes(facts))
    found = [node for node in find_held(facts) if name in ("", node.node, node.slurm_node)]
    if not found and not is_known:
        return await absent_node(reader, name, form, facts, command=f"kubectl sunk why-drained {name}")

    def text() -> str:
        if name:
            free = HeldNode(node=name, slurm_node="", slurm="", holds=())
            return render(explain_held(found[0] if found else free, facts.unread))
        none = "Nobody holds a node." if not facts.unread else "Nobody holds a node, as far as could be read."
        before = "" if found else none
        return show([held_table(found)], is_wide=form == "wide", before=before, unread=facts.unread)

    held = HeldNodes(nodes=tuple(found), unread=facts.unread)
    return present(held, form, text, _exit_code(facts))


async def history(reader: PoolReader, form: Form, name: str = "") -> Shown:
    """Return the output of `kubectl sunk history`: what is known of a node's past. `name`: the node's name in
    Kubernetes or in Slurm.
    """
    past = await reader.past(name)
    if past is None:
        return await absent_node(reader, name, form, command=f"kubectl sunk history {name}")
    found = find_history(past)

    def text() -> str:
        before = f"Node {found.node}" + (f" (Slurm node {found.slurm_node})" if found.slurm_node else "")
        table = show([history_table(found)], before=before, unread=found.unread)
        return "\n".join((table, "", *found.unknown))

    return present(found, form, text, NO_SLURM if reader.slurms_silence else 0)


async def absent_node(
    reader: PoolReader, name: str, form: Form, facts: PoolFacts | None = None, *, command: str
) -> Shown:
    """Return a command's output for a name that no node of the pool has, or that could not be looked up. `command`:
    what the person typed; if a Slurm cluster in another namespace has such a node, the output repeats it with `-n`.

    Raises:
        KubeError: the apiserver did not answer.
    """
    found = absent("Node", "", name)
    if facts is not None and facts.slurmd_pods is None:
        found = unfindable("Node", name, facts.unread)
    elif reader.namespace and (elsewhere := await reader.namespaces_of_node(name)):
        found = not_in_cluster(name, reader.namespace, elsewhere=elsewhere, command=command)
    elif facts is not None and name in {node.name for node in facts.nodes or ()}:
        found = without_slurmd(name, [nodeset.key for nodeset in facts.nodesets or ()])
    explained = Explained(explanations=(found,))
    return present(explained, form, lambda: explained.text, NO_ANSWER)


async def ask_once(access: Access, ask: AskPool, form: Form) -> Shown:
    """Connect, call `ask` (such as `status`) once with a reader of the pool, and return its output.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or the apiserver cannot be reached.
    """
    async with connected(access) as sides:
        return await ask(PoolReader.over(sides, namespace=access.namespace), form)


async def ask_again(
    access: Access, ask: AskPool, form: Form, on_answer: Callable[[Shown], object], every_s: float
) -> None:
    """Call `ask` (such as `status`) with a reader of the pool, pass its output to `on_answer`, and repeat this after a
    pause of `every_s` seconds, until cancelled.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or the apiserver cannot be reached.
    """
    async with connected(access) as sides:
        reader = PoolReader.over(sides, namespace=access.namespace)
        while True:
            on_answer(await ask(reader, form))
            await asyncio.sleep(every_s)
