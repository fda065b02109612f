"""A slurmd pod under services: when a roll may replace it, and that a roll never does while another job runs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.mirror import (
    DrainNode,
    MirrorMemory,
    PatchPod,
    ServiceQuestion,
    SlurmAnswer,
    View,
    after_asking,
    after_writing,
    are_services_alone,
    decide_mirror,
    is_service,
)
from sunkpy.core.mirror.services import (
    AGREE_AFTER_S,
    ANOTHER_AFTER_S,
    PROVED_FOR_S,
    REFUSED_AFTER_S,
    REFUSED_PER_S,
    RENEW_AFTER_S,
    ServiceAnswer,
    after_answer,
    due_in_s,
    is_proved,
    question_of,
)
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode
from tests.unit.core.mirror.build import NAME, NAMESPACE, NOW_S, STARTED, STARTED_S, make_node, make_pod

ROLL = "2026-11-21T00:00:00+00:00/rollout"
REASON = "k8s: pod pending deletion: rollout"
COMMENT = "k8s:default/web-0:uid"


def make_job(number: int = 12, *, cpus: int = 2, memory_mib: int = 20, node: str = NAME, **changes: object) -> SlurmJob:
    service = SlurmJob(
        id=JobId(number),
        state=frozenset({"RUNNING"}),
        state_reason="None",
        user="k8s",
        comment=COMMENT,
        is_batch=False,
        capacity={node: Capacity(cpus=cpus, memory_mib=memory_mib)},
    )
    return msgspec.structs.replace(service, **changes)


def closed(
    state: str = "MIXED+DRAIN", *, cpus: int = 4, memory_mib: int = 40, reason: str = REASON, since_s: int = STARTED_S
) -> SlurmNode:
    node = make_node(state, reason=reason, alloc_cpus=cpus, slurmd_since_s=since_s)
    return msgspec.structs.replace(node, alloc_memory_mib=memory_mib)


def rolled(jobs: str | None = "12,15", *, token: str = ROLL, deleting: bool = False, **told: str):
    notes = {names.PREFIX + key.replace("_", "-"): value for key, value in told.items()}
    notes |= {names.ANNOTATION_JOBS: jobs} if jobs is not None else {}
    return make_pod(pending=token, annotations=notes, registered=True, deleting=deleting, started=STARTED)


QUESTION = ServiceQuestion(node=NAME, token=ROLL, jobs=(JobId(12), JobId(15)), cpus=4, memory_mib=40)


@pytest.mark.parametrize("state", ["MIXED+DRAIN", "ALLOCATED+DRAIN", "MIXED+DRAIN+NOT_RESPONDING"])
def test_a_closed_and_busy_node_of_a_pod_that_a_roll_wants_gone_is_asked_about(state):
    assert question_of(rolled(), closed(state)) == QUESTION


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        pytest.param(None, closed(), id="no pod"),
        pytest.param(rolled(), None, id="no Slurm node"),
        pytest.param(make_pod(), closed(), id="no token"),
        pytest.param(rolled(token="2026-11-21T00:00:00+00:00/scale-down"), closed(), id="another cause"),
        pytest.param(rolled(deleting=True), closed(), id="it goes already"),
        pytest.param(rolled(None), closed(), id="no jobs noted"),
        pytest.param(rolled(""), closed(), id="none"),
        pytest.param(rolled("12,x"), closed(), id="something else noted"),
        pytest.param(rolled("12,²"), closed(), id="something like a number"),
        pytest.param(rolled("1,2,3,4,5"), closed(), id="more jobs than cpus in use"),
        pytest.param(rolled(), closed("MIXED"), id="still open"),
        pytest.param(rolled(), closed(reason="bad gpu"), id="closed by somebody else"),
        pytest.param(rolled(), closed("MIXED+DRAIN+COMPLETING"), id="an Epilog runs"),
        pytest.param(rolled(), closed("MIXED+DRAIN+INVALID_REG"), id="its slurmd has another size"),
        pytest.param(rolled(), closed("DOWN+DRAIN"), id="down: Slurm has given its jobs up"),
        pytest.param(rolled(), closed("UNKNOWN+DRAIN"), id="not known"),
        pytest.param(rolled(), closed(since_s=0), id="slurmctld has just started, and has not heard of it"),
        pytest.param(rolled(), closed("IDLE+DRAIN", cpus=0, memory_mib=0), id="empty"),
        pytest.param(rolled(), closed(memory_mib=0), id="memory is not handed out: a cpu that jobs share counts once"),
    ],
)
def test_any_other_is_not(pod, node):
    assert question_of(pod, node) is None


def test_jobs_of_several_pods_are_noted_once():
    found = question_of(rolled("12,012,15"), closed())
    assert found is not None
    assert found.jobs == (12, 15)


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"is_batch": True}, False),
        ({"user": "ada"}, False),
        ({"user": "ada", "admin_comment": COMMENT}, False),
        ({"comment": "my own"}, False),
        ({"state": frozenset({"RUNNING", "COMPLETING"})}, False),
        ({"state": frozenset({"RUNNING", "CONFIGURING"})}, False),
        ({"state": frozenset({"SUSPENDED"})}, False),
        ({"state": frozenset({"CANCELLED"})}, False),
        ({"state_reason": "Prolog"}, False),
    ],
    ids=str,
)
def test_a_service_is_an_allocation_of_the_schedulers_own_past_its_prolog(changes, holds):
    assert is_service(make_job(**changes), scheduler="k8s") is holds


@pytest.mark.parametrize(
    ("jobs", "holds"),
    [
        ([make_job(12), make_job(15)], True),
        ([make_job(12, cpus=3, memory_mib=30), make_job(15, cpus=1, memory_mib=10)], True),
        ([make_job(12)], False),
        ([make_job(12, cpus=4, memory_mib=40)], False),
        ([make_job(12), make_job(15, cpus=1)], False),
        ([make_job(12), make_job(15, memory_mib=10)], False),
        ([make_job(12, cpus=4, memory_mib=40), make_job(15, node="other")], False),
        ([make_job(12), make_job(15, is_batch=True)], False),
        ([make_job(12), make_job(15), make_job(16, cpus=0, memory_mib=0)], False),
        ([make_job(12), make_job(15, cpus=3)], False),
    ],
    ids=[
        "two that have all",
        "in other parts",
        "one was not found",
        "one was not found, and the other has all",
        "somebody else has a cpu",
        "somebody else has memory: a job that is suspended",
        "one that is not there",
        "one is a batch job",
        "one that was not asked for",
        "they have more than was given away",
    ],
)
def test_services_are_alone_when_they_have_all_that_the_node_has_given_away(jobs, holds):
    assert are_services_alone(QUESTION, jobs, scheduler="k8s") is holds


OTHER = msgspec.structs.replace(QUESTION, cpus=3)


@pytest.mark.parametrize(
    ("look", "due_s"),
    [
        (None, 0.0),
        (ServiceAnswer(question=QUESTION, at_s=NOW_S, agreed=1), AGREE_AFTER_S),
        (ServiceAnswer(question=QUESTION, at_s=NOW_S, agreed=2), RENEW_AFTER_S),
        (ServiceAnswer(question=QUESTION, at_s=NOW_S, agreed=7), RENEW_AFTER_S),
        (ServiceAnswer(question=QUESTION, at_s=NOW_S, agreed=0), REFUSED_AFTER_S),
        (ServiceAnswer(question=OTHER, at_s=NOW_S, agreed=0), ANOTHER_AFTER_S),
        (ServiceAnswer(question=OTHER, at_s=NOW_S, agreed=2), ANOTHER_AFTER_S),
    ],
)
def test_slurm_is_asked_quickly_only_where_that_leads_somewhere(look, due_s):
    assert due_in_s(look, QUESTION, NOW_S, slurm_nodes=1000) == due_s


@pytest.mark.parametrize("nodes", [10_000, 50_000])
def test_a_large_cluster_is_asked_no_more_often_than_slurm_can_bear(nodes):
    refused = ServiceAnswer(question=QUESTION, at_s=NOW_S, agreed=0)
    assert nodes / due_in_s(refused, QUESTION, NOW_S, slurm_nodes=nodes) <= REFUSED_PER_S


def test_two_looks_at_one_question_prove_it_for_a_while():
    first = after_answer(None, QUESTION, is_yes=True, at_s=0)
    second = after_answer(first, QUESTION, is_yes=True, at_s=2)
    assert [is_proved(look, QUESTION, 2) for look in (None, first, second)] == [False, False, True]
    assert is_proved(second, QUESTION, 2 + PROVED_FOR_S)
    assert not is_proved(second, QUESTION, 3 + PROVED_FOR_S)
    assert not is_proved(second, OTHER, 2)
    assert not is_proved(after_answer(second, OTHER, is_yes=True, at_s=4), OTHER, 4)
    assert not is_proved(after_answer(second, QUESTION, is_yes=False, at_s=4), QUESTION, 4)


class World:
    """One Slurm node with its jobs, its slurmd pod, and the mirror between them; Slurm is asked as the loop asks it.

    `jobs` are those that have not ended. `noted` are the jobs that the operator wrote on the pod, right or wrong.
    """

    def __init__(self, noted: str) -> None:
        self.now_s = NOW_S
        self.number = 0
        self.jobs: dict[int, SlurmJob] = {}
        self.is_open = True
        self.pod = rolled(noted)
        self.memory = MirrorMemory()
        self.answer = self._poll()

    def begin(self, number: int, is_service: bool, cpus: int) -> None:
        if self.is_open and number not in self.jobs:
            self.jobs[number] = make_job(number, cpus=cpus, memory_mib=10 * cpus, is_batch=not is_service)

    def end(self, number: int) -> None:
        self.jobs.pop(number, None)

    def suspend(self, number: int) -> None:
        if number in self.jobs:
            self.jobs[number] = msgspec.structs.replace(self.jobs[number], state=frozenset({"SUSPENDED"}))

    def resume(self, number: int) -> None:
        if number in self.jobs:
            self.jobs[number] = msgspec.structs.replace(self.jobs[number], state=frozenset({"RUNNING"}))

    def poll(self) -> None:
        self.now_s += 1.0
        self.answer = self._poll()

    def decide(self, meanwhile: list[Event]) -> None:
        """One pass of the mirror. While Slurm is asked for jobs, other things happen."""
        view = View(name=NAME, namespace=NAMESPACE, pod=self.pod, answer=self.answer, memory=self.memory)
        decision = decide_mirror(view, self.now_s)
        self.memory = decision.memory
        for action in decision.actions:
            match action:
                case DrainNode():
                    self.is_open = False
                case PatchPod():
                    self._tell(action)
        self.memory = after_writing(self.memory, decision.actions, self.now_s) if self._wrote(decision) else self.memory
        if decision.question is not None and not self._wrote(decision):
            self._ask(decision.question, meanwhile)

    def _ask(self, question: ServiceQuestion, meanwhile: list[Event]) -> None:
        at_s, found, coming = self.now_s, [], list(meanwhile)
        for number in question.jobs:
            if number in self.jobs:
                found.append(self.jobs[number])
            if coming:
                self.do(coming.pop())
        is_yes = are_services_alone(question, found, scheduler="k8s")
        self.memory = after_asking(self.memory, question, is_yes=is_yes, at_s=at_s)

    def do(self, event: Event) -> None:
        name, *args = event
        getattr(self, name)(*args)

    @property
    def is_told(self) -> bool:
        return self.pod.annotations.get(names.ANNOTATION_REPLACEABLE) == ROLL

    @staticmethod
    def _wrote(decision) -> bool:
        return any(not isinstance(action, PatchPod) for action in decision.actions)

    def _tell(self, patch: PatchPod) -> None:
        if patch.annotations.get(names.ANNOTATION_REPLACEABLE) is not None:
            assert all(not job.is_batch for job in self.jobs.values()), "a batch job would die with its slurmd"
        kept = {key: value for key, value in (self.pod.annotations | patch.annotations).items() if value is not None}
        metadata = msgspec.structs.replace(self.pod.metadata, annotations=kept)
        self.pod = msgspec.structs.replace(self.pod, metadata=metadata)

    def _poll(self) -> SlurmAnswer:
        self.number += 1
        running = [job for job in self.jobs.values() if job.is_running]
        cpus = sum(room.cpus for job in running for room in job.capacity.values())
        memory_mib = sum(room.memory_mib for job in self.jobs.values() for room in job.capacity.values())
        state = ("MIXED" if cpus else "IDLE") + ("" if self.is_open else "+DRAIN")
        node = closed(state, cpus=cpus, memory_mib=memory_mib, reason="" if self.is_open else REASON)
        return SlurmAnswer(node=node, number=self.number, at_s=self.now_s)


Event = tuple[object, ...]

numbers = st.integers(1, 4)
changes = st.one_of(
    st.tuples(st.just("begin"), numbers, st.booleans(), st.integers(1, 2)),
    st.tuples(st.just("end"), numbers),
    st.tuples(st.just("suspend"), numbers),
    st.tuples(st.just("resume"), numbers),
)
few_changes = st.just([]) | st.just([]) | st.lists(changes, max_size=2)
rounds = st.lists(st.tuples(few_changes, st.sampled_from([True, True, False]), few_changes), min_size=6, max_size=12)


@settings(max_examples=500)
@given(begun=st.lists(st.booleans(), min_size=1, max_size=3), is_exact=st.booleans(), course=rounds)
def test_a_roll_is_never_told_that_a_pod_may_go_from_under_a_batch_job(begun, is_exact, course):
    noted = [number for number, is_service in enumerate(begun, 1) if is_service or not is_exact]
    world = World(",".join(map(str, noted)))
    for number, is_of_pods in enumerate(begun, 1):
        world.begin(number, is_of_pods, 1)
    for before, is_polled, meanwhile in course:
        for change in before:
            world.do(change)
        if is_polled:
            world.poll()
        world.decide(meanwhile)


@given(services=st.lists(st.integers(1, 2), min_size=1, max_size=3))
def test_it_is_told_of_services_within_seconds(services):
    world = World(",".join(str(number) for number, _ in enumerate(services, 1)))
    for number, cpus in enumerate(services, 1):
        world.begin(number, True, cpus)
    for _ in range(8):
        world.poll()
        world.decide([])
    assert world.is_told
    world.end(1)
    world.poll()
    world.decide([])
    assert not world.is_told, "what was proved is another question now"


def test_it_is_withdrawn_when_slurm_cannot_be_read():
    world = World("1")
    world.begin(1, True, 2)
    for _ in range(8):
        world.poll()
        world.decide([])
    assert world.is_told
    world.now_s += 60
    world.decide([])
    assert not world.is_told
    assert world.memory.answered is None
