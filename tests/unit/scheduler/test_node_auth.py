"""Tokens that prove nothing, by the thousand, beside those of slurmd pods."""

import asyncio
import dataclasses
import itertools

import pytest

from sunkpy.scheduler.hooks.messages import Denied
from sunkpy.scheduler.hooks.proof import NodeAuth
from tests.unit.scheduler.world import World, leading, token_of_slurmd

FORGED = "a key that somebody else has, and it is long enough too"
ATTACKER, SLURMD = "10.0.0.66", "10.0.0.1"
EACH_S = 1000


class Virtual:
    """Time that passes when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def world():
    world = World()
    for number in range(1, 4):
        world.add_node(number)
    return world


@pytest.fixture
def clock():
    return Virtual()


@pytest.fixture
async def auth(world, tmp_path, clock):
    async with leading(world, tmp_path) as server:
        leader = dataclasses.replace(world.term._leader, clock=clock)
        yield NodeAuth(leader, server.hooks.auth._cluster)


async def ask(auth, token, *, node="n1", peer=ATTACKER):
    """The status of an answer."""
    try:
        await auth.check(f"Bearer {token}", node, peer=peer)
    except Denied as denied:
        return denied.status
    return 200


WORTHLESS = [
    ("nonsense", 401),
    ("a.b.c", 401),
    ("." * 5000, 401),
    ("\udcff\udcfe", 401),
    (token_of_slurmd(1, audience="https://kubernetes"), 401),
    (token_of_slurmd(1, left_s=-3600), 401),
    (token_of_slurmd(1, uid="somebody-else"), 403),
    (token_of_slurmd(9), 403),
    (token_of_slurmd(2), 403),
]


@pytest.mark.parametrize(("token", "status"), WORTHLESS)
async def test_what_is_no_token_of_the_node_costs_no_question(auth, world, token, status):
    assert await ask(auth, token) == status
    assert world.api.reviews == 0


async def test_the_apiserver_decides_about_the_rest(auth, world):
    assert await ask(auth, token_of_slurmd(1, key=FORGED)) == 401
    assert await ask(auth, token_of_slurmd(1)) == 200
    assert world.api.reviews == 2


async def test_a_thousand_forged_tokens_a_second_cost_few_questions_and_delay_no_slurmd(auth, world, clock):
    """Whoever sends them knows the uids of all slurmd pods."""
    serial, honest = itertools.count(), {number: token_of_slurmd(number) for number in (1, 2, 3)}
    for _ in range(20):
        clock.now += 1.0
        calls = [
            ask(auth, token_of_slurmd(number, key=f"{FORGED} {next(serial)}"), node=f"n{number}")
            for number in (1, 2, 3) for _ in range(EACH_S // 3)
        ]  # fmt: skip
        calls += [ask(auth, honest[n], node=f"n{n}", peer=f"10.0.0.{n}") for n in honest]
        answers = await asyncio.gather(*calls)
        assert answers[-3:] == [200, 200, 200]
        assert set(answers[:-3]) <= {401, 429}
    assert world.api.reviews <= 3 + 3 * 5 + 20 + 20 * 2


async def test_a_slurmd_whose_token_was_accepted_is_not_held_back_by_what_others_in_its_pod_send(auth, world, clock):
    """Jobs of people run in the same pod, and can read its uid."""
    token = token_of_slurmd(1)
    assert await ask(auth, token, peer=SLURMD) == 200
    for serial in range(200):
        await ask(auth, token_of_slurmd(1, key=f"{FORGED} {serial}"), peer=SLURMD)
    assert await ask(auth, token_of_slurmd(1, key=FORGED), peer=SLURMD) == 429
    clock.now += 61.0
    for serial in range(200):
        await ask(auth, token_of_slurmd(1, key=f"{FORGED} {serial}"), peer=SLURMD)
    assert await ask(auth, token, peer=SLURMD) == 200


async def test_who_sends_the_same_token_at_the_same_time_is_answered_by_one_question(auth, world):
    assert set(await asyncio.gather(*(ask(auth, token_of_slurmd(1)) for _ in range(50)))) == {200}
    assert world.api.reviews == 1


async def test_a_token_that_the_apiserver_did_not_know_yet_is_asked_about_again_a_few_times(auth, world):
    token = token_of_slurmd(1, key=FORGED)
    assert [await ask(auth, token, peer=SLURMD) for _ in range(7)] == [401] * 5 + [429] * 2
    assert world.api.reviews == 5


async def test_an_address_that_is_left_in_peace_is_no_suspect_any_more(auth, world, clock):
    for serial in range(50):
        await ask(auth, token_of_slurmd(1, key=f"{FORGED} {serial}"))
    clock.now += 120.0
    assert await ask(auth, token_of_slurmd(2), node="n2") == 200


ONE_ADDRESS = "192.0.2.1"


async def flood(auth, serial):
    """Forged tokens that name every slurmd pod, from the address that all share."""
    for _ in range(50):
        for number in (1, 2, 3):
            forged = token_of_slurmd(number, key=f"{FORGED} {next(serial)}")
            await ask(auth, forged, node=f"n{number}", peer=ONE_ADDRESS)


async def test_slurmds_behind_one_address_whose_tokens_were_accepted_pass_while_one_there_forges(auth, clock):
    """Their calls come through a gateway, or a proxy that masquerades."""
    serial, honest = itertools.count(), {number: token_of_slurmd(number) for number in (1, 2, 3)}
    for number, token in honest.items():
        assert await ask(auth, token, node=f"n{number}", peer=ONE_ADDRESS) == 200
    for _ in range(3):
        clock.now += 61.0  # what was accepted is asked about again
        await flood(auth, serial)
        assert await ask(auth, token_of_slurmd(2, key=FORGED), node="n2", peer=ONE_ADDRESS) == 429
        for number, token in honest.items():
            assert await ask(auth, token, node=f"n{number}", peer=ONE_ADDRESS) == 200


async def test_a_renewed_token_behind_such_an_address_waits_until_it_is_left_in_peace(auth, clock):
    """Nothing but its signature tells it from a forged one."""
    await flood(auth, itertools.count())
    renewed = token_of_slurmd(2, left_s=3000)
    assert await ask(auth, renewed, node="n2", peer=ONE_ADDRESS) == 429
    clock.now += 1.0
    assert await ask(auth, renewed, node="n2", peer=ONE_ADDRESS) == 200
