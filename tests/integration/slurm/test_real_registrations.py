"""What Slurm makes of a slurmd that comes, or comes back: two nodes whose slurmds may be away for a while.

`slurmd -b` stands for a machine that was booted: it gives the time of its own start for that of the boot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devcluster.waiting import wait
from sunkpy.core.mirror import PatchPod, SetComment, SlurmAnswer, View, decide_mirror
from sunkpy.core.mirror.given_up import is_given_up
from sunkpy.core.mirror.report import is_of_pod
from sunkpy.core.model.devices import read_extra, why_unproved
from sunkpy.core.model.objects import (
    Condition,
    ContainerState,
    ContainerStatus,
    Meta,
    Pod,
    PodSpec,
    PodStatus,
    Running,
)
from sunkpy.core.model.states import JobId, SlurmNode
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.topology import files
from sunkpy.core.topology.places import TREE
from sunkpy.slurm import NodeCache, NodeChange, NodesSnapshot, Slurm, errors
from sunkpy.slurm.nodes import NO_REASON
from sunkpy.syncer.queue_waker import QueueWaker
from sunkpy.syncer.slurm_writer import SlurmWriter
from tests.integration.slurm.asking import connect, happens
from tests.integration.slurm.daemons import TELL_BEGUN, Machines, RealSlurm
from tests.integration.slurm.site import Site
from tests.ports import free_ports
from tests.roots import RELEASE, SUITE

pytestmark = pytest.mark.integration

NODES = ("n1", "n2")
RECORD = "gpu_potential_1f3c5a_1"
_CONF = """\
MaxNodeCount=16
PrologFlags=Alloc
SelectTypeParameters=CR_Core_Memory
ReturnToService=1
SchedulerParameters=bf_interval=600,sched_interval=600,batch_sched_delay=0
"""
"""What nothing causes to begin begins after ten minutes."""
_RUN = """\
run() { # a node and its port; what else its slurmd is told is in a file
  for folder in /run /var/spool/slurmd; do mkdir -p $folder; mount -t tmpfs -o mode=755 tmpfs $folder; done
  eval "set -- $1 $2 $(cat /var/tmp/told-$1 2> /dev/null)"
  exec /usr/sbin/slurmd -D -Z -N "$1" --conf "CPUs=2 RealMemory=1000 Port=$2" "${@:3}"
}
export -f run
stay() {
  while :; do
    while [ -e "/var/tmp/away-$1" ]; do sleep 0.1; done
    unshare --mount --propagation unchanged bash -c 'run "$@"' - "$@"
    sleep 0.2
  done
}
"""

_AHEAD = """\
#include <time.h>
#include <unistd.h>
time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += access("/var/tmp/is-ahead", F_OK) ? 0 : 3600;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
"""


class Pair:
    """Both nodes, and SlurmUser."""

    def __init__(self, real: RealSlurm, admin: Slurm) -> None:
        self.real, self.admin = real, admin
        self._files = real.root / "var/tmp"

    async def are_open(self) -> bool:
        """Both may be given jobs."""
        try:
            return all([(await self.admin.node(name)).is_open for name in NODES])
        except errors.SlurmError:
            return False

    async def opens(self) -> bool:
        """As `are_open`. A boot that the last test made may reach slurmctld only now, and the node is resumed again."""
        for name in NODES:
            with contextlib.suppress(errors.SlurmError):
                if is_given_up(await self.admin.node(name)):
                    await self.admin.update_node(name, NodeChange(state=("RESUME",), reason=" "))
        return await self.are_open()

    def leave(self, node: str) -> None:
        """End the slurmd of the node, which stays away."""
        (self._files / f"away-{node}").touch()

        def slurmd() -> list[int]:
            found = self.real.running(rf"/usr/sbin/slurmd .*-N {node} .*")
            return found if len(found) == 1 else []  # it may be about to start, or a child of it to become a program

        os.kill(*wait(slurmd, timeout_s=60, what=f"the slurmd of {node}"), 9)

    def come_back(self, node: str, *options: str) -> None:
        """Start the slurmd of the node again, with these further options."""
        (self._files / f"told-{node}").write_text(" ".join(options))
        (self._files / f"away-{node}").unlink()

    def submit(self, *options: str, sleeps_s: int = 1) -> JobId:
        """A job of SlurmUser."""
        code, said = self.real.run_as(
            "slurm", "sbatch", "--output=/dev/null", *options, f"--wrap={TELL_BEGUN}sleep {sleeps_s}"
        )
        assert code == 0, said
        return JobId(int(said.split()[-1]))

    async def begins(self, job: JobId) -> None:
        """The job begins long before Slurm would look at its queue by itself."""

        async def has_begun() -> bool:
            return self.real.has_begun(job)

        await happens(self.real, has_begun, timeout_s=120)

    async def is_idle(self) -> bool:
        """No job is left. Asked of all nodes: only then slurmctld looks again which cpus are in use."""
        seen = await self.admin.nodes()
        return isinstance(seen, NodesSnapshot) and not any(node.is_busy for node in seen.nodes.values())


def begin(folder: Path, *, conf: str = "", more: Mapping[str, str] | None = None) -> RealSlurm:
    """Slurm with both nodes. `conf`: further lines of slurm.conf; `more`: further files."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    stays = (
        f"stay {node} {port} >> /var/log/slurmd-{node}.log 2>&1 &\n"
        for node, port in zip(NODES, free_ports(2), strict=True)
    )
    machines = Machines(conf=_CONF + conf, start=_RUN + "".join(stays), files=more or {})
    return RealSlurm(folder, SUITE, machines=machines)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    slurm = begin(tmp_path_factory.mktemp("registrations"))
    yield slurm
    slurm.stop()


@pytest.fixture
async def pair(real: RealSlurm) -> AsyncIterator[Pair]:
    """Both open, and no jobs, before and after."""
    pair = Pair(real, connect(real, "slurm"))
    await happens(real, pair.opens)
    yield pair
    await happens(real, pair.is_idle)
    await pair.admin.close()


@pytest.fixture
async def seen(pair: Pair) -> AsyncIterator[NodeCache]:
    """See `waking`."""
    async with waking(pair) as nodes:
        yield nodes


@contextlib.asynccontextmanager
async def waking(pair: Pair) -> AsyncIterator[NodeCache]:
    """What the syncer has seen of the nodes, while the part of it runs that has slurmctld look at its queue."""
    nodes = NodeCache(pair.admin)
    waker = QueueWaker(pair.admin, nodes)
    tasks = [asyncio.create_task(each.run()) for each in (nodes, waker)]
    yield nodes
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def waiting_job(pair: Pair, seen: NodeCache, *options: str) -> JobId:
    """One that lacks n2, as Slurm has found and the syncer has seen."""
    job = pair.submit("--nodes=2", *options)

    async def waits() -> bool:
        nodes = seen.observation.nodes if seen.observation is not None else {}
        is_tried = (await pair.admin.job(job)).state_reason not in ("", "None")
        return is_tried and "n1" in nodes and ("n2" not in nodes or not nodes["n2"].is_open)

    await happens(pair.real, waits)
    return job


async def test_a_job_begins_when_the_last_node_that_it_lacks_registers(pair: Pair, seen: NodeCache) -> None:
    """Without an update of some node slurmctld would look at its queue in ten minutes."""
    await pair.admin.drain_node("n2", "k8s: pod gone")
    job = await waiting_job(pair, seen)
    pair.leave("n2")
    await pair.admin.delete_node("n2")
    await seen.refresh(full=True)
    pair.come_back("n2")
    await pair.begins(job)


async def test_a_job_that_waits_for_a_node_that_could_be_begins_when_it_registers_and_its_record_goes(
    pair: Pair, seen: NodeCache
) -> None:
    """24.11 would refuse the job without the record."""
    await replace_by_a_record(pair, seen)
    job = await waiting_job(pair, seen)
    await joins(pair)
    await pair.admin.delete_node(RECORD)
    await pair.begins(job)


@pytest.mark.skipif(RELEASE == "24.11", reason="24.11 is told by its file")
async def test_below_a_tree_a_job_begins_when_the_node_that_joins_is_told_where_it_stands(tmp_path: Path) -> None:
    """The syncer tells it, and its record goes, at any moment after the registration."""
    tree = {files.YAML: files.write_yaml([TREE], [], [])}
    real = begin(tmp_path, conf="TopologyPlugin=topology/tree\n", more=tree)
    place = NodeChange(topology_str="tree:all:leaf")
    try:
        pair = Pair(real, connect(real, "slurm"))
        await happens(real, pair.opens)
        await pair.admin.update_node("n1", place)
        async with waking(pair) as seen:
            await replace_by_a_record(pair, seen, "Topology=tree:all:unknown")
            job = await waiting_job(pair, seen, "--switches=1@7-0")
            await joins(pair)
            await pair.admin.delete_node(RECORD)
            assert not real.has_begun(job)
            await pair.admin.update_node("n2", place)
            await pair.begins(job)
        await pair.admin.close()
    finally:
        real.stop()


async def replace_by_a_record(pair: Pair, seen: NodeCache, *words: str) -> None:
    """n2 is away, and could be."""
    record = ("scontrol", "create", f"nodename={RECORD}", "CPUs=2", "RealMemory=1000", *words, "state=FUTURE")
    assert pair.real.run_as("slurm", *record)[0] == 0
    await pair.admin.drain_node("n2", "k8s: pod gone")
    pair.leave("n2")
    await pair.admin.delete_node("n2")
    await seen.refresh(full=True)


async def joins(pair: Pair) -> None:
    """n2 is there again."""
    pair.come_back("n2")

    async def is_there() -> bool:
        with contextlib.suppress(errors.NotFound):
            return (await pair.admin.node("n2")).is_registered
        return False

    await happens(pair.real, is_there)


async def test_a_job_begins_when_the_drain_of_the_last_node_that_it_lacks_is_lifted(
    pair: Pair, seen: NodeCache
) -> None:
    await pair.admin.drain_node("n2", "k8s: cordon")
    job = await waiting_job(pair, seen)
    await pair.admin.undrain_node("n2")
    await pair.begins(job)


async def test_a_node_whose_machine_was_booted_unannounced_comes_back(pair: Pair) -> None:
    await boot(pair)
    node = await pair.admin.node("n2")
    assert (node.is_down, node.reason) == (True, "Node unexpectedly rebooted")
    assert set(await comes_back(pair)) == {"ResumeNode"}
    assert (await pair.admin.node("n2")).reason == ""


async def test_a_node_that_falls_silent_after_its_reason_was_removed_comes_back(tmp_path: Path) -> None:
    """slurmctld 24.11 adds its words to the blank that is left, so it does not return the node by itself."""
    real = begin(tmp_path, conf="SlurmdTimeout=5\n")
    pair = Pair(real, connect(real, "slurm"))

    async def is_down() -> bool:
        return (await pair.admin.node("n2")).is_down

    async def answers() -> bool:
        return not (await pair.admin.node("n2")).is_not_responding

    try:
        await happens(real, pair.opens)
        await pair.admin.update_node("n2", NO_REASON)
        pair.leave("n2")
        await happens(real, is_down)
        pair.come_back("n2")
        await happens(real, answers)
        assert set(await comes_back(pair)) == ({"ResumeNode"} if RELEASE == "24.11" else set())
    finally:
        await pair.admin.close()
        real.stop()


async def test_it_opens_within_a_minute_after_the_check_that_runs_before_slurmd(pair: Pair) -> None:
    """`compute.verify` is a service that has to succeed first, as run-services starts it in the slurmd pod."""
    services, passed = pair.real.root / "etc/sunkpy/services", pair.real.root / "var/tmp/passed"
    services.mkdir(parents=True, exist_ok=True)
    (services / "services.list").write_text("verify oneshot 60 5\n")
    (services / "verify").write_text("#!/bin/bash\nsleep 2\ndate +%s > /var/tmp/passed\n")
    (services / "verify").chmod(0o755)
    await boot(pair, "; run-services true || exit 1")
    passed_s = int(passed.read_text())
    assert (await pair.admin.node("n2")).slurmd_since_s >= passed_s
    assert set(await comes_back(pair)) == {"ResumeNode"}
    assert utc_now().timestamp() < passed_s + 60


async def test_so_does_one_that_had_a_drain_of_ours_by_then(pair: Pair) -> None:
    """A machine that ends takes the readiness of its pod with it, and the drain for that hides why the node is down."""
    job = pair.submit("--nodelist=n2", sleeps_s=60)
    await pair.begins(job)
    await pair.admin.drain_node("n2", "k8s: pod not ready")
    await boot(pair)
    node = await pair.admin.node("n2")
    assert (node.is_down, node.is_drain, node.reason) == (True, True, "k8s: pod not ready")
    assert await comes_back(pair) == ["UndrainNode", "ResumeNode"]
    await pair.admin.cancel_job(job)  # Slurm has queued it again


async def test_one_that_a_person_has_set_down_stays_so_over_a_boot(pair: Pair) -> None:
    await pair.admin.update_node("n2", NodeChange(state=("DOWN",), reason="bad fan"))
    await boot(pair)
    assert await mirror(pair) == []
    node = await pair.admin.node("n2")
    assert (node.is_down, node.reason) == (True, "bad fan")
    await pair.admin.update_node("n2", NodeChange(state=("RESUME",), reason=" "))


async def test_what_a_slurmd_says_of_its_devices_when_it_starts_again(pair: Pair) -> None:
    """26.05 does not take it, so it is written to the record."""
    old = (await pair.admin.node("n2")).extra
    listed = '{"gpu":["nvidia0 GPU-5c 0000:3b:00.0"]}'
    before = await pair.admin.node("n2")
    await _start_anew(pair, f"--extra '{listed}'")

    async def is_back() -> bool:
        node = await pair.admin.node("n2")
        return node.slurmd_since_s > before.slurmd_since_s and node.is_registered

    await happens(pair.real, is_back)
    assert (await pair.admin.node("n2")).extra == (listed if RELEASE < "26.05" else old)


def _build(root: Path, source: str) -> None:
    """A library that stands before that of C."""
    gcc = ["chroot", root, "gcc", "-shared", "-fPIC", "-x", "c", "-o", "/var/tmp/ahead.so", "-"]
    subprocess.run(gcc, input=source, text=True, check=True)


async def test_a_slurmd_that_began_while_its_clock_was_ahead_has_that_time_until_the_next_one_registers(
    pair: Pair,
) -> None:
    """Slurm takes what each says, also if it is earlier."""
    _build(pair.real.root, _AHEAD)
    is_ahead = pair.real.root / "var/tmp/is-ahead"
    is_ahead.touch()
    pair.leave("n2")
    pair.come_back("n2", "; export LD_PRELOAD=/var/tmp/ahead.so")

    async def is_there(is_early: bool) -> bool:
        node = await pair.admin.node("n2")
        return node.is_registered and (node.slurmd_since_s > utc_now().timestamp() + 1800) is is_early

    async def has_begun() -> bool:
        return bool(pair.real.running(r"/usr/sbin/slurmd .*-N n2 .*"))

    await happens(pair.real, has_begun)
    await happens(pair.real, lambda: is_there(True))
    is_ahead.unlink()
    before = await pair.admin.node("n2")
    assert not is_of_pod(before, _pod(address="10.0.0.1"), utc_now()), "it may be that of an earlier pod"
    assert is_of_pod(before, _pod(address=before.address), utc_now())
    pair.leave("n2")
    pair.come_back("n2")
    await happens(pair.real, lambda: is_there(False))
    assert is_of_pod(await pair.admin.node("n2"), _pod(address="10.0.0.1"), utc_now())


async def test_the_devices_in_slurm_are_those_that_start_slurmd_found_last(site: Site) -> None:
    admin = site.connect("slurm")

    async def start_anew() -> tuple[int, SlurmNode]:
        """Start slurmd in a new container. Return a time before the container's start, and the Slurm node after it."""
        begun_s = int(utc_now().timestamp()) + 1

        async def is_later() -> bool:
            return utc_now().timestamp() > begun_s

        async def is_back() -> bool:
            node = await admin.node("g1")
            return node.slurmd_since_s >= begun_s and node.is_registered

        await happens(site.slurm, is_later)
        site.kill_slurmd_container("g1")
        await happens(site.slurm, is_back)
        return begun_s, await admin.node("g1")

    first_s, old = await start_anew()
    assert why_unproved(old.extra, _slurmd_pod(first_s), utc_now()) == ""
    second_s, new = await start_anew()
    assert why_unproved(old.extra, _slurmd_pod(second_s), utc_now()) != ""
    assert why_unproved(new.extra, _slurmd_pod(second_s), utc_now()) == ""
    assert [device.file for device in read_extra(new.extra)["gpu"]] == ["gpu0", "gpu1"]

    async def is_mended() -> bool:
        return (await admin.node("g1")).extra == new.extra

    # A slurmctld that is killed before it has saved the new list has the old one when it starts again.
    assert site.slurm.run_as("slurm", "scontrol", "update", "nodename=g1", f"extra={old.extra}") == (0, "")
    assert not await is_mended()
    await happens(site.slurm, is_mended)
    await admin.close()


def _slurmd_pod(started_s: int) -> Pod:
    started = ContainerState(running=Running(started_at=rfc3339(datetime.fromtimestamp(started_s, UTC))))
    statuses = (ContainerStatus(name="slurmd", state=started),)
    return Pod(metadata=Meta(name="g1", uid="g1"), status=PodStatus(container_statuses=statuses))


async def boot(pair: Pair, *options: str) -> None:
    """The machine of n2, which Slurm then finds down. A late answer of the node hides a boot: it is tried again."""
    before = await pair.admin.node("n2")

    async def is_down() -> bool:
        node = await pair.admin.node("n2")
        return node.is_down and node.slurmd_since_s > before.slurmd_since_s

    for _ in range(3):
        with contextlib.suppress(AssertionError):
            await _start_anew(pair, "-b", *options)
            await happens(pair.real, is_down, timeout_s=12)
            return
    await happens(pair.real, is_down)


async def _start_anew(pair: Pair, *options: str) -> None:
    pair.leave("n2")
    left_s = utc_now().timestamp()

    async def is_a_second_later() -> bool:
        return utc_now().timestamp() > left_s + 2

    await happens(pair.real, is_a_second_later)  # Slurm counts in seconds, and had heard of it until now
    pair.come_back("n2", *options)


async def comes_back(pair: Pair) -> list[str]:
    """What the syncer does until both nodes may be given jobs."""
    done: list[str] = []

    async def is_back() -> bool:
        done.extend(await mirror(pair))
        return await pair.are_open()

    await happens(pair.real, is_back)
    return done


async def mirror(pair: Pair) -> list[str]:
    """One pass of the syncer over n2."""
    writer, done = SlurmWriter(pair.admin), list[str]()
    for action in decide_mirror(_view(await pair.admin.node("n2")), 0.0).actions:
        if not isinstance(action, PatchPod | SetComment):
            await writer.write(action, _consent)
            done.append(type(action).__name__)
    return done


def _pod(*, address: str = "") -> Pod:
    ready = (Condition(type="ContainersReady", status="True"),)
    return Pod(
        metadata=Meta(name="n2", namespace="slurm", uid="uid"),
        spec=PodSpec(node_name="node-2"),
        status=PodStatus(phase="Running", pod_ip=address, start_time="2026-01-01T00:00:00Z", conditions=ready),
    )


def _view(node: SlurmNode) -> View:
    return View(name="n2", namespace="slurm", pod=_pod(), answer=SlurmAnswer(node=node, number=1, at_s=0.0))


async def _consent() -> bool:
    return True
