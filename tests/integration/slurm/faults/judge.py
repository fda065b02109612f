"""What must not be: jobs that were lost or run twice, records that are missing, doubled or wrong. Pure.

What Slurm is known to do when slurmctld is killed (docs/surprises.md) is found as well, and says which of two limits it
is: slurmctld forgot what it had not saved, or what it had not told slurmdbd. Each excuse needs a kill at a moment at
which just that can happen: between the last save of the jobs and the kill, or while slurmdbd could not be told.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from tests.integration.slurm.faults.record import Kill, Record, Row, Run, Submitted, Task

TOLD_AFTER_S = 15.0
"""slurmctld asks a slurmdbd that was away again after ten seconds, and has sent it everything soon after."""
LAUNCH_S = 10.0
"""Between the start that Slurm records and the first line of the script, on a busy machine."""
REPORT_S = 5.0
"""Between the last line of the script and the end that Slurm records."""
RETRY_S = 15.0
"""A job that ends while slurmctld is away says so this much later (RETRY_DELAY of slurmstepd)."""
ROUNDED_S = 1.0

_Of = TypeVar("_Of", Run, Row)


class Rule(enum.StrEnum):
    """What must hold, worst breach first."""

    LOST = "jobs lost"
    TWICE = "jobs run twice"
    UNRECORDED = "records lost"
    DOUBLED = "records doubled"
    OPEN = "records without an end"
    WRONG = "records that contradict the job's log"
    SHARED = "job ids given twice"


class Excuse(enum.StrEnum):
    """Which limit of Slurm explains a breach."""

    NONE = ""
    UNSAVED = "slurmctld had not saved it when it was killed"
    UNTOLD = "slurmctld was killed while slurmdbd could not be told"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One breach, in words."""

    rule: Rule
    task: Task
    text: str
    excuse: Excuse = Excuse.NONE


class Case(NamedTuple):
    """All that is known of one task; its runs and records in the order of their beginning."""

    submitted: Submitted
    task: Task
    runs: Sequence[Run]
    rows: Sequence[Row]
    record: Record

    def found(self, rule: Rule, text: str, excuse: Excuse = Excuse.NONE) -> Finding:
        """A breach of this task."""
        return Finding(rule=rule, task=self.task, text=f"{self.task.text} {text}", excuse=excuse)


def judge(record: Record) -> list[Finding]:
    """All breaches, those that nothing excuses first."""
    runs, rows = _by_task(record.runs), _by_task(record.rows)
    found: list[Finding] = []
    for submitted in record.submitted:
        for task in submitted.all_tasks():
            found += judge_task(Case(submitted, task, runs.pop(task, ()), rows.pop(task, ()), record))
        waiting = Task(submitted.name, -1)
        found += never_closed(Case(submitted, waiting, (), rows.pop(waiting, ()), record))
    found += shared(record)
    found += [_stray(each) for left in (*runs.values(), *rows.values()) for each in left]
    order = list(Rule)
    return sorted(found, key=lambda each: (bool(each.excuse), order.index(each.rule), each.task))


def judge_task(case: Case) -> Iterator[Finding]:
    """Breaches of one task."""
    for rule in (lost, run_twice, unrecorded, doubled, never_closed, contradicted):
        yield from rule(case)


def _by_task(seen: Sequence[_Of]) -> dict[Task, Sequence[_Of]]:
    found: defaultdict[Task, list[_Of]] = defaultdict(list)
    for each in seen:
        found[each.task].append(each)
    return {task: sorted(each, key=_begin) for task, each in found.items()}


def _begin(each: Run | Row) -> float:
    return each.begin_s if isinstance(each, Run) else each.start_s or float("inf")


def _stray(each: Run | Row) -> Finding:
    what, rule = ("run", Rule.TWICE) if isinstance(each, Run) else ("record", Rule.DOUBLED)
    return Finding(rule=rule, task=each.task, text=f"{each.task.text}: {what} of job {each.job}, which nobody wanted")


# ----------------------------------------------------------------------- jobs


def shared(record: Record) -> Iterator[Finding]:
    """Two jobs had one id: the end of one may pass for the end of the other."""
    tasks: defaultdict[int, set[Task]] = defaultdict(set)
    for each in (*record.runs, *record.rows):
        tasks[each.job].add(each.task)
    for job, having in sorted(tasks.items()):
        if len({task.name for task in having}) > 1:
            first, *others = sorted(having)
            text = f"{first.text} was job {job}, and so was {', '.join(task.text for task in others)}"
            yield Finding(rule=Rule.SHARED, task=first, text=text)


def lost(case: Case) -> Iterator[Finding]:
    """sbatch gave an id, or the job began, and it was never run to its end."""
    has_ended = any(run.end_s is not None for run in case.runs)
    if has_ended or (case.submitted.answered_s is None and not case.runs):
        return
    how = "began and never ended" if case.runs else "was accepted and never ran"
    yield case.found(Rule.LOST, how, _if(is_forgotten(case), Excuse.UNSAVED))


def run_twice(case: Case) -> Iterator[Finding]:
    """The script ran more than once."""
    if len(case.runs) < 2:
        return
    spans = ", ".join(f"{run.begin_s:.1f} to {f'{run.end_s:.1f}' if run.end_s else 'no end'}" for run in case.runs)
    are_unsaved = all(is_unsaved(run, case.record.kills) for run in case.runs[:-1])
    yield case.found(Rule.TWICE, f"ran {len(case.runs)} times: {spans}", _if(are_unsaved, Excuse.UNSAVED))


# -------------------------------------------------------------------- records


def unrecorded(case: Case) -> Iterator[Finding]:
    """It ran, and slurmdbd has never heard of it, or only of a later run."""
    if case.runs and not case.rows:
        excuse = _if(is_forgotten(case), Excuse.UNSAVED) or _if(is_untold(case), Excuse.UNTOLD)
        yield case.found(Rule.UNRECORDED, "ran and has no record", excuse)
        return
    for run in case.runs[:-1]:
        if not any(is_start_of(row, run) for row in case.rows):
            excuse = _if(is_unsaved(run, case.record.kills), Excuse.UNSAVED) or _if(is_untold(case), Excuse.UNTOLD)
            yield case.found(Rule.UNRECORDED, f"ran at {run.begin_s:.1f}, and only later runs have a record", excuse)


def doubled(case: Case) -> Iterator[Finding]:
    """More records say how it ended than it had runs. What Slurm queued again has a record for each time, of another
    state; a task of an array whose start was forgotten begins again under another id, and each run has its own.
    """
    done = [row for row in case.rows if row.is_done]
    own = {run for row in done for run in case.runs if run.job == row.job and is_start_of(row, run)}
    if len(done) > max(len(own), 1):
        states = ", ".join(f"job {row.job} {row.state} {row.start_s} to {row.end_s}" for row in done)
        yield case.found(Rule.DOUBLED, f"has {len(done)} records of its end: {states}")


def never_closed(case: Case) -> Iterator[Finding]:
    """A record says that a job waits or runs that is not there any more."""
    for row in case.rows:
        if row.is_open:
            unsaved = is_forgotten(case) or is_queued_unsaved(row, case.record.kills)
            excuse = _if(unsaved, Excuse.UNSAVED) or _if(is_untold(case), Excuse.UNTOLD)
            yield case.found(Rule.OPEN, f"is {row.state} for ever, as job {row.job}", excuse)


def contradicted(case: Case) -> Iterator[Finding]:
    """The last record with an end does not say what the last run with an end wrote and did, or an earlier run is
    recorded longer than it was.
    """
    closed = [row for row in case.rows if not row.is_open]
    # What was queued again before it began has no start, and is no record of a run.
    rows = [row for row in closed if row.state != "REQUEUED"] or closed
    runs = [run for run in case.runs if run.end_s is not None]
    wrong = "; ".join(differences(rows[-1], runs[-1], case)) if rows and runs else ""
    if wrong:
        yield case.found(Rule.WRONG, wrong, _if(is_untold(case), Excuse.UNTOLD))
    for run in runs[:-1]:
        own = next((row for row in closed if is_start_of(row, run)), None)
        late = "" if own is None else "; ".join(other_end(own, run, case))
        if late:
            yield case.found(Rule.WRONG, late, _if(is_unsaved(run, case.record.kills), Excuse.UNSAVED))


def differences(row: Row, run: Run, case: Case) -> Iterator[str]:
    """Where a record and the log of the same run disagree."""
    wanted = "FAILED" if case.submitted.exit_code else "COMPLETED"
    if (row.state, row.exit_code) != (wanted, case.submitted.exit_code):
        yield f"recorded {row.state} with exit code {row.exit_code}, wanted {wanted} with {case.submitted.exit_code}"
    if row.job != run.job:
        yield f"recorded as job {row.job}, ran as {run.job}"
    if not is_start_of(row, run):
        yield f"recorded start {row.start_s}, began {run.begin_s:.1f}"
    yield from other_end(row, run, case)


def is_start_of(row: Row, run: Run) -> bool:
    """The record says that it began when this run did."""
    return row.start_s is not None and run.begin_s - LAUNCH_S <= row.start_s <= run.begin_s + ROUNDED_S


def other_end(row: Row, run: Run, case: Case) -> Iterator[str]:
    """A record ends before or long after the run of which it is."""
    assert row.end_s is not None
    assert run.end_s is not None
    if not run.end_s - ROUNDED_S <= row.end_s <= told_end_s(run.end_s, case.record):
        yield f"recorded end {row.end_s}, ended {run.end_s:.1f}"


def told_end_s(end_s: float, record: Record) -> float:
    """When slurmctld knows of an end at the latest: each time that it is away meanwhile puts it off."""
    latest_s = end_s + REPORT_S
    gone = [(kill.at_s, kill.back_s) for kill in record.kills] + [(each.from_s, each.until_s) for each in record.ends]
    for from_s, until_s in sorted(gone):
        if from_s <= latest_s and until_s >= end_s:
            latest_s = max(latest_s, until_s + RETRY_S + REPORT_S)
    return latest_s


# -------------------------------------------------------------------- excuses


def _if(holds: bool, excuse: Excuse) -> Excuse:
    return excuse if holds else Excuse.NONE


def is_forgotten(case: Case) -> bool:
    """slurmctld was killed before it had saved that it took the job."""
    asked = case.submitted
    latest_s = asked.asked_s + RETRY_S if asked.answered_s is None else asked.answered_s
    return any(asked.asked_s <= kill.at_s and kill.saved_s <= latest_s + ROUNDED_S for kill in case.record.kills)


def is_queued_unsaved(row: Row, kills: Sequence[Kill]) -> bool:
    """slurmctld was killed before it had saved that it queued the job again, and had told slurmdbd already."""
    queued_s = row.queued_s
    return queued_s is not None and any(kill.saved_s - ROUNDED_S <= queued_s <= kill.at_s for kill in kills)


def is_unsaved(run: Run, kills: Sequence[Kill]) -> bool:
    """slurmctld was killed before it had saved that the run began, or that it ended.

    It says so some time before the script begins, and hears of the end some time after.
    """
    return any(
        kill.saved_s - ROUNDED_S <= run.begin_s <= kill.at_s + LAUNCH_S
        or (run.end_s is not None and kill.saved_s - REPORT_S <= run.end_s <= kill.at_s)
        for kill in kills
    )


def is_untold(case: Case) -> bool:
    """slurmctld was killed with something about the job that it could not tell slurmdbd."""
    asked, record = case.submitted, case.record
    ends = (run.end_s for run in case.runs if run.end_s is not None)
    moments = [asked.asked_s, *(run.begin_s for run in case.runs), *ends]
    return any(
        max(at_s, away.from_s) <= kill.at_s <= away.until_s + TOLD_AFTER_S
        for away in record.away
        for at_s in moments
        for kill in record.kills
        if away.from_s - ROUNDED_S <= at_s
    )
