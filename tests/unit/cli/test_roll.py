"""`sunkpy roll` over HTTP, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import json

import pytest

from sunkpy.core import names
from tests.unit.cli.test_overview import shown, world

__all__ = ["world"]

NODESET = {
    "metadata": {"name": "gpu", "namespace": "slurm", "uid": "nodeset-1"},
    "spec": {"template": {"spec": {"containers": [{"name": "slurmd"}]}}},
}
OURS = [{"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "nodeset-1", "controller": True}]


@pytest.fixture
def rolling(world):
    """Two slurmd pods of an older template, one with a job."""
    world.put("nodesets", NODESET)
    for number in (1, 2):
        labels = {names.LABEL_NODESET: "gpu", names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_TEMPLATE_HASH: "old"}
        meta = {"labels": labels, "ownerReferences": OURS}
        world.api.change("pods", "slurm", f"slurmd-{number}", {"metadata": meta})
    return world


def spec_of(world):
    return world.api.find("nodesets", "gpu")["spec"]


async def test_the_roll_is_paused_and_resumed_with_the_command_for_the_way_back(rolling, tmp_path):
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "pause", "-n", "slurm")
    assert (code, spec_of(rolling)["paused"]) == (0, True)
    assert "done            paused: the roll replaces only pods that are drained already" in text
    assert text.endswith("what to do      To go on: kubectl sunk roll gpu resume -n slurm\n")
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "pause", "-n", "slurm")
    assert (code, "left as it is   the roll is paused already" in text) == (1, True)
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "resume", "-n", "slurm")
    assert (code, spec_of(rolling)["paused"], "done            resumed" in text) == (0, False, True)
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "resume", "-n", "slurm")
    assert (code, "left as it is   the roll is not paused" in text) == (1, True)


async def test_to_roll_now_ends_the_windows(rolling, tmp_path):
    window = {"start": "22:00", "hours": 1, "days": ["Sat"]}
    rolling.api.change(
        "nodesets", "slurm", "gpu", {"spec": {"updateStrategy": {"rollingUpdate": {"windows": [window]}}}}
    )
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "now", "-n", "slurm", "--max-unavailable", "25%")
    assert (code, "windows" in spec_of(rolling)["updateStrategy"]["rollingUpdate"]) == (0, False)
    assert "its maintenance windows are removed until the next helm upgrade" in text


async def test_all_nodes_are_taken_now_and_it_is_said_how_to_go_back(rolling, tmp_path):
    rolling.api.change("nodesets", "slurm", "gpu", {"spec": {"paused": True}})
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "now", "-n", "slurm")
    spec = spec_of(rolling)
    assert (code, spec["paused"], spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"]) == (0, False, "100%")
    assert "maxUnavailable is 100% now, and was 25%; this ends no job" in text
    assert "When the roll is over: kubectl sunk roll gpu resume -n slurm --max-unavailable 25%\n" in text
    code, _ = await shown(rolling, tmp_path, "roll", "gpu", "resume", "-n", "slurm", "--max-unavailable", "25%")
    assert (code, spec_of(rolling)["updateStrategy"]["rollingUpdate"]["maxUnavailable"]) == (0, "25%")
    await shown(rolling, tmp_path, "roll", "gpu", "resume", "-n", "slurm", "--max-unavailable", "3")
    assert spec_of(rolling)["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 3


async def test_it_is_said_which_jobs_a_roll_waits_for_and_until_when(rolling, tmp_path):
    ends = {"set": True, "infinite": False, "number": 1795910400}
    job = rolling.slurm.add_job("RUNNING", comment="", user="ann", name="train", nodes="n1", end_time=ends)
    rolling.slurm.add_job("RUNNING", comment="", user="ann", name="elsewhere", nodes="n7")
    before = rolling.api.find("nodesets", "gpu")
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "-n", "slurm")
    assert (code, rolling.api.find("nodesets", "gpu")) == (0, before)
    assert f"jobs end        job {job} of ann (train) ends by 2026-11-29T00:00:00Z" in text
    assert "elsewhere" not in text
    rolling.slurm.is_down = True
    code, _ = await shown(rolling, tmp_path, "roll", "gpu", "-n", "slurm")
    assert code == 3


async def test_where_nothing_is_to_be_rolled_nothing_is_written(world, tmp_path):
    world.put("nodesets", NODESET)
    for number in (1, 2):
        world.remove("pods", "slurm", f"slurmd-{number}")
    code, text = await shown(world, tmp_path, "roll", "gpu", "now", "-n", "slurm", "-o", "json")
    (found,) = json.loads(text)["explanations"]
    said = {line["title"]: line["texts"] for line in found["lines"]}
    assert (code, said["left as it is"]) == (1, ["there is nothing to roll: all pods have the current template"])
    world.put("nodesets", NODESET | {"spec": NODESET["spec"] | {"updateStrategy": {"type": "OnDelete"}}})
    code, text = await shown(world, tmp_path, "roll", "gpu", "now", "-n", "slurm")
    assert (code, "updateStrategy is OnDelete: only deleted pods are replaced" in text) == (1, True)
    assert world.api.patched == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("now", "--max-unavailable", "0"), "a number above 0, or a percentage from 1% to 100%"),
        (("now", "--max-unavailable", "110%"), "a number above 0, or a percentage from 1% to 100%"),
        (
            ("status", "--max-unavailable", "3"),
            "status changes nothing: give --max-unavailable with pause, resume or now",
        ),
    ],
)
async def test_what_makes_no_sense_is_refused(world, tmp_path, words, said):
    code, text = await shown(world, tmp_path, "roll", "gpu", *words)
    assert (code, said in " ".join(text.split())) == (2, True)


async def test_a_nodeset_that_is_not_there(world, tmp_path):
    code, text = await shown(world, tmp_path, "roll", "cpu", "-n", "slurm")
    assert (code, text.startswith("NodeSet slurm/cpu does not exist")) == (1, True)
    code, text = await shown(world, tmp_path, "roll", "gpu", "now", "-n", "team", "--max-unavailable", "3")
    assert (code, "NodeSet team/gpu does not exist; namespace slurm has one of that name" in text) == (1, True)
    assert text.endswith("Ask there: kubectl sunk roll gpu now --max-unavailable 3 -n slurm\n")


async def test_without_a_namespace_the_only_nodeset_of_that_name_is_meant(rolling, tmp_path):
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "pause")
    assert (code, spec_of(rolling)["paused"]) == (0, True)
    assert text.endswith("what to do      To go on: kubectl sunk roll gpu resume -n slurm\n")
    rolling.put("nodesets", NODESET | {"metadata": {"name": "cpu", "namespace": "slurm"}})
    rolling.put("nodesets", NODESET | {"metadata": {"name": "gpu", "namespace": "other"}})
    before = len(rolling.api.patched)
    code, text = await shown(rolling, tmp_path, "roll", "gpu", "resume")
    assert text.startswith("NodeSet gpu is in the namespaces other, slurm\n")
    assert text.endswith("Name one: kubectl sunk roll gpu resume -n other\n")
    assert (code, len(rolling.api.patched)) == (1, before)
    code, text = await shown(rolling, tmp_path, "roll", "cpu2")
    assert (code, "NodeSet cpu2 does not exist" in text) == (1, True)
    assert text.endswith("See what there is: kubectl get nodesets -A\n")


async def test_the_namespace_of_the_kubeconfig_comes_first_and_alone_where_others_may_not_be_read(rolling, tmp_path):
    rolling.put("nodesets", NODESET | {"metadata": {"name": "gpu", "namespace": "default"}})
    code, text = await shown(rolling, tmp_path, "roll", "gpu")
    assert (code, text.startswith("NodeSet default/gpu ")) == (0, True)
    rolling.remove("nodesets", "default", "gpu")
    rolling.api.forbidden |= {"nodesets"}
    code, text = await shown(rolling, tmp_path, "roll", "gpu")
    assert "namespaces/default" in text
