"""The judge of lost, doubled and wrong records can find each of them, and excuses only what a kill can have done."""

from __future__ import annotations

import msgspec
import pytest

from tests.integration.slurm.faults import admin, load
from tests.integration.slurm.faults.judge import Excuse, Finding, Rule, judge
from tests.integration.slurm.faults.record import Away, Kill, Queued, Record, Row, Run, Submitted, Task
from tests.integration.slurm.faults.saboteur import QUICK, Fault, Sizes, plan_steps

JOB, ARRAY = Task("j1", 0), Task("j1", 2)


def submitted(**changes: object) -> Submitted:
    fields = {"name": "j1", "exit_code": 0, "asked_s": 100.0, "answered_s": 100.2}
    return Submitted(**{**fields, **changes})  # type: ignore[arg-type]


def run(begin_s: float = 101.0, end_s: float | None = 103.0, *, job: int = 7, task: Task = JOB) -> Run:
    return Run(task=task, job=job, begin_s=begin_s, end_s=end_s)


def row(
    state: str = "COMPLETED", *, start_s: float | None = 100.0, end_s: float | None = 103.0, **changes: object
) -> Row:
    fields = {"task": JOB, "job": 7, "state": state, "start_s": start_s, "end_s": end_s}
    return Row(**{**fields, **changes})  # type: ignore[arg-type]


def again(*, end_s: float = 103.0) -> Row:
    """The record of a run after which Slurm queued the job again."""
    return row("REQUEUED", end_s=end_s)


def kill(at_s: float, *, saved_s: float | None = None) -> Kill:
    """slurmctld had saved nothing for three seconds, and is back two seconds later."""
    return Kill(at_s=at_s, back_s=at_s + 2, saved_s=at_s - 3 if saved_s is None else saved_s)


def found(*seen: Run | Row | Kill | Away, asked: Submitted | None = None) -> list[Finding]:
    return judge(
        Record(
            submitted=(asked or submitted(),),
            runs=tuple(each for each in seen if isinstance(each, Run)),
            rows=tuple(each for each in seen if isinstance(each, Row)),
            kills=tuple(each for each in seen if isinstance(each, Kill)),
            away=tuple(each for each in seen if isinstance(each, Away)),
        )
    )


def rules(*seen: Run | Row | Kill | Away, asked: Submitted | None = None) -> list[tuple[Rule, Excuse]]:
    return [(each.rule, each.excuse) for each in found(*seen, asked=asked)]


# -------------------------------------------------------------- what must hold


def test_a_job_that_ran_once_and_is_recorded_once_is_well():
    assert found(run(), row()) == []


def test_so_is_one_that_failed_as_it_should_and_a_task_of_an_array():
    assert found(run(), row("FAILED", exit_code=3), asked=submitted(exit_code=3)) == []
    runs = [run(task=Task("j1", index), job=6 + index) for index in (1, 2)]
    rows = [row(task=Task("j1", index), job=6 + index) for index in (1, 2)]
    assert found(*runs, *rows, asked=submitted(tasks=2)) == []


def test_one_that_sbatch_never_had_an_answer_for_may_be_nowhere_or_once():
    asked = submitted(answered_s=None)
    assert found(asked=asked) == []
    assert found(run(), row(), asked=asked) == []


@pytest.mark.parametrize(
    ("seen", "rule", "text"),
    [
        ((), Rule.LOST, "j1 was accepted and never ran"),
        ((run(end_s=None), row("CANCELLED")), Rule.LOST, "j1 began and never ended"),
        ((run(), run(105, 106), again(), row(start_s=105, end_s=106)), Rule.TWICE, "ran 2 times: 101.0 to 103.0, 105"),
        ((run(),), Rule.UNRECORDED, "j1 ran and has no record"),
        ((run(), row(), row()), Rule.DOUBLED, "j1 has 2 records of its end: job 7 COMPLETED"),
        ((run(), row(), row(start_s=99, end_s=102, job=8)), Rule.DOUBLED, "job 8 COMPLETED 99 to 102"),
        ((run(), row("RUNNING", end_s=None)), Rule.OPEN, "j1 is RUNNING for ever, as job 7"),
        ((run(), row(), row("PENDING", start_s=None, end_s=None, job=8)), Rule.OPEN, "is PENDING for ever, as job 8"),
        ((run(), row("FAILED", exit_code=1)), Rule.WRONG, "recorded FAILED with exit code 1, wanted COMPLETED with 0"),
        ((run(), row("CANCELLED")), Rule.WRONG, "recorded CANCELLED"),
        ((run(), row(job=8)), Rule.WRONG, "recorded as job 8, ran as 7"),
        ((run(), row(start_s=80)), Rule.WRONG, "recorded start 80, began 101.0"),
        ((run(), row(start_s=103)), Rule.WRONG, "recorded start 103, began 101.0"),
        ((run(), row(end_s=101)), Rule.WRONG, "recorded end 101, ended 103.0"),
        ((run(), row(end_s=120)), Rule.WRONG, "recorded end 120, ended 103.0"),
    ],
)
def test_each_breach_is_found(seen: tuple[Run | Row, ...], rule: Rule, text: str):
    (only,) = found(*seen)
    assert (only.rule, only.excuse) == (rule, Excuse.NONE)
    assert text in only.text


def test_a_task_of_an_array_that_is_missing_is_found():
    runs, rows = run(task=Task("j1", 1)), row(task=Task("j1", 1))
    (only,) = found(runs, rows, asked=submitted(tasks=2))
    assert (only.rule, only.task) == (Rule.LOST, ARRAY)


def test_a_record_of_tasks_that_wait_for_ever_is_found():
    waiting = row("PENDING", task=Task("j1", -1), start_s=None, end_s=None)
    assert rules(run(), row(), waiting) == [(Rule.OPEN, Excuse.NONE)]


def test_a_run_and_a_record_of_what_nobody_submitted_are_found():
    other = Task("j2", 0)
    assert rules(run(), row(), run(task=other), row(task=other)) == [
        (Rule.TWICE, Excuse.NONE),
        (Rule.DOUBLED, Excuse.NONE),
        (Rule.SHARED, Excuse.NONE),
    ]


def test_two_jobs_of_one_id_are_found_and_an_array_is_one_job():
    other = Task("j2", 0)
    asked = (submitted(), submitted(name="j2"))
    (only,) = judge(Record(submitted=asked, runs=(run(), run(task=other)), rows=(row(), row(task=other))))
    assert (only.rule, only.text) == (Rule.SHARED, "j1 was job 7, and so was j2")
    runs = [run(task=Task("j1", index)) for index in (1, 2)]
    assert found(*runs, row(task=Task("j1", 1)), row(task=ARRAY), asked=submitted(tasks=2)) == []


def test_what_slurm_queued_again_has_a_record_for_each_time():
    twice = (run(), run(110, 111), row("NODE_FAIL"), row(start_s=110, end_s=111), kill(104))
    assert rules(*twice) == [(Rule.TWICE, Excuse.UNSAVED)]
    assert found(run(), row(), row("REQUEUED", start_s=None)) == []
    assert rules(run(), row("REQUEUED")) == [(Rule.WRONG, Excuse.NONE)]


# -------------------------------------------------------------------- excuses


def test_a_job_that_was_not_saved_may_be_lost_and_its_record_waits_for_ever():
    pending = row("PENDING", start_s=None, end_s=None)
    assert rules(pending, kill(102)) == [(Rule.LOST, Excuse.UNSAVED), (Rule.OPEN, Excuse.UNSAVED)]


@pytest.mark.parametrize(
    ("queued_s", "excuse"), [(99, Excuse.NONE), (101, Excuse.UNSAVED), (104, Excuse.UNSAVED), (106, Excuse.NONE)]
)
def test_a_job_whose_return_to_the_queue_was_not_saved_leaves_a_record_that_waits_for_ever(
    queued_s: float, excuse: Excuse
):
    waiting = row("PENDING", start_s=None, end_s=None, queued_s=queued_s)
    asked = submitted(asked_s=90.0, answered_s=90.2)
    assert rules(run(107, 109), row(start_s=107, end_s=109), waiting, kill(105), asked=asked) == [(Rule.OPEN, excuse)]


def test_one_that_was_not_saved_may_run_unseen():
    assert rules(run(), kill(102)) == [(Rule.UNRECORDED, Excuse.UNSAVED)]


@pytest.mark.parametrize("at", [kill(99), kill(110), kill(103, saved_s=102)])
def test_one_that_was_saved_may_not(at: Kill):
    assert rules(at) == [(Rule.LOST, Excuse.NONE)]


@pytest.mark.parametrize(
    ("at", "excuse"),
    [
        (kill(102), Excuse.UNSAVED),  # the start was not saved
        (kill(104), Excuse.UNSAVED),  # the end was not saved
        (kill(115), Excuse.NONE),
        (kill(102.5, saved_s=102.4), Excuse.NONE),  # between begin and end, and all of it saved
    ],
)
def test_a_job_runs_twice_when_its_start_or_its_end_was_not_saved(at: Kill, excuse: Excuse):
    assert rules(run(), run(120, 121), again(), row(start_s=120, end_s=121), at) == [(Rule.TWICE, excuse)]


def test_each_earlier_run_needs_its_own_kill():
    runs = [run(), run(120, 121), run(130, 131)]
    rows = [again(), row("REQUEUED", start_s=120, end_s=121), row(start_s=130, end_s=131)]
    assert rules(*runs, *rows, kill(104)) == [(Rule.TWICE, Excuse.NONE)]
    assert rules(*runs, *rows, kill(104), kill(122)) == [(Rule.TWICE, Excuse.UNSAVED)]


@pytest.mark.parametrize(("at", "excuse"), [(kill(102), Excuse.UNSAVED), (kill(119), Excuse.NONE)])
def test_the_record_of_a_start_that_was_not_saved_is_overwritten_by_that_of_the_next(at: Kill, excuse: Excuse):
    seen = found(run(), run(120, 121), row(start_s=120, end_s=121), at)
    assert [(each.rule, each.excuse) for each in seen] == [(Rule.TWICE, excuse), (Rule.UNRECORDED, excuse)]
    assert seen[1].text == "j1 ran at 101.0, and only later runs have a record"


@pytest.mark.parametrize(("at", "excuse"), [(kill(104), Excuse.UNSAVED), (kill(119), Excuse.NONE)])
def test_a_run_whose_end_was_not_saved_is_recorded_longer_than_it_was(at: Kill, excuse: Excuse):
    seen = found(run(), run(190, 191), again(end_s=180), row(start_s=190, end_s=191), at)
    assert [(each.rule, each.excuse) for each in seen] == [(Rule.TWICE, excuse), (Rule.WRONG, excuse)]
    assert seen[1].text == "j1 recorded end 180, ended 103.0"


@pytest.mark.parametrize(
    ("seen", "excuse"),
    [
        ((Away(102, 110), kill(105)), Excuse.UNTOLD),
        ((Away(90, 110), kill(105)), Excuse.UNTOLD),
        ((Away(90, 100), kill(112)), Excuse.UNTOLD),  # it asks slurmdbd again only now
        ((Away(102, 110),), Excuse.NONE),  # slurmctld lived on
        ((Away(102, 110), kill(140)), Excuse.NONE),  # it had time to tell
        ((Away(102, 110), kill(95)), Excuse.NONE),  # it was killed before
        ((Away(120, 130), kill(125)), Excuse.NONE),  # it had told already
        ((kill(104, saved_s=102),), Excuse.NONE),  # slurmdbd answered: it was told
    ],
)
def test_a_record_may_be_missing_when_slurmctld_was_killed_before_it_could_tell(
    seen: tuple[Away | Kill, ...], excuse: Excuse
):
    assert rules(run(), *seen) == [(Rule.UNRECORDED, excuse)]
    assert rules(run(), row("RUNNING", end_s=None), *seen) == [(Rule.OPEN, excuse)]


def test_a_task_that_began_again_under_another_id_has_a_record_of_each_run():
    runs, rows = (run(), run(120, 121, job=8)), (row(), row(start_s=120, end_s=121, job=8))
    assert rules(*runs, *rows, kill(104)) == [(Rule.TWICE, Excuse.UNSAVED)]
    assert (Rule.DOUBLED, Excuse.NONE) in rules(*runs, row(), row(start_s=120, end_s=121), kill(104))


def test_no_kill_excuses_a_doubled_record():
    assert rules(run(), row(), row(), kill(102), Away(100, 110)) == [(Rule.DOUBLED, Excuse.NONE)]


def test_an_end_is_recorded_late_when_slurmctld_was_away():
    assert found(run(), row(end_s=120), kill(102, saved_s=101.9)) == []
    assert rules(run(), row(end_s=140), kill(102, saved_s=101.9)) == [(Rule.WRONG, Excuse.NONE)]
    assert found(run(), row(end_s=140), kill(102, saved_s=101.9), kill(119, saved_s=118.9)) == []


def test_and_when_it_was_told_to_end_which_excuses_nothing_else():
    late = Record(submitted=(submitted(),), runs=(run(),), rows=(row(end_s=120),), ends=(Away(102, 104),))
    assert judge(late) == []
    twice = msgspec.structs.replace(late, runs=(run(), run(119, 120)), rows=(again(), row(start_s=118, end_s=120)))
    assert [(each.rule, each.excuse) for each in judge(twice)] == [(Rule.TWICE, Excuse.NONE)]


def test_what_is_not_excused_comes_first():
    rows = (again(), row(start_s=120, end_s=121), row("RUNNING", start_s=130, end_s=None))
    findings = found(run(), run(120, 121), *rows, kill(104, saved_s=102))
    expected = [(Rule.OPEN, Excuse.NONE), (Rule.TWICE, Excuse.UNSAVED)]
    assert [(each.rule, each.excuse) for each in findings] == expected


# ------------------------------------------------------ what an administrator does


def queued(**changes: object) -> Queued:
    fields = {"job": 7, "task": JOB, "shown": "7", "state": "RUNNING", "start_s": 100.0, "reason": "None"}
    return Queued(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "runs", "ended"),
    [
        (queued(), [run()], True),
        (queued(), [run(end_s=None)], True),  # Slurm ended it
        (queued(), [run(end_s=190)], False),  # it may still say so
        (queued(), [], True),  # it never got there
        (queued(start_s=180.0), [], False),
        (queued(state="COMPLETING"), [run()], False),
        (queued(start_s=180.0), [run()], False),  # it runs again, and has not written yet
        (queued(start_s=180.0), [run(), run(181, None)], False),
        (queued(start_s=150.0), [run(), run(151, 152)], True),
    ],
)
def test_a_job_has_ended_when_its_last_run_has(line: Queued, runs: list[Run], ended: bool):
    assert admin.has_ended(line, runs, now_s=200) is ended


def test_nodes_that_slurm_drained_because_they_ran_the_job_already():
    said = "c1|Duplicate jobid                 \nc2|k8s: cordoned\nc1|Duplicate jobid\n"
    assert admin.drained(said) == {"c1"}


# ------------------------------------------------------- what it is read from


def test_runs_are_told_apart_by_their_process_also_when_they_overlap():
    log = "begin 1.5 7 c1/11\nbegin 2.0 7 c2/11\nend 3.0 7 c2/11\nend 4.5 7 c1/11\nbegin 5.0 7 c1/12\n"
    assert load.read_runs(log, JOB) == [run(1.5, 4.5), run(2.0, 3.0), run(5.0, None)]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("7 RUNNING j1 N/A 7 100 None", queued()),
        ("7 RUNNING j1 2 6_2 100 None", queued(task=ARRAY, shown="6_2")),
        (
            "7 PENDING j1 N/A 7 N/A (Resources, or so)",
            queued(state="PENDING", start_s=None, reason="(Resources, or so)"),
        ),
    ],
)
def test_a_line_of_squeue(line: str, read: Queued):
    assert load.read_queued(line) == read


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("7|7|j1|COMPLETED|0:0|99|100|103", row(queued_s=99)),
        ("8|7_2|j1|FAILED|3:0|99|100|103", row("FAILED", task=ARRAY, job=8, exit_code=3, queued_s=99)),
        (
            "7|7_[1-3]|j1|PENDING|0:0|99|Unknown|Unknown",
            row("PENDING", task=Task("j1", -1), start_s=None, end_s=None, queued_s=99),
        ),
        ("7|7|j1|CANCELLED by 401|0:15|99|None|103", row("CANCELLED", start_s=None, queued_s=99)),
    ],
)
def test_a_line_of_sacct(line: str, read: Row):
    assert load.read_row(line) == read


def test_the_same_seed_makes_the_same_run_and_the_losing_steps_come_last():
    sizes = Sizes()
    steps = plan_steps(3, sizes)
    assert steps == plan_steps(3, sizes) != plan_steps(4, sizes)
    assert sum(step.is_killed or step.fault is Fault.SLURMCTLD for step in steps) == 20
    assert not any(step.is_killed for step in steps[: -sizes.with_both])
    assert {step.fault for step in steps} == set(Fault)
    jobs = load.plan_jobs(3, until_s=60, every_s=1)
    assert jobs == load.plan_jobs(3, until_s=60, every_s=1)
    assert {job.options for job in jobs} == {"", "--array=1-3", " --begin=now+6", "--array=1-3 --begin=now+6"}
    assert not any(step.is_killed for step in plan_steps(3, QUICK))
