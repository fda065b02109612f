"""`sunkpy drain` and `undrain` over HTTP, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import json

import jwt
import pytest
import yaml
from aiohttp import web

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


async def test_who_asks_for_a_check_is_noted_and_nothing_else_changes(world, tmp_path):
    checked = {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
    world.api.change("pods", "slurm", "slurmd-1", checked)
    code, text = await shown(world, tmp_path, "verify", "n1", "--dry-run", command=kubectl)
    assert (code, "would be checked once it is idle" in text, world.api.patched) == (0, True, [])
    code, text = await shown(world, tmp_path, "verify", "n1", command=kubectl)
    assert (code, node_of(world)) == (0, (None, {names.ANNOTATION_VERIFY: "ann@example.com"}))
    assert "ask for its check; the operator drains the node, has it checked once it is idle, and gives it back" in text
    assert "To follow it: kubectl sunk history node-1" in text
    code, text = await shown(world, tmp_path, "verify", "n[1-2]")
    assert (code, "ann@example.com has asked for its check already" in text) == (1, True)
    assert "its slurmd pod has no check: give chart slurm one, compute.verify.script" in text


async def test_a_cordon_stays_while_a_node_is_to_be_checked(world, tmp_path):
    await shown(world, tmp_path, "drain", "n1", *REASON)
    checked = {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
    world.api.change("pods", "slurm", "slurmd-1", checked)
    code, _ = await shown(world, tmp_path, "verify", "n1")
    is_cordoned, notes = node_of(world)
    assert (code, is_cordoned, notes[names.ANNOTATION_DRAIN]) == (0, True, "bad fan")


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


async def test_without_slurm_a_drain_there_is_known_from_the_slurmd_pod(world, tmp_path):
    notes = {names.ANNOTATION_SLURM_STATE: "IDLE+DRAIN", names.ANNOTATION_DRAIN: "bad fan"}
    world.api.change("pods", "slurm", "slurmd-1", {"metadata": {"annotations": notes}})
    code, text = await shown(world, tmp_path, "undrain", "n1", asks_slurm=False)
    assert (code, "bad fan" in text) == (1, True)


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
    (found,) = json.loads(text)["outcomes"]
    assert (code, found["isDone"], found["left"]) == (0, True, [])
    assert found["steps"] == ["cordon the Node for 'bad fan', by ann@example.com; the syncer drains it in Slurm"]
    assert [(each["door"], each["who"]) for each in found["node"]["holds"]] == [("Slurm", "root")]
    code, text = await shown(world, tmp_path, "undrain", "n1", "--dry-run", "-o", "yaml")
    (found,) = yaml.safe_load(text)["outcomes"]
    assert (code, found["isDone"], found["node"]["node"], len(found["steps"])) == (0, False, "node-1", 1)
    assert found["left"] == [
        "Slurm, by root: fan: not yours; to change it anyway: --set-by root, with an operator's --slurm-token-file"
    ]


async def test_it_is_said_which_jobs_end_when(world, tmp_path):
    ends = {"set": True, "infinite": False, "number": 1795910400}
    job = world.slurm.add_job("RUNNING", comment="", user="ann", name="train", nodes="n1", end_time=ends)
    other = world.slurm.add_job("RUNNING", comment="", user="bob", name="sh", nodes="n1,n2")
    world.slurm.put("n1", "MIXED")
    world.slurm.put("n2", "MIXED")
    _, text = await shown(world, tmp_path, "drain", "n1", *REASON, "--dry-run")
    assert f"jobs end        job {job} of ann (train) ends by 2026-11-29T00:00:00Z\n" in text
    assert f"                job {other} of bob (sh) has no time limit\n" in text
    _, text = await shown(world, tmp_path, "drain", "n1", "n2", *REASON, "--dry-run")
    assert f"\n{job}   ann    train   n1            2026-11-29T00:00:00Z\n" in text
    assert f"\n{other}   bob    sh      n[1-2]        no time limit\n" in text


@pytest.mark.parametrize("which", [("n[1-2]",), ("n1", "node-2", "n2"), ("n1,n2",), ("-l", "rack=7")])
async def test_several_nodes_are_named_by_range_or_label_each_once(world, tmp_path, which):
    for number in (1, 2):
        world.api.change("nodes", "", f"node-{number}", {"metadata": {"labels": {"rack": "7"}}})
    code, text = await shown(world, tmp_path, "drain", *which, *REASON)
    assert (code, [node_of(world, number)[0] for number in (1, 2)]) == (0, [True, True])
    assert [line.split()[:2] for line in text.splitlines()[1:3]] == [["node-1", "n1"], ["node-2", "n2"]]
    code, text = await shown(world, tmp_path, "undrain", *which, "-o", "json")
    assert (code, len(json.loads(text)["outcomes"])) == (0, 2)
    assert [node_of(world, number)[0] for number in (1, 2)] == [None, None]


@pytest.mark.parametrize(
    ("which", "code", "said"),
    [
        (("n[1-3]",), 1, "Node n3 does not exist\n"),
        (("-l", "rack=9"), 1, "Node with labels rack=9 does not exist\n"),
        (("n[2-1]",), 2, "Error: Invalid value for NODE: hostlist 'n[2-1]': '2-1' is not a range, or too long"),
        ((), 2, "Error: name nodes, or choose them by their labels: -l"),
    ],
)
async def test_a_name_that_is_no_node_of_the_pool_changes_none(world, tmp_path, which, code, said):
    found, text = await shown(world, tmp_path, "drain", *which, *REASON)
    assert (found, said in text, world.api.patched) == (code, True, [])


async def test_who_is_no_operator_of_slurm_reads_where_else_it_goes(world, tmp_path):
    world.slurm.refuse, world.slurm.refuse_as = "no", 2010
    operators = "or give an operator's --slurm-token-file\n"
    code, text = await shown(world, tmp_path, "drain", "n1", *REASON, "--slurm")
    beside = "run in slurmctld's pod: scontrol update nodename=n1 state="
    without = "this needs an operator of Slurm: leave out --slurm, because a cordon drains the node in Slurm, too; or "
    assert (code, text.endswith(f"; {without}{beside}drain reason='bad fan'; {operators}")) == (3, True)
    world.slurm.put("n1", "IDLE", "DRAIN", reason="fan", reason_set_by_user="root")
    code, text = await shown(world, tmp_path, "undrain", "n1", "--set-by", "root")
    assert (code, text.endswith(f"; this needs an operator of Slurm: {beside}resume; {operators}")) == (3, True)
    assert text.startswith("sunkpy: update Slurm node n1 (UNDRAIN): ")


@pytest.mark.parametrize("command", [("drain", "n1", *REASON), ("undrain", "node-1"), ("why-drained", "n1")])
async def test_who_may_not_read_the_pool_is_told_that_and_not_that_there_is_no_such_node(world, tmp_path, command):
    world.api.forbidden |= {"pods", "nodes"}
    code, text = await shown(world, tmp_path, *command)
    first, *_, last = text.splitlines()
    assert (code, first, world.api.patched) == (1, f"Node {command[1]} could not be looked up", [])
    assert "slurmd pods: pods is forbidden" in text
    assert last.startswith("what to do      Ask an admin for the right to list nodes and pods: kubectl create ")


async def test_what_one_node_refuses_does_not_keep_the_others(world, tmp_path):
    world.api.refuse_patch["node-1"] = 409
    code, text = await shown(world, tmp_path, "drain", "n[1-2]", *REASON)
    assert (code, node_of(world, 2)[0]) == (1, True)
    assert "node-1   n1           nothing" in text
    assert "PATCH /api/v1/nodes/node-1: " in text


def without_node(world, name):
    """The apiserver refuses to show this Node by itself, while lists have it."""
    answer = world.api.handle

    async def handle(request):
        if (request.method, request.path) == ("GET", f"/api/v1/nodes/{name}"):
            return web.json_response({"kind": "Status", "reason": "Forbidden", "message": "by a proxy"}, status=403)
        return await answer(request)

    world.api.handle = handle


@pytest.mark.parametrize("command", [("drain", *REASON), ("verify",), ("undrain",)], ids=lambda words: words[0])
async def test_a_node_that_cannot_be_read_does_not_keep_the_others(world, tmp_path, command):
    for number in (1, 2):
        checked = {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
        world.api.change("pods", "slurm", f"slurmd-{number}", checked)
        if command == ("undrain",):
            await shown(world, tmp_path, "drain", f"n{number}", *REASON)
    before = node_of(world, 2)
    without_node(world, "node-1")
    code, text = await shown(world, tmp_path, *command, "n[1-2]", "-o", "json")
    first, second = json.loads(text)["outcomes"]
    assert (code, first["node"]["node"], first["steps"], len(second["steps"])) == (1, "node-1", [], 1)
    assert first["left"] == ["GET /api/v1/nodes/node-1: by a proxy (HTTP 403)"]
    assert node_of(world, 2) != before
    assert len(first["node"]["holds"]) == (1 if command == ("undrain",) else 0)
    code, text = await shown(world, tmp_path, *command, "n1")
    assert (code, text.startswith("sunkpy: GET /api/v1/nodes/node-1: ")) == (1, True)


def silence_about_n1(world):
    """slurmrestd fails when it is asked for this node alone."""

    @web.middleware
    async def gate(request, handler):
        is_of_one = request.path.endswith("/node/n1")
        return web.json_response({"errors": []}, status=502) if is_of_one else await handler(request)

    def app():
        made = whole()
        made.middlewares.append(gate)
        return made

    whole, world.slurm.app = world.slurm.app, app


async def test_what_slurm_does_not_say_of_one_node_does_not_keep_its_cordon(world, tmp_path):
    silence_about_n1(world)
    code, text = await shown(world, tmp_path, "drain", "n[1-2]", *REASON)
    assert (code, [node_of(world, number)[0] for number in (1, 2)]) == (0, [True, True])
    assert "not read: Slurm's side: " in text
    code, text = await shown(world, tmp_path, "drain", "n[1-2]", *REASON, "--slurm", "-o", "json")
    first, second = json.loads(text)["outcomes"]
    assert (code, first["left"], len(second["steps"])) == (3, ["Slurm was not asked: see what was not read"], 1)


async def test_an_undrain_is_not_done_while_slurm_does_not_say_how_the_node_is(world, tmp_path):
    assert (await shown(world, tmp_path, "drain", "n[1-2]", *REASON, "--slurm"))[0] == 0
    silence_about_n1(world)
    code, text = await shown(world, tmp_path, "undrain", "n[1-2]")
    assert (code, "not read: Slurm's side: " in text) == (3, True)
