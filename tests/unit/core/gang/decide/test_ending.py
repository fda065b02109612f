"""How long pods may take to end whose job has lost the node."""

import msgspec
import pytest

from sunkpy.core.gang.access import AccessRule, restricted
from sunkpy.core.gang.actions import Evict, Shorten, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.decide.ending import at_most
from sunkpy.core.model.times import parse_rfc3339
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.test_decide import POLICY, job, snapshot

LONGEST_S = POLICY.longest_grace_s


def ended(**pod):
    return decide_gang(snapshot(make_pod(node="k1", running=True, **pod), job("PREEMPTED", "COMPLETING")), POLICY)


@pytest.mark.parametrize(
    ("asked_s", "given_s"),
    [(None, None), (30, None), (0, 1), (LONGEST_S, None), (LONGEST_S + 1, LONGEST_S), (86400, LONGEST_S)],
)
def test_an_evicted_pod_gets_no_longer_than_its_epilog_waits(asked_s, given_s):
    (evict,) = ended(termination_grace_period_seconds=asked_s)
    assert (type(evict), evict.grace_s) == (Evict, given_s)


@pytest.mark.parametrize(
    ("partition", "by_map_s", "given_s"),
    [
        ("low", 0, 90),
        ("high", 0, 1200),
        ("low,high", 0, 90),
        ("high,other", 0, 300),
        ("other", 0, 300),
        ("low", 600, 600),
    ],
)
def test_a_partition_gives_pods_more_time_or_less_where_the_map_says_nothing(partition, by_map_s, given_s):
    policy = msgspec.structs.replace(POLICY, partition_grace_s={"low": 90, "high": 1200})
    pod = make_pod(node="k1", running=True, termination_grace_period_seconds=86400)
    pods = snapshot(msgspec.structs.replace(pod, metadata=annotated(pod, partition)), job("PREEMPTED"))
    rule = AccessRule(partitions=("*",), longest_grace_seconds=by_map_s)
    (evict,) = decide_gang(msgspec.structs.replace(pods, gang=restricted(pods.gang, rule)), policy)
    assert evict.grace_s == given_s


def test_pods_that_name_no_partition_have_the_time_of_the_default_one():
    policy = msgspec.structs.replace(POLICY, partition_grace_s={"low": 90}, default_partition="low")
    pods = snapshot(make_pod(node="k1", running=True, termination_grace_period_seconds=86400), job("PREEMPTED"))
    gang = restricted(pods.gang, AccessRule(partitions=("*",)), default_partition="low")
    (evict,) = decide_gang(msgspec.structs.replace(pods, gang=gang), policy)
    assert evict.grace_s == 90


def annotated(pod, partition):
    return msgspec.structs.replace(pod.metadata, annotations={**pod.annotations, "sunkpy.dev/partition": partition})


@pytest.mark.parametrize(("by_map_s", "given_s"), [(0, 300), (1800, 1800), (60, 60)])
def test_the_map_of_namespaces_gives_pods_more_time_or_less(by_map_s, given_s):
    pods = snapshot(make_pod(node="k1", running=True, termination_grace_period_seconds=86400), job("PREEMPTED"))
    gang = restricted(pods.gang, AccessRule(longest_grace_seconds=by_map_s))
    (evict,) = decide_gang(msgspec.structs.replace(pods, gang=gang), POLICY)
    assert evict.grace_s == given_s
    waiting = snapshot(make_pod(termination_grace_period_seconds=1000))
    gang = restricted(waiting.gang, AccessRule(longest_grace_seconds=by_map_s))
    reasons = [getattr(a, "reason", "") for a in decide_gang(msgspec.structs.replace(waiting, gang=gang), POLICY)]
    assert ("GraceTooLong" in reasons) == (given_s < 1000)


@pytest.mark.parametrize(("given_s", "is_shortened"), [(None, False), (30, False), (LONGEST_S, False), (86400, True)])
def test_a_pod_that_somebody_else_gave_longer_gets_less(given_s, is_shortened):
    (action,) = ended(deleting=True, grace=given_s, termination_grace_period_seconds=86400)
    assert isinstance(action, Shorten if is_shortened else Evict)
    assert not is_shortened or action.grace_s == LONGEST_S


NOON = parse_rfc3339("2026-11-22T12:00:00Z")


@pytest.mark.parametrize(
    ("until", "given_s"),
    [
        (None, 60),
        ("2026-11-23T12:00:00Z", 60),
        ("2026-11-22T12:00:30Z", 30),
        ("2026-11-22T12:00:00.4Z", 1),
        ("2026-11-22T11:59:59Z", 60),  # its kubelet has heard of it late, and counts from then
    ],
)
def test_a_pod_that_goes_already_is_given_no_longer_than_it_has_left(until, given_s):
    pod = make_pod(node="k1", running=True)
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=until)
    assert at_most(60, msgspec.structs.replace(pod, metadata=metadata), now=NOON) == given_s


def test_a_pod_whose_job_has_its_node_may_take_as_long_as_it_likes():
    pod = make_pod(node="k1", running=True, deleting=True, grace=86400)
    assert decide_gang(snapshot(pod, job("RUNNING", nodes=("n1",)), bound_to=7), POLICY) == []


def test_a_grace_period_that_no_epilog_waits_for_is_told_before_the_pod_starts():
    warn, submit = decide_gang(snapshot(make_pod(termination_grace_period_seconds=7200)), POLICY)
    assert (warn.reason, type(submit)) == ("GraceTooLong", Submit)
    assert warn.note == (
        "its grace period is 7200 s, but if its job loses the node, the pod gets only 300 s "
        "(longestGraceSeconds of the Slurm cluster, partition or namespace); then its containers are killed"
    )
