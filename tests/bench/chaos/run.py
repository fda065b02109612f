"""One run: load, faults and observer at the same time; then a quiet time until both sides agree and the queue is empty;
then the judgement.

`build/reports/chaos.json` has the figures. `chaos-run.json` has the plan, the faults as they happened, and every
violation with its evidence. `chaos-story.txt` explains the violations.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import click
import msgspec
import structlog

from demo.stack import USER, Stack
from devcluster import Cluster
from devcluster.waiting import NeverSo, wait
from sunkpy.core import names
from sunkpy.core.gang.job.ends import END_CONDITIONS
from sunkpy.core.model.objects import Node, Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.chaos.faults import Saboteur
from tests.bench.chaos.judge import CAME_TWICE, Rule, Violation, come_back, forgotten, is_with_pod, judge
from tests.bench.chaos.load import LABEL, Load
from tests.bench.chaos.observer import Watcher
from tests.bench.chaos.record import CordonSeen, Deletion, Ending, PodSeen, Record
from tests.bench.chaos.schedule import Plan, make_plan
from tests.bench.chaos.story import tell
from tests.bench.clusters import breakable_demo, idle_demo
from tests.e2e.agreement import node_disagreements, wait_for_agreement
from tests.e2e.timeline import Sighting, Timeline, watching
from tests.e2e.workloads import NAMESPACE as WORKLOADS
from tests.e2e.workloads import labelled

Seen = TypeVar("Seen", CordonSeen, PodSeen)
QUICK_MINUTES = 5.0
AGREEMENT_S = 30.0
QUICK_AGREEMENT_S = 200.0
"""A quick run is part of CI, whose machine may have much else to do: it asks whether both sides agree, not how soon."""
K8S_USER = "k8s"
_AGREEMENT_PATIENCE_S = 240.0
_STANDSTILL_S = 300.0
"""After this many seconds without a change the queue counts as stuck. It is longer than any job of the load with its
grace period, and than a job that was queued again waits: two minutes, and until slurmctld looks at it.
"""
_EMPTY_PATIENCE_S = 1800.0
_LEAK_PATIENCE_S = 45.0


class Outcome(NamedTuple):
    figures: Sequence[report.Figure]
    violations: Sequence[Violation] = ()


class _Cast(NamedTuple):
    """The parts of a run."""

    stack: Stack
    plan: Plan
    slurm_nodes: Mapping[str, str]
    load: Load
    saboteur: Saboteur
    watcher: Watcher


def measure(asked: Asked) -> Outcome:
    """Run the plan on an idle demo cluster, leave it idle, and return the figures and violations."""
    stack, cluster = idle_demo(), breakable_demo()
    minutes = QUICK_MINUTES if asked.quick else asked.minutes
    nodes = sorted(pod.spec.node_name for pod in stack.slurmd_pods())
    plan = make_plan(seed=asked.seed, minutes=minutes, nodes=nodes)
    record, violations = asyncio.run(watched(stack, cluster, plan))
    return Outcome(figures(record, violations, seed=plan.seed, is_quick=asked.quick), violations)


async def watched(
    stack: Stack, cluster: Cluster, plan: Plan, *, name: str = "chaos"
) -> tuple[Record, Sequence[Violation]]:
    """Carry out a plan on an idle cluster and leave it idle; `name` begins the names of the files that are written."""
    # Faults end the run's own watches, too: their warnings are left out.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
    wait_for_agreement(stack, timeout_s=60, after=f"nothing: {name} begins with an idle cluster")
    slurm_nodes = {pod.spec.node_name: pod.labels[names.LABEL_SLURM_NODE] for pod in stack.slurmd_pods()}
    click.echo(
        f"seed {plan.seed}: {len(plan.faults)} faults and {len(plan.jobs)} jobs in {plan.quiet_s:.0f} s, then quiet"
    )
    run = _Cast(
        stack,
        plan,
        slurm_nodes,
        Load(stack, seed=plan.seed, away_s=max((fault.lasts_s for fault in plan.faults), default=0.0)),
        Saboteur(stack, cluster, slurm_nodes),
        Watcher(stack, cluster),
    )
    run.load.prepare()
    record = await _run(run)
    violations = judge(record)
    _write(run, record, violations, name=name)
    # Clean up only after the files are written, so that an error here loses nothing.
    for user in (USER, K8S_USER):
        stack.admin("scancel", "--quiet", f"--user={user}")
    click.echo(tell(record, violations))
    return record, violations


async def _run(run: _Cast) -> Record:
    stack, started_s = run.stack, time.time()
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(stack.namespace), Pod, label_selector=f"{names.LABEL_ROLE}=compute") as slurmd,
        watching(kube, paths.pods(WORKLOADS), Pod, label_selector=f"app={LABEL}") as workloads,
        watching(kube, paths.NODES, Node) as nodes,
    ):
        run.watcher.start()
        await _carry_out(run, started_s)
        click.echo(f"{time.time() - started_s:.0f} s: all faults are undone, the load is submitted")
        ending = await asyncio.to_thread(_settle, run)
        run.watcher.stop()
    return Record(
        started_s=started_s,
        slurm_nodes=run.slurm_nodes,
        samples=tuple(run.watcher.samples),
        looks=tuple(run.watcher.looks),
        faults=run.saboteur.inflicted,
        jobs=tuple(run.load.accepted),
        lines=run.load.lines(),
        deletions=deletions(slurmd),
        cordons=cordons(nodes),
        pods=_changes(map(_pod_seen, workloads.sightings)),
        deleted_by_run=frozenset(run.saboteur.deleted_pods),
        ending=ending,
    )


async def _carry_out(run: _Cast, started_s: float) -> None:
    # A step that waits for a dead apiserver keeps its thread: other faults and jobs need threads of their own.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=32))
    keeper = asyncio.create_task(run.saboteur.keep_controllers())
    try:
        async with asyncio.TaskGroup() as tasks:
            for job in run.plan.jobs:
                tasks.create_task(run.load.run(job, started_s=started_s))
            for fault in run.plan.faults:
                tasks.create_task(run.saboteur.run(fault, started_s=started_s))
    finally:
        keeper.cancel()
        await asyncio.to_thread(run.saboteur.mend_all)


def _settle(run: _Cast) -> Ending:
    """Wait until both sides agree, the queue is empty and no placeholder job is left; then delete the load."""
    forgotten_ = _end_forgotten(run)
    _open_where_jobs_came_twice(run.stack)
    lifted_again = _lift_again(run)
    agreed_after_s, disagreed = _agree(run.stack)
    left_over = _wait_until_empty(run.stack)
    cleared_s = time.time()
    run.load.delete_pods()
    return Ending(
        agreed_after_s=agreed_after_s, disagreed=disagreed, forgotten=forgotten_, lifted_again=lifted_again,
        left_over=left_over, cleared_s=cleared_s, leaked=_leaked(run.stack),
    )  # fmt: skip


def _end_forgotten(run: _Cast) -> tuple[str, ...]:
    """Cancel the jobs whose end a killed slurmctld has forgotten, and return their names. Slurm notices the end only
    after a minute and a half (docs/surprises.md), and keeps their nodes until then.
    """
    found = dict(forgotten(run.stack.jobs(), run.load.lines(), run.saboteur.inflicted))
    run.stack.cancel_jobs(list(found))
    return tuple(found.values())


def _lift_again(run: _Cast) -> tuple[str, ...]:
    """Lift the drains that an administrator lifts again, and return their nodes."""
    found = dict(come_back(run.watcher.looks, run.saboteur.inflicted))
    for name in found:
        run.stack.scontrol("update", f"nodename={name}", "state=resume")
    return tuple(found)


def _open_where_jobs_came_twice(stack: Stack) -> None:
    """Resume the nodes that slurmctld drained because it sent a job that was already there: only a person does so."""
    for name, node in stack.slurm_nodes().items():
        if node.get("Reason", "").startswith(CAME_TWICE):
            stack.scontrol("update", f"nodename={name}", "state=resume")


def _agree(stack: Stack) -> tuple[float | None, str]:
    """Return the seconds until both sides agree about all nodes; None, with the differences, if they never do."""
    try:
        seconds = wait_for_agreement(
            stack, timeout_s=_AGREEMENT_PATIENCE_S, after="the last fault", about=node_disagreements
        )
    except NeverSo as error:
        return None, str(error)
    return seconds, ""


def _wait_until_empty(stack: Stack) -> tuple[str, ...]:
    """Wait until all jobs and pods have ended, or none of them changes any more. Return those that are left."""
    left: set[str] = set()
    begun_s = moved_s = time.monotonic()

    def stands_still() -> bool:
        nonlocal left, moved_s
        # The last pod may have no job yet, so pods are counted, too.
        left_pods = (pod for pod in labelled(stack, LABEL) if not pod.is_finished)
        seen = {f"pod {pod.name} {pod.status.phase}" for pod in left_pods}
        seen |= {*stack.squeue("--format=%i %j %T").splitlines()}
        if seen != left:
            left, moved_s = seen, time.monotonic()
        return not left or time.monotonic() - moved_s > _STANDSTILL_S

    with contextlib.suppress(NeverSo):
        wait(stands_still, timeout_s=_EMPTY_PATIENCE_S, what="all to end, or to stand still", every_s=2.0)
    waited_s = time.monotonic() - begun_s
    return tuple(f"{each}, {waited_s:.0f} s after the last fault" for each in sorted(left))


def _leaked(stack: Stack) -> tuple[str, ...]:
    """Return placeholder jobs that still exist although their pod is gone; there must be none."""
    jobs: list[str] = []
    pods: Sequence[Pod] = ()

    def are_gone() -> bool:
        nonlocal jobs, pods
        pods = stack.kubectl.list(Pod, "pods", "-n", WORKLOADS)  # first: jobs outlive their pods for a moment
        jobs = stack.squeue(f"--user={K8S_USER}", "--format=%i %T %R %k").splitlines()
        return not jobs and not any(pod.labels.get("app") == LABEL for pod in pods)

    with contextlib.suppress(NeverSo):
        wait(are_gone, timeout_s=_LEAK_PATIENCE_S, what="no placeholder job and no pod", every_s=1.0)
    uids = {pod.uid for pod in pods}
    return tuple(f"job {line}" for line in jobs if line.rsplit(":", 1)[-1] not in uids)


def deletions(timeline: Timeline[Pod]) -> tuple[Deletion, ...]:
    """Return each slurmd pod that got a deletion timestamp or was gone."""
    found = []
    for seen in timeline.sightings:
        pod = seen.new or seen.old
        is_new = seen.new is None or (seen.new.is_deleting and (seen.old is None or not seen.old.is_deleting))
        if pod is not None and is_new:
            found.append(
                Deletion(
                    at_s=seen.at_s, pod=pod.name, uid=pod.uid, node=pod.spec.node_name, annotations=pod.annotations
                )
            )
    return tuple(found)


def cordons(timeline: Timeline[Node]) -> tuple[CordonSeen, ...]:
    nodes = ((seen.at_s, seen.new) for seen in timeline.sightings if seen.new is not None)
    return _changes(
        CordonSeen(
            at_s=at_s,
            name=node.name,
            is_cordoned=node.spec.unschedulable,
            cordoned_by=node.annotations.get(names.ANNOTATION_CORDONED_BY, ""),
        )
        for at_s, node in nodes
    )


def _changes(seen: Iterable[Seen]) -> tuple[Seen, ...]:
    """Return the values that differ from the previous value of the same name."""
    last: dict[str, Seen] = {}
    found = []
    for now in seen:
        before = last.get(now.name)
        if before is None or msgspec.structs.replace(before, at_s=now.at_s) != now:
            found.append(now)
        last[now.name] = now
    return tuple(found)


def _pod_seen(seen: Sighting[Pod]) -> PodSeen:
    pod = seen.new or seen.old
    assert pod is not None
    target = next(filter(None, map(pod.condition, END_CONDITIONS)), None)
    return PodSeen(
        at_s=seen.at_s,
        name=pod.name,
        uid=pod.uid,
        phase=pod.status.phase if seen.new is not None else "Gone",
        node=pod.spec.node_name,
        job=pod.annotations.get(names.ANNOTATION_JOB_ID, ""),
        is_deleting=pod.is_deleting,
        why=target.message if target is not None else "",
    )


def figures(
    record: Record, violations: Sequence[Violation], *, seed: int, is_quick: bool = False
) -> list[report.Figure]:
    with_pods = "overlaps of a pod with another workload"
    wrong: dict[str, list[str]] = {with_pods: [], "overlaps of two sbatch jobs": []}
    wrong |= {str(rule): [] for rule in Rule if rule is not Rule.OVERLAP}
    for each in violations:
        of_two = with_pods if is_with_pod(each) else "overlaps of two sbatch jobs"
        wrong[of_two if each.rule is Rule.OVERLAP else str(each.rule)].append(each.text)
    n, ending = len(record.jobs), record.ending
    agreed_s = _AGREEMENT_PATIENCE_S if ending.agreed_after_s is None else ending.agreed_after_s
    times = [later.at_s - sample.at_s for sample, later in itertools.pairwise(record.samples)]
    return [
        *(report.none(what, texts, n=n, seed=seed) for what, texts in wrong.items()),
        report.at_most(
            "last fault undone to agreement", agreed_s, bound=QUICK_AGREEMENT_S if is_quick else AGREEMENT_S,
            n=len(record.faults), seed=seed, limited_by=ending.disagreed[:200],
        ),
        report.observed("time between two samples of all nodes, p95", report.p95(times), n=len(times)),
        report.observed("jobs whose end a killed slurmctld forgot, ended by hand", len(ending.forgotten), unit="", n=n),
        report.observed("drains lifted as their slurmd pod went, lifted again", len(ending.lifted_again), unit="", n=n),
        report.observed("jobs and pods that did not end", len(ending.left_over), unit="", n=n),
    ]  # fmt: skip


def _write(cast: _Cast, record: Record, violations: Sequence[Violation], *, name: str) -> None:
    run = {
        "plan": cast.plan,
        "started_s": record.started_s,
        "inflicted": record.faults,
        "refused": cast.load.refused,
        "left_over": record.ending.left_over,
        "disagreed": record.ending.disagreed,
        "violations": violations,
    }
    folder: Path = report.REPORTS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-run.json").write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    (folder / f"{name}-record.json").write_bytes(msgspec.json.encode(record))
    (folder / f"{name}-story.txt").write_text(tell(record, violations, worst=len(violations)) + "\n")
