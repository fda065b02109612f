from __future__ import annotations

import json

import pytest

from sunkpy.core.accounts.records import (
    SHARES_OF_PARENT,
    AccountRecord,
    AssociationRecord,
    Ceiling,
    Limits,
    QosRecord,
)
from sunkpy.slurm import errors
from tests.unit.slurm.answers import SERVERS, Rest, answer, slurm_errors

every_server = pytest.mark.parametrize(("slurm", "api"), SERVERS)
READ = ("slurmdbd-associations", "slurmdbd-qos", "slurmdbd-accounts", "slurmdbd-users", "slurmdbd-tres")
CHEM = AssociationRecord(account="chem", parent="root", qos=("normal",), default_qos="normal")
BOB = AssociationRecord(account="chem", user="bob", qos=("normal",), default_qos="normal", comment="k8s: values")


@every_server
async def test_all_that_values_may_say_is_read(rest: Rest, slurm: str, api: str) -> None:
    rest.say(*(answer(slurm, api, name) for name in READ))
    now = await rest.client(api).accounting("it")
    assert now.qos["fast"] == QosRecord(
        description="k8s: fast",
        priority=100,
        preempts=("slow",),
        preempt_mode="REQUEUE",
        flags=("DenyOnLimit", "NoReserve"),
        per_user=Ceiling(jobs=1, tres={"gres/gpu": 2}),
    )
    assert now.qos["slow"].limits == Limits(submitted=50, tres={"cpu": 100, "node": 4}, job_minutes=60)
    assert (now.qos["normal"].is_ours, now.qos["slow"].is_ours) == (False, True)
    assert now.accounts["chem"] == AccountRecord(
        description='k8s: Chemistry, "O\'Hara" & Ümlaut', organization="science"
    )
    assert now.associations["cells", ""] == AssociationRecord(
        account="cells",
        parent="chem",
        shares=3,
        qos=("fast", "normal", "slow"),
        default_qos="normal",
        limits=Limits(jobs=5, tres={"cpu": 8}, tres_minutes={"gres/gpu": 1000}, job_tres={"cpu": 2}),
    )
    assert now.associations["phys", "k8s"].shares == SHARES_OF_PARENT
    assert now.is_ours(now.associations["chem", "user1"])
    assert not now.is_ours(now.associations["root", ""])
    assert now.default_accounts["user1"] == "chem"
    assert {"cpu", "mem", "node", "billing", "gres/gpu"} <= now.tres


@every_server
async def test_an_association_is_read_without_what_it_inherits(rest: Rest, slurm: str, api: str) -> None:
    rest.say(*(answer(slurm, api, name) for name in READ))
    now = await rest.client(api).accounting("it")
    assert now.associations["cells", "user1"].limits == Limits()
    (first, *_) = rest.asked
    assert first.params == {"cluster": "it", "Exclude limits from parents": "true"}
    assert first.path == f"/slurmdb/{api}/associations/"


async def test_a_default_account_is_that_of_the_cluster(rest: Rest) -> None:
    """slurmdbd also has user1 in cluster `it`, where chem is the default, and zoe only there."""
    names = ("shared-associations", "shared-qos", "shared-accounts", "shared-users", "slurmdbd-tres")
    rest.say(*(answer("26.05", "v0.0.45", name) for name in names))
    now = await rest.client("v0.0.45").accounting("guest")
    assert now.default_accounts == {"root": "root", "k8s": "bio", "user1": "bio", "eve": "bio", "zoe": ""}
    assert now.accounts["cells"] == AccountRecord(description="k8s: cells", organization="cells")
    assert ("cells", "") not in now.associations


async def test_a_user_of_another_cluster_gets_a_default_account_with_their_first(rest: Rest) -> None:
    rest.say(answer("26.05", "v0.0.45", "make-membership"))
    await rest.client("v0.0.45").make_memberships([BOB], cluster="it", is_default=True)
    assert json.loads(rest.asked[0].content)["user"] == {"defaultaccount": "chem"}


@every_server
async def test_fair_share_is_read_by_account_and_user(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "shares"))
    shares = {(share.account, share.user): share for share in await rest.client(api).shares()}
    root, mine = shares["root", ""], shares["chem", "user1"]
    assert root.effective_usage == 1.0
    assert mine.usage_s > 0
    assert 0 <= mine.factor <= 1
    assert 0 < mine.norm_shares < 1
    assert rest.asked[0].path == f"/slurm/{api}/shares"


@every_server
async def test_an_account_that_is_there_is_no_error(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "make-account"), answer(slurm, api, "make-account-again"))
    slurm_client = rest.client(api)
    for _ in range(2):
        await slurm_client.make_account(AccountRecord(description="k8s: chem"), CHEM, cluster="it")
    sent = json.loads(rest.asked[0].content)
    assert sent["association_condition"] == {
        "accounts": ["chem"],
        "clusters": ["it"],
        "association": {
            "parent": "root",
            "fairshare": 1,
            "comment": "",
            "qoslevel": ["normal"],
            "defaultqos": "normal",
        },
    }


@every_server
@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("make-account-no-parent", errors.Rejected, 2046),
        ("put-qos-loop", errors.Rejected, 2067),
        ("accounting-forbidden", errors.Rejected, 2002),
        ("slurmdbd-away", errors.Unreachable, 7000),
    ],
)
async def test_what_slurmdbd_refuses_is_classified_by_number(rest, slurm, api, name, kind, number) -> None:
    rest.say(*[answer(slurm, api, name)] * 4)
    with pytest.raises(kind) as caught:
        await rest.client(api).put_qos("fast", QosRecord())
    assert caught.value.error_number == number
    assert "QoS fast" in str(caught.value)


@every_server
@pytest.mark.parametrize("name", ["make-membership", "make-membership-no-account"])
async def test_a_membership_says_nothing_of_what_came_of_it(rest, slurm, api, name) -> None:
    rest.say(answer(slurm, api, name))
    await rest.client(api).make_memberships([BOB], cluster="it")
    (request,) = rest.asked
    assert request.path == f"/slurmdb/{api}/users_association/"


@every_server
@pytest.mark.parametrize("name", ["change-association", "set-default-account", "put-qos"])
async def test_a_change_is_a_success_without_words(rest, slurm, api, name) -> None:
    rest.say(*[answer(slurm, api, name)] * 4)
    slurm_client = rest.client(api)
    await slurm_client.change_associations([(BOB, BOB)], cluster="it")
    await slurm_client.set_default_account(BOB, cluster="it")
    await slurm_client.describe_account("chem", AccountRecord(description="k8s: Chemistry"))
    await slurm_client.put_qos("fast", QosRecord())
    paths = [request.path.removeprefix(f"/slurmdb/{api}/") for request in rest.asked]
    assert paths == ["associations/", "associations/", "accounts/", "qos/"]
    (default,) = json.loads(rest.asked[1].content)["associations"]
    assert (default["cluster"], default["user"], default["is_default"]) == ("it", "bob", True)


async def test_a_limit_that_goes_is_lifted_and_not_left_out(rest: Rest) -> None:
    before = Limits(jobs=3, tres={"cpu": 8, "gres/gpu": 2})
    rest.say(answer("26.05", "v0.0.45", "change-association"))
    after = AssociationRecord(account="chem", parent="root", limits=Limits(tres={"cpu": 4}))
    was = AssociationRecord(account="chem", parent="root", limits=before)
    await rest.client("v0.0.45").change_associations([(after, was)], cluster="it")
    (sent,) = json.loads(rest.asked[0].content)["associations"]
    assert sent["max"]["jobs"]["per"]["count"] == {"set": False, "infinite": True, "number": 0}
    assert sent["max"]["tres"]["total"] == [
        {"type": "cpu", "name": "", "count": 4},
        {"type": "gres", "name": "gpu", "count": -1},
    ]
    assert sent["user"] == "", "without it slurmrestd refuses"


async def test_no_list_of_qos_ever_holds_an_empty_name(rest: Rest) -> None:
    """It ends slurmrestd."""
    rest.say(*[answer("26.05", "v0.0.45", "put-qos")] * 2)
    slurm_client = rest.client("v0.0.45")
    await slurm_client.put_qos("fast", QosRecord(), QosRecord(preempts=("slow",), flags=("NoReserve",)))
    account = AssociationRecord(account="a")
    await slurm_client.change_associations([(account, account)], cluster="it")
    bodies = [json.loads(request.content) for request in rest.asked]
    assert bodies[0]["qos"][0]["preempt"] == {"mode": ["DISABLED"]}
    assert bodies[0]["qos"][0]["flags"] == []
    assert bodies[1]["associations"][0]["qos"] == []


@every_server
async def test_usage_is_what_slurmdbd_has_added_up(rest: Rest, slurm: str, api: str) -> None:
    rest.say(answer(slurm, api, "slurmdbd-usage"))
    (used,) = await rest.client(api).usage("it", start_s=1_795_280_400, end_s=1_795_284_000)
    assert (used.account, used.user) == ("chem", "user1")
    assert used.tres_seconds["cpu"] == used.tres_seconds["node"] > 0
    assert used.tres_seconds["mem"] == 10 * used.tres_seconds["cpu"]
    (request,) = rest.asked
    assert request.params == {
        "cluster": "it",
        "Include usage": "true",
        "usage_start": "1795280400",
        "usage_end": "1795284000",
    }


@pytest.mark.parametrize(
    ("write", "times"),
    [
        (lambda c: c.put_qos("fast", QosRecord()), 1),
        (lambda c: c.describe_account("chem", AccountRecord()), 1),
        (lambda c: c.change_associations([(BOB, BOB)], cluster="it"), 1),
        (lambda c: c.set_default_account(BOB, cluster="it"), 1),
        (lambda c: c.make_account(AccountRecord(), CHEM, cluster="it"), 4),
        (lambda c: c.make_memberships([BOB], cluster="it"), 4),
    ],
)
async def test_only_what_changes_nothing_that_is_there_is_sent_again_when_nobody_answers(
    rest: Rest, write, times
) -> None:
    rest.say(*(slurm_errors(500, 7000) for _ in range(4)))
    with pytest.raises(errors.Unreachable):
        await write(rest.client("v0.0.45"))
    assert len(rest.asked) == times
