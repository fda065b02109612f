"""No node ever runs a pod and the job that took its place at the same time."""

from __future__ import annotations

from functools import partial

import pytest

from demo.stack import Stack
from devcluster.waiting import NotYet, wait
from sunkpy.kube.client import Kube
from tests.bench import report
from tests.e2e import handover, workloads
from tests.e2e.handover import PROMPT, STUBBORN, TIDY, Handover

pytestmark = pytest.mark.e2e

PREEMPTIONS = 20


async def test_a_preempted_pod_is_gone_before_the_next_job_starts(stack: Stack) -> None:
    workloads.forget_stamps(stack)
    measured: list[Handover] = []
    manners = (PROMPT, STUBBORN, TIDY)
    async with await Kube.connect(stack.kubeconfig) as kube:
        number = 0
        while len(measured) < PREEMPTIONS:
            measured += await handover.run_round(stack, kube, number=number, manner=manners[number % len(manners)])
            number += 1
    overlaps = [one for one in measured if one.gap_s < 0]
    gap_s = [one.gap_s for one in measured]
    report.write(
        "handover",
        [
            report.at_most("overlaps of pod and next job", len(overlaps), unit="", bound=0, n=len(measured)),
            report.observed("smallest gap from pod end to job start", min(gap_s), n=len(measured)),
            report.observed("median gap from pod end to job start", report.median(gap_s), n=len(measured)),
        ],
    )
    assert not overlaps, "\n".join(str(one) for one in overlaps)
    assert {one.manner for one in measured} == {manner.name for manner in manners}


async def test_a_preempted_pod_says_which_job_took_its_place(stack: Stack) -> None:
    workloads.forget_stamps(stack)
    async with await Kube.connect(stack.kubeconfig) as kube:
        measured = await handover.run_round(stack, kube, number=99, manner=PROMPT)
    for one in measured:
        wait(partial(_says_which_job, stack, one), timeout_s=20, what=f"an Event of {one.pod} that says it")


def _says_which_job(stack: Stack, one: Handover) -> bool:
    """Its preemptor is found out after the hand-over.

    Raises:
        NotYet: with what there is.
    """
    events = "\n".join(stack.events(workloads.NAMESPACE, one.pod))
    if f"by Slurm job {one.job} " not in events:
        raise NotYet(events)
    return True
