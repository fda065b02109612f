"""check-node as HealthCheckProgram of a real slurmd: faults drain the node with evidence, mended ones are lifted."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from sunkpy.slurm import NodeChange, Slurm
from tests.integration.slurm.asking import administrator, happens
from tests.integration.slurm.daemons import NODE, ONE_SLURMD, RealSlurm

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "check-node"
CONF = "HealthCheckProgram=/usr/local/bin/check-node\nHealthCheckInterval=1\n"
FAULTS = {
    "memory": ("memory", "SUNKPY_MEMORY_MIB=999999999", "memory: the machine has "),
    "gpus": ("gpus", "", "gpus: /dev/no-such-gpu has gone"),
    "disk": ("disk=1", "", "disk: / is "),
}


def settings(slurm: RealSlurm, checks: str, *lines: str) -> None:
    """What start-slurmd leaves for it."""
    text = "\n".join([f"SUNKPY_SLURM_NODE={NODE}", f"SUNKPY_CHECKS='{checks}'", *lines, ""])
    written = slurm.root / "etc/sunkpy/checks.new"
    written.write_text(text)
    written.rename(slurm.root / "etc/sunkpy/checks.env")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    machines = msgspec.structs.replace(ONE_SLURMD, conf=ONE_SLURMD.conf + CONF)
    suite = os.environ.get("SLURM_SUITE", "trixie")
    slurm = RealSlurm(tmp_path_factory.mktemp("checked"), suite, machines=machines)
    (slurm.root / "etc/sunkpy/gpus").write_text("- /dev/no-such-gpu GPU-a -\n")
    settings(slurm, "")
    shutil.copy(SCRIPT, slurm.root / "usr/local/bin/check-node")
    yield slurm
    slurm.stop()


@pytest.fixture
async def slurm(checked: RealSlurm) -> AsyncIterator[Slurm]:
    async with administrator(checked) as slurm:
        yield slurm


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_drains_the_node_and_its_end_lifts_that(checked: RealSlurm, slurm: Slurm, fault: str) -> None:
    checks, line, evidence = FAULTS[fault]
    settings(checked, checks, line)

    async def is_drained() -> bool:
        node = await slurm.node(NODE)
        return node.is_held_by_others and node.reason.startswith(f"sunkpy check: {evidence}")

    await happens(checked, is_drained)
    settings(checked, "memory disk=101")

    async def is_open() -> bool:
        node = await slurm.node(NODE)
        return not node.is_drain and node.reason == ""

    await happens(checked, is_open)


async def test_the_drain_of_a_person_stays_whether_it_is_well_or_not(checked: RealSlurm, slurm: Slurm) -> None:
    await slurm.update_node(NODE, NodeChange(state=("DRAIN",), reason="bad fan"))
    runs = checked.root / "run/sunkpy-checks/runs"
    runs.unlink(missing_ok=True)
    settings(checked, "gpus", f"echo >> {Path('/') / runs.relative_to(checked.root)}")

    async def has_run_thrice() -> bool:
        return runs.exists() and len(runs.read_text()) >= 3

    await happens(checked, has_run_thrice)
    assert (await slurm.node(NODE)).reason == "bad fan"
    settings(checked, "")
    await slurm.undrain_node(NODE)
