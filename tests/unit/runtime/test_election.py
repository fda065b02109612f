from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.runtime.election import Election, Identity, LeadershipLost, LeaseRecord
from tests.doubles.virtual_time import run_virtually
from tests.unit.runtime.replicas import DURATION_S, FOREVER_S, DistantLock, Habits, Store, Timer, Ways, living


class Candidate:
    """One process whose election a test runs; nothing else ends it. Calls after the last way take that one, too."""

    def __init__(self, store: Store, name: str, *ways: Ways) -> None:
        *first, last = ways or (Ways(),)
        self.lock = DistantLock(store, itertools.chain(first, itertools.repeat(last)))
        self.bitten = asyncio.Event()
        self.watchdog = Timer(self.bitten.set)
        clock = asyncio.get_running_loop().time
        identity = Identity(name=name, address="10.0.0.1")
        self.election = Election(self.lock, identity, watchdog=self.watchdog, duration_s=DURATION_S, clock=clock)
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self.may_end = asyncio.Event()

    async def work(self) -> None:
        self.began.set()
        try:
            await self.may_end.wait()
        finally:
            self.ended.set()

    def run(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.election.run(self.work))


def held_by(name: str, *, duration_s: float = DURATION_S, version: str = "v7") -> LeaseRecord:
    return LeaseRecord(holder=f"{name}/10.0.0.9", version=version, duration_s=duration_s)


def now_s() -> float:
    return asyncio.get_running_loop().time()


def virtual(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        run_virtually(test())

    run.__name__ = test.__name__
    return run


# ------------------------------------------------------------------------- who leads


@virtual
async def test_only_one_of_two_leads_and_the_other_takes_over_when_it_ends() -> None:
    store = Store()
    first, second = Candidate(store, "a"), Candidate(store, "b")
    leading = first.run()
    await first.began.wait()
    waiting = second.run()
    await asyncio.sleep(10 * DURATION_S)
    assert not second.began.is_set()
    assert second.election.leader == Identity(name="a", address="10.0.0.1")
    first.may_end.set()
    ended_at = now_s()
    await second.began.wait()
    assert first.ended.is_set()
    assert now_s() - ended_at < 1.1
    second.may_end.set()
    await asyncio.gather(leading, waiting)
    assert store.record is not None
    assert store.record.holder == ""


@virtual
async def test_a_leader_that_died_is_followed_after_its_lease() -> None:
    async with living(Habits(name="a", is_restarted_after_s=FOREVER_S), Habits(name="b")) as (diary, replicas):
        await asyncio.sleep(100)
        dead, other = sorted(replicas, key=lambda replica: not replica.process.election.is_leader)
        dead.process.kill()
        killed_at = now_s()
        while not other.process.election.is_leader:  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.1)
        assert now_s() - killed_at < DURATION_S + 1.2
    assert diary.worst_overlap_s < 0


@virtual
async def test_a_lease_that_does_not_change_is_free_after_its_duration_and_no_earlier() -> None:
    store = Store()
    store.record = held_by("b")
    candidate = Candidate(store, "a")
    candidate.run()
    await asyncio.sleep(11.5)
    store.record = held_by("b", version="v8")  # renewed: the wait begins again
    await asyncio.sleep(12)
    assert not candidate.began.is_set()
    await asyncio.sleep(1.1)
    assert candidate.began.is_set()


@virtual
async def test_a_standby_waits_for_the_duration_that_the_holder_wrote() -> None:
    store = Store()
    store.record = held_by("b", duration_s=60)
    candidate = Candidate(store, "a")
    candidate.run()
    await asyncio.sleep(59)
    assert not candidate.began.is_set()
    await asyncio.sleep(2.1)
    assert candidate.began.is_set()


@virtual
async def test_a_restarted_process_takes_its_own_lease_at_once() -> None:
    store = Store()
    store.record = held_by("a", duration_s=3600)
    candidate = Candidate(store, "a")
    candidate.run()
    await candidate.began.wait()
    assert now_s() < 1


@virtual
async def test_a_lease_that_somebody_deletes_is_held_until_its_time_is_over() -> None:
    store = Store()
    leader, standby = Candidate(store, "a"), Candidate(store, "b")
    leading = leader.run()
    await leader.began.wait()
    standby.run()
    await asyncio.sleep(20.5)
    store.record = None
    with pytest.raises(LeadershipLost, match="held by nobody"):
        await leading
    assert leader.ended.is_set()
    await asyncio.sleep(6)
    assert not standby.began.is_set()
    await asyncio.sleep(7)
    assert standby.began.is_set()


# --------------------------------------------------------------------- the end of a term


@virtual
async def test_a_leader_that_is_displaced_stops_working_and_says_so() -> None:
    store = Store()
    candidate = Candidate(store, "a")
    leading = candidate.run()
    await candidate.began.wait()
    store.record = held_by("b", version="v99")
    with pytest.raises(LeadershipLost, match=r"held by b"):
        await leading
    assert candidate.ended.is_set()
    assert candidate.election.remaining_s() == 0
    assert store.record.holder == "b/10.0.0.9"


@pytest.mark.parametrize("ways", [Ways(FOREVER_S, 0), Ways(0, FOREVER_S)], ids=["request", "answer"])
def test_a_leader_whose_calls_hang_stops_three_quarters_of_a_lease_after_its_last_renewal(ways: Ways) -> None:
    async def body() -> None:
        candidate = Candidate(Store(), "a", Ways(), Ways(), Ways(), Ways(), ways)  # elected, renewed once, then silence
        leading = candidate.run()
        with pytest.raises(LeadershipLost, match="not renewed for 9 s"):
            await leading
        assert candidate.ended.is_set()
        assert now_s() == pytest.approx(3 + 9, abs=0.01)
        assert candidate.watchdog.is_armed

    run_virtually(body())


@virtual
async def test_one_call_that_hangs_does_not_cost_the_lease() -> None:
    candidate = Candidate(Store(), "a", *[Ways()] * 4, Ways(FOREVER_S, 0), Ways())
    candidate.run()
    await asyncio.sleep(60)
    assert candidate.began.is_set()
    assert not candidate.ended.is_set()


@virtual
async def test_an_error_of_the_lock_is_tried_again_until_the_lease_is_over() -> None:
    candidate = Candidate(Store(), "a")
    leading = candidate.run()
    await candidate.began.wait()
    candidate.lock.is_broken = True
    await asyncio.sleep(8)
    candidate.lock.is_broken = False
    await asyncio.sleep(20)
    assert candidate.election.is_leader
    candidate.lock.is_broken = True
    with pytest.raises(LeadershipLost, match="not renewed"):
        await leading


@virtual
async def test_what_remains_counts_from_before_the_request_that_renewed() -> None:
    candidate = Candidate(Store(), "a", Ways(), Ways(), Ways(0.5, 0), Ways(0.25, 2))
    candidate.run()
    await candidate.began.wait()
    await asyncio.sleep(3 + 0.5 + 2.2)
    before_s = candidate.election.remaining_s()
    await asyncio.sleep(0.1)  # the renewal's answer is here
    assert before_s == pytest.approx(9 - 5.7, abs=0.01)
    assert candidate.election.remaining_s() == pytest.approx(9 - 2.3, abs=0.01)


@virtual
async def test_work_that_does_not_stop_is_ended_by_the_watchdog_and_never_releases_the_lease() -> None:
    store = Store()
    candidate = Candidate(store, "a")

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(FOREVER_S)
            except asyncio.CancelledError:
                if candidate.bitten.is_set():
                    raise

    leading = asyncio.ensure_future(candidate.election.run(stubborn))
    await asyncio.sleep(0.5)
    leading.cancel()  # an orderly end
    await asyncio.sleep(5)
    leading.cancel()
    await candidate.bitten.wait()
    assert now_s() == pytest.approx(10.5, abs=0.01)
    assert store.record is not None
    assert store.record.holder == "a/10.0.0.1"
    leading.cancel()


@virtual
async def test_an_orderly_end_gives_the_lease_back_after_the_work_has_wound_up() -> None:
    store = Store()
    candidate = Candidate(store, "a")
    held_at_the_end: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(FOREVER_S)
        finally:
            await asyncio.sleep(4)
            assert store.record is not None
            held_at_the_end.append(store.record.holder)

    leading = asyncio.ensure_future(candidate.election.run(work))
    await asyncio.sleep(1)
    leading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leading
    assert held_at_the_end == ["a/10.0.0.1"]
    assert store.record is not None
    assert store.record.holder == ""
    assert not candidate.watchdog.is_armed
    assert candidate.election.remaining_s() == 0


@virtual
async def test_an_error_of_the_work_is_not_swallowed() -> None:
    async def work() -> None:
        raise ValueError("broken work")

    with pytest.raises(ValueError, match="broken work"):
        await Candidate(Store(), "a").election.run(work)


# ------------------------------------------------------------------------ never two at once

delays_s = st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.0, 2.9, 4.0, 8.0, 11.9, 12.1, 30.0, FOREVER_S])
habits = st.builds(
    Habits,
    name=st.just(""),
    rate=st.floats(0.94, 1.06),
    ways=st.lists(st.builds(Ways, there_s=delays_s, back_s=delays_s), min_size=1, max_size=25).map(
        lambda bad: (*bad, *([Ways(0.01, 0.01)] * 12))
    ),
    winds_up_s=st.sampled_from([0.0, 0.4, 1.3, FOREVER_S]),
    is_restarted_after_s=st.sampled_from([0.1, 2.0, 20.0]),
)


@settings(max_examples=150)
@given(st.lists(habits, min_size=2, max_size=3), st.lists(st.floats(1, 290), max_size=3))
def test_never_two_at_work_whatever_is_slow_hangs_or_dies(all_habits: list[Habits], kills: list[float]) -> None:
    """Clocks that differ by an eighth; calls that hang on the way there or back; work that does not stop; kill -9."""

    async def body() -> float:
        named = [msgspec.structs.replace(each, name=f"r{i}") for i, each in enumerate(all_habits)]
        async with living(*named) as (diary, replicas):
            for at_s in sorted(kills):
                await asyncio.sleep(max(0, at_s - now_s()))
                for replica in replicas:
                    if replica.process.election.is_leader:
                        replica.process.kill()
            await asyncio.sleep(max(0, 300 - now_s()))
        return diary.worst_overlap_s

    assert run_virtually(body()) <= 0


@virtual
async def test_while_nothing_is_wrong_there_is_always_one_and_the_same_leader() -> None:
    slow = (Ways(0.4, 0.4),)
    async with living(*(Habits(name=name, ways=slow) for name in "abc")) as (diary, _):
        await asyncio.sleep(1000)
    assert len(diary.terms) == 1
    assert diary.terms[0][1] < 3
