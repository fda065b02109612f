"""GPUs of two types on one node of a real Slurm: which indices jobs get, and what lies behind them.

Slurm's own order of device files would mix the types: they are listed as start-slurmd does it, type by type.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sunkpy.cli.canary import Patience, run_job
from sunkpy.core.model.devices import read_extra
from sunkpy.core.model.gres import gres_types
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import SlurmJob
from sunkpy.core.overview.installation import Seen
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.asking import connect, granted, happens, is_usable
from tests.integration.slurm.daemons import NODE, Machines, RealSlurm

pytestmark = pytest.mark.integration

SUITE = os.environ.get("SLURM_SUITE", "trixie")
DEVICES = Path("/dev/sunkpy")
GRES = "gpu:l40s:2,gpu:1g.5gb:3,gpu:a100:1"
FILES = ("gpu1", "gpu4", "gpu0,gpu6", "gpu0,gpu7", "gpu0,gpu8", "gpu2")
CONF = "MaxNodeCount=16\nPrologFlags=Alloc\nSelectTypeParameters=CR_Core_Memory\nGresTypes=gpu\nDebugFlags=Gres\n"


def lines() -> str:
    """gres.conf: a slice has several files."""
    kinds = gres_types(GRES)["gpu"]
    paths = [",".join(f"{DEVICES}/{file}" for file in files.split(",")) for files in FILES]
    keys = ["MultipleFiles" if "," in path else "File" for path in paths]
    return "".join(f"Name=gpu Type={kind} {key}={path}\n" for kind, key, path in zip(kinds, keys, paths, strict=True))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    DEVICES.mkdir(exist_ok=True)
    for number in range(9):
        with contextlib.suppress(FileExistsError):  # all tests of this machine share them
            os.mknod(DEVICES / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(120, number))
    listed = ",".join(f'\\"{files.split(",")[0]} GPU-{at} -\\"' for at, files in enumerate(FILES))
    start = (
        f"keep /usr/sbin/slurmd -D -Z -N {NODE} --conf 'CPUs=8 RealMemory=4000 Gres={GRES}' "
        f'--extra "{{\\"gpu\\":[{listed}]}}" >> /var/log/slurmd.log 2>&1 &\n'
    )
    machines = Machines(conf=CONF, start=start, files={"gres.conf": lines()})
    slurm = RealSlurm(tmp_path_factory.mktemp("mixed"), SUITE, machines=machines)
    yield slurm
    slurm.stop()


@pytest.fixture
async def admin(mixed: RealSlurm) -> AsyncIterator[Slurm]:
    slurm = connect(mixed, "slurm")
    await happens(mixed, lambda: is_usable(slurm))
    yield slurm
    for job, state in (await slurm.jobs_state()).items():
        if "RUNNING" in state:
            await slurm.cancel_job(job)
    await slurm.close()


async def job_with(mixed: RealSlurm, slurm: Slurm, gres: str) -> SlurmJob:
    asks = JobSpec(name="x", comment="", script="", memory_mib_per_node=10, gres_per_node=gres, at_once=True)
    return await slurm.job(await granted(mixed, slurm, asks))


async def test_indices_go_on_over_the_types_in_the_order_of_the_node(mixed: RealSlurm, admin: Slurm) -> None:
    node = await admin.node(NODE)
    assert gres_types(node.gres) == gres_types(GRES)
    assert [device.file for device in read_extra(node.extra)["gpu"]] == [files.split(",")[0] for files in FILES]
    one = await job_with(mixed, admin, "gres/gpu:1g.5gb:2")
    assert one.devices == {NODE: {"gpu": (2, 3), "gpu:1g.5gb": (2, 3)}}
    assert one.capacity[NODE].gres == {"gpu": 2, "gpu:1g.5gb": 2}
    both = await job_with(mixed, admin, "gres/gpu:a100:1,gres/gpu:l40s:1")
    assert both.devices == {NODE: {"gpu": (0, 5), "gpu:a100": (5,), "gpu:l40s": (0,)}}
    rest = await job_with(mixed, admin, "gres/gpu:2")
    assert rest.devices[NODE]["gpu"] == (1, 4)


def test_what_slurmd_has_behind_the_indices_is_in_the_order_of_its_lines(mixed: RealSlurm) -> None:
    log = (mixed.root / "var/log/slurmd.log").read_text()
    found = re.findall(r"Gres Name=gpu Type=(\S+) .*?File=(\S+)", log)[: len(FILES)]
    assert [kind for kind, _ in found] == gres_types(GRES)["gpu"]
    assert [path.replace(f"{DEVICES}/", "") for _, path in found] == list(FILES)


async def test_a_canary_job_compares_the_gpu_that_it_sees(mixed: RealSlurm, admin: Slurm) -> None:
    """Nothing limits devices here, so it may open all of them."""
    (mixed.root / "etc/sunkpy").mkdir(exist_ok=True)
    (mixed.root / "etc/sunkpy/gpus").write_text("".join(f"- {DEVICES}/{each} - -\n" for each in ("gpu1", "gpu4")))
    canary = await run_job(admin, Patience(limit_s=40), has_gpus=True)
    assert canary.job is not None, canary
    assert (canary.error, canary.no_gpu, canary.is_accounted) == ("", "", False)
    assert (canary.job.exit_code, canary.job.nodes) == (Seen.OTHERS_DEVICES, (NODE,)), mixed.logs()


async def test_a_job_is_told_slurms_index_and_not_the_number_in_the_name_of_the_file(
    mixed: RealSlurm, admin: Slurm
) -> None:
    script = '#!/bin/bash\necho "$SLURM_JOB_GPUS" > /var/tmp/given\n'
    asks = JobSpec(name="x", comment="", script=script, memory_mib_per_node=10, gres_per_node="gres/gpu:a100:1")
    job = (await admin.submit_job(asks)).job_id

    async def has_ended() -> bool:
        return (await admin.job(job)).is_ended

    await happens(mixed, has_ended)
    assert (mixed.root / "var/tmp/given").read_text() == f"{len(FILES) - 1}\n"


async def test_a_job_does_not_ask_for_a_type_and_for_any(admin: Slurm) -> None:
    script = "#!/bin/bash\nsleep 1\n"
    asks = JobSpec(
        name="x", comment="", script=script, memory_mib_per_node=10, gres_per_node="gres/gpu:a100:1,gres/gpu:1"
    )
    with pytest.raises(errors.SlurmError, match="with and without type"):
        await admin.submit_job(asks)
