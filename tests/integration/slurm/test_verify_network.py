"""verify-network as the step of a job of several nodes, by the addresses that Slurm has of them."""

from __future__ import annotations

import re

import pytest

from tests.integration.slurm.site import Site

pytestmark = pytest.mark.integration

STEP = "cd; srun -w c1,c2,c3 --ntasks-per-node=1 verify-network"


def verified(site: Site, words: str) -> tuple[int, str]:
    """Exit code and output of a step. The ports of a job follow from its number: if another program of this machine
    has one of them, such as the same test in another checkout, the next job has others.
    """
    for _ in range(5):
        code, said = site.shell("ann", f"{STEP} {words}")
        if "Address already in use" not in said:
            break
    return code, said


def test_each_node_of_a_job_tells_of_its_pairs(site: Site) -> None:
    code, said = verified(site, "1")
    assert code == 0, said
    assert sorted(re.findall(r"verify-network: (\S+): 2 of 2 pairs are good", said)) == ["c1", "c2", "c3"], said


def test_a_step_fails_if_the_network_of_its_nodes_is_too_slow(site: Site) -> None:
    code, said = verified(site, "1 99999999")
    assert code != 0, said
    assert sorted(re.findall(r"verify-network: (\S+): 0 of 2 pairs are good", said)) == ["c1", "c2", "c3"], said
    assert " MiB/s, and 99999999 should be" in said
