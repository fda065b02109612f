from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.accounts import Accounting, describe_plan, plan_accounts
from sunkpy.core.accounts.changes import MakeAccount, MakeMembership, MakeQos
from sunkpy.core.accounts.records import CLOSED, AccountRecord, AssociationRecord, Limits, QosRecord
from tests.unit.core.accounts.build import EMPTY, settled, values

VALUES = """
organizations: [science]
qos:
  fast: {priority: 100, preempts: [slow], perUser: {tres: {gres/gpu: 2}}}
  slow: {limits: {submitted: 50}}
accounts:
  cells: {parent: chem, limits: {tres: {cpu: 8}}}
  chem: {organization: science, shares: 10, qos: [normal, fast, slow]}
users:
  bob: {accounts: {cells: {shares: 3}, chem: {defaultQos: slow}}, defaultAccount: chem}
pods: {account: chem}
"""


def told(text: str, now: Accounting = EMPTY) -> list[str]:
    return describe_plan(plan_accounts(values(text), now)).splitlines()


def test_each_change_is_possible_after_those_before_it():
    """QoS that others preempt, accounts from the root down, the default account of a new user first."""
    made = plan_accounts(values(VALUES), EMPTY).changes
    assert [change.name for change in made if isinstance(change, MakeQos)] == ["slow", "fast"]
    assert [change.association.account for change in made if isinstance(change, MakeAccount)] == ["chem", "cells"]
    members = [change.association.key for change in made if isinstance(change, MakeMembership)]
    assert members == [("chem", "bob"), ("chem", "k8s"), ("cells", "bob"), ("cells", "k8s")]


def test_what_is_inherited_is_written_down():
    now = settled(values(VALUES))
    assert now.accounts["cells"] == AccountRecord(description="k8s: cells", organization="science")
    assert now.associations["cells", ""].qos == now.associations["cells", "bob"].qos == ("fast", "normal", "slow")
    defaults = {key: each.default_qos for key, each in now.associations.items() if each.user == "bob"}
    assert defaults == {("chem", "bob"): "slow", ("cells", "bob"): "normal"}


def test_the_default_qos_is_the_nearest_that_one_has():
    text = """
    qos: {x: {}, y: {}}
    accounts: {a: {qos: [normal, x], defaultQos: x}, b: {parent: a, qos: [normal, y]}}
    users: {bob: {accounts: {a: {}}}, ann: {accounts: {a: {qos: [normal]}}}, eve: {accounts: {b: {qos: [y]}}}}
    """
    now = settled(values(text))
    assert [now.associations[key].default_qos for key in (("a", "bob"), ("a", "ann"), ("b", ""), ("b", "eve"))] == [
        "x",
        "normal",
        "normal",
        "y",
    ]


def test_what_is_as_wanted_is_left_alone():
    assert told(VALUES, settled(values(VALUES))) == ["Nothing to change."]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("shares: 10", "shares: parent", "~ account chem: shares 10 -> parent"),
        ("{cpu: 8}", "{gres/gpu: 1}", "~ account cells: limits tres cpu 8 -> none, limits tres gres/gpu none -> 1"),
        ("parent: chem, ", "qos: [normal, fast, slow], ", "~ account cells: parent chem -> root"),
        ("priority: 100", "priority: 7", "~ QoS fast: priority 100 -> 7"),
        ("cells: {shares: 3}", "cells: {shares: 4}", "~ user bob in account cells: shares 3 -> 4"),
        ("defaultAccount: chem", "defaultAccount: cells", "~ user bob: default account chem -> cells"),
        ("defaultQos: slow", "defaultQos: fast", "~ user bob in account chem: default QoS slow -> fast"),
        ("priority: 100", "priority: 100, description: Now", "~ QoS fast: description k8s: fast -> k8s: Now"),
    ],
)
def test_a_changed_value_is_the_only_change(old: str, new: str, says: str):
    lines = told(VALUES.replace(old, new), settled(values(VALUES)))
    assert says in lines
    assert [line for line in lines if "organization" not in line] == [says]


def test_a_user_who_is_not_wanted_any_more_is_closed_once_and_opened_again():
    before = settled(values(VALUES))
    without = values(VALUES.replace("  bob:", "  ann:"))
    lines = describe_plan(plan_accounts(without, before)).splitlines()
    closed = "closed: takes no more jobs and keeps its usage"
    assert [line for line in lines if "bob" in line] == [
        f"- user bob in account cells: {closed}",
        f"- user bob in account chem: {closed}",
    ]
    (qos,) = [line for line in lines if f"QoS {CLOSED}" in line]
    assert qos.endswith(
        "nothing can be submitted, priority 0, flags OverPartQOS, limits submitted 0, per user submitted 0"
    )
    after = settled(without, before)
    bob = after.associations["chem", "bob"]
    assert (bob.qos, bob.default_qos, bob.limits) == ((CLOSED,), CLOSED, Limits(submitted=0))
    assert plan_accounts(without, after).changes == ()
    assert settled(values(VALUES), after).associations["chem", "bob"] == before.associations["chem", "bob"]


def test_an_account_that_is_not_wanted_any_more_is_closed_with_all_in_it():
    before = settled(values("accounts: {a: {}, b: {}}\nusers: {bob: {accounts: {a: {}}}}"))
    after = settled(values("accounts: {b: {}}"), before)
    assert {key for key, each in after.associations.items() if each.qos == (CLOSED,)} == {("a", ""), ("a", "bob")}


@pytest.mark.parametrize(
    ("flags", "closed"),
    [
        ("[]", ("OverPartQOS",)),
        ("[OverPartQOS]", ("OverPartQOS",)),
        ("[PartitionTimeLimit, DenyOnLimit]", ("DenyOnLimit", "OverPartQOS", "PartitionTimeLimit")),
    ],
)
def test_a_qos_that_is_not_wanted_any_more_takes_no_more_jobs_in_any_partition(flags: str, closed: tuple[str, ...]):
    """Without OverPartQOS, a limit of a partition's QoS takes the place of the limit of 0 jobs."""
    wanted = values(f"qos: {{x: {{priority: 3, flags: {flags}}}}}")
    before = settled(wanted)
    after = settled(values("{}"), before)
    assert after.qos["x"] == QosRecord(description="k8s: x", priority=3, flags=closed, limits=Limits(submitted=0))
    assert CLOSED not in after.qos
    assert plan_accounts(values("{}"), after).changes == ()
    assert settled(wanted, after) == before


def test_what_was_closed_without_the_flag_against_qos_of_partitions_gets_it():
    wanted = values("qos: {x: {}}\naccounts: {a: {}}\nusers: {ann: {accounts: {a: {}}}}")
    now = settled(values("{}"), settled(wanted))
    earlier = {name: msgspec.structs.replace(each, flags=()) for name, each in now.qos.items()}
    after = settled(values("{}"), msgspec.structs.replace(now, qos=earlier))
    assert after.qos == now.qos
    assert now.qos[CLOSED].flags == now.qos["x"].flags == ("OverPartQOS",)


def test_the_last_qos_that_another_preempts_is_left_to_a_person():
    before = settled(values("qos: {x: {preempts: [normal]}}"))
    wanted = values("qos: {x: {priority: 3}}")
    (line, change) = describe_plan(plan_accounts(wanted, before)).splitlines()
    assert line.startswith(
        "! QoS x still preempts normal, because Slurm's API cannot remove the last one: sacctmgr modify"
    )
    assert change == "~ QoS x: priority 0 -> 3"
    assert plan_accounts(wanted, settled(wanted, before)).changes == ()


THEIRS = msgspec.structs.replace(
    EMPTY,
    qos={**EMPTY.qos, "x": QosRecord(description="by hand")},
    accounts={**EMPTY.accounts, "a": AccountRecord(description="by hand", organization="a")},
    associations={
        **EMPTY.associations,
        ("a", ""): AssociationRecord(account="a", parent="root", shares=5),
        ("a", "bob"): AssociationRecord(account="a", user="bob"),
    },
    default_accounts={**EMPTY.default_accounts, "bob": "a"},
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "qos: {x: {priority: 3}}",
            "! QoS x was made by somebody else and is left as it is. To hand it over to sunkpy: sacctmgr",
        ),
        (
            "accounts: {a: {shares: 9}}",
            "! account a was made by somebody else and is left as it is. To hand it over to",
        ),
        ("users: {bob: {accounts: {a: {shares: 9}}}}", "! user bob in account a was made by somebody else and is left"),
        (
            "accounts: {b: {}}\nusers: {bob: {accounts: {b: {}}}}",
            "! default account a of user bob was made by somebody else and is left as it is. To hand it over to "
            "sunkpy: sacctmgr modify user bob where cluster=it set defaultaccount=b",
        ),
    ],
)
def test_what_somebody_else_made_is_left_as_it_is_and_told_with_the_command_that_hands_it_over(text: str, says: str):
    wanted = values(text)
    plan = plan_accounts(wanted, THEIRS)
    assert [line for line in describe_plan(plan).splitlines() if line.startswith(says)]
    after = settled(wanted, THEIRS)
    assert {key: after.associations[key] for key in THEIRS.associations} == THEIRS.associations
    assert (after.qos["x"], after.accounts["a"]) == (THEIRS.qos["x"], THEIRS.accounts["a"])


def test_the_default_account_of_a_user_whom_others_put_into_partitions_alone_is_left_as_it_is():
    now = msgspec.structs.replace(THEIRS, default_accounts={**THEIRS.default_accounts, "eve": "a"})
    wanted = values("accounts: {b: {}}\nusers: {eve: {accounts: {b: {}}}}")
    told = [line for line in describe_plan(plan_accounts(wanted, now)).splitlines() if "default account" in line]
    assert [line.partition(" was ")[0] for line in told] == ["! default account a of user eve"]
    assert settled(wanted, now).default_accounts["eve"] == "a"


@pytest.mark.parametrize("spoilt", [QosRecord(description="k8s: x"), QosRecord(description="by hand")])
def test_what_is_closed_stays_closed_when_somebody_opens_the_qos_for_that(spoilt: QosRecord):
    closed = settled(values("{}"), settled(values("accounts: {a: {}}\nusers: {ann: {accounts: {a: {}}}}")))
    now = msgspec.structs.replace(closed, qos={**closed.qos, CLOSED: spoilt})
    after, lines = settled(values("{}"), now), describe_plan(plan_accounts(values("{}"), now)).splitlines()
    if spoilt.is_ours:
        assert after == closed
    else:
        assert after.qos[CLOSED] == spoilt
        assert [line for line in lines if line.startswith(f"! QoS {CLOSED} was made by somebody else")]


def test_ours_may_stand_below_and_in_what_others_made():
    wanted = values("accounts: {b: {parent: a}}\nusers: {ann: {accounts: {a: {}, b: {}}, defaultAccount: a}}")
    after = settled(wanted, THEIRS)
    assert after.associations["b", ""].parent == "a"
    assert after.default_accounts["ann"] == "a"


def test_an_account_of_ours_that_is_not_in_the_tree_is_put_there():
    now = msgspec.structs.replace(EMPTY, accounts={**EMPTY.accounts, "a": AccountRecord(description="k8s: a")})
    assert [type(change) for change in plan_accounts(values("accounts: {a: {}}"), now).changes] == [MakeAccount]


HOSTS = """
qos: {fast: {}, slow: {}}
accounts: {chem: {description: Chemistry, shares: 10}, cells: {}}
users: {bob: {accounts: {chem: {}}}}
"""
GUESTS = """
accounts: {chem: {description: Ours, shares: 7, qos: [fast]}, bio: {}}
users: {bob: {accounts: {chem: {}, bio: {}}, defaultAccount: bio}, eve: {accounts: {bio: {}}}}
"""


def as_guest(now: Accounting) -> Accounting:
    """What another cluster of the same slurmdbd finds there at first."""
    defaults = dict.fromkeys(now.default_accounts, "") | EMPTY.default_accounts
    return msgspec.structs.replace(
        now, cluster="guest", associations=EMPTY.associations, default_accounts=defaults, is_guest=True
    )


def test_a_guest_makes_what_is_missing_and_changes_nothing_that_all_clusters_have():
    hosts = settled(values(HOSTS))
    before = as_guest(hosts)
    after = settled(values(GUESTS), before)
    assert (after.qos, after.accounts) == (hosts.qos, {**hosts.accounts, "bio": after.accounts["bio"]})
    assert after.associations["chem", ""].shares == 7
    assert after.default_accounts == {"root": "root", "bob": "bio", "eve": "bio"}
    lines = describe_plan(plan_accounts(values(GUESTS), before)).splitlines()
    assert "+ user bob in account bio: shares 1, QoS normal, default QoS normal, their default account" in lines
    assert plan_accounts(values(GUESTS), after).changes == ()


def test_a_guest_closes_its_associations_and_no_qos():
    before = settled(values(GUESTS), as_guest(settled(values(HOSTS))))
    after = settled(values("{}"), before)
    assert {each.qos for each in after.associations.values() if each.is_ours} == {(CLOSED,)}
    assert {name: each for name, each in after.qos.items() if name != CLOSED} == before.qos
    spoilt = msgspec.structs.replace(after, qos={**after.qos, CLOSED: QosRecord(description="k8s: x")})
    assert plan_accounts(values("{}"), spoilt).changes == (), "the host mends it"


def test_what_a_person_made_in_the_cluster_of_a_guest_is_left_alone_whoever_described_the_account():
    hosts = as_guest(settled(values(HOSTS)))
    place = AssociationRecord(account="cells", parent="root", shares=77)
    now = msgspec.structs.replace(hosts, associations={**hosts.associations, place.key: place})
    assert plan_accounts(values("{}"), now).changes == ()
    assert told("accounts: {cells: {}}", now) == [
        "! account cells was made by somebody else and is left as it is. To hand it over to sunkpy: sacctmgr modify "
        "account "
        "cells where cluster=guest set comment='k8s: values'",
        "Nothing to change.",
    ]


def test_a_user_moves_to_a_new_default_account_with_their_membership_there():
    now = settled(values("accounts: {a: {}}\nusers: {bob: {accounts: {a: {}}}}"))
    both = values("accounts: {a: {}, b: {}}\nusers: {bob: {accounts: {a: {}, b: {}}, defaultAccount: b}}")
    assert settled(both, now).default_accounts["bob"] == "b"


def test_the_user_of_pods_is_in_every_account_with_the_shares_of_the_account():
    lines = told("accounts: {a: {}, b: {}}\npods: {account: b}")
    assert [line for line in lines if "k8s in" in line] == [
        "+ user k8s in account b: shares parent, QoS normal, default QoS normal",
        "+ user k8s in account a: shares parent, QoS normal, default QoS normal",
    ]


def test_what_a_user_may_have_submitted_is_bounded_unless_their_values_say_otherwise():
    """And pods are not: of all of them one user has the jobs."""
    text = """
    accounts: {a: {}}
    submittedPerUser: 2000
    users: {ann: {accounts: {a: {}}}, bob: {accounts: {a: {limits: {submitted: 9, jobs: 1}}}}}
    pods: {account: a}
    """
    now = settled(values(text))
    assert {key[1]: each.limits for key, each in now.associations.items() if key[1] in ("ann", "bob", "k8s")} == {
        "ann": Limits(submitted=2000),
        "bob": Limits(submitted=9, jobs=1),
        "k8s": Limits(),
    }
    lifted = settled(values(text.replace("submittedPerUser: 2000", "")), now)
    assert lifted.associations["a", "ann"].limits == Limits()
