"""Whose each device of a node is, word for word as in its file. One that is not there is written, to be looked at."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sunkpy.core.explain.devices import devices_of, explain_node
from sunkpy.core.explain.explanation import render
from sunkpy.core.health.idle_check import IdleCheck, Outcome
from tests.unit.core.explain.golden_file import written
from tests.unit.core.explain.nodes import NODES, both_doors, node, owned, pod, slurm_job, slurmd

NOON, MORNING = "2026-11-28T12:00:00Z", "2026-11-28T08:00:00Z"
GOLDEN = Path(__file__).parent / "golden_nodes"


@pytest.mark.parametrize("name", NODES)
def test_the_devices_of_a_node_are_explained(name):
    file, text = GOLDEN / f"{name}.txt", f"{render(explain_node(NODES[name]()))}\n"
    assert text == written(file, text)


def test_each_file_stands_for_a_node():
    assert {file.stem for file in GOLDEN.iterdir()} == set(NODES)


@pytest.mark.parametrize(
    ("facts", "texts"),
    [
        (
            both_doors(),
            ("gpu 0 (nvidia0 GPU-a, device node-1/gpu-2): pod default/web, claim web-gpus, Slurm job 7 of k8s",),
        ),
        (
            node(slurm=None, claims=(owned("web", "gpu-2"),)),
            ("device node-1/gpu-2 (GPU-a): pod default/web, claim web-gpus, Slurm job 7",),
        ),
        # Slices may not be read, or claims as well.
        (
            node(slurm=None, offered=[]),
            ("gpu 0: pod default/web, claim web-gpus, Slurm job 7", "node-1/gpu-2, as noted on the pod"),
        ),
        (node(slurm=None, offered=[], claims=(owned("web", "gpu-2"),)), ("node-1/gpu-2, as noted on the pod",)),
    ],
)
def test_the_devices_of_a_pod(facts, texts):
    own, other = pod("web", "0", devices="node-1/gpu-2"), pod("other", "1", job=8)
    facts = msgspec.structs.replace(facts, pods=(own, other), jobs=(slurm_job(7, 0, user="k8s"),))
    assert devices_of(own, facts, names_all=True) == texts


@pytest.mark.parametrize(
    ("namespace", "also"),
    [("default", "pod default/other, claim other-gpus, Slurm job 8"), ("team-b", "a pod of another namespace")],
)
def test_a_reader_who_may_not_see_all_pods_learns_no_name_of_another_namespace(namespace, also):
    own, other = pod("web", "0"), pod("other", "0", job=8)
    other = msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, namespace=namespace))
    (told,) = devices_of(own, node(slurm=None, offered=[], pods=(own, other)), names_all=False)
    assert told == f"gpu 0: pod default/web, claim web-gpus, Slurm job 7 AND {also}"


def test_a_pod_without_devices_has_none():
    assert devices_of(pod("web", ""), node(), names_all=True) == ()


@pytest.mark.parametrize(
    ("check", "texts"),
    [
        (None, None),
        (
            IdleCheck(job=7, outcome=Outcome.PASSED, at=NOON, passed=NOON),
            ("passed at 2026-11-28T12:00:00Z, job 7",),
        ),
        (
            IdleCheck(job=8, outcome=Outcome.NOT_MADE, at=NOON, passed=MORNING, text="its job ended as PREEMPTED"),
            (
                "not made at 2026-11-28T12:00:00Z, job 8: its job ended as PREEMPTED",
                "passed last: 2026-11-28T08:00:00Z",
            ),
        ),
    ],
)
def test_it_says_how_the_last_check_of_an_idle_node_ended(check, texts):
    notes = {"idle-check": check.encode()} if check is not None else {}
    lines = {line.title: line.texts for line in explain_node(node(pods=(slurmd(**notes),))).lines}
    assert lines["checked idle"] == (texts or ())
