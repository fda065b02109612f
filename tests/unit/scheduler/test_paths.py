"""How often one pass and one epilog lead a reader back up.

A call climbs back when the called file stands above the calling one in the chain of imports: nobody finds it by reading
the imports. Families are not counted, for each gang enters one of them.
"""

import ast
import asyncio
import contextvars
import graphlib
import sys
from pathlib import Path

import pytest

from sunkpy.scheduler.hooks.answers import Hooks
from sunkpy.scheduler.loop import GangLoop
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

ROOT = Path(__file__).resolve().parents[3]
MOST_CLIMBS = 2

followed = contextvars.ContextVar("followed", default=None)
"""The calls from file to file of the pass or epilog that is followed, in its own task and in those that it starts."""


def modules(folder):
    """The text of each module below a folder of sunkpy, by its name."""
    found = {}
    for path in (ROOT / "sunkpy" / folder).rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = path.read_text()
    return found


def imports(text, known):
    """Which of the known modules a text imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            named = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in known else node.module for name in named}
    return {name for name in found if name in known}


def floors(texts):
    """The longest chain of imports from each module down, itself first."""
    below = {name: imports(text, texts) - {name} for name, text in texts.items()}
    chains = {}
    for name in graphlib.TopologicalSorter(below).static_order():
        chains[name] = (name, *max((chains[each] for each in below[name]), key=len, default=()))
    return chains


def module_of(frame):
    """The module of a frame, if it counts. Lambdas and generators are run elsewhere, and read where they stand."""
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    is_counted = name.startswith(("sunkpy.scheduler.", "sunkpy.core.gang.")) and ".families" not in name
    return name if is_counted and frame.f_code.co_name not in ("<genexpr>", "<lambda>") else ""


def follow(frame, event, _):
    calls = followed.get()
    if calls is not None and event == "call" and (called := module_of(frame)):
        caller = frame.f_back
        while caller is not None and not module_of(caller):
            caller = caller.f_back
        calls.add((module_of(caller), called))


def following(function, paths):
    """The function, which notes its calls from file to file each time that it is called."""

    async def call(*args):
        paths.append(calls := set())
        token = followed.set(calls)
        sys.setprofile(follow)
        try:
            return await function(*args)
        finally:
            sys.setprofile(None)
            followed.reset(token)

    return call


@pytest.fixture
def paths(monkeypatch):
    """The calls from file to file of each pass and each epilog."""
    found = {"pass": [], "epilog": []}
    monkeypatch.setattr(GangLoop, "reconcile", following(GangLoop.reconcile, found["pass"]))
    monkeypatch.setattr(Hooks, "epilog", following(Hooks.epilog, found["epilog"]))
    return found


async def test_a_pass_and_an_epilog_rarely_lead_back_up(tmp_path, paths):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job = await bound_pod(world, call)
        world.set_job(job, "CANCELLED")
        epilog = asyncio.ensure_future(call("epilog", job))
        await world.until(lambda: world.deleted)
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})
    chains = floors(modules("scheduler") | modules("core/gang"))
    for what in ("pass", "epilog"):
        assert paths[what]
        for calls in paths[what]:
            climbs = sorted((one, other) for one, other in calls if one and len(chains[other]) > len(chains[one]))
            assert len(climbs) <= MOST_CLIMBS, climbs


def test_the_longest_chain_of_imports_is_named_from_above():
    texts = {"a": "from b import x", "b": "from c import d\nimport os", "c": "", "c.d": "from typing import Any"}
    assert floors(texts)["a"] == ("a", "b", "c.d")
