import json

import msgspec
import pytest

from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.job_spec import JobSpec, Switches
from sunkpy.core.model.states import JobId
from sunkpy.slurm import NodesSnapshot, NotModified, errors, wire
from sunkpy.slurm.connection import Answer
from sunkpy.slurm.submission import batch_body
from tests.unit.slurm.answers import NOBODY, SERVERS, Rest, answer, in_json, slurm_errors

NODE = "gpu-000-002"
every_server = pytest.mark.parametrize(("slurm", "api"), SERVERS)


@every_server
async def test_ping_says_which_slurm_answers(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "ping"))
    ping = await rest.client(api).ping()
    assert (ping.version, ping.cluster, ping.is_up) == (api, "sk", True)
    assert ping.release.startswith(slurm)


@every_server
async def test_nodes_are_read_by_name(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "nodes"))
    snapshot = await rest.client(api).nodes()
    assert isinstance(snapshot, NodesSnapshot)
    node = snapshot.nodes[NODE]
    assert (node.cpus, node.memory_mib) == (2, 4000)
    assert node.is_registered
    assert node.slurmd_since_s > 1_700_000_000
    assert snapshot.last_update_s > 1_700_000_000


@pytest.mark.parametrize("node", [b'{"name": "n1"}', b'{"name": "n1", "state": []}', b'{"name": "n1", "state": null}'])
async def test_a_node_in_no_state_at_all_is_not_taken_for_an_open_one(rest: Rest, node: bytes) -> None:
    rest.say(Answer(200, b'{"nodes": [' + node + b'], "last_update": {"set": true, "number": 1}}'))
    with pytest.raises(errors.Malformed, match="read the nodes"):
        await rest.client("v0.0.45").nodes()


@every_server
async def test_nothing_changed_is_not_an_empty_cluster(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "nodes-unchanged"))
    assert isinstance(await rest.client(api).nodes(since_s=1), NotModified)


@every_server
async def test_changed_nodes_are_read_although_24_11_answers_500(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "nodes-changed-since"), answer(slurm, api, "node-drained"))
    snapshot = await rest.client(api).nodes(since_s=1)
    assert isinstance(snapshot, NodesSnapshot)
    assert snapshot.nodes[NODE].reason == "k8s: cordon: disk"
    assert len(rest.asked) == (2 if slurm == "24.11" else 1)


@every_server
async def test_a_drain_of_ours_is_recognised(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "node-drained"))
    node = await rest.client(api).node(NODE)
    assert node.is_drained_by_us
    assert node.is_drained


@every_server
async def test_a_lifted_drain_leaves_no_reason_and_a_short_silence(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "undrain"), answer(slurm, api, "node-undrained-just-now"))
    slurm_client = rest.client(api)
    await slurm_client.undrain_node(NODE)
    node = await slurm_client.node(NODE)
    assert (node.is_drain, node.reason, node.is_not_responding) == (False, "", True)


@every_server
async def test_a_running_and_a_failed_job_are_read(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "job-running"), answer(slurm, api, "job-failed"))
    slurm_client = rest.client(api)
    running = await slurm_client.job(JobId(1))
    assert (running.tasks, running.layout) == (1, ((running.nodes[0], 1),))
    assert running.capacity == {running.nodes[0]: Capacity(cpus=1, memory_mib=100, gres={})}
    assert running.is_running
    assert (running.user, running.comment, running.nodes) == ("k8s", "k8s:default/web-0:uid-1", (NODE,))
    failed = await slurm_client.job(JobId(1))
    assert failed.is_ended
    assert failed.exit_code == 1


@every_server
async def test_all_jobs_are_read_and_those_whose_nodes_are_unreadable_without_them(
    rest: Rest, slurm: str, api: str
) -> None:
    found = json.loads(answer(slurm, api, "job-running").content)
    odd = found["jobs"][0] | {"nodes": "n[1", "job_id": 2}
    rest.say(in_json(200, found | {"jobs": [*found["jobs"], odd]}))
    running, unreadable = await rest.client(api).jobs()
    assert (running.nodes, running.devices.keys() <= {NODE}) == ((NODE,), True)
    assert (unreadable.id, unreadable.nodes, unreadable.is_running) == (2, (), True)


@every_server
async def test_an_array_is_one_entry_with_the_states_of_its_tasks(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "jobs-state"), answer(slurm, api, "submit"))
    slurm_client = rest.client(api)
    states = await slurm_client.jobs_state()
    job_id = (await slurm_client.submit_job(JobSpec(name="a", script="#!/bin/sh", comment="c"))).job_id
    assert states[job_id] == {"RUNNING"}
    assert states[JobId(job_id + 1)] == {"PENDING"}


@every_server
async def test_several_jobs_are_asked_for_one_by_one(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "jobs-state"))
    await rest.client(api).jobs_state([JobId(1), JobId(2)])
    assert rest.asked[-1].query == "job_id=1&job_id=2"


@every_server
@pytest.mark.parametrize(
    ("name", "call", "kind", "number"),
    [
        ("node-unknown", lambda c: c.node("nope"), errors.NotFound, 0),
        ("drain-unknown", lambda c: c.drain_node("nope", "k8s: x"), errors.NotFound, 2018),
        ("delete-node-unknown", lambda c: c.delete_node("nope"), errors.NotFound, 2018),
        ("delete-node-busy", lambda c: c.delete_node(NODE), errors.Busy, 2016),
        ("drain-forbidden", lambda c: c.drain_node(NODE, "x"), errors.Rejected, 2010),
        ("job-unknown", lambda c: c.job(JobId(4242)), errors.NotFound, 2017),
        ("cancel-unknown", lambda c: c.cancel_job(JobId(4242)), errors.NotFound, 2017),
        ("signal-finished", lambda c: c.signal_job(JobId(1), "USR1"), errors.AlreadyDone, 2021),
    ],
)
async def test_what_slurm_refuses_is_classified_by_number(rest, slurm, api, name, call, kind, number) -> None:
    rest.say(answer(slurm, api, name))
    with pytest.raises(kind) as caught:
        await call(rest.client(api))
    assert caught.value.error_number == number


@every_server
async def test_a_node_that_slurm_has_forgotten_is_called_that(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "node-unknown"))
    with pytest.raises(errors.NotFound, match=r"^read Slurm node nope: Slurm has no such node$"):
        await rest.client(api).node("nope")


@every_server
@pytest.mark.parametrize(
    ("name", "number", "hint"),
    [
        ("submit-bad-partition", 2000, "sinfo"),
        ("submit-bad-feature", 2029, "feature"),
        ("submit-too-big", 2014, "ask for less"),
    ],
)
async def test_a_bad_job_says_what_to_change(rest, slurm, api, name, number, hint) -> None:
    rest.say(answer(slurm, api, name))
    job = JobSpec(name="web-0", script="#!/bin/sh", comment="c", partition="nope")
    with pytest.raises(errors.Rejected, match=hint) as caught:
        await rest.client(api).submit_job(job)
    assert caught.value.error_number == number
    assert "web-0 (partition nope)" in str(caught.value)


@every_server
@pytest.mark.parametrize(
    ("name", "numbers", "says"),
    [
        ("submit-unknown-user", {2166, 6010}, "make the user known where slurmctld runs"),
        ("submit-bad-account", {2045}, "name an account the user is associated with"),
        ("submit-forged", {2002}, "Access/permission denied"),
    ],
)
async def test_what_slurm_refuses_a_person_is_said_with_their_name(rest, slurm, api, name, numbers, says) -> None:
    rest.say(answer(slurm, api, name))
    with pytest.raises(errors.Rejected, match=says) as caught:
        await rest.client(api).submit_job(JobSpec(name="web", script="#!/bin/sh", comment="c"), user="ann")
    assert caught.value.error_number in numbers
    assert "submit job web as ann" in str(caught.value)


@every_server
async def test_a_sealed_job_of_a_person_is_read(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "job-of-a-person"))
    job = await rest.client(api).job(JobId(1))
    assert (job.user, job.account) == ("ann", "chem")
    assert job.admin_comment == job.comment == "k8s:chem/web:u-1 text"


@every_server
async def test_what_an_owner_may_not_change_is_rejected(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "update-sealed"))
    with pytest.raises(errors.Rejected, match="denied"):
        await rest.client(api).update_job(JobId(1), JobSpec(comment="mine"), ["comment"], user="ann")


async def test_a_job_of_a_person_is_asked_for_with_their_token_and_the_seal(rest: Rest) -> None:
    rest.say(*(answer("26.05", "v0.0.45", name) for name in ("submit", "signal", "signal")))
    slurm = rest.client("v0.0.45")
    await slurm.submit_job(JobSpec(name="a", script="#!/bin/sh", comment="c"), user="ann")
    await slurm.cancel_job(JobId(7), user="ann")
    await slurm.cancel_job(JobId(7))
    submit, theirs, own = rest.asked
    assert [request.headers["X-SLURM-USER-TOKEN"] for request in (submit, theirs, own)] == [
        "token-1-of-ann", "token-1-of-ann", "token-1",
    ]  # fmt: skip
    assert json.loads(submit.content)["job"]["extra"] == "seal"


async def test_the_processs_own_jobs_have_no_seal(rest: Rest) -> None:
    rest.say(answer("26.05", "v0.0.45", "submit"))
    await rest.client("v0.0.45").submit_job(JobSpec(name="a", script="#!/bin/sh", comment="c"))
    assert "extra" not in json.loads(rest.asked[0].content)["job"]


@every_server
async def test_signals_go_to_the_batch_script_alone(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "signal"))
    await rest.client(api).signal_job(JobId(7), "USR2")
    request = rest.asked[0]
    assert request.method == "DELETE"
    assert request.params == {"signal": "USR2", "flags": "BATCH_JOB"}


@every_server
async def test_partitions_are_read_with_their_tier(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "partitions"))
    assert {p.name: p.priority_tier for p in await rest.client(api).partitions()} == {"low": 1, "high": 10}


async def test_a_submission_is_never_sent_twice(rest: Rest) -> None:
    rest.hang_up()
    with pytest.raises(errors.Unreachable):
        await rest.client("v0.0.42").submit_job(JobSpec(name="a", script="#!/bin/sh", comment="c"))
    assert len(rest.asked) == 1


async def test_a_deletion_is_never_sent_twice(rest: Rest) -> None:
    rest.hang_up()
    rest.hang_up()
    with pytest.raises(errors.Unreachable):
        await rest.client("v0.0.42").delete_node(NODE)
    assert len(rest.asked) == 1


async def test_a_submission_that_names_an_unknown_node_is_rejected_not_missing(rest: Rest) -> None:
    rest.say(slurm_errors(422, 2018))
    with pytest.raises(errors.Rejected, match="does not know"):
        await rest.client("v0.0.42").submit_job(
            JobSpec(name="a", script="#!/bin/sh", comment="c", excluded_nodes=("nope",))
        )


@every_server
async def test_an_allocation_is_granted_at_once_and_has_no_script(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "allocate"), answer(slurm, api, "job-allocation"))
    granted = await rest.client(api).allocate_now(JobSpec(name="web-0", script="#!/bin/sh", comment="c"))
    assert granted is not None
    job = json.loads(rest.asked[-1].content)["job"]
    assert (job["immediate"], job["requeue"]) == (True, False)
    assert not {"script", "standard_output", "hold"} & job.keys()
    seen = await rest.client(api).job(granted.job_id)
    assert (seen.id, seen.is_running, seen.is_batch) == (granted.job_id, True, False)
    assert seen.comment == "k8s:default/web-0:uid-1"
    assert seen.capacity == {seen.nodes[0]: Capacity(cpus=1, memory_mib=10, gres={})}


@every_server
@pytest.mark.parametrize("name", ["allocate-busy", "allocate-not-first", "allocate-bad-partition"])
async def test_what_cannot_start_at_once_is_left_to_the_queue(rest, slurm, api, name) -> None:
    rest.say(answer(slurm, api, name))
    assert await rest.client(api).allocate_now(JobSpec(name="web-0", script="", comment="c")) is None


async def test_an_allocation_that_was_not_answered_may_be_there_and_is_not_asked_for_again(rest: Rest) -> None:
    rest.hang_up()
    with pytest.raises(errors.Unreachable):
        await rest.client("v0.0.42").allocate_now(JobSpec(name="a", script="", comment="c"))
    assert len(rest.asked) == 1
    with pytest.raises(errors.Unreachable):
        await rest.client("v0.0.42", url=NOBODY).allocate_now(JobSpec(name="a", script="", comment="c"))


@every_server
async def test_a_batch_job_is_told_from_an_allocation(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "job-running"))
    assert (await rest.client(api).job(JobId(1))).is_batch


def test_a_submission_names_only_what_was_asked_for() -> None:
    job = batch_body(JobSpec(name="a", script="#!/bin/sh", comment="c", gres_per_node="gres/gpu:2"))["job"]
    assert isinstance(job, dict)
    assert job["tres_per_node"] == "gres/gpu:2"
    assert job["requeue"] is False
    assert not {"partition", "account", "memory_per_node", "required_nodes"} & job.keys()


def test_tasks_may_share_nodes() -> None:
    asked = JobSpec(name="a", script="", comment="", tasks=5, maximum_nodes=5, memory_mib_per_cpu=64)
    job = batch_body(msgspec.structs.replace(asked, gres_per_task="gres/gpu:1"))["job"]
    assert isinstance(job, dict)
    assert (job["tasks"], job["minimum_nodes"], job["maximum_nodes"]) == (5, 1, 5)
    assert job["memory_per_cpu"] == {"set": True, "infinite": False, "number": 64}
    assert job["tres_per_task"] == "gres/gpu:1"
    assert not {"memory_per_node", "tres_per_node"} & job.keys()


@pytest.mark.parametrize(
    ("spec", "shared"),
    [(JobSpec(), None), (JobSpec(shared="user"), ["user"]), (JobSpec(shared="user", whole_nodes=True), ["none"])],
)
def test_whoever_gets_whole_nodes_shares_them_with_nobody(spec: JobSpec, shared: list[str] | None) -> None:
    job = batch_body(spec)["job"]
    assert isinstance(job, dict)
    assert job.get("shared") == shared


def test_a_segment_is_asked_for_where_somebody_wants_one() -> None:
    with_segment, without = (
        batch_body(JobSpec(name="a", script="", comment="", segment=segment))["job"] for segment in (4, None)
    )
    assert isinstance(with_segment, dict)
    assert isinstance(without, dict)
    assert with_segment["segment_size"] == {"set": True, "infinite": False, "number": 4}
    assert "segment_size" not in without


def test_switches_are_asked_for_with_the_time_to_wait_for_them() -> None:
    job = batch_body(JobSpec(name="a", script="", comment="", switches=Switches(count=1, wait_s=600), wckey="k"))["job"]
    assert isinstance(job, dict)
    assert job["required_switches"] == {"set": True, "infinite": False, "number": 1}
    assert (job["wait_for_switch"], job["wckey"]) == (600, "k")


def test_how_the_tasks_lie_is_read_in_the_order_of_the_job() -> None:
    number = {"set": True, "infinite": False, "number": 1}
    nodes = [{"name": f"n{n}", "cpus": {"count": cpus}} for n, cpus in ((11, 2), (13, 2), (12, 1))]
    body = {
        "job_id": 7,
        "tasks": number | {"number": 5},
        "cpus_per_task": number,
        "tres_per_task": "gres/gpu:1",
        "gres_detail": ["gpu:h100:2(IDX:0-1)", "gpu:h100:2(IDX:0-1)", "gpu:h100:1(IDX:0)"],
        "job_resources": {"nodes": {"allocation": nodes}},
    }
    job = msgspec.convert(body, wire.WireJob).to_core()
    assert job.layout == (("n11", 2), ("n13", 2), ("n12", 1))
    has = {"n11": (0, 1), "n13": (0, 1), "n12": (0,)}
    assert job.devices == {node: {"gpu": indices, "gpu:h100": indices} for node, indices in has.items()}
    assert [room.gres for room in job.capacity.values()] == [{"gpu": n, "gpu:h100": n} for n in (2, 2, 1)]
    partly = msgspec.convert(body | {"gres_detail": ["gpu:2"]}, wire.WireJob).to_core()
    assert [room.gres for room in partly.capacity.values()] == [None] * 3


def test_what_a_slurmd_says_of_its_devices() -> None:
    node = {"name": "n1", "state": ["IDLE"], "extra": '{"gpu": ["nvidia0 GPU-5c -"]}'}
    assert msgspec.convert(node, wire.WireNode).to_core().extra == node["extra"]
