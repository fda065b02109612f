"""Jobs in the queue when the leader changes: what is ours and not needed any more goes, what others have set stays."""

import pytest

from sunkpy.core import names
from sunkpy.core.gang.job.request import GpuSharing
from sunkpy.core.gang.job.terms import AskedTerms
from sunkpy.core.model.job_spec import JobSpec
from tests.unit.scheduler.world import NODESET_REFERENCE, World, leading


@pytest.fixture
def world():
    world = World()
    world.hasten(noted_after_s=0.01)
    return world


def noted(world, name="web"):
    return world.pod(name)["metadata"]["annotations"].get(names.ANNOTATION_ASKED, "")


async def submitted(world):
    """The job in the queue, when it is noted for what it was asked."""
    await world.until(lambda: world.submissions and noted(world))
    (job_id,) = world.jobs
    sent = world.submissions[0]
    told = {"name": "name", "constraints": "features", "reservation": "resv_name", "licenses": "licenses"}
    world.set_job(job_id, "PENDING", **{told[key]: sent[key] for key in told if key in sent})
    return job_id


def add_featured(world, number, nodeset, **labels):
    """A node of a NodeSet, whose name is a feature of the Slurm node."""
    world.add_node(number)
    world.put("nodes", world.api.objects["nodes", "", f"node-{number}"] | {
        "metadata": {"name": f"node-{number}", "labels": labels}
    })  # fmt: skip
    slurmd = world.api.objects["pods", "slurm", f"slurmd-{number}"]
    meta = slurmd["metadata"]
    labelled = meta["labels"] | {names.LABEL_NODESET: nodeset}
    owner = NODESET_REFERENCE | {"name": nodeset}
    world.put("pods", {**slurmd, "metadata": meta | {"labels": labelled, "ownerReferences": [owner]}})
    world.slurm.put(f"n{number}", features=[nodeset])


async def test_a_feature_that_kept_a_job_in_one_nodeset_goes_when_every_node_will_do(world, tmp_path):
    add_featured(world, 1, "gpu", disk="ssd")
    add_featured(world, 2, "cpu")
    async with leading(world, tmp_path):
        world.add_pod(nodeSelector={"disk": "ssd"})
        job_id = await submitted(world)
        assert world.submissions[0]["constraints"] == "gpu"
    node = world.api.objects["nodes", "", "node-2"]
    world.put("nodes", {**node, "metadata": {**node["metadata"], "labels": {"disk": "ssd"}}})
    async with leading(world, tmp_path):
        await world.until(lambda: world.slurm.updates)
        assert world.slurm.updates == [{"constraints": ""}]
    assert (len(world.submissions), list(world.jobs)) == (1, [job_id])


async def test_what_an_annotation_that_went_while_nobody_led_has_asked_for_is_taken_away(world, tmp_path):
    world.add_node(1)
    async with leading(world, tmp_path):
        asks = {"constraint": "ib", "reservation": "maint", "licenses": "matlab"}
        world.add_pod(annotations={f"sunkpy.dev/{name}": text for name, text in asks.items()})
        await submitted(world)
    world.put("pods", {**world.pod(), "metadata": {**world.pod()["metadata"], "annotations": {
        name: text for name, text in world.pod()["metadata"]["annotations"].items()
        if name in (names.ANNOTATION_ASKED, names.ANNOTATION_JOB_ID)
    }}})  # fmt: skip
    async with leading(world, tmp_path):
        gone = {"reservation": "", "constraints": "", "licenses": ""}
        await world.until(lambda: {key: to for sent in world.slurm.updates for key, to in sent.items()} == gone)


async def test_what_others_have_changed_in_slurm_stays_as_it_does_under_the_leader_who_submitted_it(world, tmp_path):
    world.add_node(1)
    async with leading(world, tmp_path):
        world.add_pod(annotations={"sunkpy.dev/partition": "low"})
        job_id = await submitted(world)
    world.set_job(job_id, "PENDING", partition="high", features="set-by-an-admin", resv_name="course")
    async with leading(world, tmp_path):
        await world.until(lambda: any(f"Slurm job {job_id} waits" in note for note in world.notes("WaitingForSlurm")) or
                          f"job {job_id}" in world.slurm.asked)  # fmt: skip
        world.put("pods", {**world.pod(), "metadata": {**world.pod()["metadata"], "annotations": {
            **world.pod()["metadata"]["annotations"], "sunkpy.dev/licenses": "matlab",
        }}})  # fmt: skip
        await world.until(lambda: world.slurm.updates)
        assert world.slurm.updates == [{"licenses": "matlab"}]


@pytest.mark.parametrize("namespace", ["evil", "default"])
async def test_a_note_on_a_pod_of_another_gang_changes_nothing_in_a_job(world, tmp_path, namespace):
    world.add_node(1)
    async with leading(world, tmp_path):
        world.add_pod()
        job_id = await submitted(world)
    world.set_job(job_id, "PENDING", features="set-by-an-admin", resv_name="maint")
    forged = AskedTerms(job=job_id, turn=9, terms=JobSpec(reservation="x", constraint="y", wckey="z"))
    notes = {names.ANNOTATION_JOB_ID: str(job_id), names.ANNOTATION_ASKED: str(forged)}
    world.add_pod("forger", namespace=namespace, annotations=notes, schedulingGates=[{"name": "x/y"}])
    async with leading(world, tmp_path):
        await world.until(lambda: world.term._ledger.all_jobs_known)
        annotations = world.pod()["metadata"]["annotations"] | {"sunkpy.dev/licenses": "matlab"}
        world.api.change("pods", "default", "web", {"metadata": {"annotations": annotations}})
        await world.until(lambda: any("licenses" in sent for sent in world.slurm.updates))
    assert (world.slurm.updates, world.notes("JobNotChanged")) == ([{"licenses": "matlab"}], [])


async def test_what_is_fixed_is_answered_by_the_next_leader_too(world, tmp_path):
    world.add_node(1)
    async with leading(world, tmp_path):
        world.add_pod()
        await submitted(world)
    kept = world.pod()["metadata"]["annotations"]
    world.put("pods", {**world.pod(), "metadata": {**world.pod()["metadata"], "annotations": {
        **kept, "sunkpy.dev/exclusive": "true",
    }}})  # fmt: skip
    async with leading(world, tmp_path):
        await world.until(lambda: world.notes("JobNotChanged"))
        (note,) = world.notes("JobNotChanged")
        assert note.endswith("To change it, delete the pods: the next ones are submitted with the new value")


async def test_a_change_is_noted_too_and_the_newest_note_counts(world, tmp_path):
    world.add_node(1)
    gang = {names.ANNOTATION_GANG: "train", names.ANNOTATION_GANG_SIZE: "2"}
    async with leading(world, tmp_path):
        for name in ("a", "b"):
            world.add_pod(name, annotations=gang | {"sunkpy.dev/licenses": "matlab"})
        await world.until(lambda: noted(world, "a") and noted(world, "b"))
        (job_id,) = world.jobs
        for name in ("a", "b"):
            change = {"metadata": {"annotations": {"sunkpy.dev/licenses": "ansys"}}}
            world.api.change("pods", "default", name, change)
        await world.until(lambda: sorted(["ansys" in noted(world, name) for name in ("a", "b")]) == [False, True])
        world.set_job(job_id, "PENDING", licenses="ansys", name="train")
        assert world.slurm.updates == [{"licenses": "ansys"}]
    async with leading(world, tmp_path):
        for name in ("a", "b"):
            world.api.change("pods", "default", name, {"metadata": {"annotations": {"sunkpy.dev/licenses": None}}})
        await world.until(lambda: len(world.slurm.updates) == 2)
        assert world.slurm.updates[1] == {"licenses": ""}


async def test_nodes_that_are_excluded_for_no_reason_any_more_are_let_in(world, tmp_path):
    world.add_node(1)
    world.add_node(2)
    async with leading(world, tmp_path):
        world.add_pod()
        await submitted(world)
        (job_id,) = world.jobs
    world.set_job(job_id, "PENDING", excluded_nodes="n2")
    async with leading(world, tmp_path):
        await world.until(lambda: world.jobs[job_id]["excluded_nodes"] == "")
    assert len(world.submissions) == 1


async def test_jobs_from_before_gpus_took_whole_nodes_stay_as_they_are(world, tmp_path):
    """Slurm changes this for neither a waiting nor a running job: no message is written, and nothing ends."""
    world.add_node(1, **{"nvidia.com/gpu": "4"})
    gpu = {"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    async with leading(world, tmp_path, gpu_sharing=GpuSharing.COUNT):
        world.add_pod(containers=[{"name": "c", **gpu}])
        queued = await submitted(world)
        runs = world.add_pod("runs", containers=[{"name": "c", **gpu}], node="node-1", running=True)
        running = world.add_job(runs, "RUNNING", nodes="n1")
        await world.until(lambda: world.notes("GpusByCount"))
    asked_before = len(world.slurm.asked)
    async with leading(world, tmp_path):
        await world.until(lambda: f"job {queued}" in world.slurm.asked[asked_before:])
        world.add_pod("new", containers=[{"name": "c", **gpu}])
        await world.until(lambda: len(world.submissions) == 2)
    assert [sent.get("shared") for sent in world.submissions] == [None, ["none"]]
    assert {queued, running} <= set(world.jobs)
    assert (world.cancelled, world.deleted, world.slurm.updates, world.notes("JobNotChanged")) == ([], [], [], [])
