"""How often one pass and one epilog lead a reader back up.

A call climbs back when the called file stands above the calling one in the chain of imports: nobody finds it by reading
the imports. Families are not counted, for each gang enters one of them.
"""

import asyncio
import contextvars
import sys

import pytest

from sunkpy.scheduler.hooks.answers import Hooks
from sunkpy.scheduler.loop import GangLoop
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading
from tests.unit.test_shape import floors, modules

MOST_CLIMBS = 2

followed = contextvars.ContextVar("followed", default=None)
"""The calls from file to file of the pass or epilog that is followed, in its own task and in those that it starts."""


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
