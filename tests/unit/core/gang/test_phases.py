"""The phases of pods and jobs against what is decided on every walk through `course`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.actions import (
    Bind,
    Cancel,
    Evict,
    Finish,
    MakeSolo,
    NoteDevices,
    NoteJob,
    Report,
    Shorten,
    Submit,
    UpdateExcluded,
    UpdateTerms,
)
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.phases import HOLDS_NODE, OVER, GangState, PodPhase, is_over, pod_phase
from tests.unit.core.gang.course import Event, Walk, band_pod, describe, running, settled, steps
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.test_families import trio

BEGUN = st.sampled_from(["one", "trio", "in waves"])


def _begun(what, runs=False):
    begun = Walk({"one": [make_pod()], "trio": trio(), "in waves": [band_pod("leader", 0, 1)]}[what])
    return running(begun) if runs else begun


@given(st.data(), BEGUN, st.booleans())
def test_what_is_decided_is_possible_for_the_phases_of_the_pods_and_jobs(data, what, runs):
    walk = _begun(what, runs)
    for _, each in [(None, walk), *_walk(data, walk)]:
        after = each.seen
        jobs = {job.id: job for job in after.jobs}
        for action in decide_gang(after, each.policy):
            match action:
                case Bind(job=job, bindings=bindings):
                    assert {pod_phase(each.pod) for each in bindings} == {PodPhase.WAITING}
                    assert jobs[job].is_live
                case Evict(pod=pod) | Shorten(pod=pod) | NoteJob(pod=pod) | NoteDevices(pod=pod) | MakeSolo(pod=pod):
                    assert pod_phase(pod) in HOLDS_NODE or isinstance(action, MakeSolo)
                    assert pod_phase(pod) not in OVER
                case Report(pod=pod):
                    assert pod_phase(pod) is PodPhase.WAITING
                case Cancel(job=job) | Finish(job=job):
                    assert not jobs[job].is_settled
                case UpdateExcluded(job=job) | UpdateTerms(job=job):
                    assert jobs[job].slurm.is_pending
                case Submit():
                    assert not any(job.is_live for job in after.jobs)


@given(st.data())
def test_one_pod_that_had_a_node_never_waits_again(data):
    had_node = False
    for _, each in _walk(data, _begun("one")):
        after = each.seen
        had_node |= bool(after.holding)
        assert not had_node or after.state not in (GangState.WAITING, GangState.SUBMITTED, GangState.STARTED)


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        ({}, PodPhase.WAITING),
        ({"deleting": True}, PodPhase.STOPPING),
        ({"node": "k1"}, PodPhase.BOUND),
        ({"node": "k1", "running": True}, PodPhase.RUNNING),
        ({"node": "k1", "running": True, "phase": "Failed"}, PodPhase.RUNNING),
        ({"node": "k1", "running": True, "deleting": True}, PodPhase.STOPPING),
        ({"node": "k1", "deleting": True}, PodPhase.STOPPING),
        ({"node": "k1", "phase": "Succeeded", "deleting": True}, PodPhase.OVER),
        ({"node": "k1", "phase": "Succeeded"}, PodPhase.GONE),
        ({"phase": "Failed"}, PodPhase.GONE),
    ],
)
def test_a_pod_has_one_phase(fields, phase):
    assert pod_phase(make_pod(**fields)) is phase


def _walk(data, walk):
    for _ in range(data.draw(st.integers(1, 40))):
        choices = list(steps(walk))
        if not choices:
            break
        event, walk = data.draw(st.sampled_from(choices))
        yield event, walk


@given(st.data(), st.booleans(), st.booleans())
def test_members_are_bound_under_a_job_that_has_begun_on_all_its_nodes_and_at_first_together(data, in_waves, runs):
    walk = _begun("in waves" if in_waves else "trio", runs)
    snapshot = walk.seen
    for event, each in _walk(data, walk):
        after = each.seen
        new = after.holding.keys() - snapshot.holding.keys()
        if event is Event.BIND:
            (job,) = [job for job in snapshot.jobs if job.id == after.bound_to]
            assert new
            assert job.is_live
            assert not job.is_let_go
            assert set(job.nodes) == set(job.start_nodes) or snapshot.is_bound
            assert {after.placed[uid] for uid in new} <= set(job.nodes)
            assert (
                snapshot.is_bound or in_waves or after.is_half_bound or len(new) == 3 - sum(map(is_over, snapshot.pods))
            )
        else:
            assert not new
        snapshot = after


@given(st.data(), st.booleans(), st.booleans())
def test_whatever_happened_a_gang_comes_to_run_whole_or_not_at_all(data, in_waves, runs):
    """From where the walk ends Slurm starts what it can, kubelets do what they are told, owners make what is gone."""
    walk = _begun("in waves" if in_waves else "trio", runs)
    for _, after in _walk(data, walk):
        walk = after
    snapshot = settled(walk).seen
    living = [pod for pod in snapshot.pods if not is_over(pod)]
    if not snapshot.holding and not in_waves:
        assert not living or snapshot.gang.missing  # nobody makes the pods of a trio anew
    elif living:
        assert snapshot.holding.keys() == {pod.uid for pod in living}, describe(snapshot)
        assert snapshot.bound_job.is_script_running
