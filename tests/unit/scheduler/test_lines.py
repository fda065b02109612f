"""Gangs that Slurm refuses for a limit of an association or QoS."""

import pytest
from msgspec.structs import replace

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import SlurmJob
from sunkpy.scheduler.jobs.lines import SubmitLines
from tests.doubles.leading import make_leader
from tests.unit.scheduler.world import World, leading

LIMITED, ANOTHER = JobSpec(user="ann", partition="low"), JobSpec(user="bob", partition="low")
HUGE = replace(LIMITED, tasks=1000)
WHY = "Job violates accounting/QOS policy"


class Queue:
    """Gangs that ask when they may; Slurm has room for some of their jobs."""

    def __init__(self):
        self.now = 0.0
        leader = make_leader(clock=lambda: self.now)
        self.ledger = leader.ledger
        self.lines = SubmitLines(leader)
        self.free = 0
        self.too_large = set()
        self.specs = {}
        self.taken = []
        self.asked = 0

    def come(self, name, spec=LIMITED, *, namespace="default"):
        """What it is told, if it has to wait."""
        self.now += 1.0
        record = self.ledger.ensure(GangId(namespace=namespace, name=name, uid=name))
        self.specs[record.id] = replace(spec, name=name, comment=f"k8s:{namespace}/{name}:{name}")
        self.ask(record)
        return record.refused

    def ask(self, record):
        spec = self.specs[record.id]
        if self.now < record.retry_at or self.lines.why_waits(record, spec):
            return
        self.asked += 1
        if self.free and record.id.name not in self.too_large and spec.tasks < HUGE.tasks:
            self.free -= 1
            self.taken.append(record.id.name)
            self.lines.left(record, spec, is_taken=True)
            self.ledger.forget(record)
        else:
            self.lines.refused(record, spec, f"submit job {record.id.name}: {WHY}")

    def pass_turn(self):
        self.now += 5.0
        self.lines.next_turn()
        before = None
        while before != self.asked:
            before = self.asked
            for record in self.ledger:
                self.ask(record)

    def turns(self, count, free=0):
        for _ in range(count):
            self.free = free
            self.pass_turn()


@pytest.fixture
def queue():
    return Queue()


def test_who_comes_while_others_wait_goes_behind_them(queue):
    for name in ("a", "b", "c"):
        queue.come(name)
    queue.free = 1
    queue.come("newest")
    assert queue.taken == []
    queue.turns(4, free=1)
    assert queue.taken == ["a", "b", "c", "newest"]


def test_what_is_free_at_once_is_taken_in_one_turn_and_the_line_is_forgotten(queue):
    for number in range(50):
        queue.come(f"{number:02}")
    queue.turns(1, free=50)
    assert queue.taken == [f"{number:02}" for number in range(50)]
    queue.turns(1)
    queue.free = 1
    queue.come("newest")
    assert queue.taken[-1] == "newest"


def test_a_full_limit_costs_slurm_two_requests_a_turn_however_many_wait(queue):
    for number in range(50):
        queue.come(str(number))
    asked = queue.asked
    queue.turns(10)
    assert queue.asked - asked == 20


def test_jobs_that_are_refused_for_their_size_keep_nobody_waiting(queue):
    queue.too_large = {"huge", "large"}
    for name in ("huge", "large", "a", "b", "c"):
        queue.come(name)
    queue.turns(12, free=1)
    assert sorted(queue.taken) == ["a", "b", "c"]
    queue.too_large = set()
    queue.turns(100, free=1)
    assert sorted(queue.taken[3:]) == ["huge", "large"]


def test_one_that_is_gone_keeps_nobody_waiting(queue):
    for name in ("a", "b", "c"):
        queue.come(name)
    queue.ledger.forget(queue.ledger.get(GangId(namespace="default", name="a", uid="a")))
    queue.turns(1, free=1)
    assert queue.taken == ["b"]


def test_one_that_does_not_ask_when_it_may_keeps_nobody_waiting(queue):
    """A member of it may be missing now."""
    for name in ("a", "b", "c"):
        queue.come(name)
    silent = queue.ledger.get(GangId(namespace="default", name="a", uid="a"))
    ask = queue.ask
    queue.ask = lambda record: None if record is silent else ask(record)
    queue.turns(3, free=1)
    assert queue.taken == ["b", "c"]


def test_behind_one_that_does_not_ask_all_that_is_free_is_taken_in_one_turn(queue):
    for number in range(50):
        queue.come(f"{number:02}")
    silent = queue.ledger.get(GangId(namespace="default", name="00", uid="00"))
    ask = queue.ask
    queue.ask = lambda record: None if record is silent else ask(record)
    queue.turns(1)
    queue.turns(1, free=50)
    assert len(queue.taken) == 49


def test_one_that_got_a_job_without_asking_may_ask_again_when_it_has_lost_that(queue):
    """The answer to the submit was lost."""
    for name in ("a", "b"):
        queue.come(name)
    record = queue.ledger.get(GangId(namespace="default", name="b", uid="b"))
    queue.lines.refused(record, LIMITED, WHY)
    queue.ledger.add_job(record, SlurmJob(id=7, state=frozenset({"RUNNING"})))
    queue.lines.next_turn()
    assert record.retry_at == 0.0


def test_each_association_has_a_line_of_its_own(queue):
    queue.come("a")
    queue.free = 1
    queue.come("others", spec=ANOTHER)
    assert queue.taken == ["others"]


@pytest.mark.parametrize(("namespace", "spec"), [("honest", HUGE), ("honest", LIMITED), ("default", LIMITED)])
def test_who_asks_for_something_else_or_in_another_namespace_waits_for_none_that_is_always_refused(
    queue, namespace, spec
):
    for number in range(1000):
        queue.come(f"evil-{number}", spec=HUGE)
    assert queue.asked == 1
    told = [queue.come(f"honest-{number}", spec=spec, namespace=namespace) for number in range(20)]
    assert all(why == f"submit job honest-0: {WHY}" for why in told)
    assert queue.asked == 2
    if spec == HUGE:
        return
    queue.turns(2, free=20)
    assert queue.taken == [f"honest-{number}" for number in range(20)]
    assert queue.asked <= 2 + 20 + 20 + 2 * 2
    for number in range(10):
        queue.turns(1)
        queue.free = 1
        queue.come(f"later-{number}", spec=spec, namespace=namespace)
        assert queue.taken[-1] == f"later-{number}"


def test_a_job_that_slurm_takes_at_once_costs_those_in_line_no_request(queue):
    for number in range(10):
        queue.come(f"evil-{number}", spec=HUGE)
    asked, queue.free = queue.asked, 10
    for number in range(10):
        queue.come(f"honest-{number}", namespace="honest")
    queue.turns(1)
    assert (len(queue.taken), queue.asked - asked) == (10, 10 + 2)


def test_a_thousand_different_requests_that_are_always_refused_hold_up_no_other_in_their_namespace_for_long(queue):
    """Each is tried once when it comes, as any job is; from then on a turn costs two requests."""
    for number in range(1000):
        queue.come(f"huge-{number}", spec=replace(HUGE, tasks=HUGE.tasks + number))
    for number in range(20):
        queue.come(f"honest-{number}", namespace="honest")
        queue.come(f"small-{number}")
    assert queue.asked == 1000 + 2
    queue.turns(1, free=20)
    assert queue.taken == [f"honest-{number}" for number in range(20)]
    asked = queue.asked
    queue.turns(10)
    assert queue.asked - asked == 20


def test_one_that_comes_to_ask_for_less_is_tried_at_once_and_stands_in_one_place(queue):
    for name in ("a", "b", "c"):
        queue.come(name, spec=HUGE)
    record = queue.ledger.get(GangId(namespace="default", name="b", uid="b"))
    record.forgive()
    queue.come("b")
    assert queue.asked == 2
    queue.turns(2, free=1)
    assert queue.taken == ["b"]
    asked = queue.asked
    queue.turns(5)
    assert queue.asked - asked == 10


def test_of_very_many_namespaces_each_has_its_turn_and_none_costs_more(queue):
    for number in range(100):
        queue.come(f"web-{number}", namespace=f"team-{number}")
    asked = queue.asked
    queue.turns(1)
    assert queue.asked - asked == 20
    queue.turns(4)
    assert queue.asked - asked == 100
    queue.turns(5, free=100)
    assert len(queue.taken) == 100


async def test_pods_alike_that_are_always_refused_cost_few_requests_and_another_namespace_neither_waits_nor_sees_them(
    tmp_path,
):
    world = World()
    world.add_node(1, **{"nvidia.com/gpu": "4"})
    world.hasten(again_s=3600.0)
    world.slurm.reject_gres = 2050
    gpu = {"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    async with leading(world, tmp_path):
        for number in range(100):
            world.add_pod(f"secret-{number}", namespace="evil", containers=[gpu])
        await world.until(lambda: len([n for n in world.notes("FailedScheduling") if "limit of" in n]) == 100)
        assert world.slurm.requests.count("POST job/submit") <= 16  # as many as gangs have a pass at one time
        world.add_pod("web")
        world.add_pod("small", namespace="evil")
        await world.until(lambda: len(world.submissions) == 2)
        world.add_pod("large", containers=[gpu])
        await world.until(lambda: any("submit job large: " in note for note in world.notes("FailedScheduling")))
    own = [event for event in world.events if event["regarding"]["namespace"] == "default"]
    assert own
    assert "secret" not in str(own)


async def test_pods_beyond_a_submit_limit_are_submitted_oldest_first(tmp_path):
    world = World()
    world.add_node(1)
    world.hasten(again_s=1.0)  # the limit goes between two turns
    world.reject_submit = 2050
    async with leading(world, tmp_path):
        for number, name in enumerate(("old", "older", "oldest")):
            pod = world.add_pod(name)
            pod["metadata"]["creationTimestamp"] = f"2026-11-23T0{9 - number}:00:00Z"
            world.put("pods", pod)
            await world.until(lambda: any("limit of the user's" in note for note in world.notes("FailedScheduling")))
        await world.until(lambda: len([n for n in world.notes("FailedScheduling") if "limit of" in n]) == 3)
        world.reject_submit = None
        await world.until(lambda: len(world.submissions) == 3)
        assert [job["name"] for job in world.submissions] == ["oldest", "older", "old"]
