"""Cores of two hardware threads, on two sockets: what start-slurmd says of them, and what jobs get; then what a slurmd
pod does where the last one counted otherwise.

Such a machine is pretended: hwloc, by which slurmd looks at its machine, takes HWLOC_SYNTHETIC for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, SlurmNode
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.asking import connect, granted, happens
from tests.integration.slurm.daemons import NODE, Machines, RealSlurm

pytestmark = pytest.mark.integration

_CONF: Final = """\
MaxNodeCount=16
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=10
GresTypes=gpu,nic
DebugFlags=Gres
TaskPluginParam=SlurmdOffSpec
NodeSet=feature_near_0 Feature=k8s/rack=3_x.y
NodeSet=feature_near_1 Feature=k8s/rack=4
PartitionName=near Nodes=feature_near_0,feature_near_1
"""
_OWN: Final = ("/tmp", "/run", "/etc/slurm", "/etc/sunkpy", "/var/lib/sunkpy", "/var/spool/slurmd")
_ALONE: Final = " && ".join(f"mkdir -p {folder} && mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in _OWN)
_START: Final = f"""\
mkdir -p /keys && cp /etc/slurm/slurm.key /keys/
cat > /pod << 'END'
{_ALONE} && chmod 1777 /tmp && . /pod-env && exec start-slurmd
END
export SUNKPY_SLURM_NODE={NODE} SUNKPY_MEMORY_MIB=1000 SUNKPY_SCRATCH=/tmp SUNKPY_POD_UID=x
export SUNKPY_CONF_SERVER=localhost:$(sed -n s/^SlurmctldPort=//p /etc/slurm/slurm.conf)
touch /pod-env
keep unshare --mount --propagation unchanged bash /pod >> /var/log/slurmd.log 2>&1 &
"""
_GPUS_ARE_ON: Final = (1, 0, 1, 0)
"""The socket of each GPU, by Slurm's index. Sockets have cpus 0-7 and 8-15."""
_LOCAL: Final = ("0-7", "8-15")
_WITH_GPUS: Final = (
    "export SUNKPY_FAKE_GPUS=1 SUNKPY_GRES=gpu:h100:4 SUNKPY_COUNTED_GRES=nic:2 "
    f"SUNKPY_DEVICES='{' '.join(f'GPU-{at},0000:0{at}:00.0' for at in range(4))}'\n"
)
_PEOPLE: Final = {"ann": 2001, "bob": 2002}
_MACHINE: Final = "pack:2 core:4 pu:2"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A Slurm on a pretended machine of two sockets, each with four cores of two threads."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    suite = os.environ.get("SLURM_SUITE", "trixie")
    gres = {"gres.conf": "Include /etc/sunkpy/gres.conf\n"}
    machines = Machines(conf=_CONF, files=gres, start=f"export HWLOC_SYNTHETIC='{_MACHINE}' SUNKPY_CPUS=15\n{_START}")
    slurm = RealSlurm(tmp_path_factory.mktemp("cores"), suite, people=_PEOPLE, machines=machines)
    yield slurm
    slurm.stop()


@pytest.fixture
async def admin(real: RealSlurm) -> AsyncIterator[Slurm]:
    """SlurmUser, on a node that says of its cpus what a pod of no special values does, and has no job."""
    slurm = connect(real, "slurm")
    (real.root / "pod-env").write_text("")
    if not (await _node(slurm)).is_registered or "CoreSpecCount=1" not in _words(real):
        await _next_pod(real, slurm, "")
    yield slurm
    await _clear(real, slurm)
    await slurm.close()


async def _clear(real: RealSlurm, slurm: Slurm) -> None:
    async def is_empty() -> bool:
        await slurm.nodes()  # asked of all nodes, slurmctld looks again which cpus are in use
        return not real.run_as("slurm", "squeue", "--noheader")[1].strip()

    for user in (*_PEOPLE, "slurm"):
        real.run_as("slurm", "scancel", f"--user={user}")
    await happens(real, is_empty)


async def _node(slurm: Slurm) -> SlurmNode:
    try:
        return await slurm.node(NODE)
    except errors.SlurmError:
        return SlurmNode(name=NODE)


async def _next_pod(real: RealSlurm, slurm: Slurm, env: str) -> None:
    """The container of slurmd ends, and one with this environment starts."""
    (real.root / "pod-env").write_text(env)
    told = len(_log(real))
    for pid in real.running(r"[^ ]*bash [^ ]*keep-slurmd .*") + real.running(f"/usr/sbin/slurmd .*-N {NODE} .*"):
        with contextlib.suppress(ProcessLookupError):  # of one that reconfigures another one follows
            os.kill(pid, signal.SIGKILL)

    async def is_there() -> bool:
        node = await _node(slurm)
        has_started = "slurmd started on" in _log(real)[told:]
        return has_started and node.is_registered

    await happens(real, is_there)


async def _reconfigure(real: RealSlurm) -> None:
    """All of Slurm has read its files again. While slurmctld executes itself for that, it refuses connections."""
    told = len(_log(real))
    assert real.run_as("slurm", "scontrol", "reconfigure")[0] == 0

    async def has_read() -> bool:
        return "slurmd started on" in _log(real)[told:]

    await happens(real, has_read)


def _log(real: RealSlurm) -> str:
    file = real.root / "var/log/slurmd.log"
    return file.read_text() if file.exists() else ""


def _words(real: RealSlurm) -> str:
    """What the last slurmd says of its cpus."""
    found = re.findall(rf"start-slurmd: {NODE}: (CPUs=.*) RealMemory=", _log(real))
    return found[-1] if found else ""


def _shape(real: RealSlurm) -> str:
    """What slurmctld has of the node: cpus, those for jobs, sockets:cores:threads."""
    said = _told(real, "node", NODE)
    fields = (re.search(rf" {name}=(\d+)", said) for name in ("Sockets", "CoresPerSocket", "ThreadsPerCore"))
    cpus, usable = (re.search(rf" {name}=(\d+)", said) for name in ("CPUTot", "CPUEfctv"))
    assert cpus is not None
    assert usable is not None
    return f"{cpus[1]} {usable[1]} " + ":".join(each[1] for each in fields if each is not None)


def _told(real: RealSlurm, *what: str) -> str:
    return real.run_as("slurm", "scontrol", "--details", "--oneliner", "show", *what)[1]


def _cpus(real: RealSlurm, job: int) -> set[int]:
    """The threads that a job has, as slurmctld numbers them: those of one core after each other."""
    found = re.search(r" CPU_IDs=([0-9,-]+)", _told(real, "job", str(job)))
    assert found is not None, _told(real, "job", str(job))
    ranges = (part.partition("-") for part in found[1].split(","))
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}


async def _submit(real: RealSlurm, slurm: Slurm, user: str, *options: str) -> JobId:
    command = ("sbatch", "--parsable", "--output=/dev/null", "--mem=10", *options, "--wrap=sleep 300")
    code, said = real.run_as(user, *command)
    assert code == 0, said
    job = JobId(int(said))

    async def runs() -> bool:
        return (await slurm.job(job)).is_running

    await happens(real, runs)
    return job


def test_slurm_knows_sockets_cores_and_threads_and_what_is_kept(real: RealSlurm, admin: Slurm) -> None:
    """The pod may use fifteen of sixteen threads, so seven cores are for jobs."""
    assert _words(real) == "CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1"
    assert _shape(real) == "16 14 2:4:2"
    assert "Resource spec: Reserved machine CPU IDs: 14-15\n" in _log(real)


async def test_jobs_of_two_users_share_no_core(real: RealSlurm, admin: Slurm) -> None:
    jobs = [await _submit(real, admin, user, "-n1") for user in ("ann", "bob")]
    held = [_cpus(real, job) for job in jobs]
    assert [len(cpus) for cpus in held] == [2, 2], "each has one cpu, and the other thread of its core"
    cores = [{cpu // 2 for cpu in cpus} for cpus in held]
    assert [len(each) for each in cores] == [1, 1]
    assert cores[0].isdisjoint(cores[1])


@pytest.mark.parametrize(
    ("options", "cpus", "cores"),
    [
        pytest.param(("-n2",), 2, 1, id="two tasks on one core"),
        pytest.param(("-n2", "--hint=nomultithread"), 4, 2, id="a core for each"),
        pytest.param(("-n3",), 4, 2, id="three are two cores"),
        pytest.param(("-n4", "-c3"), 12, 6, id="tasks of three threads each"),
        pytest.param(("-n1", "--exclusive"), 14, 7, id="the whole node but for what is kept"),
    ],
)
async def test_what_a_job_gets(real: RealSlurm, admin: Slurm, options: tuple[str, ...], cpus: int, cores: int) -> None:
    job = await _submit(real, admin, "ann", "-N1", *options)
    held = _cpus(real, job)
    assert (len(held), len({cpu // 2 for cpu in held})) == (cpus, cores)
    assert (await admin.job(job)).capacity[NODE].cpus == cpus


async def test_pods_are_asked_for_in_threads_and_get_whole_cores(real: RealSlurm, admin: Slurm) -> None:
    """Three pods of one cpu each."""
    gang = JobSpec(name="x", comment="", script="", tasks=3, cpus_per_task=1, memory_mib_per_cpu=10, at_once=True)
    job = await admin.job(await granted(real, admin, gang))
    assert (job.capacity[NODE].cpus, job.layout) == (4, ((NODE, 3),))
    assert job.capacity[NODE].memory_mib == 40, "never less than they asked for"
    assert (await admin.node(NODE)).usable_cpus == 14


async def test_smt_counts_for_nothing_where_the_site_says_so(real: RealSlurm, admin: Slurm) -> None:
    await _next_pod(real, admin, "export SUNKPY_SMT=one-cpu\n")
    assert _shape(real) == "8 7 2:4:2"
    job = await _submit(real, admin, "ann", "-n3")
    assert (await admin.job(job)).capacity[NODE].cpus == 3
    held = _cpus(real, job)
    assert (len(held), len({cpu // 2 for cpu in held})) == (6, 3), "three cores, with all their threads"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param("apart", "", id="the site upgrades, or wants whole cores"),
        pytest.param("", "apart", id="it wants threads"),
        pytest.param("one-cpu", "", id="SMT counts from now on"),
    ],
)
async def test_a_job_outlives_the_change_and_the_node_is_as_it_was_until_it_is_empty(
    real: RealSlurm, admin: Slurm, first: str, then: str
) -> None:
    """Slurm keeps the record of a busy node, by which it counts the cores of its jobs."""
    await _next_pod(real, admin, f"export SUNKPY_SMT={first}\n")
    shape, words = _shape(real), _words(real)
    gang = JobSpec(name="x", comment="", script="", tasks=3, cpus_per_task=1, memory_mib_per_node=10, at_once=True)
    job = await granted(real, admin, gang)
    held = _cpus(real, job)
    await _next_pod(real, admin, f"export SUNKPY_SMT={then}\n")
    assert (_shape(real), _words(real)) == (shape, words)
    wanted = "CPUs=15 Boards=1" if then == "apart" else "CPUs=16 Boards=1"
    later = f"only from the next pod of {NODE} on, because Slurm keeps its record of the node"
    assert re.search(rf"{wanted}.* {later}", _log(real))
    node = await admin.node(NODE)
    assert (node.is_drain, (await admin.job(job)).is_running, _cpus(real, job)) == (False, True, held)
    await _clear(real, admin)
    await _next_pod(real, admin, f"export SUNKPY_SMT={then}\n")
    assert _shape(real) == ("15 15 1:15:1" if then == "apart" else "16 14 2:4:2")


@pytest.mark.parametrize(
    ("parameter", "shape"), [("l3cache_as_socket", "32 30 8:2:2"), ("numa_node_as_socket", "32 30 4:4:2")]
)
async def test_caches_or_numa_nodes_are_sockets(real: RealSlurm, admin: Slurm, parameter: str, shape: str) -> None:
    """Each of two sockets has two NUMA nodes with two caches each. slurmd finds what count-cores says."""
    conf = (real.root / "etc/slurm/slurm.conf").read_text()
    files = {f"cpu/cpu{cpu}/cache/index3/shared_cpu_list": f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}" for cpu in range(32)}
    files |= {f"node/node{node}/cpulist": f"{node * 8}-{node * 8 + 7}" for node in range(4)}
    for name, cpus in files.items():
        (real.root / "machine" / name).parent.mkdir(parents=True, exist_ok=True)
        (real.root / "machine" / name).write_text(f"{cpus}\n")
    try:
        real.configure(conf.replace("config_overrides", f"config_overrides,{parameter}"))
        await _reconfigure(real)
        told = len(_log(real))
        machine = "HWLOC_SYNTHETIC='pack:2 numa:2 l3:2 core:2 pu:2' SUNKPY_CPUS=31 SUNKPY_SYS=/machine"
        await _next_pod(real, admin, f"export {machine}\n")
        assert _shape(real) == shape
        assert "differs from hardware" not in _log(real)[told:]
    finally:
        real.configure(conf)
        await _reconfigure(real)
        await _next_pod(real, admin, "")


async def test_weight_and_labels_are_words_of_the_record_and_another_one_is_made_for_others(
    real: RealSlurm, admin: Slurm
) -> None:
    zone = "k8s/topology.kubernetes.io/zone"
    await _next_pod(real, admin, f"export SUNKPY_WEIGHT=7 SUNKPY_FEATURES=compute,{zone}=a,k8s/rack=3_x.y\n")
    assert " Weight=7 " in _told(real, "node", NODE)
    constraint = f"--constraint=({zone}=b|{zone}=a)&k8s/rack=3_x.y"
    await _next_pod(real, admin, f"export SUNKPY_WEIGHT=9 SUNKPY_FEATURES=compute,{zone}=b,{zone}=a,k8s/rack=3_x.y\n")
    assert " Weight=9 " in _told(real, "node", NODE)
    await _submit(real, admin, "ann", constraint)
    await _reconfigure(real)
    assert " Weight=9 " in _told(real, "node", NODE)
    await _clear(real, admin)
    await _next_pod(real, admin, "")
    assert " Weight=1 " in _told(real, "node", NODE)


async def test_a_partition_of_features_has_the_nodes_that_have_one_of_them(real: RealSlurm, admin: Slurm) -> None:
    """The lines of the partition are as the chart writes them."""

    def has_node() -> bool:
        return real.run_as("ann", "sinfo", "--noheader", "--partition=near", "--format=%N")[1].strip() == NODE

    assert not has_node()
    await _next_pod(real, admin, "export SUNKPY_FEATURES=compute,k8s/rack=4\n")
    assert has_node()
    await _submit(real, admin, "ann", "--partition=near")
    await _reconfigure(real)
    assert has_node()
    await _clear(real, admin)
    await _next_pod(real, admin, "export SUNKPY_FEATURES=compute,k8s/rack=5\n")
    assert not has_node()


async def test_what_an_earlier_slurmd_saw_of_the_machine_is_forgotten(real: RealSlurm, admin: Slurm) -> None:
    told = len(_log(real))
    await _next_pod(real, admin, "echo '<x/>' > /var/spool/slurmd/hwloc_topo_whole.xml\n")
    assert "hwloc" not in _log(real)[told:]


def _show_sockets(real: RealSlurm) -> str:
    """What the kernel of such a machine says, and a variable that names the folder."""
    sysfs = real.root / "var/sysfs"
    for cpu in range(16):
        topology = sysfs / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True, exist_ok=True)
        (topology / "core_siblings_list").write_text(f"{_LOCAL[cpu // 8]}\n")
    for at, socket in enumerate(_GPUS_ARE_ON):
        device = sysfs / f"bus/pci/devices/0000:0{at}:00.0"
        device.mkdir(parents=True, exist_ok=True)
        (device / "local_cpulist").write_text(f"{_LOCAL[socket]}\n")
    return "export SUNKPY_SYS=/var/sysfs/devices/system\n"


def _gpus(real: RealSlurm, job: int) -> list[int]:
    """Slurm's indices of the GPUs that a job has."""
    found = re.search(r" GRES=gpu:\w+:\d+\(IDX:([0-9,-]+)\)", _told(real, "job", str(job)))
    assert found is not None, _told(real, "job", str(job))
    ranges = (part.partition("-") for part in found[1].split(","))
    return [at for first, _, last in ranges for at in range(int(first), int(last or first) + 1)]


async def test_a_job_gets_cores_near_its_gpus(real: RealSlurm, admin: Slurm) -> None:
    await _next_pod(real, admin, _show_sockets(real) + _WITH_GPUS)
    assert (await admin.node(NODE)).gres == "gpu:h100:4(S:0-1),nic:2"
    files = re.findall(r"Gres Name=gpu Type=h100 .*?File=(\S+)", _log(real))[-4:]
    assert files == [f"/dev/sunkpy/gpu{at}" for at in range(4)], "an index is the place in the list, whatever is near"
    records = _log(real).count("replacing the record")
    await _next_pod(real, admin, _show_sockets(real) + _WITH_GPUS)
    assert _log(real).count("replacing the record") == records, "it has the same record"
    seen = set()
    for _ in range(4):
        job = await _submit(real, admin, "ann", "-n1", "--gres=gpu:1")
        (gpu,), cpus = _gpus(real, job), _cpus(real, job)
        assert {cpu // 8 for cpu in cpus} == {_GPUS_ARE_ON[gpu]}, (gpu, cpus)
        seen.add(gpu)
    assert seen == set(range(4))


async def test_indices_go_on_over_the_types_whatever_is_near(real: RealSlurm, admin: Slurm) -> None:
    types = _WITH_GPUS.replace("gpu:h100:4", "gpu:l40s:2,gpu:a100:2").replace(" GPU-2,", ";GPU-2,")
    await _next_pod(real, admin, _show_sockets(real) + types)
    assert (await admin.node(NODE)).gres == "gpu:l40s:2(S:0-1),gpu:a100:2(S:0-1),nic:2"
    jobs = [await _submit(real, admin, "ann", "-n1", f"--gres=gpu:{kind}:1") for kind in ("a100", "a100", "l40s")]
    got = [_gpus(real, job)[0] for job in jobs]
    assert sorted(got[:2]) == [2, 3]
    assert got[2] in (0, 1)
    assert [{cpu // 8 for cpu in _cpus(real, job)} for job in jobs] == [{_GPUS_ARE_ON[gpu]} for gpu in got]


@pytest.mark.parametrize(
    ("options", "cpus", "gpus"),
    [
        pytest.param(("-n10", "--gres=gpu:1"), 10, 1, id="more cores than are near"),
        pytest.param(("-n1", "--gres=gpu:4"), 2, 4, id="GPUs of both sockets and one core"),
        pytest.param(("-n8", "--gres=gpu:2", "--gres-flags=enforce-binding"), 8, 2, id="as many as are near"),
        pytest.param(("-n1", "--exclusive", "--gres=gpu:4"), 14, 4, id="the whole node"),
    ],
)
async def test_cores_near_gpus_are_a_wish_unless_the_job_says_otherwise(
    real: RealSlurm, admin: Slurm, options: tuple[str, ...], cpus: int, gpus: int
) -> None:
    await _next_pod(real, admin, _show_sockets(real) + _WITH_GPUS)
    job = await _submit(real, admin, "ann", "-N1", *options)
    assert (len(_cpus(real, job)), len(_gpus(real, job))) == (cpus, gpus)
    if "--gres-flags=enforce-binding" in options:
        assert len({cpu // 8 for cpu in _cpus(real, job)} | {_GPUS_ARE_ON[gpu] for gpu in _gpus(real, job)}) == 1


async def test_a_job_outlives_a_slurmd_that_says_for_the_first_time_what_is_near(real: RealSlurm, admin: Slurm) -> None:
    """Slurm keeps the record of a busy node, by which all cores are near."""
    await _next_pod(real, admin, "")
    await _next_pod(real, admin, _WITH_GPUS)
    assert (await admin.node(NODE)).gres == "gpu:h100:4,nic:2"
    gang = JobSpec(
        name="x", comment="", script="", tasks=3, cpus_per_task=1, memory_mib_per_node=10, at_once=True,
        gres_per_node="gres/gpu:3",
    )  # fmt: skip
    job = await granted(real, admin, gang)
    held, had = _cpus(real, job), _gpus(real, job)
    await _next_pod(real, admin, _show_sockets(real) + _WITH_GPUS)
    node = await admin.node(NODE)
    assert (node.is_drain, (await admin.job(job)).is_running) == (False, True), _told(real, "node", NODE)
    assert (_cpus(real, job), _gpus(real, job)) == (held, had)
    other = await _submit(real, admin, "bob", "-n1", "--gres=gpu:1")
    assert set(_gpus(real, other)).isdisjoint(had)


async def test_a_gres_beside_gpus_is_counted(real: RealSlurm, admin: Slurm) -> None:
    await _next_pod(real, admin, "export SUNKPY_COUNTED_GRES=nic:8\n")
    job = await _submit(real, admin, "ann", "--gres=nic:3")
    assert (await admin.job(job)).capacity[NODE].gres == {"nic": 3}
    code, said = real.run_as("bob", "sbatch", "--mem=10", "--gres=nic:9", "--wrap=true")
    assert (code, "Requested node configuration is not available" in said) == (1, True)
    records = _log(real).count("replacing the record")
    await _next_pod(real, admin, "export SUNKPY_COUNTED_GRES=nic:8\n")
    assert (_log(real).count("replacing the record"), (await admin.job(job)).is_running) == (records, True)
    await _clear(real, admin)
    await _next_pod(real, admin, "")
    assert (await admin.node(NODE)).gres == ""


async def test_on_reconfigure_a_slurmd_says_the_same_again(real: RealSlurm, admin: Slurm) -> None:
    job = await _submit(real, admin, "ann", "-n1")
    await _reconfigure(real)

    async def is_back() -> bool:
        node = await _node(admin)
        return node.is_registered and not node.is_drain and (await admin.job(job)).is_running

    await happens(real, is_back)
    assert _shape(real) == "16 14 2:4:2"
