import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core import names
from sunkpy.core.gang.actions import (
    Bind,
    Cancel,
    Evict,
    Finish,
    FreeDevices,
    MakeSolo,
    NoteDevices,
    NoteJob,
    Report,
    Submit,
    UpdateExcluded,
    Warn,
)
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.hooks import epilog_keeps_pods, epilog_waits_for, gate_waits_for, prologs_wait_for
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.ends import EndCause
from sunkpy.core.gang.job.job import excluded_by_others
from sunkpy.core.gang.job.phases import STOPPED, JobPhase
from sunkpy.core.gang.job.request import GpuSharing, Policy, plan_terms
from sunkpy.core.gang.phases import GangState
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.devices import CLAIMED
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import PodClaim, Resources, SchedulingGate
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.jobs import change_job, make_job
from tests.unit.core.gang.pods import gang_of, make_pod

POLICY = Policy(gpu_resources={"nvidia.com/gpu": "gpu"})
ID = GangId(namespace="default", name="web-1", uid="uid-1")
RUNS_ON_N1 = make_pod(node="k1", running=True)
FITS = Eligibility(eligible=("n1", "n2"), refused={"n3": "too small"})


def job(*state, id=7, **fields):
    return make_job(*state, id=id, **fields)


def snapshot(pod=None, *jobs, **fields):
    gang = None if pod is None else gang_of(pod)
    placed = {"uid-1": "n1"} if pod is not None and pod.spec.node_name else {}
    known = {"eligibility": FITS, "placed": placed, "bound_to": 7 if placed else None}
    return Snapshot(id=ID, gang=gang, jobs=jobs, **(known | fields))


def kinds(actions):
    return [type(action) for action in actions]


def test_a_new_pod_is_submitted_without_the_nodes_that_it_may_not_use():
    (submit,) = decide_gang(snapshot(make_pod()), POLICY)
    assert submit.request.excluded_nodes == ("n3",)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"may_submit": False}, "back-off"),
        ({"eligibility": None}, "the nodes are not known"),
    ],
)
def test_nothing_is_submitted_while(fields, why):
    assert decide_gang(snapshot(make_pod(), **fields), POLICY) == []


def test_nothing_is_submitted_behind_a_scheduling_gate():
    assert decide_gang(snapshot(make_pod(scheduling_gates=(SchedulingGate(name="g"),))), POLICY) == []


def test_nothing_is_submitted_when_a_job_is_there_already():
    assert decide_gang(snapshot(make_pod(), job()), POLICY) == []


def test_a_pod_that_fits_no_node_is_told_why():
    none = Eligibility(eligible=(), refused={"n1": "lacks cpu: needs 8, has 4"})
    (report,) = decide_gang(snapshot(make_pod(), eligibility=none), POLICY)
    assert report.is_problem
    assert report.needs_node
    assert "none of 1 Slurm nodes fits: 1 lacks cpu: needs 8, has 4" in report.message


def test_a_bad_annotation_keeps_the_pod_from_being_submitted():
    (report,) = decide_gang(snapshot(make_pod(annotations={"sunkpy.dev/time-limit": "soon"})), POLICY)
    assert "sunkpy.dev/time-limit" in report.message
    assert not report.needs_node


def test_a_typo_is_a_warning_and_the_pod_is_submitted():
    actions = decide_gang(snapshot(make_pod(annotations={"sunkpy.dev/partiton": "high"})), POLICY)
    assert kinds(actions) == [Warn, Submit]


def test_whoever_shares_gpus_by_number_learns_what_that_risks():
    by_count = replace(POLICY, gpu_sharing=GpuSharing.COUNT)
    pod = make_pod(requests={"nvidia.com/gpu": "1"})
    submit, warning = decide_gang(snapshot(pod), by_count)
    assert (submit.request.whole_nodes, warning.reason) == (False, "GpusByCount")
    assert warning.note == (
        "Slurm only counts the GPUs of the node, and the device plugin chooses them: the plugin may give the pod a GPU "
        'that Slurm has given to another job there. Whole nodes are safe: sunkpy.dev/exclusive: "true", or '
        "scheduler.gpuSharing: exclusive for all"
    )
    whole = make_pod(requests={"nvidia.com/gpu": "1"}, annotations={"sunkpy.dev/exclusive": "true"})
    for safe in (decide_gang(snapshot(whole), by_count), decide_gang(snapshot(pod), POLICY)):
        assert kinds(safe) == [Submit]
    assert kinds(decide_gang(snapshot(make_pod()), by_count)) == [Submit]


@pytest.mark.parametrize(
    ("reason", "is_problem", "needs_node", "advice"),
    [
        ("Priority", False, False, ""),
        ("QOSMaxJobsPerUserLimit", False, False, ""),
        ("Resources", False, True, ""),
        ("ReqNodeNotAvail", False, True, ""),
        ("JobHeldUser", True, False, " (the job is held until somebody releases it)"),
        ("BadConstraints", True, True, " (no node has the features, cpus, memory and GPUs that the pod asks for)"),
    ],
)
def test_a_pending_job_tells_its_reason(reason, is_problem, needs_node, advice):
    waits = job("PENDING", reason=reason, excluded=("n3",), partition="low,high")
    (report,) = decide_gang(snapshot(make_pod(), waits), POLICY)
    message = f"Slurm job 7 waits: {reason} in partition low,high{advice}"
    assert (report.is_problem, report.message) == (is_problem, message)
    assert report.needs_node is needs_node


@pytest.mark.parametrize(
    ("reason", "partition", "needs_node"),
    [
        ("Resources", "high", False),
        ("Resources", "low,high", False),
        ("PartitionConfig", "high", False),
        ("ReqNodeNotAvail", "high", False),
        ("Resources", "low", True),
        ("BadConstraints", "high", True),
    ],
)
def test_pods_ask_autoscalers_for_no_node_where_a_nodeset_asks_for_it(reason, partition, needs_node):
    policy = replace(POLICY, growing_partitions=("high",))
    waits = job("PENDING", reason=reason, excluded=("n3",), partition=partition)
    (report,) = decide_gang(snapshot(make_pod(), waits), policy)
    assert report.needs_node is needs_node


def test_a_pending_job_learns_of_nodes_that_came_and_went():
    (update,) = decide_gang(snapshot(make_pod(), job("PENDING", excluded=("n1",))), POLICY)
    assert update == UpdateExcluded(job=7, excluded=("n3",))


def test_nodes_that_a_person_has_a_pending_job_exclude_stay_excluded():
    pending = job("PENDING", excluded=("n1", "n3", "n9")).excluding(("n1", "n3"))
    seen = change_job(pending, excluded=("n1", "n3", "n9"))
    (update,) = decide_gang(snapshot(make_pod(), seen), POLICY)
    assert update == UpdateExcluded(job=7, excluded=("n3", "n9"))
    assert decide_gang(snapshot(make_pod(), seen.excluding(update.excluded)), POLICY) == []
    assert excluded_by_others(seen.excluding(update.excluded)) == {"n9"}


def test_a_pending_job_keeps_the_features_of_its_nodes_while_none_will_do():
    terms = plan_terms(gang_of(make_pod()), POLICY)
    waits = job("PENDING", excluded=("n3",), spec=replace(terms, constraint="gpu"))
    none = Eligibility(eligible=(), refused={"n1": "lacks cpu"})
    assert decide_gang(replace(snapshot(make_pod(), waits), eligibility=none), POLICY) == []
    some = Eligibility(eligible=("n1",), refused={"n3": "lacks cpu"}, features=("gpu",))
    assert decide_gang(replace(snapshot(make_pod(), waits), eligibility=some), POLICY) == []
    more = replace(some, features=("cpu", "gpu"))
    (update,) = decide_gang(replace(snapshot(make_pod(), waits), eligibility=more), POLICY)
    assert (update.change.fields, update.change.to.constraint) == (("constraint",), "cpu|gpu")


def band(workers, *, deadlines=None):
    """A leader and larger workers, a slot each being less than workers with room for the leader."""
    roles = {names.ANNOTATION_GANG: "band", names.ANNOTATION_GANG_ROLES: f"leader=1,worker={workers}"}
    pods = []
    for number in range(1 + workers):
        role = "worker" if number else "leader"
        pods.append(
            make_pod(
                f"{role}-{number}",
                uid=f"uid-{number}",
                requests={"cpu": "4" if number else "2"},
                annotations=roles | {names.ANNOTATION_GANG_ROLE: role},
                active_deadline_seconds=(deadlines or {}).get(role),
            )
        )
    return assemble(identify(pods[0]), pods)


def test_an_uneven_gang_that_grows_in_the_queue_until_its_workers_are_as_many_as_its_slots_is_submitted_anew():
    small, grown = band(4), band(5)
    (submit,) = decide_gang(Snapshot(id=small.id, gang=small, eligibility=FITS), POLICY)
    assert submit.request.tasks == 5
    waits = job("PENDING", tasks=5, excluded=("n3",))
    assert decide_gang(Snapshot(id=small.id, gang=small, eligibility=FITS, jobs=(waits,)), POLICY) == []
    (cancel,) = decide_gang(Snapshot(id=grown.id, gang=grown, eligibility=FITS, jobs=(waits,)), POLICY)
    assert cancel == Cancel(job=7, why="its owner wants 6 pods now, and the job has 5 slots")


@pytest.mark.parametrize(
    "slurm_says",
    [
        {"capacity": {f"n{number}": Capacity(cpus=4, memory_mib=4096, gres={}) for number in range(5)}},
        {"spec": JobSpec(comment="k8s:default/band:uid +whole")},
        {},
    ],
)
def test_a_leader_that_is_made_again_takes_its_place_though_its_gang_has_grown_since(slurm_says):
    grown = band(5)
    nodes = [f"n{number}" for number in range(5)]
    pods = [
        replace(pod, spec=replace(pod.spec, node_name=f"k{number}")) if 0 < number < 5 else pod
        for number, pod in enumerate(grown.members)
    ]
    placed = {pod.uid: nodes[number] for number, pod in enumerate(pods) if pod.spec.node_name}
    runs = job("RUNNING", tasks=5, nodes=tuple(nodes), layout=tuple((node, 1) for node in nodes), **slurm_says)
    known = Snapshot(id=grown.id, gang=assemble(grown.id, pods), jobs=(runs,), bound_to=7, placed=placed)
    actions = decide_gang(known, POLICY)
    bound = [each for action in actions if isinstance(action, Bind) for each in action.bindings]
    assert [(each.pod.name, each.note.slurm_node) for each in bound] == [("leader-0", "n0")]
    assert [action.pod.name for action in actions if isinstance(action, MakeSolo)] == ["worker-5"]


@pytest.mark.parametrize(
    ("deadlines", "limit_min"),
    [
        ({"leader": 600, "worker": 60}, 11),
        ({"leader": 60}, None),
        ({"worker": 60}, None),
    ],
)
def test_the_job_of_a_gang_is_limited_by_deadlines_only_when_each_of_its_pods_has_one(deadlines, limit_min):
    assert plan_terms(band(1, deadlines=deadlines), POLICY).time_limit_min == limit_min


def test_a_pod_is_bound_where_the_prolog_called_from():
    (bind,) = decide_gang(snapshot(make_pod(), job("PENDING", nodes=("n2",), prologs=frozenset({"n2"}))), POLICY)
    assert (bind.bindings[0].note.slurm_node, bind.job) == ("n2", 7)


def test_a_pod_is_bound_late_when_the_prolog_went_by_unheard():
    (bind,) = decide_gang(snapshot(make_pod(), job("RUNNING", nodes=("n1",))), POLICY)
    assert bind.bindings[0].note.slurm_node == "n1"


@pytest.mark.parametrize("state", [(), ("RUNNING", "CONFIGURING"), ("RUNNING", "COMPLETING"), ("CANCELLED",)])
def test_a_pod_is_not_bound_before_its_job_runs_or_after(state):
    assert Bind not in kinds(decide_gang(snapshot(make_pod(), job(*state, nodes=("n1",)), may_submit=False), POLICY))


def test_a_pod_is_not_bound_while_the_prolog_of_its_job_waits_at_the_gate():
    assert decide_gang(snapshot(make_pod(), job("RUNNING", nodes=("n1",), reason="Prolog")), POLICY) == []


def test_a_job_that_was_cancelled_gets_no_pod_and_is_cancelled_again_should_slurm_have_missed_it():
    given_back = job("RUNNING", nodes=("n1",), prologs=frozenset({"n1"}), is_cancelled=True)
    for gang in (make_pod(), make_pod(node="k1")):
        (again,) = decide_gang(snapshot(gang, given_back), POLICY)
        assert (type(again), again.job) == (Cancel, 7)
    assert prologs_wait_for(snapshot(make_pod(), given_back), 7).get("n1") is None


def test_a_job_that_was_cancelled_is_not_the_one_that_stays():
    given_back = job("RUNNING", id=5, nodes=("n1",), is_cancelled=True)
    actions = decide_gang(snapshot(make_pod(), given_back, job("RUNNING", id=6, nodes=("n2",))), POLICY)
    assert [(type(action), action.job) for action in actions] == [(Cancel, 5), (Bind, 6)]


def test_a_job_that_was_cancelled_covers_nothing():
    lost, given_back = job("NODE_FAIL"), job("RUNNING", id=8, nodes=("n1",), is_cancelled=True)
    (again,) = decide_gang(snapshot(make_pod(node="k1", running=True), lost, given_back), POLICY)
    assert (type(again), again.job) == (Cancel, 8)


def test_the_gate_does_not_take_a_job_under_the_id_of_a_forgotten_one_for_the_pods_own():
    forgotten = job("RUNNING", missing=2)
    assert gate_waits_for(snapshot(make_pod(node="k1", running=True), forgotten), 7, "n1") is not None


@pytest.mark.parametrize(("reason", "nodes"), [("Prolog", ("n2",)), ("", ("n3", "n1", "n2"))])
def test_prologs_that_nobody_heard_count_when_all_are_through(reason, nodes):
    started = job("RUNNING", reason=reason, nodes=("n3", "n1", "n2"), prologs=frozenset({"n2"}))
    assert started.start_nodes == nodes


def test_a_job_whose_epilog_called_binds_nothing():
    dying = job("RUNNING", nodes=("n1",), prologs=frozenset({"n1"}), epilogs=frozenset({"n1"}))
    assert Bind not in kinds(decide_gang(snapshot(make_pod(), dying), POLICY))


def test_of_two_jobs_the_running_one_stays():
    actions = decide_gang(snapshot(make_pod(), job("PENDING", id=5), job("RUNNING", id=6, nodes=("n1",))), POLICY)
    assert kinds(actions) == [Cancel, Bind]
    assert (actions[0].job, actions[1].job) == (5, 6)


def test_of_two_pending_jobs_the_older_stays():
    jobs = (job("PENDING", id=9, excluded=("n3",)), job("PENDING", id=8, excluded=("n3",)))
    assert [action.job for action in decide_gang(snapshot(make_pod(), *jobs), POLICY)] == [9]


def test_the_pending_job_of_a_deleted_pod_is_cancelled_at_once():
    assert kinds(decide_gang(snapshot(make_pod(deleting=True), job("PENDING")), POLICY)) == [Cancel]
    assert kinds(decide_gang(snapshot(None, job("PENDING")), POLICY)) == [Cancel]


def test_the_job_of_a_pod_that_is_still_stopping_holds_its_node():
    pod = make_pod(node="k1", running=True, deleting=True)
    assert decide_gang(snapshot(pod, job("RUNNING", nodes=("n1",))), POLICY) == []


def test_the_job_goes_when_its_pod_is_gone():
    assert kinds(decide_gang(snapshot(None, job("RUNNING", nodes=("n1",))), POLICY)) == [Cancel]


@pytest.mark.parametrize(("phase", "exit_code"), [("Succeeded", 0), ("Failed", 1)])
def test_the_job_ends_as_its_pod_ended(phase, exit_code):
    pod = make_pod(node="k1", phase=phase)
    assert decide_gang(snapshot(pod, job("RUNNING")), POLICY) == [Finish(job=7, exit_code=exit_code)]


@pytest.mark.parametrize(("phase", "exit_code"), [("Succeeded", 0), ("Failed", 1)])
def test_the_job_ends_as_its_pod_ended_also_when_that_is_gone(phase, exit_code):
    last, told = gang_of(make_pod(node="k1", phase=phase)), [Finish(job=7, exit_code=exit_code)]
    fields = {"bound_to": 7, "last_gang": last}
    assert decide_gang(snapshot(None, job("RUNNING"), **fields), POLICY) == told
    assert decide_gang(snapshot(None, job("RUNNING", told_s_ago=3.0), **fields), POLICY) == told
    assert decide_gang(snapshot(None, job("RUNNING", "CONFIGURING"), **fields), POLICY) == []
    assert kinds(decide_gang(snapshot(None, job("RUNNING", told_s_ago=16.0), **fields), POLICY)) == [Cancel]


@pytest.mark.parametrize("state", ["PENDING", "SUSPENDED"])
def test_a_job_that_slurm_stopped_goes_when_its_pods_have_ended(state):
    (action,) = decide_gang(snapshot(make_pod(node="k1", phase="Succeeded"), job(state)), POLICY)
    assert action == Cancel(job=7, why="its pods have ended, and Slurm would start it again without them")


@pytest.mark.parametrize("state", [("RUNNING", "CONFIGURING"), ("RUNNING",)])
def test_an_allocation_cannot_be_told_and_is_cancelled(state):
    pod = make_pod(node="k1", phase="Failed")
    (action,) = decide_gang(snapshot(pod, job(*state, is_allocation=True)), POLICY)
    assert action == Cancel(job=7, why="its pods have ended, and an allocation has no script that could end by itself")


def test_a_job_whose_script_has_not_begun_is_told_later():
    pod = make_pod(node="k1", phase="Succeeded")
    assert decide_gang(snapshot(pod, job("RUNNING", "CONFIGURING")), POLICY) == []
    (action,) = decide_gang(snapshot(pod, job("RUNNING", "CONFIGURING"), idle_s=120.0), POLICY)
    assert action == Cancel(job=7, why="its pods have ended, and 120 s later its script has not begun")


def test_a_placeholder_that_does_not_listen_is_cancelled():
    pod = make_pod(node="k1", phase="Succeeded")
    assert kinds(decide_gang(snapshot(pod, job("RUNNING", told_s_ago=16.0)), POLICY)) == [Cancel]


def test_a_finished_phase_with_a_running_container_is_not_the_end():
    pod = make_pod(node="k1", phase="Failed", running=True)
    assert decide_gang(snapshot(pod, job("RUNNING")), POLICY) == []


@pytest.mark.parametrize("state", [("PREEMPTED", "COMPLETING"), ("CANCELLED",), ("TIMEOUT",)])
def test_pods_go_when_their_job_has_ended(state):
    pod = make_pod(node="k1", running=True)
    assert kinds(decide_gang(snapshot(pod, job(*state)), POLICY)) == [Evict]


@pytest.mark.parametrize("state", [("SUSPENDED",), ("PENDING",)])
def test_pods_go_and_the_job_too_when_it_was_suspended_or_queued_again(state):
    pod = make_pod(node="k1", running=True)
    assert kinds(decide_gang(snapshot(pod, job(*state)), POLICY)) == [Evict, Cancel]


def test_an_epilog_says_that_the_node_is_wanted_before_the_poll_does():
    pod = make_pod(node="k1", running=True)
    assert kinds(decide_gang(snapshot(pod, job("RUNNING", epilogs=frozenset({"n1"}))), POLICY)) == [Evict]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [(None, [Cancel]), (make_pod(), [Cancel]), (make_pod(node="k1", running=True), [Cancel, Evict])],
)
def test_a_job_that_runs_again_though_an_epilog_has_ended_it_is_cancelled_whatever_pods_there_are(pod, expected):
    again = job("RUNNING", epilogs=frozenset({"n1"}), runs_again=True)
    assert kinds(decide_gang(snapshot(pod, again, may_submit=False), POLICY)) == expected


@pytest.mark.parametrize("missing", [0, 1])
def test_a_job_that_slurm_does_not_show_once_changes_nothing(missing):
    pod = make_pod(node="k1", running=True)
    assert decide_gang(snapshot(pod, job("RUNNING", missing=missing)), POLICY) == []


def test_a_pod_whose_job_slurm_has_lost_keeps_running_under_a_new_one():
    pod = make_pod(node="k1", running=True)
    actions = decide_gang(snapshot(pod, job("RUNNING", missing=2)), POLICY)
    assert kinds(actions) == [Warn, Submit]
    assert actions[1].request.required_nodes == ("n1",)
    assert decide_gang(snapshot(pod, job(missing=2), job("PENDING", id=8)), POLICY) == []
    covered = job("RUNNING", id=8, nodes=("n1",), prologs=frozenset({"n1"}))
    assert decide_gang(snapshot(pod, job(missing=2), covered), POLICY) == [NoteJob(pod=pod, job=8)]


def test_a_job_that_was_suspended_before_it_covered_anybody_makes_room_for_another():
    pod = make_pod(node="k1", running=True)
    (cancel,) = decide_gang(snapshot(pod, job(missing=2), job("SUSPENDED", id=8, nodes=("n1",))), POLICY)
    assert cancel == Cancel(job=8, why="it was suspended before it held the nodes of its pods")


@pytest.mark.parametrize(("noted", "expected"), [("0", [NoteDevices]), ("3", []), ("", [NoteDevices])])
def test_the_devices_of_the_job_that_covers_it_are_noted_on_the_pod(noted, expected):
    pod = make_pod(
        node="k1", running=True, requests={"nvidia.com/gpu": "1"}, annotations={names.ANNOTATION_GPU_INDICES: noted}
    )
    covered = job("RUNNING", id=8, nodes=("n1",), devices={"n1": {"gpu": (3,)}})
    actions = decide_gang(snapshot(pod, covered, bound_to=8), POLICY)
    assert kinds(actions) == expected
    assert all(action.gpus == "3" for action in actions)


@pytest.mark.parametrize(
    ("noted", "reserved", "expected"),
    [("0", {"uid-1"}, [Evict]), ("3", {"uid-1"}, []), ("", {"uid-1"}, [NoteDevices]), ("0", (), [])],
)
def test_a_pod_whose_claim_has_other_devices_than_the_job_that_covers_it_goes(noted, reserved, expected):
    """A claim does not change under a running pod; one that was not read yet proves nothing."""
    pod = make_pod(
        node="k1",
        running=True,
        annotations={names.ANNOTATION_GPU_INDICES: noted},
        resource_claims=(PodClaim(name="gpu", resource_claim_name="c"),),
        resources=Resources(requests={CLAIMED + "gpu.example.com": "1"}),
    )
    policy = replace(POLICY, gpu_resources={CLAIMED + "gpu.example.com": "gpu"})
    covered = job("RUNNING", id=8, nodes=("n1",), devices={"n1": {"gpu": (3,)}})
    actions = decide_gang(snapshot(pod, covered, bound_to=8, reserved=frozenset(reserved)), policy)
    assert kinds(actions) == expected
    if expected == [Evict]:
        assert actions[0].cause.message == "Slurm lost the job of this pod, and job 8 has other devices"


def test_a_pod_that_lost_its_devices_goes_and_its_job_keeps_them_until_it_is_gone():
    pod = make_pod(node="k1", running=True)
    gang = snapshot(pod, job("RUNNING", nodes=("n1",)), lost_devices={"uid-1": "somebody has them"})
    (evict,) = decide_gang(gang, POLICY)
    assert (type(evict), evict.cause) == (Evict, EndCause(reason="DevicesLost", message="somebody has them"))


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([], [FreeDevices, Submit]),
        ([job("PENDING")], [FreeDevices, UpdateExcluded]),
        ([job("RUNNING", nodes=("n1",), prologs=frozenset({"n1"}))], [Bind]),
        ([job("RUNNING", nodes=("n1",), prologs=frozenset({"n1"}), cancelled_at=1.0)], [FreeDevices, Cancel]),
    ],
)
def test_devices_that_are_reserved_for_a_pod_are_freed_unless_it_is_about_to_be_bound(jobs, expected):
    actions = decide_gang(snapshot(make_pod(), *jobs, reserved=frozenset({"uid-1"})), POLICY)
    assert kinds(actions) == expected


def test_a_healthy_pod_outlives_the_failure_that_slurm_saw_of_its_node():
    pod = make_pod(node="k1", running=True)
    failed = job("NODE_FAIL", epilogs=frozenset({"n1"}))
    actions = decide_gang(snapshot(pod, failed), POLICY)
    assert kinds(actions) == [Warn, Submit]
    assert "Slurm has lost the job of this pod; the pod keeps running" in actions[0].note
    assert actions[1].request.required_nodes == ("n1",)


def test_a_pod_that_somebody_else_put_on_its_node_has_lost_no_job():
    pod = make_pod(node="k1", running=True)
    warning, submit = decide_gang(snapshot(pod, bound_to=None), POLICY)
    assert (warning.reason, submit.request.required_nodes) == ("BoundByOthers", ("n1",))
    assert warning.note == (
        "somebody else put this pod on its node without asking Slurm; the pod stays, and a job is submitted for n1"
    )
    (evict,) = decide_gang(snapshot(pod, bound_to=None, displaced={"n1": 99}), POLICY)
    assert evict.cause.message == "Slurm did not place this pod and gave n1 to Slurm job 99"
    noted = make_pod(node="k1", running=True, annotations={names.ANNOTATION_JOB_ID: "7"})
    assert decide_gang(snapshot(noted, bound_to=None), POLICY)[0].reason == "SlurmJobLost"


GIVEN_AWAY = EndCause(reason="SlurmJobLost", message="Slurm lost job 7 and gave n1 to Slurm job 99")


@pytest.mark.parametrize("lost", [job("NODE_FAIL"), job("RUNNING", missing=2)])
def test_a_pod_whose_lost_node_slurm_gave_to_another_job_goes(lost):
    pod = make_pod(node="k1", running=True)
    cover = job("PENDING", id=8, excluded=("n3",))
    seen = snapshot(pod, lost, cover, displaced={"n1": 99})
    assert decide_gang(seen, POLICY) == [Evict(pod=pod, job=7, cause=GIVEN_AWAY)]
    elsewhere = snapshot(pod, lost, cover, displaced={"n2": 99})
    assert decide_gang(elsewhere, POLICY) == []


def test_an_epilog_proves_under_which_job_a_pod_was_bound_when_nobody_remembers():
    pod = make_pod(node="k1", running=True)
    ended = job("CANCELLED", "COMPLETING", epilogs=frozenset({"n1"}))
    assert decide_gang(snapshot(pod, ended, bound_to=None), POLICY) == [Evict(pod=pod, job=7)]


def test_other_jobs_of_a_bound_pod_are_cancelled():
    pod = make_pod(node="k1", running=True)
    assert decide_gang(snapshot(pod, job("RUNNING"), job("PENDING", id=8)), POLICY)[0].job == 8


@pytest.mark.parametrize(
    ("known", "may_wait"),
    [
        (job(), True),
        (job("PENDING"), True),
        (job("PENDING", prologs=frozenset({"n1"})), False),
        (job(prologs=frozenset({"n1"})), False),
        (job(missing=1), False),
        (job("RUNNING"), False),
        (job("CANCELLED"), False),
    ],
)
def test_a_job_of_which_nobody_has_told_may_be_in_the_queue(known, may_wait):
    assert (known.phase in (JobPhase.SUBMITTED, JobPhase.PENDING)) is may_wait


FLAGS = st.frozensets(
    st.sampled_from(["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "CANCELLED", "PREEMPTED"]),
    max_size=2,
)
NODES = st.frozensets(st.sampled_from(["n1", "n2"]), max_size=1)
JOBS = st.builds(
    lambda state, **fields: make_job(*state, **fields),
    id=st.integers(7, 9),
    state=FLAGS,
    nodes=NODES.map(tuple),
    prologs=NODES,
    epilogs=NODES,
    missing=st.integers(0, 3),
    told_s_ago=st.none() | st.just(20.0),
    is_allocation=st.booleans(),
)
PODS = st.builds(
    make_pod,
    node=st.sampled_from(["", "k1"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    running=st.booleans(),
    deleting=st.booleans(),
)
VIEWS = st.builds(
    lambda pod, jobs: snapshot(pod, *jobs), st.none() | PODS, st.lists(JOBS, max_size=3, unique_by=lambda j: j.id)
)


@given(VIEWS)
def test_no_view_makes_a_running_pod_go_unless_its_own_job_was_seen_to_end(seen):
    for action in decide_gang(seen, POLICY):
        if isinstance(action, Evict):
            own = seen.bound_job
            assert own.is_over or own.phase in STOPPED
            assert not own.is_lost


@given(VIEWS)
def test_no_view_takes_the_job_from_under_a_pod_that_holds_its_node(seen):
    for action in decide_gang(seen, POLICY):
        if isinstance(action, Cancel) and seen.bound_job is not None and action.job == seen.bound_job.id:
            pod = seen.pods[0]
            assert pod.is_finished or seen.bound_job.phase in STOPPED


@given(VIEWS)
def test_no_view_binds_twice_or_submits_beside_a_live_job(seen):
    actions = kinds(decide_gang(seen, POLICY))
    assert actions.count(Bind) <= 1
    assert actions.count(Submit) <= 1
    assert not (Submit in actions and seen.live_jobs)
    if Bind in actions:
        assert not seen.is_bound


@given(VIEWS)
def test_no_view_tells_an_allocation_how_its_pods_ended(seen):
    allocations = {known.id for known in seen.jobs if known.is_allocation}
    assert not [a for a in decide_gang(seen, POLICY) if isinstance(a, Finish) and a.job in allocations]


@given(VIEWS)
def test_every_view_has_a_state_and_what_is_done_needs_nothing(seen):
    if seen.state is GangState.DONE:
        assert not {Cancel, Evict, Bind, Submit} & set(kinds(decide_gang(seen, POLICY)))


@given(VIEWS)
def test_only_unscheduled_pods_are_reported_as_such(seen):
    for action in decide_gang(seen, POLICY):
        if isinstance(action, Report):
            assert not action.pod.spec.node_name


@pytest.mark.parametrize(
    ("seen", "waits"),
    [
        (snapshot(make_pod(), job("PENDING", nodes=("n1",), prologs=frozenset({"n1"}))), True),
        (snapshot(make_pod(), job("CANCELLED")), False),
        (snapshot(make_pod(), job("RUNNING", epilogs=frozenset({"n1"}))), False),
        (snapshot(make_pod()), False),
        (snapshot(make_pod(deleting=True), job("RUNNING")), False),
        (snapshot(make_pod(node="k1"), job("RUNNING")), False),
        (snapshot(None, job("RUNNING")), False),
    ],
)
def test_a_prolog_ends_when_its_pod_is_bound_or_never_will_be(seen, waits):
    assert bool(prologs_wait_for(seen, 7).get("n1")) == waits


@pytest.mark.parametrize(
    ("seen", "waits"),
    [
        (snapshot(make_pod(node="k1", running=True), job("PREEMPTED", "COMPLETING")), True),
        (snapshot(make_pod(node="k1", running=True, deleting=True), job("CANCELLED")), True),
        (snapshot(make_pod(node="k1"), job("RUNNING")), True),
        (snapshot(make_pod(node="k1", running=True)), True),
        (snapshot(make_pod(node="k1", phase="Failed", running=True), job("CANCELLED")), True),
        (snapshot(make_pod(node="k1", phase="Failed"), job("CANCELLED")), False),
        (snapshot(make_pod(node="k1", phase="Failed", deleting=True), job("CANCELLED")), True),
        (snapshot(make_pod(node="k1", phase="Failed", deleting=True, finalizers=("x",)), job("CANCELLED")), True),
        (
            snapshot(make_pod(node="k1", phase="Failed", deleting=True, grace=0, finalizers=("x",)), job("CANCELLED")),
            False,
        ),
        (
            snapshot(make_pod(node="k1", running=True, deleting=True, grace=0, finalizers=("x",)), job("CANCELLED")),
            True,
        ),
        (snapshot(make_pod(node="k1", running=True), job("CANCELLED"), placed={"uid-1": "n2"}), False),
        (snapshot(make_pod(node="k1", running=True), job(), job("RUNNING", id=8), bound_to=8), False),
        (snapshot(make_pod(node="k1", running=True), job(), job("PENDING", id=8), bound_to=8), True),
        (snapshot(RUNS_ON_N1, job("NODE_FAIL"), job("RUNNING", id=8, nodes=("n1",)), bound_to=8), False),
        (snapshot(RUNS_ON_N1, job("NODE_FAIL"), job("RUNNING", id=8, nodes=("n2",)), bound_to=8), True),
        (snapshot(make_pod(), job("CANCELLED")), False),
        (snapshot(None, job("CANCELLED")), False),
    ],
)
def test_an_epilog_ends_only_when_no_pod_is_left_on_its_node(seen, waits):
    assert bool(epilog_waits_for(seen, 7, "n1")) == waits


@pytest.mark.parametrize(
    ("seen", "asking", "waits"),
    [
        (snapshot(make_pod(node="k1", running=True), job("CANCELLED")), 99, True),
        (snapshot(make_pod(node="k1", running=True, deleting=True), job("PREEMPTED", "COMPLETING")), 99, True),
        (snapshot(make_pod(node="k1", phase="Failed", deleting=True), job("CANCELLED")), 99, True),
        (snapshot(make_pod(node="k1", running=True), job("NODE_FAIL")), 99, True),
        (snapshot(make_pod(node="k1", running=True), job("RUNNING", missing=2)), 99, True),
        (snapshot(make_pod(node="k1", running=True), job("SUSPENDED")), 99, True),
        (snapshot(make_pod(node="k1", running=True), bound_to=None), 99, True),
        (snapshot(make_pod(node="k1", running=True), job("RUNNING")), 99, False),
        (snapshot(RUNS_ON_N1, job("RUNNING", nodes=("n1", "n2"))), 99, False),
        (snapshot(RUNS_ON_N1, job("RUNNING", nodes=("n2", "n3"))), 99, True),
        (snapshot(make_pod(node="k1", running=True), job("NODE_FAIL"), job("RUNNING", id=8)), 8, False),
        (snapshot(make_pod(node="k1", running=True), job("CANCELLED"), placed={"uid-1": "n2"}), 99, False),
        (snapshot(make_pod(node="k1", phase="Succeeded"), job("COMPLETED")), 99, False),
        (snapshot(make_pod(), job("RUNNING")), 99, False),
        (snapshot(None, job("CANCELLED")), 99, False),
    ],
)
def test_the_gate_opens_when_no_pod_is_left_whose_job_lost_the_node(seen, asking, waits):
    why = gate_waits_for(seen, asking, "n1")
    assert why == ("pod default/web-1 of an earlier job is not gone yet" if waits else None)


@pytest.mark.parametrize(
    ("own", "keeps"), [(job("NODE_FAIL", "COMPLETING"), True), (job("CANCELLED"), False), (job("RUNNING"), False)]
)
def test_the_epilog_of_a_lost_job_leaves_its_pods_to_the_gate(own, keeps):
    assert epilog_keeps_pods(snapshot(make_pod(node="k1", running=True), own), 7) is keeps
