"""Sick nodes in random order, while operator and syncer are killed. No job may start between a signal and the check
that passed; a drain reason of others must stay byte for byte; and each node must be back, or need a person for the
right reason.

There are ten kinds of faults. Each hits a healthy node, and three nodes have one at a time. Short jobs are always
queued for each node. Slurm's accounting says when they started, and the check writes when it passed, both in whole
seconds.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import click
import msgspec

from demo.stack import Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import NeverSo, NotYet, persist, wait
from sunkpy.core import names
from sunkpy.core.health import Record, State
from sunkpy.core.health.verification import FAILED
from sunkpy.core.model.objects import Pod
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.clusters import idle_demo
from tests.e2e import processes, sickness

T = TypeVar("T")

FAULTS, QUICK_FAULTS = 200, 20
DRAINED_WITHIN_S: Final = 1.0
_BACK_S: Final = 180.0
_KILLS_S: Final = 15.0
_TAINT, _CONDITION = "example.com/sick", "GpuFell"
_NOT_READY = "GpuReady"
_SLURMS = "Prolog error"
_PERSONS: Final = "disk  of ann; "
"""The drain reason of a person. Its two blanks must stay."""

HEALTH: Final[Mapping[str, object]] = {
    "settleSeconds": 1,
    "mostReturnsADay": 1000,
    "signals": {
        "gpu": {"label": sickness.LABEL, "bad": [sickness.BAD]},
        "taint": {"taint": _TAINT},
        "fell": {"condition": _CONDITION},
        "unready": {"condition": _NOT_READY, "bad": ["False"]},
        "prolog": {"slurmReason": _SLURMS},
    },
}


class Suffered(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of a node; times are since the epoch. `drained_s`: None if no signal drains the node. `wrong`: what was
    not as it should be, in words.
    """

    kind: str
    node: str
    begun_s: float
    drained_s: float | None = None
    back_s: float
    wrong: str = ""


def make_plan(seed: int, count: int) -> tuple[str, ...]:
    """Return `count` faults, each kind equally often, in random order."""
    kinds = list(itertools.islice(itertools.cycle(KINDS), count))
    random.Random(seed).shuffle(kinds)
    return tuple(kinds)


def started_early(
    suffered: Iterable[Suffered], starts: Mapping[str, Sequence[float]], passed: Mapping[str, Sequence[float]]
) -> list[str]:
    """Return in words the jobs that started on a node after its drain was seen and before its last check of that fault
    passed.

    `starts` and `passed` are in whole seconds, by Slurm node.
    """
    found = []
    for each in suffered:
        if each.drained_s is None:
            continue
        during = [at_s for at_s in passed.get(each.node, ()) if each.drained_s <= at_s + 1 <= each.back_s + 1]
        until_s = max(during, default=each.back_s)
        early = [at_s for at_s in starts.get(each.node, ()) if each.drained_s < at_s < int(until_s)]
        found += [f"{each.node}, {each.kind}: {at_s:.0f}" for at_s in early]
    return found


def measure(asked: Asked) -> Sequence[report.Figure]:
    stack = idle_demo()
    plan = make_plan(asked.seed, QUICK_FAULTS if asked.quick else FAULTS)
    kills: list[float] = []
    with sickness.known(stack, HEALTH), sickness.checked(stack):
        pods, over = stack.slurmd_pods(), threading.Event()
        jobs = [stack.sbatch(f"--nodelist={pod.name}", "--array=1-500%1", script="sleep 4") for pod in pods]
        killer = threading.Thread(target=_kill_parts, args=(stack, asked.seed, over, kills))
        killer.start()
        try:
            suffered = _suffer_all(stack, pods, plan)
        finally:
            over.set()
            killer.join()
            stack.cancel_jobs(jobs)
            for pod in pods:
                sickness.forget(stack, pod.spec.node_name)
        starts = _starts(stack)
        passed = {pod.name: _passed(stack, pod.name) for pod in pods}
    return [*figures(suffered, starts, passed, kills=kills, seed=asked.seed)]


def figures(
    suffered: Sequence[Suffered],
    starts: Mapping[str, Sequence[float]],
    passed: Mapping[str, Sequence[float]],
    *,
    kills: Sequence[float],
    seed: int,
) -> Iterator[report.Figure]:
    n = len(suffered)
    wrong = [f"{each.node}, {each.kind}: {each.wrong}" for each in suffered if each.wrong]
    yield report.none("nodes not back or without the true reason", wrong, n=n, seed=seed)
    yield report.none("jobs started before the check had passed", started_early(suffered, starts, passed), n=n)
    calm = [each for each in suffered if not any(each.begun_s - 20 < at_s < each.begun_s + 5 for at_s in kills)]
    drains = [each.drained_s - each.begun_s for each in calm if each.drained_s is not None]
    if drains:
        name = "from a signal to the drain, nobody killed"
        yield report.at_most(f"{name}, median", report.median(drains), bound=DRAINED_WITHIN_S, n=len(drains))
        yield report.observed(f"{name}, worst", max(drains), n=len(drains))
    yield report.observed("from a fault until the node is back, median", report.median([_lasted(x) for x in suffered]))
    yield report.observed("from a fault until the node is back, worst", max(map(_lasted, suffered)), n=n)
    yield report.observed("operators and syncers killed", len(kills), unit="")
    yield report.observed("jobs that ran", sum(map(len, starts.values())), unit="")


def _lasted(each: Suffered) -> float:
    return each.back_s - each.begun_s


def _kill_parts(stack: Stack, seed: int, over: threading.Event, kills: list[float]) -> None:
    rng = random.Random(seed)
    while not over.wait(rng.uniform(0.5, 1.5) * _KILLS_S):
        with contextlib.suppress(CommandFailed, NeverSo):
            kills.append(time.time())
            processes.kill(stack, rng.choice(("operator", "syncer")))


def _suffer_all(stack: Stack, pods: Sequence[Pod], plan: Sequence[str]) -> list[Suffered]:
    """Run all faults, one at a time on each node."""
    left, found = queue.SimpleQueue[tuple[int, str]](), list[Suffered]()
    for each in enumerate(plan):
        left.put(each)

    def work(pod: Pod) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                number, kind = left.get_nowait()
                found.append(_suffer(stack, pod, kind, number))
                click.echo(f"{len(found)}/{len(plan)}: {found[-1]}")

    with ThreadPoolExecutor(max_workers=len(pods)) as pool:
        list(pool.map(work, pods))
    return found


def _suffer(stack: Stack, pod: Pod, kind: str, number: int) -> Suffered:
    begun_s, drained_s, wrong = time.time(), None, ""
    try:
        begun_s, drained_s = KINDS[kind](stack, pod, number)
        _wait(stack, pod, State.WELL)
        _wait_until_open(stack, pod)
    except (CommandFailed, NeverSo, AssertionError) as error:
        wrong = f"{type(error).__name__}: {error}"
        click.echo(f"{pod.name}, {kind}: {wrong}; {sickness.record_of(stack, pod.spec.node_name)}")
        with contextlib.suppress(CommandFailed, NeverSo):
            for how in ("fails", "hangs"):
                _again(partial(sickness.fail_checks, stack, pod.name, fails=False, how=how))
            _again(lambda: sickness.forget(stack, pod.spec.node_name))
            _again(lambda: stack.scontrol("update", f"nodename={pod.name}", "state=resume"))
    back_s = time.time()
    return Suffered(kind=kind, node=pod.name, begun_s=begun_s, drained_s=drained_s, back_s=back_s, wrong=wrong)


def _signalled(stack: Stack, pod: Pod, begin: Callable[[], object]) -> tuple[float, float]:
    """Give a node a signal by `begin`. Return when that was, and when Slurm showed the drain."""
    watch = stack.when_slurm_node(pod.name, r"State=[^ ]*DRAIN.*Reason=k8s: ", timeout_s=60)
    begun_s = time.time()
    begin()
    return begun_s, watch.time_s() - stack.clock_skew_s()


def _cured(stack: Stack, pod: Pod, begin: Callable[[], object], end: Callable[[], object]) -> tuple[float, float]:
    times = _signalled(stack, pod, begin)
    _heal(stack, pod, end)
    return times


def _heal(stack: Stack, pod: Pod, end: Callable[[], object]) -> None:
    """Take the signal away by `end` when the node is drained, and wait for its check."""
    _wait(stack, pod, State.DRAINED)
    end()
    _wait(stack, pod, State.VERIFY, State.WELL)


def _by_label(stack: Stack, pod: Pod, _: int) -> tuple[float, float]:
    mark = partial(sickness.mark, stack, pod.spec.node_name)
    return _cured(stack, pod, mark, partial(mark, None))


def _flickers(stack: Stack, pod: Pod, _: int) -> tuple[float, float]:
    mark = partial(sickness.mark, stack, pod.spec.node_name)
    times = _signalled(stack, pod, mark)
    for value in (None, sickness.BAD, None, sickness.BAD):
        mark(value)
    _heal(stack, pod, partial(mark, None))
    return times


def _by_taint(stack: Stack, pod: Pod, _: int) -> tuple[float, float]:
    taint = partial(stack.kubectl, "taint", "node", pod.spec.node_name)
    return _cured(stack, pod, partial(taint, f"{_TAINT}:PreferNoSchedule"), partial(taint, f"{_TAINT}-"))


def _by_condition(type_: str, bad: str, good: str) -> Callable[[Stack, Pod, int], tuple[float, float]]:
    def suffer(stack: Stack, pod: Pod, _: int) -> tuple[float, float]:
        def say(status: str) -> None:
            told = {"type": type_, "status": status, "reason": "Bench", "message": "as asked"}
            body = msgspec.json.encode({"status": {"conditions": [told]}}).decode()
            stack.kubectl("patch", "node", pod.spec.node_name, "--subresource=status", "-p", body)

        return _cured(stack, pod, partial(say, bad), partial(say, good))

    return suffer


def _busy(stack: Stack, pod: Pod, number: int) -> tuple[float, float]:
    job = stack.sbatch(f"--nodelist={pod.name}", f"--job-name=long-{number}", script="sleep 15")
    stack.wait_for_job(job, "RUNNING", timeout_s=_BACK_S)
    times = _by_label(stack, pod, number)
    state = stack.job(job)["JobState"]
    assert state == "COMPLETED", f"job {job} is {state}: a drain ends no job"
    return times


def _slurms(stack: Stack, pod: Pod, number: int) -> tuple[float, None]:
    begun_s = time.time()
    reason = f"{_SLURMS} {number}"
    _again(lambda: stack.scontrol("update", f"nodename={pod.name}", "state=drain", f"reason={reason}"))
    record = _wait(stack, pod, State.PERSON)
    assert (record.signal, record.reason) == ("prolog", reason), f"{record.signal}: {record.reason}"
    _has_reason(stack, pod, reason)
    _again(lambda: stack.scontrol("update", f"nodename={pod.name}", "state=resume"))
    return begun_s, None


def _persons(stack: Stack, pod: Pod, number: int) -> tuple[float, None]:
    begun_s, reason, node = time.time(), f"{_PERSONS}{number}", pod.spec.node_name
    _again(lambda: stack.scontrol("update", f"nodename={pod.name}", "state=drain", f"reason={reason}"))
    sickness.mark(stack, node)
    _wait(stack, pod, State.DRAINED)
    sickness.mark(stack, node, None)
    _wait(stack, pod, State.WELL)
    _has_reason(stack, pod, reason)
    _again(lambda: stack.scontrol("update", f"nodename={pod.name}", "state=resume"))
    return begun_s, None


def _unchecked(how: str, words: str) -> Callable[[Stack, Pod, int], tuple[float, float]]:
    def suffer(stack: Stack, pod: Pod, _: int) -> tuple[float, float]:
        node = pod.spec.node_name
        sickness.fail_checks(stack, pod.name, how=how)
        times = _signalled(stack, pod, lambda: sickness.ask_for_check(stack, node))
        record = _wait(stack, pod, State.PERSON)
        assert record.signal == FAILED, record.signal
        assert record.text.startswith(words), record.text
        assert record.log.startswith(f"looking at {pod.name}"), record.log
        sickness.fail_checks(stack, pod.name, fails=False, how=how)
        sickness.ask_for_check(stack, node)
        return times

    return suffer


KINDS: Final[Mapping[str, Callable[[Stack, Pod, int], tuple[float, float | None]]]] = {
    "a label": _by_label,
    "a taint": _by_taint,
    "a condition that is True": _by_condition(_CONDITION, "True", "False"),
    "a condition that is False": _by_condition(_NOT_READY, "False", "True"),
    "a label that comes and goes": _flickers,
    "a label while a long job runs": _busy,
    "a drain of Slurm's own, for a person": _slurms,
    "a person's drain beside a label": _persons,
    "a check that fails": _unchecked("fails", "verify failed with 3"),
    "a check that hangs": _unchecked("hangs", f"verify took more than {sickness.CHECK_S} s"),
}
"""What happens to a node, in words → a function that does it, and returns when it began and when the node was drained;
None: no signal drained it.
"""


def _wait(stack: Stack, pod: Pod, *states: State) -> Record:
    return sickness.wait_for(stack, pod.spec.node_name, *states, timeout_s=_BACK_S)


def _wait_until_open(stack: Stack, pod: Pod) -> None:
    """Wait until sunkpy's drain of the node is lifted, up to a second after the Node is well. The next fault must
    not meet this drain; and a person's drain in the milliseconds in which the syncer lifts its own is lost
    (docs/design/mirror.md).
    """

    def is_open() -> bool:
        if (reason := _reason(stack, pod)).startswith(names.REASON_PREFIX):
            raise NotYet(reason)
        return True

    wait(is_open, timeout_s=_BACK_S, what=f"the drain of {pod.name} is lifted")


def _has_reason(stack: Stack, pod: Pod, reason: str) -> None:
    text = _reason(stack, pod)
    assert text == reason, f"the reason reads {text!r}, and was {reason!r}"


def _reason(stack: Stack, pod: Pod) -> str:
    """Return the drain reason of the node in Slurm, byte for byte."""
    return _again(lambda: stack.admin("sinfo", "--noheader", f"--nodes={pod.name}", "--Format=Reason:200")).rstrip()


def _again(step: Callable[[], T]) -> T:
    """Repeat a step until it succeeds: slurmctld may be busy."""
    return persist(step, timeout_s=60, what="a step of the bench")


def _starts(stack: Stack) -> Mapping[str, Sequence[float]]:
    """Return when jobs started, by Slurm node, from Slurm's accounting."""
    lines = stack.admin(
        "bash", "-c", "SLURM_TIME_FORMAT=%s sacct -anXP -S now-1day -o nodelist,start", timeout_s=120
    ).splitlines()
    found: dict[str, list[float]] = {}
    for node, _, start in (line.partition("|") for line in lines):
        if start.isdecimal():
            found.setdefault(node, []).append(float(start))
    return found


def _passed(stack: Stack, slurm_node: str) -> Sequence[float]:
    """Return when checks passed on a Slurm node."""
    return [float(line) for line in stack.login(f"cat passed-{slurm_node} 2> /dev/null || true").split()]
