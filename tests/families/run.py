"""One case on a real cluster: applied, counted, preempted, observed, taken away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from demo.stack import Stack
from devcluster import Cluster
from devcluster.errors import DevclusterError
from devcluster.operators import catalog
from devcluster.operators.install import install, remove
from devcluster.shell import CommandFailed
from devcluster.waiting import NeverSo, NotYet, wait, wait_until
from sunkpy.core import names
from tests.bench.chaos import judge
from tests.bench.chaos.observer import Watcher
from tests.bench.chaos.record import Owner, Running, Sample
from tests.families.cases import Case, phases
from tests.families.compare import SeenPod, unbound, waves, wrong_jobs, wrong_preemption, wrong_return
from tests.families.look import Looks
from tests.families.workload import Workload, remove_namespaces, wait_until_gone

SETTLE_S: Final = 150.0
"""So long may a manifest take to become its jobs; each of its waves takes what its operator's back-off makes of it."""
STILL_S: Final = 6.0
"""What has not changed for this long is taken as final."""
LASTS_S: Final = 900
ENDS_S: Final = 12
LEAVE_S: Final = 60.0
RETURN_S: Final = 60.0
STAYS_AWAY_S: Final = 12.0
PREEMPTOR: Final = "families"
PREEMPTOR_LASTS_S: Final = 6

Tell = Callable[[str], None]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a case; it is as it should be when `wrong` is empty."""

    case: Case
    jobs: tuple[str, ...] = ()
    waves: tuple[int, ...] = ()
    preempted: str = ""
    wrong: tuple[str, ...] = ()
    seconds: float = 0.0


def run_all(stack: Stack, cluster: Cluster, cases: Sequence[Case], tell: Tell) -> Iterator[Outcome]:
    """All cases that can be run here, one by one; the operators of each group are there for it alone."""
    for wanted, group in phases([case for case in cases if not case.missing]):
        operators = catalog.select(wanted)
        try:
            install(cluster, operators)
        except (DevclusterError, NeverSo) as error:
            yield from (Outcome(case=case, wrong=(f"its operator: {error}",)) for case in group)
            tell(f"{', '.join(wanted)}: {error}")
            remove(cluster, operators)
            continue
        for case in group:
            outcome = run_case(stack, cluster, case)
            tell(f"{case.manifest}: {'; '.join(outcome.wrong) or 'as it should be'} ({outcome.seconds:.0f} s)")
            yield outcome
        remove_namespaces(stack)
        remove(cluster, operators)


def run_case(stack: Stack, cluster: Cluster, case: Case) -> Outcome:
    """Apply a manifest, count its jobs, preempt it where it can be held still, and take it away."""
    begun_s = time.monotonic()
    seconds = ENDS_S if case.ends_between else LASTS_S
    made = [Workload(stack, manifest, seconds=LASTS_S) for manifest in case.first]
    outcome = Outcome(case=case)
    try:
        for each in made:
            each.create()
        if made:
            _settle(Looks(stack), list)
        made.append(Workload(stack, case.manifest, seconds=seconds))
        outcome = _observe(stack, cluster, case, made[-1])
    except (NeverSo, CommandFailed) as error:
        outcome = msgspec.structs.replace(outcome, wrong=(*outcome.wrong, str(error)))
    finally:
        wrong = _take_away(stack, made)
    took_s = time.monotonic() - begun_s
    return msgspec.structs.replace(outcome, wrong=(*outcome.wrong, *wrong), seconds=round(took_s, 1))


def _observe(stack: Stack, cluster: Cluster, case: Case, workload: Workload) -> Outcome:
    looks = Looks(stack)
    workload.create()

    def still_wrong() -> list[str]:
        standing = _untold(stack, case, looks) if case.refused else unbound(looks.standing)
        return [*wrong_jobs(case, looks.seen_jobs), *standing]

    wrong = _settle(looks, still_wrong)
    outcome = Outcome(
        case=case,
        jobs=tuple(map(str, looks.seen_jobs)),
        waves=tuple(waves(list(looks.pods.values()))),
        wrong=tuple(wrong),
    )
    if case.ends_between or not any(pod.job for pod in looks.bound):
        return msgspec.structs.replace(outcome, preempted="not preempted: no job of it was left running")
    said, wrong = _preempt(stack, cluster, case, looks)
    return msgspec.structs.replace(outcome, preempted=said, wrong=(*outcome.wrong, *wrong))


def _untold(stack: Stack, case: Case, looks: Looks) -> list[str]:
    """Pods without an Event that names what they are refused for; a sentence when there are none at all."""
    told = {
        pod.name: stack.kubectl(
            "get", "events", "-A", f"--field-selector=type=Warning,involvedObject.uid={pod.uid}", "-o",
            "jsonpath={.items[*].message}",
        )
        for pod in looks.standing
    }  # fmt: skip
    silent = [f"no Event about {name} names {case.refused}" for name, text in told.items() if case.refused not in text]
    return silent if told else ["there is no pod"]


def _settle(looks: Looks, wrong: Callable[[], list[str]]) -> list[str]:
    """Look until nothing is wrong and nothing has changed for a while; what is wrong in the end."""

    def settled() -> bool:
        looks.again()
        return not wrong() and time.monotonic() - looks.changed_s >= STILL_S

    wait_until(settled, timeout_s=SETTLE_S, every_s=0.5)
    return wrong()


# ----------------------------------------------------------------- preemption


def _preempt(stack: Stack, cluster: Cluster, case: Case, looks: Looks) -> tuple[str, list[str]]:
    """A job of the higher partition takes one node whole; what was seen, and what of it was wrong."""
    before = looks.bound
    node = target(before)
    slurm_node = {each.name: each.labels.get(names.LABEL_POD, "") for each in stack.nodes()}[node]
    watcher = Watcher(stack, cluster)
    watcher.start()
    begun_s = time.monotonic()
    options = ("-p", "high", "-J", PREEMPTOR, "-N1", "--exclusive", "-w", slurm_node, "-o", "/dev/null")
    job = stack.sbatch(*options, f"--export=ALL,CHAOS_JOB={PREEMPTOR}", script=f"sleep {PREEMPTOR_LASTS_S}")
    try:
        stack.wait_for_job(job, "RUNNING", "COMPLETED", timeout_s=LEAVE_S)
        took_s = time.monotonic() - begun_s

        def wrong() -> list[str]:
            return wrong_preemption(case, before, looks.gone(before), node=node)

        def left() -> bool:
            looks.again()
            return not wrong()

        wait_until(left, timeout_s=20, every_s=0.5)
        found = wrong()
        stack.wait_for_job(job, "COMPLETED", timeout_s=LEAVE_S)
    finally:
        stack.cancel_jobs([job])
        watcher.stop()
    found += overlaps(watcher.samples)
    gone = looks.gone(before)
    returned = _returned(case, looks, before)
    found += wrong_return(case, returned)
    return f"{len(gone)} of {len(before)} pods gone, node free after {took_s:.1f} s, {returned} came back", found


def target(pods: Sequence[SeenPod]) -> str:
    """The node to take: where the fewest pods of the largest job are, so that the rest of it is elsewhere."""
    sizes = {pod.job: sum(other.job == pod.job for other in pods) for pod in pods}
    largest = max(sizes, key=lambda job: sizes[job])
    on = [pod.node for pod in pods if pod.job == largest]
    return min(on, key=on.count)


def _returned(case: Case, looks: Looks, before: Sequence[SeenPod]) -> int:
    """How many pods are bound that were not there before."""
    old = {pod.uid for pod in before}

    def back() -> int:
        looks.again()
        return sum(pod.uid not in old for pod in looks.bound)

    patience_s = STAYS_AWAY_S if case.must_come_back is False else RETURN_S
    return wait_until(back, timeout_s=patience_s, every_s=0.5) or 0


def overlaps(samples: Sequence[Sample]) -> list[str]:
    """A process of the workload and one of the preemptor on one node; pods of the workload may be beside each other."""
    return [violation.text for violation in judge.overlaps([by_door(sample) for sample in samples])]


def by_door(sample: Sample) -> Sample:
    """The sample with all pods as one owner."""
    pods = Owner("pod", "workload")
    running = [
        Running(
            node=each.node, owner=pods if each.owner.door == "pod" else each.owner, pod_uid=each.pod_uid, pids=each.pids
        )
        for each in sample.running
    ]
    return Sample(at_s=sample.at_s, running=tuple(running))


# ------------------------------------------------------------------------ end


def _take_away(stack: Stack, made: Sequence[Workload]) -> list[str]:
    """Delete it all; what stays behind is wrong, and is taken away by force."""
    wrong = []
    for each in reversed(made):
        try:
            each.delete()
        except (NeverSo, CommandFailed) as error:
            wrong.append(str(error))
    try:
        wait_until_gone(stack)
        wait(lambda: _no_jobs(stack), timeout_s=60, what="its jobs have ended")
    except NeverSo as error:
        wrong.append(str(error))
    if wrong:
        selector = f"--field-selector=spec.schedulerName={stack.scheduler_name}"
        stack.kubectl("delete", "pods", "-A", selector, "--wait=false")
        stack.cancel_jobs([id for id, job in stack.jobs().items() if job["JobState"] in ("PENDING", "RUNNING")])
    return wrong


def _no_jobs(stack: Stack) -> bool:
    left = stack.squeue("-o", "%i %T %k").strip()
    if left:
        raise NotYet(left)
    return True
