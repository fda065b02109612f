"""How a slurmd pod is removed, and why it is not removed under a running job.

The operator writes a token on the pod (`sunkpy.dev/pending-deletion: <time>/<cause>`): the pod is now marked. The
syncer drains the Slurm node and, when Slurm has said "drained and idle" twice, copies the token to
`sunkpy.dev/drained`, with the time of that answer in `sunkpy.dev/drained-at`. This copy is the receipt. A pod is
deleted only if token and receipt are equal and the time is recent, and not while its condition `SlurmRunning` is True
(`_live_step`). Removing the token cancels the removal. A later token differs, so an old receipt never counts for a new
token. The delete itself names uid and resourceVersion, so it fails if the pod has changed since.

One cause is answered sooner. A rolling update replaces the pod by one of the same Slurm node, and services (jobs
without a process on the node) survive until the next slurmd is there. If only services run, the syncer copies the token
to `sunkpy.dev/replaceable`, which counts for rolling updates only (`core.mirror.services`,
`rollout.choose_replaceable`). To let the syncer check that, the operator writes the jobs of the node on the pod.

So a marked pod that stays waits for its jobs, for the syncer's receipt, or for both: compare the two annotations. Only
`drainTimeoutPolicy: Force`, which a person has to set, deletes a running pod without a receipt.

A finished pod (Failed, Succeeded) runs nothing and is deleted without being drained: at once, or, when pods on its node
fail one after the other, after a pause that grows with each failure.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import chain, islice, takewhile
from math import inf

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import CAUSE_IDLE, CAUSE_ROLLOUT, Token, token_of
from sunkpy.core.model.times import backoff_s, parse_rfc3339
from sunkpy.core.nodeset.actions import AnnotateJobs, CancelPending, DeletePod, MarkPending, RemovalStep
from sunkpy.core.nodeset.pod_state import is_answered, is_free, is_replaceable
from sunkpy.core.nodeset.slurmd_pod import explain_offer, node_of
from sunkpy.core.nodeset.verdict import PodVerdict, Trait
from sunkpy.core.nodeset.world import WAVE, World

RECEIPT_HOLDS_S = 30.0
"""The seconds for which a receipt (the syncer's answer that nothing runs on the node) counts. The syncer renews a valid
one every 10 s; the rest allows for clocks that differ. A receipt whose time is further in the future than this does not
count either, because nobody could see how old it is.
"""

MARK_HELD_S = 60.0
"""The seconds that a mark stays on a busy pod before it may move to an idle one. Short jobs end meanwhile, and what a
pod shows of its jobs may be old.
"""

_FAILED_PAUSE_MAX_S = 300.0


class RemovalCause(enum.StrEnum):
    """Why a slurmd pod has to be removed. The cause is part of the removal token on the pod, and people read it in the
    drain reason of the Slurm node.
    """

    SCALE_DOWN = "scale-down"
    ROLLOUT = CAUSE_ROLLOUT
    NODESET_DELETED = "nodeset-deleted"
    NODE_LEFT = "node-left"
    IDLE = CAUSE_IDLE
    VERIFICATION = "verification"  # the next pod checks the machine


def leaves(pod: Pod) -> bool:
    """True if the pod is marked for removal (by a token) and no other pod is to follow it on its node. False for a
    rolling update or a check of the machine, after which the node gets another pod.
    """
    token = token_of(pod)
    return token is not None and not token.is_rollout and token.cause != RemovalCause.VERIFICATION


def plan_removals(
    world: World, wanted_gone: Mapping[str, RemovalCause], replaceable: Collection[str] = ()
) -> list[RemovalStep]:
    """Return the next steps for pods that have to go or no longer have to: at most `WAVE` steps (250), and one more to
    show that there are more.

    Steps that keep a pod or delete one come before steps that begin another removal. `wanted_gone`: uid → why the pod
    has to go. `replaceable`: uids of pods that a rolling update may replace under running services.
    """
    steps = (
        DeletePod(pod, "replaced") if pod.uid in replaceable else _next_step(world, pod, wanted_gone.get(pod.uid))
        for pod in _in_question(world, wanted_gone)
    )
    return list(islice((step for step in steps if step is not None), WAVE + 1))


def _in_question(world: World, wanted_gone: Mapping[str, RemovalCause]) -> Iterator[Pod]:
    """Yield the pods for which there may be a step. A pod that is marked for removal and still has to go is left out
    until the syncer answers, unless the NodeSet has a drain timeout.
    """
    survey = world.survey
    marked, finished = survey.those(Trait.MARKED), survey.those(Trait.FINISHED)
    called_off = marked.keys() - wanted_gone.keys()
    may_be_due = marked if world.nodeset.spec.drain_timeout_seconds is not None else survey.those(Trait.ANSWERED)
    unmarked = (uid for uid in wanted_gone if uid not in marked)
    replaceable, untold = survey.those(Trait.REPLACEABLE), survey.those(Trait.UNTOLD)
    for uid in dict.fromkeys(chain(called_off, may_be_due, finished, replaceable, untold, unmarked)):
        yield survey.pods[uid].pod


def _next_step(world: World, pod: Pod, cause: RemovalCause | None) -> RemovalStep | None:
    if pod.is_deleting:
        return None
    return _finished_step(world, pod, cause) if pod.is_finished else _live_step(world, pod, cause)


def _finished_step(world: World, pod: Pod, cause: RemovalCause | None) -> RemovalStep | None:
    """Return the step that deletes a finished pod. If it has no `cause` to go and only blocks the next pod on its node,
    return None until the pause after its failure is over.
    """
    if cause is not None or _pause_left_s(world, pod) <= 0:
        return DeletePod(pod, "failed")
    return None


def _live_step(world: World, pod: Pod, cause: RemovalCause | None) -> RemovalStep | None:
    """Return the next step for a live pod; None if it has to wait. With a `cause`: mark it for removal, and delete it
    when the syncer has answered, unless the pod's condition says that a job runs. After the drain timeout, `Force`
    deletes it anyway. While it waits in a rolling update, the jobs on its node are noted on it. Without a cause: remove
    its mark.
    """
    token = token_of(pod)
    if cause is None:
        return CancelPending(pod) if token is not None else None
    if token is None:
        judged = world.survey.pods[pod.uid]
        of_cause = {
            RemovalCause.NODE_LEFT: judged.why,
            RemovalCause.ROLLOUT: explain_offer(pod, judged.offer),
            RemovalCause.IDLE: f"no job for {world.nodeset.spec.growth.release_after_seconds} s",
        }
        why = of_cause.get(cause, "")
        return MarkPending(pod, Token(world.now, f"{cause}: {why}" if why else cause))
    if is_cleared(pod, world.now) and not pod.is_condition_true(names.CONDITION_RUNNING):
        return DeletePod(pod, "drained")
    if _is_overdue(world, pod) and world.nodeset.spec.drain_timeout_policy == "Force":
        return DeletePod(pod, "drain-timeout")
    untold = world.survey.those(Trait.UNTOLD).get(pod.uid)
    return AnnotateJobs(pod, untold.jobs) if untold is not None and cause is RemovalCause.ROLLOUT else None


def marks_to_move(marked: Sequence[PodVerdict], next_ones: Iterable[PodVerdict], now: datetime) -> Set[str]:
    """Return uids of busy pods that lose their mark for removal, so that idle pods are marked in their place.

    Args:
        marked: pods that are to go, most wanted first.
        next_ones: pods that would be taken after these, most wanted first.
        now: the time of the decision.
    """
    free = list(islice(takewhile(lambda judged: is_free(judged.order), next_ones), len(marked)))
    busy = [judged.pod.uid for judged in marked if _mark_left_s(judged, now) <= 0] if free else []
    return frozenset(busy[max(len(busy) - len(free), 0) :])


def _mark_left_s(judged: PodVerdict, now: datetime) -> float:
    """Return how many seconds a pod's removal mark still has to stay before it may move to another pod. Infinite if the
    pod has no mark, or if moving it gains nothing because the pod runs no job or is not Ready.
    """
    token = token_of(judged.pod) if Trait.RUNS in judged.traits and Trait.STAYING_UNREADY not in judged.traits else None
    return inf if token is None else MARK_HELD_S - (now - token.since).total_seconds()


def _mark_waits_s(world: World) -> Iterator[float]:
    """Yield for each marked pod the seconds until its removal mark may move to another pod (infinite: it does not
    move). Yield nothing if no idle pod could take a mark.
    """
    survey = world.survey
    orders = (survey.outdated,) if world.nodeset.spec.replicas is None else (survey.outdated, survey.staying)
    next_ones = (next((judged for judged in order if judged.order[0]), None) for order in orders)
    if any(judged is not None and is_free(judged.order) for judged in next_ones):
        yield from (_mark_left_s(judged, world.now) for judged in survey.those(Trait.MARKED).values())


def is_cleared(pod: Pod, now: datetime) -> bool:
    """True if the syncer has lately answered exactly the removal token that is on the pod: nothing runs on its node any
    more.

    An answer older than `RECEIPT_HOLDS_S` does not count: somebody may have opened the node again since, and a syncer
    that is down does not withdraw its answer.
    """
    return is_answered(pod) and has_fresh_receipt(pod, now)


def has_fresh_receipt(pod: Pod, now: datetime) -> bool:
    """True if the syncer's last answer that nothing runs on the pod's node (`sunkpy.dev/drained-at`) is less than
    `RECEIPT_HOLDS_S` old. The answer counts whether the pod's removal or another question asked for it.
    """
    return _is_fresh(pod.annotations.get(names.ANNOTATION_DRAINED_AT, ""), now)


def may_be_replaced(pod: Pod, now: datetime) -> bool:
    """True if the syncer has lately answered that only services run on the pod's node: jobs that survive if the next
    slurmd comes soon. Only a rolling update may delete a pod because of this answer.
    """
    return is_replaceable(pod) and _is_fresh(pod.annotations.get(names.ANNOTATION_REPLACEABLE_AT, ""), now)


def _is_fresh(time: str, now: datetime) -> bool:
    try:
        since = parse_rfc3339(time)
        return abs((now - since).total_seconds()) < RECEIPT_HOLDS_S
    except (ValueError, TypeError):
        return False  # no time, or one without a zone


def _timeout_left_s(world: World, pod: Pod) -> float | None:
    timeout_s = world.nodeset.spec.drain_timeout_seconds
    token = token_of(pod) if timeout_s is not None else None
    if token is None or timeout_s is None:
        return None
    return timeout_s - (world.now - token.since).total_seconds()


def find_overdue(world: World, wanted_gone: Mapping[str, RemovalCause]) -> list[Pod]:
    """Return the pods that have to go and whose drain takes longer than `drainTimeoutSeconds`; none without that
    setting.
    """
    if world.nodeset.spec.drain_timeout_seconds is None:
        return []
    marked = world.survey.those(Trait.MARKED)
    return [judged.pod for uid, judged in marked.items() if uid in wanted_gone and _is_overdue(world, judged.pod)]


def _is_overdue(world: World, pod: Pod) -> bool:
    left_s = _timeout_left_s(world, pod)
    return left_s is not None and left_s <= 0


def _pause_left_s(world: World, pod: Pod) -> float:
    """Return the seconds until a failed pod may be replaced (0 or less: now). The pause counts from the pod's creation,
    and grows with the failures in a row on its node: 1, 2, 4 … 300 s.
    """
    count = world.failures.get(node_of(pod), 0)
    pause_s = 0.0 if count == 0 else backoff_s(count - 1, first_s=1.0, last_s=_FAILED_PAUSE_MAX_S)
    created = pod.metadata.creation_timestamp
    age_s = (world.now - parse_rfc3339(created)).total_seconds() if created else 0.0
    return pause_s - age_s


def next_look_s(world: World) -> float | None:
    """Return the seconds until the decision may change only because time passes, for example when a drain timeout or a
    pause ends; None if there is no such time.
    """
    finished = world.survey.those(Trait.FINISHED)
    timed = world.survey.those(Trait.MARKED) if world.nodeset.spec.drain_timeout_seconds is not None else {}
    waits = [left_s for judged in timed.values() if (left_s := _timeout_left_s(world, judged.pod)) is not None]
    waits += [left_s for left_s in _mark_waits_s(world) if left_s < inf]
    waits += [_pause_left_s(world, judged.pod) for judged in finished.values() if not judged.pod.is_deleting]
    waits += [wait_s for wait_s in (world.offers_settle_in_s, world.idle_in_s) if wait_s is not None]
    return min((wait_s for wait_s in waits if wait_s > 0), default=None)
