"""`sunkpy status` and `sunkpy queue` over HTTP, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import asyncio
import contextlib
import json

import click.testing
import msgspec
import pytest
import yaml

from sunkpy.cli import kubectl, main
from sunkpy.cli.access import NOT_ASKED, Access
from sunkpy.cli.overview import ask_again, status
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.core import names
from tests.doubles.serving import answering, serving
from tests.unit.cli.test_explain import configure, say
from tests.unit.scheduler.world import World, connections

NODESET = {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": {"gpu": {}}}


@pytest.fixture
def world():
    world = World()
    world.api.define("v1", "ConfigMap", "configmaps")
    configure(world, slurm={"url": "http://x", "jwtKeyFile": "/k", "user": "k8s"})
    world.put("nodesets", NODESET)
    for number in (1, 2):
        world.add_node(number)
        world.api.change("pods", "slurm", f"slurmd-{number}", {"metadata": {"labels": {names.LABEL_NODESET: "gpu"}}})
    return world


async def shown(world, tmp_path, *words, command=main, asks_slurm=True, env=None, token="t"):
    """Exit code and output of the command, in a thread of its own."""
    async with answering(world.api.handle, tmp_path) as kubeconfig, serving(world.slurm.app()) as port:
        (tmp_path / "token").write_text(f"SLURM_JWT={token}")
        slurm = ("--slurmrestd", f"http://127.0.0.1:{port}", "--slurm-token-file", str(tmp_path / "token"))
        asked = [*words, *(slurm if asks_slurm else ()), "--kubeconfig", str(kubeconfig)]
        runner = click.testing.CliRunner(env=env)
        result = await asyncio.to_thread(runner.invoke, command, asked)
    return result.exit_code, result.output


async def test_the_pool_is_read_from_both_sides(world, tmp_path):
    job = world.slurm.add_job("RUNNING", comment="", user="ann", nodes="n1", **_has("n1", "0-1"))
    world.slurm.add_job("PENDING", comment="", user="ann", state_reason="Resources")
    world.slurm.put("n1", "MIXED", gres="gpu:4")
    code, text = await shown(world, tmp_path, "status", "-o", "wide")
    assert code == 0
    assert text.startswith("2 nodes (1 ready, 1 busy); 4 GPUs, 2 free; waiting: 1 at Slurm. ")
    assert f"node-1   n1           slurm/gpu   NotReady     MIXED   4      2        2      {job}" in text
    assert "WAITS AT   JOBS   FOR\nSlurm      1      the nodes that it may use are taken" in text


async def test_jobs_and_pods_stand_in_one_queue(world, tmp_path):
    world.slurm.add_job("PENDING", comment="", user="ann", name="train", state_reason="Priority", priority=_set(5))
    first = world.slurm.add_job("PENDING", comment="k8s:default/web:u", state_reason="Resources", partition="high")
    world.add_pod()
    say(world, "web", f"Slurm job {first} waits: Resources", **{"sunkpy.dev/job-id": str(first)})
    world.add_pod("odd")
    say(world, "odd", "none of 2 Slurm nodes fits")
    code, text = await shown(world, tmp_path, "queue", "-o", "json")
    found = json.loads(text)["waiting"]
    assert code == 0
    assert [(each["door"], each["name"], each["waitsFor"]) for each in found] == [
        ("Kubernetes", "default/web", "the nodes that it may use are taken"),
        ("Slurm", "train", "other jobs come first"),
        ("Kubernetes", "default/odd", "none of 2 Slurm nodes fits"),
    ]
    _, text = await shown(world, tmp_path, "queue", "-o", "yaml", command=kubectl)
    assert yaml.safe_load(text)["waiting"] == found


async def test_without_slurm_what_is_written_in_kubernetes_is_shown_and_that(world, tmp_path):
    world.add_pod()
    say(world, "web", "Slurm job 7 waits: Priority", **{"sunkpy.dev/job-id": "7"})
    code, text = await shown(world, tmp_path, "queue", asks_slurm=False)
    assert (code, "other jobs come first" in text, text.startswith("Nothing could be read from Slurm.")) == (
        3,
        True,
        True,
    )
    assert f"not read: {NOT_ASKED}" in " ".join(text.split())
    world.slurm.is_down = True
    code, text = await shown(world, tmp_path, "queue")
    assert (code, "other jobs come first" in text, "not read: Slurm's side: " in text) == (3, True, True)


async def test_what_may_not_be_read_is_named(world, tmp_path):
    world.api.forbidden |= {"nodes", "nodesets"}
    code, text = await shown(world, tmp_path, "status")
    assert code == 0
    assert "not read     IDLE" in text
    assert "not read: NodeSets: nodesets.sunkpy.dev is forbidden" in text
    world.api.forbidden |= {"pods", "configmaps"}
    world.slurm.is_down = True
    code, text = await shown(world, tmp_path, "status")
    assert (code, text.splitlines()[0]) == (1, "Nothing could be read, neither from Kubernetes nor from Slurm.")
    code, text = await shown(world, tmp_path, "queue")
    assert (code, text.splitlines()[0]) == (1, "Nothing could be read, neither from Kubernetes nor from Slurm.")
    assert "not read: pods for Slurm: pods is forbidden" in text
    _, text = await shown(world, tmp_path, "queue", "-o", "json")
    assert json.loads(text)["missing"] == ["Kubernetes", "Slurm"]
    world.slurm.is_down = False
    code, text = await shown(world, tmp_path, "status")
    assert (code, "waiting: nothing. " in text, "Z Nothing could be read from Kubernetes.\n" in text) == (4, True, True)
    code, text = await shown(world, tmp_path, "queue")
    assert (code, text.splitlines()[0]) == (
        4, "Nothing waits, as far as could be read. Nothing could be read from Kubernetes.",
    )  # fmt: skip


async def test_an_empty_queue_says_so(world, tmp_path):
    assert await shown(world, tmp_path, "queue") == (0, "Nothing waits.\n")
    code, text = await shown(world, tmp_path, "queue", asks_slurm=False)
    assert (code, text.splitlines()[0]) == (
        3,
        "Nothing waits, as far as could be read. Nothing could be read from Slurm.",
    )


async def test_a_name_that_moves_the_cursor_is_text(world, tmp_path):
    world.slurm.add_job("PENDING", comment="", user="ann", name="\x1b[2Jboo", state_reason="Priority")
    _, text = await shown(world, tmp_path, "queue", env={"NO_COLOR": "1"})
    assert ("?[2Jboo" in text, "\x1b" in text) == (True, False)


async def test_only_the_cluster_of_a_namespace_is_shown(world, tmp_path):
    _, text = await shown(world, tmp_path, "status", "-n", "elsewhere")
    assert text.startswith("0 nodes; waiting: nothing")
    assert (
        "not read: Slurm cluster: there is none in namespace elsewhere; there are some in slurm: "
        "name one of these with -n" in text
    )
    for words in (("why-drained", "n1"), ("history", "n1"), ("drain", "n1", "--reason", "fan")):
        code, text = await shown(world, tmp_path, *words, "-n", "elsewhere")
        assert (code, text.splitlines()[0]) == (
            1, "Node n1 is no node of the Slurm cluster in namespace elsewhere, but of the one in slurm",
        )  # fmt: skip
        assert text.endswith(" -n slurm\n")


async def test_a_node_of_kubernetes_alone_is_told_so(world, tmp_path):
    world.put("nodes", {"metadata": {"name": "node-9"}})
    code, text = await shown(world, tmp_path, "why-drained", "node-9")
    assert (code, text.splitlines()[0]) == (1, "Node node-9 has no slurmd pod, so it is not a Slurm node")
    assert text.endswith("kubectl sunk explain nodeset gpu -n slurm\n")


async def test_who_watches_gets_an_answer_again_and_again(world, tmp_path):
    answers = []
    async with connections(world, tmp_path) as (_, _, settings):
        config = tmp_path / "config.yaml"
        config.write_bytes(msgspec.yaml.encode(settings))
        access = Access(kubeconfig=tmp_path / "kubeconfig", config=config)
        watching = asyncio.ensure_future(ask_again(access, status, "table", answers.append, 0.01))
        await world.until(lambda: answers)
        world.slurm.put("n2", "IDLE", "DRAIN")
        await world.until(lambda: "1 drained" in answers[-1].text)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    assert "2 ready" in answers[0].text


async def test_the_apiserver_is_asked_for_as_much_whatever_the_number_of_nodes(world, tmp_path):
    async with connections(world, tmp_path) as (kube, slurm, settings):
        await PoolReader(kube, slurm, settings).read()
        before = world.api.asked.total()
        for number in range(3, 40):
            world.add_node(number)
        await PoolReader(kube, slurm, settings).read()
    assert world.api.asked.total() - before == before


def _set(number):
    return {"set": True, "number": number}


def _has(node, indices):
    where = {"nodes": {"allocation": [{"name": node}]}}
    return {"gres_detail": [f"gpu:2(IDX:{indices})"], "job_resources": where}


async def test_who_holds_the_nodes_and_one_of_them_by_its_name_at_either_door(world, tmp_path):
    reason = {"reason": "bad fan", "reason_set_by_user": "ann", "reason_changed_at": _set(1_795_000_000)}
    world.slurm.put("n1", "IDLE", "DRAIN", **reason)
    code, text = await shown(world, tmp_path, "why-drained")
    assert code == 0
    assert "node-1   n1           Slurm: ann   2026-11-18T11:06:40Z   bad fan" in text
    assert "node-2" not in text
    for name in ("node-1", "n1"):
        code, text = await shown(world, tmp_path, "why-drained", name, command=kubectl)
        assert (code, text.startswith("Node node-1 (Slurm node n1, IDLE+DRAIN) takes no new jobs\n")) == (0, True)
    assert await shown(world, tmp_path, "why-drained", "n2") == (
        0,
        "Node n2 is not drained\n\nwhat to do      Nothing.\n",
    )
    code, text = await shown(world, tmp_path, "why-drained", "n9")
    assert (code, text.startswith("Node n9 does not exist\n")) == (1, True)
    _, text = await shown(world, tmp_path, "why-drained", "-o", "json")
    assert json.loads(text)["nodes"][0]["holds"][0]["who"] == "ann"
    world.slurm.put("n1", "IDLE", reason="")
    assert (await shown(world, tmp_path, "why-drained"))[1] == "Nobody holds a node.\n"


async def test_the_past_of_a_node_is_of_its_own_objects(world, tmp_path):
    for name, kind, namespace, about in (
        ("one", "Node", "", "node-1"),
        ("two", "Pod", "slurm", "slurmd-1"),
        ("three", "Pod", "team", "slurmd-1"),
        ("four", "Node", "", "node-2"),
    ):
        regarding = {"kind": kind, "name": about, "namespace": namespace}
        meta = {"name": name, "namespace": namespace or "default"}
        world.put("events", {"metadata": meta, "involvedObject": regarding, "reason": "R", "message": name})
    code, text = await shown(world, tmp_path, "history", "n1")
    assert code == 0
    assert text.startswith("Node node-1 (Slurm node n1)\n")
    assert [name in text for name in ("node-1: one", "slurmd-1: two", "three", "four")] == [True, True, False, False]
    assert "Kubernetes does not record who cordoned a Node" in text
    code, text = await shown(world, tmp_path, "history", "n9")
    assert (code, text.startswith("Node n9 does not exist\n")) == (1, True)
    world.put("nodes", {"metadata": {"name": "node-3", "annotations": {names.ANNOTATION_PLACED_ON: "n3"}}})
    _, text = await shown(world, tmp_path, "history", "node-3")
    assert text.startswith("Node node-3 (Slurm node n3)\n"), "its slurmd pod is gone"
    world.slurm.is_down = True
    code, text = await shown(world, tmp_path, "history", "node-1", "-o", "yaml")
    assert (code, yaml.safe_load(text)["unread"][0].startswith("Slurm's side: ")) == (3, True)
