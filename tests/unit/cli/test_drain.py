"""`sunkpy drain` and `undrain` over HTTP, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import json

import jwt
import pytest
import yaml

from sunkpy.cli import kubectl
from sunkpy.core import names
from tests.unit.cli.test_overview import shown, world

__all__ = ["world"]

REASON = ("--reason", "bad fan")


def node_of(world, number=1):
    found = world.api.find("nodes", f"node-{number}")
    return found["spec"].get("unschedulable") if "spec" in found else None, found["metadata"].get("annotations", {})


async def test_a_node_is_cordoned_for_a_reason_by_somebody_and_given_back(world, tmp_path):
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON, command=kubectl)
    assert (code, text.startswith("Node node-1 (Slurm node n1, IDLE) is taken out of service\n")) == (0, True)
    noted = {names.ANNOTATION_DRAIN: "bad fan", names.ANNOTATION_DRAIN_BY: "ann@example.com"}
    assert node_of(world) == (True, noted)
    _, text = await shown(world, tmp_path, "why-drained", "node-1")
    assert "Kubernetes, by ann@example.com, since when is not recorded: cordon: bad fan" in text
    world.api.asker = "bob@example.com"
    code, text = await shown(world, tmp_path, "undrain", "node-1")
    assert (code, "--set-by ann@example.com" in text, node_of(world)) == (1, True, (True, noted))
    code, text = await shown(world, tmp_path, "undrain", "node-1", "--set-by", "ann@example.com")
    assert (code, "is given back" in text, node_of(world)) == (0, True, (None, {}))


async def test_a_trial_and_a_node_of_nobody_change_nothing(world, tmp_path):
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON, "--dry-run")
    assert (code, "would be taken out of service" in text, world.api.patched) == (0, True, [])
    code, text = await shown(world, tmp_path, "drain", "n9", *REASON)
    assert (code, text.startswith("Node n9 does not exist\n")) == (1, True)


async def test_in_slurm_it_is_the_user_of_the_token_who_drains_and_lifts(world, tmp_path):
    world.slurm.put("n1", "IDLE")
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON, "--slurm")
    assert (code, world.slurm.state("n1"), world.slurm.nodes["n1"]["reason"]) == (0, "DRAIN+IDLE", "bad fan")
    world.slurm.put("n1", reason_set_by_user="root")
    code, text = await shown(world, tmp_path, "undrain", "n1")
    assert (code, "--set-by root" in text, world.slurm.state("n1")) == (1, True, "DRAIN+IDLE")
    token = jwt.encode({"sun": "root"}, "k" * 32, algorithm="HS256")
    code, text = await shown(world, tmp_path, "undrain", "n1", token=token)
    assert (code, world.slurm.state("n1"), world.api.patched) == (0, "IDLE", [])


@pytest.mark.parametrize("asks_slurm", [True, False])
async def test_without_slurm_the_cordon_is_still_there_to_be_set(world, tmp_path, asks_slurm):
    world.slurm.is_down = True
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON, asks_slurm=asks_slurm)
    assert (code, "not read" in text, node_of(world)[0]) == (0, True, True)
    code, text = await shown(world, tmp_path, "drain", "n2", *REASON, "--slurm", asks_slurm=asks_slurm)
    assert (code, "Slurm was not asked" in text) == (1, True)


async def test_a_node_that_changes_in_between_and_a_right_that_is_missing_are_said(world, tmp_path):
    world.api.refuse_patch["node-1"] = 409
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON)
    assert (code, text.startswith("sunkpy: PATCH /api/v1/nodes/node-1: ")) == (1, True)
    world.slurm.refuse = "no"
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON, "--slurm")
    assert (code, text.startswith("sunkpy: update Slurm node n1 (DRAIN bad fan): ")) == (3, True)


async def test_a_program_reads_what_is_done_what_is_left_and_who_held_the_node(world, tmp_path):
    world.slurm.put("n1", "IDLE", "DRAIN", reason="fan", reason_set_by_user="root")
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON, "-o", "json")
    found = json.loads(text)
    assert (code, found["isDone"], found["left"]) == (0, True, [])
    assert found["steps"] == ["cordon the Node for 'bad fan', by ann@example.com; the syncer drains it in Slurm"]
    assert [(each["door"], each["who"]) for each in found["node"]["holds"]] == [("Slurm", "root")]
    code, text = await shown(world, tmp_path, "undrain", "n1", "--dry-run", "-o", "yaml")
    found = yaml.safe_load(text)
    assert (code, found["isDone"], found["node"]["node"], len(found["steps"])) == (0, False, "node-1", 1)
    assert found["left"] == ["Slurm, by root: fan: not yours; to change it all the same: --set-by root"]
