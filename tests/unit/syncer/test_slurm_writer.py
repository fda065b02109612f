"""Equal writes go as one list, and a list does no more than its nodes would have been done to one by one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sunkpy.core.mirror import (
    ClearReason,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    RestoreDrain,
    ResumeNode,
    SlurmAction,
    UndrainNode,
    still_holds,
)
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound, SlurmError, Unreachable
from sunkpy.syncer.slurm_writer import MOST_NAMES, SlurmWriter, WriteOutcome
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd

OURS = "k8s: cordon: rack"
COMMENT = '{"node":"n","namespace":"slurm","pod":"p","uid":"u"}'
STATES = [
    (("IDLE",), ""),
    (("MIXED",), ""),
    (("IDLE", "DRAIN"), "bad gpu"),
    (("IDLE", "DRAIN"), OURS),
    (("IDLE", "DRAIN"), "k8s: pod gone"),
    (("IDLE", "FAIL"), OURS),
    (("DOWN",), "ask ann"),
    (("DOWN",), "Not responding"),
]


class Rig:
    """A writer, and the Slurm it writes to."""

    def __init__(self, slurm: Slurmrestd, client: Slurm) -> None:
        self.slurm = slurm
        self.writer = SlurmWriter(client, clock=lambda: self.now_s)
        self.refused: set[str] = set()
        self.slow: dict[str, Callable[[], Awaitable[None]]] = {}
        """What happens until the apiserver answers about a name."""
        self.now_s = 0.0
        self.asked: list[int] = []

    async def write_all(self, actions: list[SlurmAction]) -> list[WriteOutcome | BaseException]:
        return await asyncio.gather(*(self.write(action) for action in actions), return_exceptions=True)

    async def write(self, action: SlurmAction) -> WriteOutcome:
        async def consent() -> bool:
            self.asked.append(len(self.slurm.writes))
            if action.name in self.slow:
                await self.slow[action.name]()
            return action.name not in self.refused

        return await self.writer.write(action, consent)

    def seen(self, name: str) -> SlurmNode:
        node = self.slurm.nodes[name]
        return SlurmNode(name=name, state=frozenset(node["state"]), reason=node["reason"], comment=node["comment"])

    @property
    def lists(self) -> list[str]:
        return [write for write in self.slurm.writes if "[" in write.split()[1] or "," in write.split()[1]]


@pytest.fixture
async def rig(tmp_path) -> AsyncIterator[Rig]:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    slurm = Slurmrestd()
    async with serving(slurm.app()) as port:
        url = f"http://127.0.0.1:{port}"
        client = Slurm.connect(SlurmSettings(url=url, version="v0.0.45", jwt_key_file=str(key)))
        yield Rig(slurm, client)
        await client.close()


def name_of(number: int) -> str:
    return f"gpu-000-{number:03}"


def drain(name: str, reason: str = OURS) -> DrainNode:
    return DrainNode(name=name, reason=reason, is_announced=True)


async def test_a_rack_is_drained_in_a_few_calls(rig: Rig) -> None:
    names = [name_of(number) for number in range(3 * MOST_NAMES)]
    for name in names:
        rig.slurm.put(name)
    assert set(await rig.write_all([drain(name) for name in names])) == {WriteOutcome.WRITTEN}
    assert all(rig.seen(name).reason == OURS for name in names)
    assert len(rig.slurm.writes) <= 5


async def test_only_equal_changes_share_a_list(rig: Rig) -> None:
    for number in range(8):
        rig.slurm.put(name_of(number))
    await rig.write_all([drain(name_of(number), f"k8s: cordon: {number % 2}") for number in range(8)])
    assert {rig.seen(name_of(number)).reason for number in (0, 2, 4, 6)} == {"k8s: cordon: 0"}
    assert {rig.seen(name_of(number)).reason for number in (1, 3, 5, 7)} == {"k8s: cordon: 1"}


async def test_a_drain_set_between_poll_and_list_is_not_overwritten(rig: Rig) -> None:
    for number in range(8):
        rig.slurm.put(name_of(number))
    rig.slurm.put(name_of(3), "IDLE", "DRAIN", reason="bad gpu")
    done = await rig.write_all([drain(name_of(number)) for number in range(8)])
    assert [number for number, is_done in enumerate(done) if is_done is not WriteOutcome.WRITTEN] == [3]
    assert rig.seen(name_of(3)).reason == "bad gpu"


async def test_an_apiserver_that_is_slow_about_one_node_costs_no_other_its_drain(rig: Rig) -> None:
    names = [name_of(number) for number in range(8)]
    for name in names:
        rig.slurm.put(name, "IDLE", "DRAIN", reason=OURS)

    async def late() -> None:
        await rig.slurm.changes.until(lambda: len(rig.slurm.looks) >= 7)
        rig.slurm.put(names[3], "IDLE", "DRAIN", reason="bad gpu")
        rig.now_s += 10

    rig.slow[names[7]] = late
    done = await rig.write_all([UndrainNode(name=name, pod=Pod()) for name in names])
    assert rig.seen(names[3]).reason == "bad gpu"
    assert [number for number, is_done in enumerate(done) if is_done is not WriteOutcome.WRITTEN] == [3]


async def test_a_node_that_slurm_does_not_know_holds_up_nobody(rig: Rig) -> None:
    for number in range(8):
        rig.slurm.put(name_of(number))
    rig.slurm.before_list = lambda: rig.slurm.nodes.pop(name_of(3), None) and None
    done = await rig.write_all([drain(name_of(number)) for number in range(8)])
    assert isinstance(done[3], NotFound)
    assert all(is_done is WriteOutcome.WRITTEN for number, is_done in enumerate(done) if number != 3)
    assert all(rig.seen(name_of(number)).reason == OURS for number in range(8) if number != 3)


async def test_a_node_that_somebody_opened_meanwhile_holds_up_nobody(rig: Rig) -> None:
    for number in range(8):
        rig.slurm.put(name_of(number), "IDLE", "DRAIN", reason=OURS)
    rig.slurm.before_list = lambda: rig.slurm.put(name_of(3), "IDLE", reason="")
    done = await rig.write_all([UndrainNode(name=name_of(number), pod=Pod()) for number in range(8)])
    assert done == [WriteOutcome.WRITTEN] * 8
    assert not any(rig.seen(name_of(number)).is_drain for number in range(8))


WHOSE = pytest.mark.parametrize(("count", "whose"), [(1, 0), (8, 0), (8, 3)])
"""How many nodes are written, and which of them somebody changes: the first one is written alone, others in a list."""


def meanwhile(rig: Rig, is_before: Callable[[dict], bool], *state: str, reason: str, whose: int = 0) -> None:
    """Before this change of a node somebody changes it, once."""

    def change(body: dict) -> None:
        if is_before(body) and ("name" in body) == (whose > 0):
            rig.slurm.before_change = lambda _: None
            rig.slurm.put(name_of(whose), *state, reason=reason)

    rig.slurm.before_change = change


def is_lift(body: dict) -> bool:
    return bool({"UNDRAIN", "RESUME"} & {*body.get("state", ())})


def is_removal_of_reason(body: dict) -> bool:
    return "state" not in body and "reason" in body


@WHOSE
@pytest.mark.parametrize("state", [("IDLE", "DRAIN"), ("DOWN", "DRAIN")])
async def test_what_somebody_sets_while_a_drain_is_lifted_stands(
    rig: Rig, count: int, whose: int, state: tuple[str, ...]
) -> None:
    for number in range(count):
        rig.slurm.put(name_of(number), "IDLE", "DRAIN", reason=OURS)
    meanwhile(rig, is_lift, *state, reason="bad gpu", whose=whose)
    done = await rig.write_all([UndrainNode(name=name_of(number), pod=Pod()) for number in range(count)])
    assert rig.seen(name_of(whose)).is_held_by_others
    assert rig.seen(name_of(whose)).reason == "bad gpu"
    assert done == [WriteOutcome.CHANGED if number == whose else WriteOutcome.WRITTEN for number in range(count)]
    assert not any(rig.seen(name_of(number)).reason for number in range(count) if number != whose)


async def test_what_somebody_sets_while_a_list_is_refused_stands(rig: Rig) -> None:
    """Slurm has lifted the drains before the unknown node, and those of the others are lifted one by one."""
    for number in range(8):
        rig.slurm.put(name_of(number), "IDLE", "DRAIN", reason=OURS)
    rig.slurm.before_list = lambda: rig.slurm.nodes.pop(name_of(5))
    meanwhile(rig, is_lift, "IDLE", "DRAIN", reason="bad gpu", whose=3)
    done = await rig.write_all([UndrainNode(name=name_of(number), pod=Pod()) for number in range(8)])
    assert isinstance(done[5], NotFound)
    assert (rig.seen(name_of(3)).is_drain, rig.seen(name_of(3)).reason) == (True, "bad gpu")


@pytest.mark.parametrize(
    ("lift", "state", "reason"),
    [
        (LiftDrain(name=name_of(0), reason="bad gpu", pod=Pod()), ("IDLE", "DRAIN"), "bad gpu"),
        (ResumeNode(name=name_of(0), reason="", pod=Pod()), ("DOWN",), "Node unexpectedly rebooted"),
        (ResumeNode(name=name_of(0), reason="", pod=Pod()), ("DOWN",), ""),
    ],
)
async def test_any_lift_leaves_what_somebody_sets_meanwhile(
    rig: Rig, lift, state: tuple[str, ...], reason: str
) -> None:
    rig.slurm.put(name_of(0), *state, reason=reason)
    meanwhile(rig, is_lift, "DOWN", "DRAIN", reason="worse")
    assert await rig.write(lift) is WriteOutcome.CHANGED
    assert (rig.seen(name_of(0)).is_held_by_others, rig.seen(name_of(0)).reason) == (True, "worse")


@WHOSE
@pytest.mark.parametrize("is_lifted", [True, False])
@pytest.mark.parametrize("state", [("IDLE", "DRAIN"), ("IDLE", "FAIL"), ("DOWN",)])
async def test_what_somebody_sets_while_a_reason_is_removed_stands(
    rig: Rig, count: int, whose: int, is_lifted: bool, state: tuple[str, ...]
) -> None:
    for number in range(count):
        rig.slurm.put(name_of(number), "IDLE", *["DRAIN"] * is_lifted, reason=OURS)
    meanwhile(rig, is_removal_of_reason, *state, reason="bad gpu", whose=whose)
    names = [name_of(number) for number in range(count)]
    await rig.write_all([UndrainNode(name=name, pod=Pod()) if is_lifted else ClearReason(name=name) for name in names])
    assert rig.seen(name_of(whose)).is_held_by_others
    assert not rig.seen(name_of(whose)).is_drained_by_us


@pytest.mark.parametrize("count", [1, 8])
async def test_a_down_that_loses_its_reason_to_a_write_without_an_answer_stands(rig: Rig, count: int) -> None:
    for number in range(count):
        rig.slurm.put(name_of(number), "IDLE", reason=OURS)

    def lose(body: dict) -> None:
        if ("name" in body) == (count > 1):
            rig.slurm.before_change = lambda _: None
            rig.slurm.put(name_of(count - 1), "DOWN", reason="ask ann")
            rig.slurm.lose_next_answer = True

    rig.slurm.before_change = lose
    await rig.write_all([ClearReason(name=name_of(number)) for number in range(count)])
    assert rig.seen(name_of(count - 1)).is_held_by_others


async def test_reasons_are_not_removed_by_what_was_seen_long_ago(rig: Rig) -> None:
    names = [name_of(number) for number in range(9)]
    for name in names:
        rig.slurm.put(name, "IDLE", "DRAIN", reason=OURS)
    read, looks = Slurm.node, Counter[str]()

    async def node(slurm: Slurm, name: str) -> SlurmNode:
        looks[name] += 1
        found = await read(slurm, name)
        if name == names[8] and looks[name] == 2:  # the look after the lift
            rig.now_s += 30
            rig.slurm.put(names[3], "IDLE", "DRAIN", reason="bad gpu")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slurm, "node", node)
        await rig.write_all([UndrainNode(name=name, pod=Pod()) for name in names])
    assert rig.seen(names[3]).reason == "bad gpu"
    assert not any(rig.seen(name).reason for name in names if name != names[3])


async def test_what_slurmctld_says_of_a_silent_node_holds_it_for_nobody(rig: Rig) -> None:
    rig.slurm.put(name_of(0), "IDLE", "DRAIN", reason=OURS)
    meanwhile(rig, is_lift, "DOWN", "NOT_RESPONDING", reason="Not responding")
    await rig.write(UndrainNode(name=name_of(0), pod=Pod()))
    assert not rig.seen(name_of(0)).is_held_by_others


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("count", [1, 8])
async def test_a_lifted_drain_leaves_no_reason(rig: Rig, count: int, keeps: bool) -> None:
    rig.slurm.keeps_reasons = keeps
    for number in range(count):
        rig.slurm.put(name_of(number), "IDLE", "DRAIN", reason=OURS)
    await rig.write_all([UndrainNode(name=name_of(number), pod=Pod()) for number in range(count)])
    assert {(rig.slurm.state(name_of(number)), rig.seen(name_of(number)).reason) for number in range(count)} == {
        ("IDLE", "")
    }
    assert len([write for write in rig.slurm.writes if "UNDRAIN" not in write]) == keeps * min(count, 2)


async def test_a_node_that_somebody_sets_down_while_its_drain_is_lifted_stays_down_on_any_slurm(rig: Rig) -> None:
    rig.slurm.keeps_reasons = False
    rig.slurm.put(name_of(0), "IDLE", "DRAIN", reason=OURS)
    meanwhile(rig, is_lift, "DOWN", "DRAIN", reason="ask ann")
    await rig.write(UndrainNode(name=name_of(0), pod=Pod()))
    assert (rig.seen(name_of(0)).is_held_by_others, rig.seen(name_of(0)).reason) == (True, "ask ann")


async def test_a_reason_that_an_earlier_lift_left_is_removed_if_the_node_is_still_open(rig: Rig) -> None:
    rig.slurm.put(name_of(0), "IDLE", reason=OURS)
    rig.slurm.put(name_of(1), "IDLE", "DRAIN", reason=OURS)
    done = await rig.write_all([ClearReason(name=name_of(number)) for number in range(2)])
    assert done == [WriteOutcome.WRITTEN, WriteOutcome.CHANGED]
    assert [rig.seen(name_of(number)).reason for number in range(2)] == ["", OURS]


async def test_a_lift_that_was_interrupted_leaves_what_the_mirror_removes(rig: Rig) -> None:
    rig.slurm.put(name_of(0), "IDLE", "DRAIN", reason=OURS)
    rig.slurm.lose_next_answer = True
    with pytest.raises(Unreachable):
        await rig.write(UndrainNode(name=name_of(0), pod=Pod()))
    assert rig.seen(name_of(0)).has_reason_left


async def test_an_unreachable_slurm_is_told_to_all_who_wait(rig: Rig) -> None:
    for number in range(8):
        rig.slurm.put(name_of(number))
    rig.slurm.is_down = True
    done = await rig.write_all([drain(name_of(number)) for number in range(8)])
    assert all(isinstance(error, Unreachable) for error in done)
    rig.slurm.is_down = False
    assert await rig.write(drain(name_of(0))) is WriteOutcome.WRITTEN


@pytest.mark.parametrize("count", [1, 8])
async def test_a_write_whose_answer_was_lost_is_not_sent_again_over_what_others_did_since(rig: Rig, count: int) -> None:
    for number in range(count):
        rig.slurm.put(name_of(number), "IDLE", "DRAIN", reason=OURS)
    rig.slurm.lose_next_answer = True
    rig.slurm.after_lost = lambda: rig.slurm.put(name_of(0), "IDLE", "DRAIN", reason="bad gpu")
    done = await rig.write_all([UndrainNode(name=name_of(number), pod=Pod()) for number in range(count)])
    assert any(isinstance(error, Unreachable) for error in done)
    assert (rig.seen(name_of(0)).is_drain, rig.seen(name_of(0)).reason) == (True, "bad gpu")


async def test_a_deletion_whose_answer_was_lost_does_not_meet_the_next_node_of_that_name(rig: Rig) -> None:
    name = name_of(0)
    rig.slurm.put(name, "IDLE", "DRAIN", reason="k8s: pod gone", comment=COMMENT)
    rig.slurm.lose_next_answer = True
    rig.slurm.after_lost = lambda: rig.slurm.put(name, "IDLE")
    with pytest.raises(Unreachable):
        await rig.write(DeleteSlurmNode(name=name, reason="k8s: pod gone", is_announced=True))
    assert rig.slurm.state(name) == "IDLE"


async def test_the_apiserver_is_asked_when_it_is_the_lists_turn_and_may_refuse(rig: Rig) -> None:
    names = [name_of(number) for number in range(3 * MOST_NAMES)]
    for name in names:
        rig.slurm.put(name)
    rig.refused = {names[-1]}
    done = await rig.write_all([drain(name) for name in names])
    assert done[-1] is WriteOutcome.REFUSED
    assert not rig.seen(names[-1]).is_drain
    assert set(done[:-1]) == {WriteOutcome.WRITTEN}
    assert len(set(rig.asked)) > 2, "not all at the beginning"


@pytest.mark.parametrize("seed", range(12))
async def test_a_list_does_to_each_node_what_it_alone_would_have_met(rig: Rig, seed: int) -> None:
    dice = random.Random(seed)
    actions: list[SlurmAction] = []
    for number in range(40):
        name = name_of(number)
        state, reason = dice.choice(STATES)
        rig.slurm.put(name, *state, reason=reason, comment=COMMENT)
        actions.append(
            dice.choice(
                [
                    drain(name),
                    drain(name, "k8s: pod gone"),
                    UndrainNode(name=name, pod=Pod()),
                    RestoreDrain(name=name, reason="bad gpu"),
                ]
            )
        )
    before = {action.name: rig.seen(action.name) for action in actions}
    dice.shuffle(actions)
    done = await rig.write_all(actions)
    assert not any(isinstance(result, SlurmError) for result in done)
    for action, is_done in zip(actions, done, strict=True):
        old, new = before[action.name], rig.seen(action.name)
        assert (is_done is WriteOutcome.WRITTEN) == still_holds(action, old)
        if is_done is not WriteOutcome.WRITTEN:
            assert new == old, "what somebody else holds stays as it is"
        elif not isinstance(action, UndrainNode):
            assert new.is_drain
            assert new.reason == action.reason
    assert rig.lists
