"""The client against a real Slurm: what the recorded answers say must still be so."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from sunkpy.core.mirror import UndrainNode
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, NodeComment
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import NodeCache, NodeChange, NodesSnapshot, NotModified, Slurm, errors
from sunkpy.slurm.nodes import NO_REASON, RESUME, UNDRAIN, drain
from sunkpy.syncer.slurm_writer import SlurmWriter
from tests.integration.slurm.asking import happens, is_usable
from tests.integration.slurm.daemons import NODE, TELL_BEGUN, RealSlurm

pytestmark = pytest.mark.integration

PLACEHOLDER = f"#!/bin/bash\ntrap 'exit 0' USR1\ntrap 'exit 1' USR2\n{TELL_BEGUN}sleep infinity & wait $!\n"


def job(**changes: object) -> JobSpec:
    fields = {"name": "web-0", "script": PLACEHOLDER, "comment": "k8s:default/web-0:uid", "memory_mib_per_node": 10}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


async def test_the_newest_common_version_is_found(admin: Slurm) -> None:
    ping = await admin.ping()
    expected = {"24.11": "v0.0.42", "25.05": "v0.0.43", "25.11": "v0.0.44", "26.05": "v0.0.45"}
    assert (ping.version, ping.cluster, ping.is_up) == (expected[ping.release[:5]], "it", True)
    assert {partition.name for partition in await admin.partitions()} == {"low", "high"}


async def test_unchanged_nodes_are_not_sent_again(admin: Slurm) -> None:
    snapshot = await admin.nodes()
    assert isinstance(snapshot, NodesSnapshot)
    # A change in the second of the first read is sent once more.
    answers = []
    for _ in range(3):
        answers.append(await admin.nodes(since_s=snapshot.last_update_s))
        await asyncio.sleep(1.1)
        snapshot = await admin.nodes()
        assert isinstance(snapshot, NodesSnapshot)
    assert any(isinstance(answer, NotModified) for answer in answers)


async def test_a_drain_is_set_replaced_seen_and_lifted_with_its_reason(real: RealSlurm, admin: Slurm) -> None:
    before = await admin.nodes()
    assert isinstance(before, NodesSnapshot)
    await admin.drain_node(NODE, "k8s: cordon: disk")
    await admin.drain_node(NODE, "k8s: cordon: fan")
    seen = await admin.nodes(since_s=before.last_update_s)
    assert isinstance(seen, NodesSnapshot)
    assert (seen.nodes[NODE].is_drained, seen.nodes[NODE].reason) == (True, "k8s: cordon: fan")
    await admin.undrain_node(NODE)
    assert (await admin.node(NODE)).reason == ""
    await happens(real, lambda: is_usable(admin))


@pytest.mark.parametrize("lift", [UNDRAIN, RESUME])
async def test_without_accounting_a_lift_leaves_the_reason_of_an_open_node_in_slurm_24_11_alone(
    real: RealSlurm, admin: Slurm, lift: NodeChange
) -> None:
    await admin.drain_node(NODE, "bad gpu")
    await admin.update_nodes([NODE], lift)
    node = await admin.node(NODE)
    is_old = (await admin.ping()).release.startswith("24.11")
    assert (node.is_drain, node.reason) == (False, "bad gpu" if is_old else "")
    await admin.update_nodes([NODE], NO_REASON)
    node = await admin.node(NODE)
    assert (node.is_closed, node.reason) == (False, "")
    await happens(real, lambda: is_usable(admin))


async def test_a_node_that_is_down_keeps_its_reason_when_its_drain_is_lifted(real: RealSlurm, admin: Slurm) -> None:
    await admin.drain_node(NODE, "k8s: cordon")
    await admin.update_node(NODE, NodeChange(state=("DOWN",), reason="ask ann"))
    await admin.update_node(NODE, UNDRAIN)
    node = await admin.node(NODE)
    assert (node.is_drain, node.is_down, node.reason) == (False, True, "ask ann")
    await admin.update_node(NODE, RESUME)
    await admin.update_node(NODE, NO_REASON)
    await happens(real, lambda: is_usable(admin))


@pytest.mark.parametrize("state", ["DOWN", "DRAIN"])
async def test_what_a_person_sets_right_before_the_syncer_lifts_its_drain_stands(
    real: RealSlurm, admin: Slurm, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """But for a drain where Slurm removes the reason by which it would be known: in 26.05, and with accounting."""
    writes = Slurm.update_node

    async def after_a_person(slurm: Slurm, name: str, change: NodeChange) -> None:
        monkeypatch.undo()
        await writes(slurm, NODE, NodeChange(state=(state,), reason="ask ann"))
        await writes(slurm, name, change)

    async def consent() -> bool:
        return True

    await admin.drain_node(NODE, "k8s: cordon")
    monkeypatch.setattr(Slurm, "update_node", after_a_person)
    await SlurmWriter(admin).write(UndrainNode(name=NODE, pod=Pod()), consent)
    node = await admin.node(NODE)
    is_old = (await admin.ping()).release.startswith("24.11")
    assert (node.is_held_by_others, node.reason) == ((True, "ask ann") if is_old or state == "DOWN" else (False, ""))
    with contextlib.suppress(errors.Rejected):  # it takes jobs already
        await admin.update_node(NODE, NodeChange(state=("RESUME",), reason=" "))
    await happens(real, lambda: is_usable(admin))


async def test_a_drain_stands_when_its_reason_is_removed(real: RealSlurm, admin: Slurm) -> None:
    await admin.drain_node(NODE, "bad gpu")
    await admin.update_node(NODE, NO_REASON)
    node = await admin.node(NODE)
    assert (node.is_held_by_others, node.reason) == (True, "")
    await admin.undrain_node(NODE)
    await happens(real, lambda: is_usable(admin))


async def test_a_node_that_is_down_stays_down_when_its_drain_is_lifted(real: RealSlurm, admin: Slurm) -> None:
    await admin.update_node(NODE, NodeChange(state=("DOWN",), reason="broken"))
    await admin.drain_node(NODE, "k8s: cordon: disk")
    await admin.undrain_node(NODE)
    node = await admin.node(NODE)
    assert (node.is_down, node.is_drain) == (True, False)
    with contextlib.suppress(errors.Rejected):  # its slurmd may have brought it back meanwhile
        await admin.update_node(NODE, NodeChange(state=("RESUME",)))
    await happens(real, lambda: is_usable(admin))


async def test_the_comment_says_whose_node_it_is(admin: Slurm) -> None:
    owner = NodeComment(node="node-1", namespace="slurm", pod=NODE, uid="uid-1", nodeset="gpu")
    await admin.update_node(NODE, NodeChange(comment=owner.encode()))
    assert (await admin.node(NODE)).owner == owner


@pytest.mark.parametrize("number", [2**26, 2**31])
async def test_a_number_that_no_job_has_is_not_found_however_large(admin: Slurm, number: int) -> None:
    """Anybody may note one on a pod, and it is asked for until Slurm has said something of it."""
    with pytest.raises(errors.NotFound):
        await admin.job(JobId(number))


@pytest.mark.parametrize(("signal", "exit_code"), [("USR1", 0), ("USR2", 1)])
async def test_a_placeholder_ends_as_it_is_told(
    real: RealSlurm, admin: Slurm, submitter: Slurm, signal: str, exit_code: int
) -> None:
    job_id = (await submitter.submit_job(job())).job_id
    await happens(real, lambda: _is(submitter, job_id, "is_running"))
    assert (await admin.node(NODE)).is_busy
    with pytest.raises(errors.Busy):
        await admin.delete_node(NODE)

    async def has_begun() -> bool:
        return real.has_begun(job_id)

    await happens(real, has_begun)
    await submitter.signal_job(job_id, signal)
    await happens(real, lambda: _is(submitter, job_id, "is_ended"))
    ended = await submitter.job(job_id)
    assert (ended.exit_code, ended.user, ended.comment) == (exit_code, "k8s", "k8s:default/web-0:uid")
    with pytest.raises(errors.AlreadyDone):
        await submitter.cancel_job(job_id)


async def test_a_job_is_requeued_against_its_wish_and_keeps_that(
    real: RealSlurm, admin: Slurm, submitter: Slurm
) -> None:
    """As `requeue-lost` and prolog.sh do: a placeholder that may be requeued would be, each time it is preempted."""
    job_id = (await submitter.submit_job(job())).job_id
    await happens(real, lambda: _is(submitter, job_id, "is_running"))
    update = f"update jobid={job_id}"
    for command in (f"{update} requeue=1", f"requeue {job_id}", f"{update} starttime=now+10", f"{update} requeue=0"):
        assert await asyncio.to_thread(real.run_as, "slurm", "scontrol", *command.split()) == (0, "")
    shown = await asyncio.to_thread(real.run_as, "slurm", "scontrol", "-o", "show", "job", str(job_id))
    assert " Requeue=0 Restarts=1 " in shown[1]
    # Slurm itself would let it wait for two minutes; it looks for what may begin now each half minute.
    await happens(real, lambda: _is(submitter, job_id, "is_running"), timeout_s=80)
    await submitter.cancel_job(job_id)


async def test_a_pending_job_is_seen_and_cancelled(submitter: Slurm) -> None:
    job_id, other = [(await submitter.submit_job(job(hold=True))).job_id for _ in range(2)]
    assert (await submitter.jobs_state([job_id]))[job_id] == {"PENDING"}
    assert await submitter.jobs_state([job_id, other]) == {job_id: {"PENDING"}, other: {"PENDING"}}
    for each in (job_id, other):
        await submitter.cancel_job(each)
    assert (await submitter.jobs_state())[job_id] == {"CANCELLED"}


@pytest.mark.parametrize("changes", [{"partition": "nope"}, {"constraint": "nope"}, {"excluded_nodes": ("nope",)}])
async def test_a_bad_job_is_rejected(submitter: Slurm, changes: dict[str, object]) -> None:
    with pytest.raises(errors.Rejected):
        await submitter.submit_job(job(**changes))


async def test_what_does_not_exist_is_not_found(admin: Slurm) -> None:
    for call in (admin.node("nope"), admin.delete_node("nope"), admin.job(JobId(4242)), admin.cancel_job(JobId(4242))):
        with pytest.raises(errors.NotFound):
            await call


async def test_a_list_of_nodes_is_changed_in_one_call_until_one_is_unknown(admin: Slurm) -> None:
    await admin.update_nodes([NODE], drain("k8s: cordon: rack"))
    assert (await admin.node(NODE)).is_drained_by_us
    with pytest.raises(errors.NotFound):
        await admin.update_nodes([NODE, "zzz-nope"], UNDRAIN)
    if (await admin.node(NODE)).is_drain:
        await admin.undrain_node(NODE)


async def test_slurmctld_tells_what_reads_of_its_nodes_cost_it(real: RealSlurm, admin: Slurm) -> None:
    """It counts a read after it has answered."""
    before_s = 0.0

    async def is_more() -> bool:
        return before_s < await admin.reading_s() < 60

    for _ in range(2):
        before_s = await admin.reading_s()
        await admin.nodes()
        await happens(real, is_more)


async def test_only_operators_of_slurm_may_drain(submitter: Slurm) -> None:
    with pytest.raises(errors.Rejected, match="lacks the right"):
        await submitter.drain_node(NODE, "k8s: x")


async def test_a_wrong_key_is_told_with_its_file(real: RealSlurm, tmp_path) -> None:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"x" * 32)
    slurm = Slurm.connect(SlurmSettings(url=real.url, user="slurm", jwt_key_file=str(key)))
    with pytest.raises(errors.Unauthorized, match=r"jwt\.key"):
        await slurm.nodes()
    await slurm.close()


async def test_a_deleted_node_is_missed_by_a_full_read(real: RealSlurm, admin: Slurm) -> None:
    """Last: the node does not come back by itself."""
    cache = NodeCache(admin)
    assert NODE in (await cache.refresh()).nodes
    await happens(real, lambda: _has_no_job(admin))
    await admin.drain_node(NODE, "k8s: pod gone")
    await admin.delete_node(NODE)
    assert (await cache.refresh(full=True)).nodes == {}


async def _has_no_job(slurm: Slurm) -> bool:
    return not (await slurm.node(NODE)).is_busy


async def _is(slurm: Slurm, job_id: JobId, predicate: str) -> bool:
    return bool(getattr(await slurm.job(job_id), predicate))
