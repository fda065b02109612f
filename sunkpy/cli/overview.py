"""`sunkpy status`, `queue`, `why-drained` and `history`: read once or again and again, and put into tables."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import connected
from sunkpy.cli.options import NO_ANSWER, NO_SLURM, Form, as_data, show
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.core.explain.explanation import render
from sunkpy.core.explain.no_gang import absent
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.overview.drained import Held, HeldNode, explain_held, find_held, held_table
from sunkpy.core.overview.history import find_history, history_table
from sunkpy.core.overview.pool import Pool, PoolFacts, find_nodes, headline, pool_tables
from sunkpy.core.overview.queue import Queue, find_queue, queue_table


class Shown(msgspec.Struct, frozen=True):
    """The text of an answer, and the exit code."""

    text: str
    exit_code: int = 0


Ask = Callable[[PoolReader, Form], Awaitable[Shown]]


async def status(reader: PoolReader, form: Form) -> Shown:
    """The pool at this moment."""
    pool = pool_of(await reader.read())
    is_wide, exit_code = form == "wide", NO_SLURM if reader.slurms_silence else 0
    if form in ("json", "yaml"):
        return Shown(as_data(pool, form), exit_code)
    tables = pool_tables(pool, is_wide=is_wide)
    return Shown(show(tables, is_wide=is_wide, before=headline(pool), unread=pool.unread), exit_code)


def pool_of(facts: PoolFacts) -> Pool:
    """The pool, as it is shown."""
    return Pool(
        nodes=find_nodes(facts),
        waiting=find_queue(facts.jobs, facts.pods, facts.tiers, time.time()),
        nodesets=tuple("/".join(nodeset.key) for nodeset in facts.nodesets or ()),
        at=rfc3339(utc_now()),
        unread=facts.unread,
    )


async def queue(reader: PoolReader, form: Form) -> Shown:
    """What waits at this moment."""
    facts = await reader.read_queue()
    waiting = find_queue(facts.jobs, facts.pods, facts.tiers, time.time())
    found = Queue(waiting=waiting, is_slurm_asked=facts.jobs is not None, unread=facts.unread)
    exit_code = NO_SLURM if reader.slurms_silence else 0
    if form in ("json", "yaml"):
        return Shown(as_data(found, form), exit_code)
    before = "" if waiting else "Nothing waits." if not found.unread else "Nothing waits of what could be read."
    return Shown(show([queue_table(waiting)], is_wide=form == "wide", before=before, unread=found.unread), exit_code)


async def why_drained(reader: PoolReader, form: Form, name: str = "") -> Shown:
    """Who holds the nodes, or one by its name at either door."""
    facts = await reader.read()
    is_known = not name or any(name in (line.node, line.slurm_node) for line in find_nodes(facts))
    found = [node for node in find_held(facts) if name in ("", node.node, node.slurm_node)]
    exit_code = NO_SLURM if reader.slurms_silence else 0
    if form in ("json", "yaml"):
        return Shown(as_data(Held(nodes=tuple(found), unread=facts.unread), form), exit_code)
    if name:
        free = HeldNode(node=name, slurm_node="", slurm="", holds=())
        text = render(explain_held(found[0] if found else free, facts.unread))
        return Shown(text, exit_code) if found or is_known else Shown(render(absent("Node", "", name)), NO_ANSWER)
    before = (
        "" if found else "Nobody holds a node." if not facts.unread else "Nobody holds a node, by what could be read."
    )
    return Shown(show([held_table(found)], is_wide=form == "wide", before=before, unread=facts.unread), exit_code)


async def history(reader: PoolReader, form: Form, name: str = "") -> Shown:
    """What is known of the past of a node, by its name at either door."""
    past = await reader.past(name)
    if past is None:
        return Shown(render(absent("Node", "", name)), NO_ANSWER)
    found, exit_code = find_history(past), NO_SLURM if reader.slurms_silence else 0
    if form in ("json", "yaml"):
        return Shown(as_data(found, form), exit_code)
    before = f"Node {found.node}" + (f" (Slurm node {found.slurm_node})" if found.slurm_node else "")
    text = show([history_table(found)], before=before, unread=found.unread)
    return Shown("\n".join((text, "", *(f"not known: {each}" for each in found.unknown))), exit_code)


async def ask_once(access: Access, ask: Ask, form: Form) -> Shown:
    """One answer.

    Raises:
        BadSettings, KubeError: there is none.
    """
    async with connected(access) as (kube, slurm, settings):
        return await ask(PoolReader(kube, slurm, settings, namespace=access.namespace), form)


async def ask_again(access: Access, ask: Ask, form: Form, on_answer: Callable[[Shown], object], every_s: float) -> None:
    """An answer each so many seconds, until cancelled.

    Raises:
        BadSettings, KubeError: there is none.
    """
    async with connected(access) as (kube, slurm, settings):
        reader = PoolReader(kube, slurm, settings, namespace=access.namespace)
        while True:
            on_answer(await ask(reader, form))
            await asyncio.sleep(every_s)
