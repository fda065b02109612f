"""What the record of a run proves, and what Slurm's own rules or a fault excuse."""

from __future__ import annotations

import msgspec
import pytest

from tests.bench.chaos import judge
from tests.bench.chaos.judge import Rule
from tests.bench.chaos.record import (
    Accepted,
    CordonSeen,
    Deletion,
    Ending,
    Inflicted,
    Line,
    Owner,
    PodSeen,
    Record,
    Running,
    Sample,
    SlurmLook,
)
from tests.bench.chaos.schedule import Door, Fault, Manner, PlannedFault, PlannedJob
from tests.bench.chaos.story import tell

POD, JOB = Owner("pod", "chaos-1-1"), Owner("job", "chaos-1-2")
SLURM_NODES = {"node-1": "compute-1", "node-2": "compute-2"}


def sample(at_s: float, *running: tuple[str, Owner], uid: str = "slurmd-uid") -> Sample:
    return Sample(
        at_s=at_s,
        running=tuple(Running(node=node, owner=owner, pod_uid=uid, pids=(7,)) for node, owner in running),
    )


def look(at_s: float, *, node: str | None = None, reason: str = "", **job: str) -> SlurmLook:
    """A look at one node (its state) and one job, chaos-1-2 with id 9."""
    nodes = {} if node is None else {"compute-1": {"State": node, "Reason": reason}}
    jobs = {9: {"JobName": "chaos-1-2", "Restarts": "0", "NodeList": "compute-1", **job}} if job else {}
    return SlurmLook(at_s=at_s, nodes=nodes, jobs=jobs)


def fault(kind: Fault, target: str = "node-1", *, from_s: float = 100.0, until_s: float | None = None) -> Inflicted:
    return Inflicted(
        planned=PlannedFault(number=3, at_s=0, fault=kind, target=target),
        begun_s=from_s,
        held_s=from_s,
        mending_s=until_s,
        mended_s=until_s,
        slurm_node=SLURM_NODES.get(target, ""),
    )


def accepted(partition: str = "high") -> Accepted:
    planned = PlannedJob(number=2, at_s=0, door=Door.SBATCH, partition=partition, manner=Manner.PROMPT, lasts_s=5)
    return Accepted(planned=planned, name="chaos-1-2", asked_s=50)


def record(**seen: object) -> Record:
    return Record(started_s=0, slurm_nodes=SLURM_NODES, **seen)  # type: ignore[arg-type]


# ------------------------------------------------------------------- overlaps


def test_owners_one_after_the_other_do_not_overlap():
    samples = [sample(1, ("node-1", POD)), sample(2, ("node-1", JOB))]
    assert list(judge.overlaps(samples)) == []


def test_owners_on_different_nodes_do_not_overlap():
    assert list(judge.overlaps([sample(1, ("node-1", POD), ("node-2", JOB))])) == []


def test_one_owner_in_two_containers_does_not_overlap_with_itself():
    assert list(judge.overlaps([sample(1, ("node-1", POD), ("node-1", POD))])) == []


def test_an_overlap_lasts_as_long_as_samples_show_both():
    both = (("node-1", POD), ("node-1", JOB))
    (found,) = judge.overlaps([sample(1, *both), sample(1.5, *both), sample(2, ("node-1", JOB))])
    assert (found.at_s, found.until_s, found.node) == (1, 1.5, "node-1")
    assert "pod chaos-1-1: pids [7] in the cgroup of pod slurmd-uid" in found.evidence
    assert judge.is_with_pod(found)


def test_an_overlap_at_the_last_sample_is_told():
    assert len(list(judge.overlaps([sample(1, ("node-1", POD), ("node-1", JOB))]))) == 1


def test_a_requeued_job_beside_its_earlier_run_is_an_overlap_of_slurm_alone():
    (found,) = judge.overlaps([sample(1, ("node-1", JOB), ("node-1", Owner("job", "chaos-1-2", 1)))])
    assert not judge.is_with_pod(found)


@pytest.mark.parametrize(
    ("killed_s", "is_let_pass"),
    [
        pytest.param(2, True, id="slurmctld is killed before it has saved the start"),
        pytest.param(3, False, id="killed while both run already"),
        pytest.param(30, False, id="killed later"),
    ],
)
def test_a_job_whose_start_a_killed_slurmctld_forgot_overlaps_with_nobody(killed_s: float, is_let_pass: bool):
    both = (("node-1", POD), ("node-1", JOB))
    samples = [sample(1, ("node-1", JOB)), sample(2.5, *both), sample(20, *both), sample(40, *both)]
    found = list(judge.overlaps(samples, faults=[fault(Fault.KILL, "slurmctld", from_s=killed_s)]))
    assert (not found) == is_let_pass


def test_a_pod_whose_start_a_killed_slurmctld_forgot_is_still_alone():
    samples = [sample(1, ("node-1", POD)), sample(5, ("node-1", POD), ("node-1", JOB))]
    assert list(judge.overlaps(samples, faults=[fault(Fault.KILL, "slurmctld", from_s=2)]))


# ------------------------------------------------------------ busy slurmd pods


def test_a_slurmd_pod_with_a_job_in_it_was_busy_when_it_was_deleted():
    gone = Deletion(at_s=2, pod="compute-1", uid="slurmd-uid", node="node-1")
    samples = (sample(1.9, ("node-1", JOB)), sample(2.1))
    (found,) = judge.busy_deletions(record(samples=samples, deletions=(gone, gone)))
    assert found.rule is Rule.BUSY_DELETED
    assert "job chaos-1-2" in found.text


TOKEN = "2026-11-20T12:00:00.000001+00:00/rollout"
ANSWERED = {"sunkpy.dev/pending-deletion": TOKEN, "sunkpy.dev/replaceable": TOKEN}


@pytest.mark.parametrize(
    ("running", "annotations", "is_breach"),
    [
        pytest.param(POD, {}, True, id="a pod, and nobody asked"),
        pytest.param(POD, {"sunkpy.dev/pending-deletion": TOKEN}, True, id="a pod, and nobody answered"),
        pytest.param(POD, {**ANSWERED, "sunkpy.dev/replaceable": "before"}, True, id="a pod, and an answer of before"),
        pytest.param(POD, ANSWERED, False, id="a pod that outlives its slurmd"),
        pytest.param(JOB, ANSWERED, True, id="a job, whatever was answered"),
    ],
)
def test_a_slurmd_pod_goes_under_a_pod_only_if_the_syncer_let_it(running, annotations, is_breach):
    gone = Deletion(at_s=30, pod="compute-1", uid="slurmd-uid", node="node-1", annotations=annotations)
    samples = (sample(10, ("node-1", running)), sample(29.9, ("node-1", running)), sample(31))
    assert bool(list(judge.busy_deletions(record(samples=samples, deletions=(gone,))))) == is_breach


@pytest.mark.parametrize(
    ("running", "by_run"),
    [((("node-2", JOB),), frozenset()), ((), frozenset()), ((("node-1", JOB),), frozenset({"slurmd-uid"}))],
)
def test_an_idle_slurmd_pod_may_go_and_the_run_may_delete_any(running, by_run):
    gone = Deletion(at_s=2, pod="compute-1", uid="slurmd-uid", node="node-1")
    seen = record(samples=(sample(1.9, *running),), deletions=(gone,), deleted_by_run=by_run)
    assert list(judge.busy_deletions(seen)) == []


@pytest.mark.parametrize(("began_s", "is_busy"), [(95, False), (101, True)])
def test_what_ends_because_an_admin_set_the_node_down_keeps_no_slurmd_pod(began_s, is_busy):
    gone = Deletion(at_s=103, pod="compute-1", uid="slurmd-uid", node="node-1")
    samples = (sample(began_s, ("node-1", JOB)), sample(102, ("node-1", JOB)))
    seen = record(samples=samples, deletions=(gone,), faults=(fault(Fault.DOWN, until_s=140.0),))
    assert bool(list(judge.busy_deletions(seen))) == is_busy


# ------------------------------------------------------------------- lost jobs

START = Line(what="start", at_s=95, node="compute-1", run=0)
END = Line(what="end", at_s=99, node="compute-1", run=0)
TERM = Line(what="term", at_s=99, node="compute-1", run=0)


def lost(*looks: SlurmLook, lines: tuple[Line, ...] = (), partition: str = "high", **more: object) -> list[str]:
    seen = record(looks=looks, lines={"chaos-1-2": lines}, jobs=(accepted(partition),), **more)
    return [found.text for found in judge.lost_jobs(seen)]


@pytest.mark.parametrize("line", [END, TERM])
def test_a_job_that_wrote_its_end_is_not_lost(line):
    assert lost(look(100, JobState="COMPLETED"), lines=(START, line)) == []


def test_a_job_that_completed_without_its_last_line_is_lost():
    assert "never wrote" in lost(look(100, JobState="COMPLETED"), lines=(START,))[0]


def test_a_job_that_slurm_has_never_shown_is_lost():
    assert "never seen" in lost(look(100, node="IDLE"))[0]


def test_a_job_accepted_right_before_slurmctld_was_killed_may_be_forgotten():
    assert lost(look(100, node="IDLE"), faults=(fault(Fault.KILL, "slurmctld", from_s=52),)) == []
    assert lost(look(100, node="IDLE"), faults=(fault(Fault.KILL, "slurmctld", from_s=90),))


def test_a_job_id_that_slurmctld_gave_away_again_is_another_job():
    other = look(120, JobName="chaos-1-3", JobState="FAILED")
    assert lost(look(54, JobState="RUNNING"), other, faults=(fault(Fault.KILL, "slurmctld", from_s=55),)) == []
    assert "still RUNNING" in lost(look(54, JobState="RUNNING"), other)[0]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING"])
def test_a_job_that_has_not_ended_when_the_run_does_is_lost(state):
    assert "still" in lost(look(100, JobState=state))[0]


def test_slurm_may_forget_a_job_that_ended_long_ago():
    assert lost(look(100, JobState="RUNNING"), look(500, node="IDLE"), lines=(START, END)) == []


@pytest.mark.parametrize("final", [look(300, JobState="RUNNING"), look(300, JobState="COMPLETED", Restarts="1")])
def test_a_job_whose_end_slurmctld_had_not_saved_when_it_was_killed_runs_again(final):
    states = (look(96, JobState="RUNNING"), final)
    assert lost(*states, lines=(START, END), faults=(fault(Fault.KILL, "slurmctld", from_s=102),)) == []
    assert lost(*states, lines=(START, END), faults=(fault(Fault.KILL, "slurmctld", from_s=150),))
    assert lost(*states, lines=(START,), faults=(fault(Fault.KILL, "slurmctld", from_s=102),))


def test_only_a_job_that_runs_though_it_ended_right_before_slurmctld_was_killed_is_ended_by_the_run():
    killed = (fault(Fault.KILL, "slurmctld", from_s=102),)
    again = Line(what="start", at_s=140, node="compute-1", run=1)

    def found(state: str, *lines: Line, faults: tuple[Inflicted, ...] = killed) -> list[tuple[int, str]]:
        return list(judge.forgotten(look(300, JobState=state).jobs, {"chaos-1-2": lines}, faults))

    assert found("RUNNING", START, END) == [(9, "chaos-1-2")]
    assert found("RUNNING", START) == found("RUNNING", START, END, again) == found("COMPLETED", START, END) == []
    assert found("RUNNING", START, END, faults=()) == []
    states = (look(96, JobState="RUNNING"), look(301, JobState="CANCELLED"))
    assert lost(*states, lines=(START, END), faults=killed) == []


@pytest.mark.parametrize("state", ["NODE_FAIL", "FAILED", "CANCELLED"])
def test_a_failed_job_is_lost_unless_a_fault_hit_its_node(state):
    looks = (look(96, JobState="RUNNING"), look(101, JobState=state))
    assert "no fault hit its node" in lost(*looks, lines=(START,))[0]
    assert lost(*looks, lines=(START,), faults=(fault(Fault.KILL_SLURMD),)) == []
    assert lost(*looks, lines=(START,), faults=(fault(Fault.KILL_SLURMD, "node-2"),))
    assert lost(*looks, lines=(START,), faults=(fault(Fault.DRAIN),)), "a drain ends no job"
    assert lost(*looks, lines=(START,), faults=(fault(Fault.CORDON),)), "a cordon ends no job"


@pytest.mark.parametrize(
    ("kind", "from_s", "lines", "is_lost"),
    [
        pytest.param(Fault.KILL_SLURMD, 109, (START,), False, id="its slurmstepd may not stand alone yet"),
        pytest.param(Fault.KILL_SLURMD, 111, (START,), True, id="a job outlives slurmd"),
        pytest.param(Fault.KILL_SLURMD, 85, (START,), False, id="slurmd may not be back yet"),
        pytest.param(Fault.KILL_SLURMD, 79, (START,), True, id="slurmd was back before it began"),
        pytest.param(Fault.KILL_SLURMD, 111, (), False, id="it waited in its Prolog"),
        pytest.param(Fault.DELETE_SLURMD, 111, (START,), False, id="a pod takes its jobs with it"),
        pytest.param(Fault.CUT, 111, (START,), False, id="a node that is silent for long"),
    ],
)
def test_a_slurmd_that_is_killed_ends_only_jobs_that_just_begin(
    kind: Fault, from_s: float, lines: tuple[Line, ...], is_lost: bool
):
    states = (look(96, JobState="RUNNING"), look(113, JobState="NODE_FAIL"))
    assert bool(lost(*states, lines=lines, faults=(fault(kind, from_s=from_s),))) is is_lost


def test_only_jobs_that_can_be_preempted_are_requeued():
    again = look(100, JobState="COMPLETED", Restarts="1")
    assert "requeued 1 times" in lost(again, lines=(START, END), partition="high")[0]
    assert lost(again, lines=(START, END), partition="low") == []
    assert lost(again, lines=(START, END), faults=(fault(Fault.DOWN_RESUME, from_s=98),)) == []


# ------------------------------------------------------------------- lost pods


def lost_pod(
    phase: str, *, is_deleting: bool = False, deleted_after_s: float | None = None, why: str = "", **more: object
) -> list[str]:
    is_deleted, lasts_s = deleted_after_s is not None, deleted_after_s or 5.0
    planned = PlannedJob(
        number=1, at_s=0, door=Door.POD, partition="low", manner=Manner.PROMPT, lasts_s=lasts_s, is_deleted=is_deleted
    )
    job = Accepted(planned=planned, name="chaos-1-1", asked_s=50)
    began = PodSeen(at_s=60, name="chaos-1-1", uid="u", phase="Running", node="node-1")
    end = PodSeen(at_s=110, name="chaos-1-1", uid="u", phase=phase, node="node-1", is_deleting=is_deleting, why=why)
    return [found.text for found in judge.lost_pods(record(jobs=(job,), pods=(began, end), **more))]


def test_a_pod_that_succeeds_or_that_its_owner_deletes_is_not_lost():
    assert lost_pod("Succeeded") == []
    assert lost_pod("Running", is_deleting=True, deleted_after_s=55.0) == []
    assert lost_pod("Gone", deleted_after_s=55.0) == []


def test_a_pod_that_goes_before_its_owner_deletes_it_is_lost():
    assert "told to go" in lost_pod("Running", is_deleting=True, deleted_after_s=65.0)[0]
    assert "Gone" in lost_pod("Gone", deleted_after_s=65.0)[0]
    assert "Gone" in lost_pod("Gone")[0]


def test_a_pod_that_is_told_to_go_was_preempted_or_is_lost():
    preempted = look(112, JobState="PREEMPTED", Comment="k8s:default/chaos-1-1:u")
    others = look(112, JobState="PREEMPTED", Comment="k8s:default/chaos-1-9:v")
    assert lost_pod("Running", is_deleting=True, looks=(preempted,)) == []
    assert "told to go" in lost_pod("Running", is_deleting=True, looks=(others,))[0]


@pytest.mark.parametrize(
    ("killed_s", "why", "is_lost"),
    [
        (63.0, "Slurm job 5 was queued again", False),
        (75.0, "Slurm job 5 was queued again", True),
        (50.0, "Slurm job 5 was queued again", True),
        (63.0, "Slurm job 5 was cancelled", True),
    ],
)
def test_a_pod_whose_start_slurmctld_had_not_saved_when_it_was_killed_queues_again(
    killed_s: float, why: str, is_lost: bool
):
    killed = (fault(Fault.KILL, "slurmctld", from_s=killed_s),)
    assert bool(lost_pod("Running", is_deleting=True, why=why, faults=killed)) is is_lost


@pytest.mark.parametrize(
    ("reason", "killed_s", "is_lost"),
    [
        ("Duplicate jobid [slurm@2026-11-22T15:48:08]", 63.0, False),
        ("Duplicate jobid [slurm@2026-11-22T15:48:08]", 90.0, True),
        ("an admin's", 63.0, True),
    ],
)
def test_a_pod_whose_job_slurm_sends_again_to_where_it_is_goes_with_that_job(
    reason: str, killed_s: float, is_lost: bool
):
    killed = (fault(Fault.KILL, "slurmctld", from_s=killed_s),)
    looks = (look(111, node="IDLE+DRAIN", reason=reason),)
    lost = lost_pod("Running", is_deleting=True, why="Slurm job 5 was cancelled", faults=killed, looks=looks)
    assert bool(lost) is is_lost


@pytest.mark.parametrize(
    ("killed_s", "state", "why", "is_lost"),
    [
        (114.0, "COMPLETING", "Slurm job 5 was preempted", False),
        (114.0, "COMPLETING", "Slurm job 5 was preempted by Slurm job 6 (user ann, partition high)", False),
        (111.0, "RUNNING", "Slurm job 5 was preempted", False),  # nobody looked before it was killed
        (114.0, "RUNNING", "Slurm job 5 was preempted", True),
        (130.0, "COMPLETING", "Slurm job 5 was preempted", True),
        (105.0, "COMPLETING", "Slurm job 5 was preempted", True),
        (114.0, "COMPLETING", "Slurm job 5 was cancelled", True),
    ],
)
def test_a_preemption_that_slurmctld_had_not_saved_when_it_was_killed_was_one(
    killed_s: float, state: str, why: str, is_lost: bool
):
    killed = (fault(Fault.KILL, "slurmctld", from_s=killed_s),)
    looks = (look(112, JobState=state, Comment="k8s:default/chaos-1-1:u"),)
    assert bool(lost_pod("Running", is_deleting=True, why=why, faults=killed, looks=looks)) is is_lost


def test_a_pod_that_failed_is_lost_unless_a_fault_hit_its_node():
    assert "Failed" in lost_pod("Failed")[0]
    assert lost_pod("Failed", faults=(fault(Fault.DELETE_SLURMD),)) == []
    assert lost_pod("Failed", faults=(fault(Fault.DELETE_SLURMD, "node-2"),))


@pytest.mark.parametrize(("from_s", "is_lost"), [(70, False), (100, True), (50, False), (40, True)])
def test_a_pod_outlives_a_slurmd_that_is_killed_unless_its_job_just_begins(from_s: float, is_lost: bool):
    assert bool(lost_pod("Failed", faults=(fault(Fault.KILL_SLURMD, from_s=from_s),))) is is_lost


def test_a_pod_may_end_with_its_replacement_job_that_just_began():
    looks = (look(99, JobState="RUNNING", Comment="k8s:default/chaos-1-1:u"),)
    assert lost_pod("Failed", looks=looks, faults=(fault(Fault.KILL_SLURMD),)) == []


def test_a_pod_that_never_ended_is_lost_and_what_the_run_clears_away_is_not():
    assert "still Pending" in lost_pod("Pending")[0]
    assert lost_pod("Gone", ending=Ending(cleared_s=55.0)) == []


# ----------------------------------------------------------------- bound twice


def test_a_pod_on_two_nodes_was_bound_twice():
    seen = record(samples=(sample(1, ("node-1", POD)), sample(2, ("node-2", POD))))
    (found,) = judge.bound_twice(seen)
    assert "node-1 and on node-2" in found.text


def test_a_requeued_job_may_run_elsewhere():
    assert list(judge.bound_twice(record(samples=(sample(1, ("node-1", JOB)), sample(2, ("node-2", JOB)))))) == []


@pytest.mark.parametrize(("seconds", "expected"), [(2.0, 0), (6.0, 1)])
def test_two_placeholders_of_one_pod_may_not_last(seconds, expected):
    jobs = {id_: {"JobState": "RUNNING", "Comment": "k8s:default/x:uid"} for id_ in (1, 2)}
    looks = (SlurmLook(at_s=1, jobs=jobs), SlurmLook(at_s=1 + seconds, jobs=jobs))
    assert len(list(judge.bound_twice(record(looks=looks)))) == expected


# ------------------------------------------------- what others set stays theirs

DRAIN = fault(Fault.DRAIN, from_s=100, until_s=130)


def lifted(*looks: SlurmLook, faults: tuple[Inflicted, ...] = (DRAIN,)) -> list[str]:
    return [found.text for found in judge.lifted_drains(record(looks=looks, faults=faults))]


def test_a_drain_that_stands_until_the_admin_lifts_it_is_in_order():
    reason = "chaos 3 [slurm@2026-11-21T11:00:00]"
    assert lifted(look(110, node="IDLE+DRAIN", reason=reason), look(140, node="IDLE")) == []


@pytest.mark.parametrize(("state", "reason"), [("IDLE", ""), ("IDLE+DRAIN", "k8s: cordon"), ("IDLE+DRAIN", "chaos 31")])
def test_a_drain_that_is_gone_or_has_another_reason_was_not_left_alone(state, reason):
    assert len(lifted(look(110, node=state, reason=reason), look(112, node=state, reason=reason))) == 1


def test_a_record_that_is_not_there_says_nothing_but_one_that_comes_back_does():
    assert lifted(look(110)) == []
    assert len(lifted(look(110), look(115, node="IDLE"))) == 1


def test_a_slow_answer_that_was_asked_for_before_the_drain_proves_nothing():
    slow = look(DRAIN.held_s + 3, node="IDLE")
    assert len(lifted(slow)) == 1
    assert lifted(msgspec.structs.replace(slow, took_s=4)) == []


def test_what_slurmctld_had_no_time_to_save_is_not_held_against_anybody():
    killed = fault(Fault.KILL, "slurmctld", from_s=103)
    assert lifted(look(110, node="IDLE"), faults=(DRAIN, killed)) == []


@pytest.mark.parametrize("kind", [Fault.DOWN, Fault.FAIL])
def test_down_and_fail_are_an_admins_word_too(kind):
    assert len(lifted(look(110, node="IDLE"), faults=(fault(kind, from_s=100, until_s=130),))) == 1


@pytest.mark.parametrize(("at_s", "expected"), [(99.0, 0), (110.0, 1), (131.0, 0)])
def test_a_persons_cordon_stands_until_that_person_lifts_it(at_s, expected):
    cordon = fault(Fault.CORDON, from_s=100, until_s=130)
    seen = CordonSeen(at_s=at_s, name="node-1", is_cordoned=False)
    assert len(list(judge.lifted_cordons(record(faults=(cordon,), cordons=(seen,))))) == expected


# ------------------------------------------------------------------- the whole


def test_the_worst_comes_first_with_the_faults_around_it():
    both = (("node-1", POD), ("node-1", JOB))
    seen = record(
        samples=(sample(110, *both), sample(112, *both)),
        looks=(look(120, node="IDLE"),),
        faults=(DRAIN, fault(Fault.RECONFIGURE, "slurmctld", from_s=105), fault(Fault.KILL, "syncer", from_s=5)),
        ending=Ending(leaked=("job 12",)),
    )
    found = judge.judge(seen)
    assert [each.rule for each in found] == [Rule.OVERLAP, Rule.FOREIGN, Rule.LEAKED]
    assert found[0].faults == ("#3 admin drain node-1: -10.0 to +20.0 s", "#3 reconfigure slurmctld: -5.0 to -5.0 s")
    story = tell(seen, found)
    assert "pod chaos-1-1" in story
    assert "FAULT #3 reconfigure slurmctld" in story


def test_a_run_in_which_nothing_happened_says_so():
    assert judge.judge(record()) == []
    assert tell(record(), []) == "Nothing happened that must not happen."


def test_a_drain_that_was_lifted_while_its_slurmd_pod_went_and_is_there_again_is_lifted_once_more():
    drained = look(300, node="IDLE+DRAIN", reason="chaos 3 [slurm@now]")
    away = look(165)
    lifted = fault(Fault.DRAIN, until_s=150)

    def found(*looks: SlurmLook, by: Inflicted = lifted) -> list[tuple[str, str]]:
        return list(judge.come_back(looks, (by,)))

    assert found(away, drained) == [("compute-1", "chaos 3")]
    assert found(look(165, node="IDLE"), drained) == [], "its pod did not go"
    assert found(look(120), look(190), drained) == [], "its pod went earlier or later"
    assert (
        found(away, look(300, node="IDLE+DRAIN", reason="ours")) == found(away, look(300, node="IDLE")) == found() == []
    )
    assert found(away, drained, by=fault(Fault.DRAIN)) == [], "nobody lifted it"
    assert found(away, drained, by=fault(Fault.CORDON, until_s=150)) == [], "it is no drain of Slurm"
