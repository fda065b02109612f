"""What a reader enters who follows a pass, an epilog or a prolog, and a pod from its creation to its binding.

Traced while the scheduler runs on the doubles, not counted by reading. One course of a few gangs is traced, made of the
steps of test_scheduler.py and test_gangs.py; it stands for their tests, which are not traced. The clients and the
values of both worlds are left out, and all families are one file. A call climbs back when the called file stands above
the calling one in the chain of imports: nobody finds it by reading the imports.
"""

import ast
import asyncio
import contextlib
import contextvars
import graphlib
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from sunkpy.scheduler.hooks.answers import Hooks
from sunkpy.scheduler.loop import GangLoop
from sunkpy.scheduler.pods.gangs import Gangs
from tests.unit.core.gang.trio import WITH_TRIO
from tests.unit.scheduler.test_gangs import NODES, preempt_trio, start
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

ROOT = Path(__file__).resolve().parents[3]
MOST_CLIMBS = 2
MOST_ENTERED = {
    "pass": (22, 70),
    "epilog": (20, 75),
    "prolog": (20, 93),
    "recognition": (14, 72),
    "created to bound": (47, 390),
}
"""Files, and functions, the medians. Half of the passes have much to do. From creation to binding 43 files are entered;
on a busy machine a poll enters two or three more.
"""

CLIENTS = ("sunkpy.kube", "sunkpy.slurm", "sunkpy.runtime", "sunkpy.core.model")
FAMILIES = "sunkpy.core.gang.families"


class Trace(NamedTuple):
    """What was entered: calls from file to file, and functions with their file."""

    calls: set[tuple[str, str]]
    functions: set[tuple[str, str]]

    @property
    def size(self):
        """Files and functions."""
        return len({file for file, _ in self.functions}), len(self.functions)


followed = contextvars.ContextVar("followed", default=None)
"""The trace of the pass or hook that is followed, in its own task and in those that it starts."""


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
    is_counted = name.startswith("sunkpy.") and not name.startswith(CLIENTS) and frame.f_code.co_name[0] != "<"
    return (FAMILIES if name.startswith(FAMILIES) else name) if is_counted else ""


def note(trace, frame):
    """A call into what counts."""
    if called := module_of(frame):
        caller = frame.f_back
        while caller is not None and not module_of(caller):
            caller = caller.f_back
        trace.calls.add((module_of(caller), called))
        trace.functions.add((called, frame.f_code.co_qualname))


@contextlib.contextmanager
def tracing():
    """Each call of a function goes to the trace that is followed where it is called."""

    def follow(frame, event, _):
        if event == "call" and (trace := followed.get()) is not None:
            note(trace, frame)

    sys.setprofile(follow)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def tracing_all():
    """One trace of all that is called, by whomever."""
    trace = Trace(set(), set())
    sys.setprofile(lambda frame, event, _: note(trace, frame) if event == "call" else None)
    try:
        yield trace
    finally:
        sys.setprofile(None)


def following_at_once(function, traces):
    """The same for one that awaits nothing."""

    def call(*args):
        traces.append(trace := Trace(set(), set()))
        token = followed.set(trace)
        try:
            return function(*args)
        finally:
            followed.reset(token)

    return call


def following(function, traces):
    """The function, which is followed each time that it is called."""

    async def call(*args):
        traces.append(trace := Trace(set(), set()))
        token = followed.set(trace)
        try:
            return await function(*args)
        finally:
            followed.reset(token)

    return call


@pytest.fixture
def traces(monkeypatch):
    """A trace for each pass, epilog and prolog. The work to assemble a gang is traced apart, because the first pass
    after a change does it in addition.
    """
    found = {"pass": [], "epilog": [], "prolog": [], "recognition": []}
    monkeypatch.setattr(Gangs, "_work_out", following_at_once(Gangs._work_out, found["recognition"]))
    monkeypatch.setattr(GangLoop, "reconcile", following(GangLoop.reconcile, found["pass"]))
    monkeypatch.setattr(Hooks, "epilog", following(Hooks.epilog, found["epilog"]))
    monkeypatch.setattr(Hooks, "prolog", following(Hooks.prolog, found["prolog"]))
    return found


def assert_short(what, files, functions):
    structlog.get_logger("trace").info(what, files=files, functions=functions)
    most_files, most_functions = MOST_ENTERED[what]
    assert (files <= most_files, functions <= most_functions) == (True, True), (what, files, functions)


async def settle(world):
    """All that has happened is seen: after two polls more no gang waits for a pass."""
    read, queue = world.slurm.states_read, world.term._ledger.queue
    await world.until(lambda: world.slurm.states_read >= read + 2)
    await world.until(lambda: not (len(queue) or queue._working))


async def forget(world):
    """Nothing is left of the gang and its job."""
    await world.until(lambda: not len(world.term._ledger))
    await world.until(lambda: not world.term._members.on_node("node-1"))
    world.submissions.clear()
    world.jobs.clear()


async def run_and_end(world, call):
    """A pod that does its work, and another one and a trio that lose their nodes. Each change is seen before the next
    one, as with pods that run for minutes, so the passes are the same on a busy machine.
    """
    job = await bound_pod(world, call)
    await settle(world)
    world.pod_ends("Succeeded")
    await world.until(lambda: world.signals)
    await settle(world)
    world.set_job(job, "COMPLETED", "COMPLETING", nodes="n1")
    assert await call("epilog", job) == (200, {"done": True})
    await settle(world)
    world.set_job(job, "COMPLETED", nodes="n1")
    await world.until(lambda: not len(world.term._ledger))
    world.pod_vanishes()
    await forget(world)
    job = await bound_pod(world, call)
    await settle(world)
    world.set_job(job, "CANCELLED", "COMPLETING")
    epilog = asyncio.ensure_future(call("epilog", job))
    await world.until(lambda: world.deleted)
    await settle(world)
    world.pod_ends("Failed")
    await settle(world)
    world.pod_vanishes()
    assert await epilog == (200, {"done": True})
    await settle(world)
    world.set_job(job, "CANCELLED")
    await forget(world)
    job = await start(world, call)
    await settle(world)
    await preempt_trio(world, call, job)


async def test_a_pass_and_the_hooks_enter_few_files_and_rarely_lead_back_up(tmp_path, traces):
    world = World()
    for number in NODES:
        world.add_node(number)
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        with tracing():
            await run_and_end(world, call)
    chains = floors(modules("scheduler") | modules("core/gang"))
    for what, each in traces.items():
        for trace in each:
            known = ((one, other) for one, other in trace.calls if one in chains and other in chains)
            climbs = sorted((one, other) for one, other in known if len(chains[other]) > len(chains[one]))
            assert len(climbs) <= MOST_CLIMBS, climbs
        sizes = [trace.size for trace in each]
        assert_short(what, statistics.median(size[0] for size in sizes), statistics.median(size[1] for size in sizes))


async def trace_to_binding(folder):
    folder.mkdir()
    world = World()
    world.add_node(1)
    async with leading(world, folder) as server, hook_client(server) as call:
        await world.until(lambda: world.term._ledger.all_jobs_known)
        with tracing_all() as trace:
            await bound_pod(world, call)
    return trace.size


async def test_from_its_creation_to_its_binding_a_pod_enters_few_files(tmp_path):
    """Of several pods, because what runs beside one of them, such as a poll, is in its trace, too."""
    sizes = [await trace_to_binding(tmp_path / str(number)) for number in range(5)]
    assert_short("created to bound", *map(statistics.median, zip(*sizes, strict=True)))


def test_the_longest_chain_of_imports_is_named_from_above():
    texts = {"a": "from b import x", "b": "from c import d\nimport os", "c": "", "c.d": "from typing import Any"}
    assert floors(texts)["a"] == ("a", "b", "c.d")
