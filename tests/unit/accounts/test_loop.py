"""The accounts process against recorded answers of a slurmdbd that says what VALUES say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.main import look
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.core.accounts import WantedAccounts
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm.connection import Answer
from sunkpy.slurm.errors import Malformed
from tests.unit.core.accounts.build import values
from tests.unit.slurm.answers import Rest, answer, in_json

SERVER = ("26.05", "v0.0.45")
READ = ("slurmdbd-associations", "slurmdbd-qos", "slurmdbd-accounts", "slurmdbd-users", "slurmdbd-tres")
VALUES = """
organizations: [science]
qos:
  fast: {priority: 100, preempts: [slow], preemptMode: REQUEUE, flags: [DenyOnLimit, NoReserve],
         perUser: {jobs: 1, tres: {gres/gpu: 2}}}
  slow: {description: Anybody's, limits: {tres: {cpu: 100, node: 4}, jobMinutes: 60, submitted: 50}}
accounts:
  chem:
    description: Chemistry, "O'Hara" & Ümlaut
    organization: science
    shares: 10
    qos: [normal, fast, slow]
  cells: {parent: chem, shares: 3, limits: {jobs: 5, tres: {cpu: 8}, tresMinutes: {gres/gpu: 1000}, jobTres: {cpu: 2}}}
  phys: {shares: parent}
users:
  user1: {accounts: {chem: {shares: 4, defaultQos: slow}, cells: {}}, defaultAccount: chem}
  zoe: {accounts: {phys: {limits: {jobMinutes: 30}}}}
pods: {account: phys}
"""


def recorded(*names: str) -> list[Answer]:
    return [answer(*SERVER, name) for name in names]


class Waits:
    """Sleeps that take no time, and end the loop after some."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.lasted: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.lasted.append(seconds)
        if len(self.lasted) == self.most:
            raise asyncio.CancelledError


def stands_still() -> float:
    return 0.0


def loop_for(
    rest: Rest,
    wanted: WantedAccounts,
    waits: Waits | None = None,
    clock: Callable[[], float] = stands_still,
    *,
    guest: str = "",
) -> AccountsLoop:
    unused = SlurmSettings(url="http://nowhere", jwt_key_file="/nowhere")
    settings = AccountsSettings(
        cluster=guest or "it", slurm=unused, wanted=wanted, poll_seconds=60, is_guest=bool(guest)
    )
    metrics = AccountsMetrics(CollectorRegistry())
    slurm, sleep = rest.client(SERVER[1]), waits or Waits(1)
    return AccountsLoop(slurm=slurm, settings=settings, metrics=metrics, sleep=sleep, clock=clock)


def written(rest: Rest) -> list[str]:
    asked = rest.asked
    return [request.path.partition(SERVER[1])[2] for request in asked if request.method != "GET"]


async def test_what_is_as_wanted_is_read_once_and_ready(rest: Rest) -> None:
    rest.say(*recorded(*READ))
    loop = loop_for(rest, values(VALUES))
    assert loop.problem == "slurmdbd does not have the accounts, QoS and users of the values yet"
    assert await loop.settle()
    assert (loop.problem, written(rest)) == (None, [])


GUESTS = """
accounts: {chem: {description: Ours, shares: 7, qos: [fast], defaultQos: fast}, bio: {}}
users: {user1: {accounts: {chem: {}, bio: {}}, defaultAccount: bio}, eve: {accounts: {bio: {}}}}
pods: {account: bio}
"""
HOSTS = """
qos: {fast: {priority: 100}, slow: {limits: {submitted: 50}}}
accounts: {chem: {description: Chemistry, shares: 10, qos: [normal, fast]}, cells: {}}
users: {user1: {accounts: {chem: {}, cells: {}}, defaultAccount: chem}, zoe: {accounts: {cells: {}}}}
pods: {account: cells}
"""
SHARED = ("shared-associations", "shared-qos", "shared-accounts", "shared-users", "slurmdbd-tres")


async def test_on_the_slurmdbd_of_another_release_its_accounts_and_qos_stay_as_they_are(rest: Rest) -> None:
    """Among them QoS fast and slow and account cells, which the host made from values and the guest has not."""
    rest.say(*recorded(*SHARED))
    loop = loop_for(rest, values(GUESTS), guest="guest")
    assert await loop.settle()
    assert (loop.problem, written(rest)) == (None, [])


async def test_what_a_guest_has_besides_is_nothing_to_the_release_with_the_slurmdbd(rest: Rest) -> None:
    """Its account bio, its user eve, its other default account of user1."""
    rest.say(*recorded("shared-host-associations", *SHARED[1:]))
    loop = loop_for(rest, values(HOSTS))
    assert await loop.settle()
    assert (loop.problem, written(rest)) == (None, [])


async def test_a_guest_changes_associations_of_its_own_cluster_alone(rest: Rest) -> None:
    fewer = values(GUESTS.replace("bio: {}}, defaultAccount: bio", "bio: {}}, defaultAccount: chem").replace("7", "8"))
    rest.say(*recorded(*[*SHARED, "change-association", "change-association"] * 3))
    assert not await loop_for(rest, fewer, guest="guest").settle()
    assert set(written(rest)) == {"/associations/"}
    bodies = [json.loads(request.content) for request in rest.asked if request.method != "GET"]
    assert {each["cluster"] for body in bodies for each in body["associations"]} == {"guest"}


async def test_a_guest_that_wants_a_qos_changes_nothing_and_says_where_it_belongs(rest: Rest) -> None:
    rest.say(*recorded(*SHARED))
    loop = loop_for(rest, values(f"qos: {{fast: {{priority: 7}}}}\n{GUESTS.strip()}"), guest="guest")
    assert await loop.settle()
    assert (
        loop.problem
        == "QoS fast: all clusters of a slurmdbd share its QoS: set it in the release that runs the slurmdbd"
    )
    assert written(rest) == []


@pytest.mark.parametrize("part", ["slurmdbd-qos", "slurmdbd-accounts", "slurmdbd-users", "slurmdbd-tres"])
async def test_what_slurmdbd_always_has_and_does_not_tell_is_not_made_anew(rest: Rest, part: str) -> None:
    rest.say(*(Answer(200, b"{}") if name == part else answer(*SERVER, name) for name in READ))
    with pytest.raises(Malformed, match="none at all"):
        await loop_for(rest, values(VALUES)).settle()
    assert written(rest) == []


async def test_a_change_is_believed_when_it_is_read_back(rest: Rest) -> None:
    other = values(VALUES.replace("priority: 100", "priority: 7"))
    rest.say(*recorded(*[*READ, "put-qos"] * 3))
    assert not await loop_for(rest, other).settle(), "slurmdbd said success and did nothing"
    assert written(rest) == ["/qos/"] * 3


async def test_what_slurmdbd_refuses_does_not_keep_the_rest_from_it(rest: Rest) -> None:
    other = values(VALUES.replace("priority: 100", "priority: 7").replace("shares: 4", "shares: 5"))
    rest.say(*recorded(*READ, "put-qos-loop", "change-association", *[*READ, "change-association"] * 2))
    loop = loop_for(rest, other)
    with capture_logs() as logs:
        assert not await loop.settle()
    assert written(rest) == ["/qos/", *["/associations/"] * 3], "what it refuses is sent once"
    assert loop.problem is not None
    assert "QOS Preemption loop detected" in loop.problem
    assert warnings(logs) == [
        ("slurmdbd refuses a change", "~ QoS fast: priority 100 -> 7"),
        ("slurmdbd accepted a change, but does not show it", "~ user user1 in account chem: shares 4 -> 5"),
    ]


async def test_what_slurmdbd_always_refuses_is_sent_once_in_each_comparison_and_logged_once(rest: Rest) -> None:
    other = values(VALUES.replace("priority: 100", "priority: 7"))
    refused = [*recorded(*READ, "put-qos-loop"), *recorded(*READ)]
    rest.say(*refused * 3)
    waits = Waits(3)
    loop = loop_for(rest, other, waits)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await loop.run()
    assert (waits.lasted, written(rest)) == ([2, 60, 60], ["/qos/"] * 3)
    assert warnings(logs) == [("slurmdbd refuses a change", "~ QoS fast: priority 100 -> 7")]
    assert loop.problem is not None
    assert "QOS Preemption loop detected" in loop.problem


async def test_a_refusal_is_logged_again_when_its_text_has_changed_or_it_was_gone(rest: Rest) -> None:
    other = values(VALUES.replace("priority: 100", "priority: 7"))
    loop_detected, no_right = (recorded(*READ, name, *READ) for name in ("put-qos-loop", "accounting-forbidden"))
    as_wanted = read_with_priority(7)
    rest.say(*loop_detected, *no_right, *no_right, *as_wanted, *no_right)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await loop_for(rest, other, Waits(5)).run()
    errors = [str(log["error"]) for log in logs if log["event"] == "slurmdbd refuses a change" and is_warning(log)]
    assert [error.partition(" (Slurm error ")[2][:4] for error in errors] == ["2067", "2002", "2002"]


async def test_what_slurmdbd_drops_because_it_refuses_something_else_is_sent_again_later(rest: Rest) -> None:
    """For users of an account that does not exist, slurmdbd makes nothing and says success."""
    more = VALUES.replace("users:\n", "  bio: {}\nusers:\n  amy: {accounts: {bio: {}}}\n")
    members = ["make-membership-no-account"] * 2
    rest.say(*recorded(*READ, "make-account-no-parent", *members, *[*READ, *members] * 2))
    waits = Waits(1)
    with pytest.raises(asyncio.CancelledError):
        await loop_for(rest, values(more), waits).run()
    assert waits.lasted == [2]
    assert written(rest) == ["/accounts_association/", *["/users_association/"] * 6]


def is_warning(log: MutableMapping[str, Any]) -> bool:
    return bool(log["log_level"] == "warning")


def warnings(logs: Sequence[MutableMapping[str, Any]]) -> list[tuple[str, str]]:
    """Events of warnings, each with its change."""
    return [(log["event"], log["change"]) for log in logs if is_warning(log)]


def read_with_priority(number: int) -> list[Answer]:
    """A slurmdbd whose QoS fast has this priority."""
    associations, qos, *others = recorded(*READ)
    body = json.loads(qos.content)
    next(each for each in body["qos"] if each["name"] == "fast")["priority"]["number"] = number
    return [associations, in_json(qos.status, body), *others]


def read_after_user1_was_taken_over() -> list[Answer]:
    first, *others = recorded(*READ)
    text = first.content.replace(b'"k8s: values"', b'"mine"')
    assert text != first.content
    return [Answer(first.status, text), *others]


def read_after_qos_was_made(name: str) -> list[Answer]:
    associations, qos, *others = recorded(*READ)
    body = json.loads(qos.content)
    body["qos"].append(next(each for each in body["qos"] if each["name"] == "normal") | {"name": name})
    return [associations, in_json(qos.status, body), *others]


def an_hour_each(rest: Rest) -> Callable[[], float]:
    """So long slurmdbd needs for a write."""
    return lambda: 3600.0 * len(written(rest))


async def test_what_a_person_takes_over_while_a_plan_is_carried_out_is_not_written(rest: Rest) -> None:
    other = values(VALUES.replace("priority: 100", "priority: 7").replace("shares: 4", "shares: 5"))
    taken_over = read_after_user1_was_taken_over
    later = [*taken_over(), *recorded("put-qos")]
    rest.say(*recorded(*READ, "put-qos"), *taken_over(), *later, *later)
    assert not await loop_for(rest, other, clock=an_hour_each(rest)).settle()
    assert written(rest) == ["/qos/"] * 3


async def test_what_a_person_makes_while_a_plan_is_carried_out_is_not_overwritten(rest: Rest) -> None:
    other = values(VALUES.replace("priority: 100", "priority: 7").replace("accounts:\n", "  night: {}\naccounts:\n", 1))
    later = [*read_after_qos_was_made("night"), *recorded("put-qos")]
    rest.say(*recorded(*READ, "put-qos"), *read_after_qos_was_made("night"), *later, *later)
    assert not await loop_for(rest, other, clock=an_hour_each(rest)).settle()
    bodies = [json.loads(request.content) for request in rest.asked if request.method != "GET"]
    assert [each["name"] for body in bodies for each in body["qos"]] == ["fast"] * 3


async def test_what_was_just_read_is_not_read_again_for_each_change(rest: Rest) -> None:
    other = values(VALUES.replace("priority: 100", "priority: 7").replace("shares: 4", "shares: 5"))
    rest.say(*recorded(*[*READ, "put-qos", "change-association"] * 3))
    assert not await loop_for(rest, other).settle()
    assert written(rest) == ["/qos/", "/associations/"] * 3


async def test_of_several_users_in_one_request_only_the_one_that_slurmdbd_refuses_is_left_out(rest: Rest) -> None:
    more = "users:\n  amy: {accounts: {phys: {}}}\n  eve: {accounts: {phys: {}}}\n"
    refused, made = "make-account-no-parent", "make-membership"
    rest.say(*recorded(*READ, refused, made, refused, *[*READ, made] * 2))
    loop = loop_for(rest, values(VALUES.replace("users:\n", more)))
    assert not await loop.settle()
    bodies = [json.loads(request.content) for request in rest.asked if request.method != "GET"]
    assert [body["association_condition"]["users"] for body in bodies[:3]] == [["amy", "eve"], ["amy"], ["eve"]]
    assert loop.problem is not None
    assert "put user eve into account phys" in loop.problem


async def test_a_contradiction_changes_nothing_and_is_why_it_is_not_ready(rest: Rest) -> None:
    rest.say(*recorded(*READ))
    loop = loop_for(rest, values(VALUES.replace("parent: chem", "parent: bio")))
    assert await loop.settle()
    assert (loop.problem, written(rest)) == (
        "account cells is below bio, which is not in the values, and nobody else has made it",
        [],
    )


async def test_slurmdbd_that_is_away_is_asked_again_soon(rest: Rest) -> None:
    rest.say(*recorded(*["slurmdbd-away"] * 4, *READ, *READ))
    waits = Waits(3)
    with pytest.raises(asyncio.CancelledError):
        await loop_for(rest, values(VALUES), waits).run()
    assert waits.lasted == [2.0, 60, 60]


async def test_slurmdbd_that_stays_away_is_warned_of_once(rest: Rest) -> None:
    rest.say(*recorded(*["slurmdbd-away"] * 8, *READ, *["slurmdbd-away"] * 4))
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await loop_for(rest, values(VALUES), Waits(4)).run()
    levels = [log["log_level"] for log in logs if log["event"].startswith("slurmdbd was not read or changed")]
    assert levels == ["warning", "debug", "warning"]


async def test_a_look_says_what_would_be_changed_and_changes_nothing(rest: Rest, tmp_path: Path) -> None:
    key, config, others = tmp_path / "jwt.key", tmp_path / "config.yaml", tmp_path / "others.yaml"
    key.write_bytes(b"k" * 32)
    slurm = {"url": rest.url, "version": SERVER[1], "jwtKeyFile": str(key)}
    config.write_text(yaml.safe_dump({"cluster": "it", "slurm": slurm, "wanted": yaml.safe_load(VALUES)}))
    others.write_text(VALUES.replace("shares: 10", "shares: 20"))
    ping = {"meta": {"slurm": {"cluster": "it"}}, "pings": []}
    rounds = [each for _ in range(2) for each in (in_json(200, ping), *recorded(*READ))]
    rest.say(*rounds)
    assert await look(config, None) == "Nothing to change."
    assert await look(config, others) == "~ account chem: shares 10 -> 20"
    assert written(rest) == []
