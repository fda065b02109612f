from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.accounts import plan_accounts
from sunkpy.core.accounts.records import AccountRecord, AssociationRecord, QosRecord
from tests.unit.core.accounts.build import EMPTY, values

THEIRS = msgspec.structs.replace(
    EMPTY,
    accounts={**EMPTY.accounts, "theirs": AccountRecord(description="by hand")},
    qos={**EMPTY.qos, "old": QosRecord(preempts=("mine",))},
    associations={
        **EMPTY.associations,
        ("theirs", ""): AssociationRecord(account="theirs", parent="mine"),
    },
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accounts: {Chem: {}}", "account 'Chem': a name has at most 60 characters"),
        ("accounts: {'a; drop table': {}}", "account 'a; drop table': a name has"),
        ("accounts: {'../etc': {}}", "account '../etc': a name has"),
        ('accounts: {"a\\nb": {}}', "account 'a\\nb': a name has"),
        ("accounts: {-x: {}}", "account '-x': a name has"),
        ("qos: {'a,b': {}}", "QoS 'a,b': a name has"),
        ("users: {'$(id)': {accounts: {a: {}}}}\naccounts: {a: {}}", "user '$(id)': a name has"),
        ("accounts: {root: {}}", "account root belongs to Slurm"),
        ("users: {root: {accounts: {a: {}}}}\naccounts: {a: {}}", "user root belongs to Slurm"),
        ("qos: {sunkpy-closed: {}}", "QoS sunkpy-closed is reserved for accounts and users that sunkpy has closed"),
        ('accounts: {a: {description: "x\\ny"}}', "account a: its text may not have line breaks"),
        (
            "accounts: {a: {organization: sience}}\norganizations: [science]",
            "account a is of organization sience, which is not among the organizations",
        ),
        ("accounts: {a: {parent: b}}", "account a is below b, which is not in the values, and nobody else has made it"),
        ("accounts: {a: {parent: b}, b: {parent: a}}", "account a is below itself: a < b < a"),
        ("accounts: {a: {parent: a}}", "account a is below itself: a < a"),
        (
            "accounts: {a: {qos: [fast]}}",
            "account a has QoS fast, which is not in the values, and nobody else has made it",
        ),
        ("accounts: {a: {qos: []}}", "account a has an empty `qos`"),
        ("accounts: {a: {defaultQos: fast}}", "account a has the default QoS fast, which is not one of its own"),
        (
            "qos: {x: {}, y: {}}\naccounts: {a: {qos: [x, y]}}",
            "account a has several QoS: one of them has to be the defaultQos",
        ),
        ("qos: {x: {preempts: [y]}}", "QoS x preempts y, which is not in the values, and nobody else has made it"),
        ("qos: {x: {preempts: [x]}}", "QoS x preempts itself: x > x"),
        ("qos: {x: {preempts: [y]}, y: {preempts: [x]}}", "QoS x preempts itself: x > y > x"),
        ("users: {bob: {accounts: {chem: {}}}}", "user bob in account chem: there is no such account"),
        ("users: {bob: {}}", "user bob is in no account"),
        (
            "accounts: {a: {}, b: {}}\nusers: {bob: {accounts: {a: {}, b: {}}}}",
            "user bob is in several accounts: one of them has to be the defaultAccount",
        ),
        (
            "accounts: {a: {}, b: {}}\nusers: {bob: {accounts: {a: {}}, defaultAccount: b}}",
            "user bob has the default account b, which is not one of theirs",
        ),
        (
            "accounts: {a: {}}\nusers: {bob: {accounts: {a: {defaultQos: fast}}}}",
            "user bob in account a has the default QoS fast, which is not one of its own",
        ),
        ("accounts: {a: {limits: {tres: {gres/gpu:h100: 1}}}}", "account a limits gres/gpu:h100, which Slurm does not"),
        ("qos: {x: {perUser: {tres: {licence/x: 1}}}}", "QoS x limits licence/x, which Slurm does not count"),
        ("accounts: {b: {}}\npods: {account: a}", "the account of pods is a, which is not among the accounts"),
        (
            "accounts: {a: {}}\nusers: {k8s: {accounts: {a: {}}}}\npods: {account: a}",
            "user k8s submits the jobs of pods",
        ),
    ],
)
def test_a_contradiction_is_named_and_nothing_is_changed(text: str, says: str):
    plan = plan_accounts(values(text), EMPTY)
    assert [told for told in plan.contradictions if told.startswith(says)], plan.contradictions
    assert plan.changes == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accounts: {mine: {parent: theirs}}", "account mine is below itself: mine < theirs < mine"),
        ("qos: {mine: {preempts: [old]}}", "QoS mine preempts itself: mine > old > mine"),
    ],
)
def test_a_circle_through_what_others_made_is_seen(text: str, says: str):
    assert says in plan_accounts(values(text), THEIRS).contradictions


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("qos: {fast: {}}", "QoS fast: slurmdbd has Fast, and for its database both are the same name"),
        ("accounts: {chem: {}}", "account chem: slurmdbd has Chem, and for its database both are the same name"),
        (
            "accounts: {a: {}}\nusers: {ann: {accounts: {a: {}}}}",
            "user ann: slurmdbd has Ann, and for its database both are the same name",
        ),
    ],
)
def test_a_name_that_others_wrote_in_capitals_is_not_taken(text: str, says: str):
    now = msgspec.structs.replace(
        EMPTY,
        accounts={**EMPTY.accounts, "Chem": AccountRecord(description="by hand")},
        qos={**EMPTY.qos, "Fast": QosRecord(description="by hand")},
        default_accounts={**EMPTY.default_accounts, "Ann": "Chem"},
    )
    plan = plan_accounts(values(text), now)
    assert plan.contradictions == (says,)
    assert plan.changes == ()


def test_what_is_closed_is_not_there_to_build_upon():
    gone = values("accounts: {a: {}}\nqos: {x: {}}")
    now = msgspec.structs.replace(
        EMPTY,
        accounts={**EMPTY.accounts, **{name: AccountRecord(description=f"k8s: {name}") for name in gone.accounts}},
        qos={**EMPTY.qos, "x": QosRecord(description="k8s: x")},
    )
    told = plan_accounts(values("accounts: {b: {parent: a, qos: [x]}}"), now).contradictions
    assert told == (
        "account b is below a, which is not in the values, and nobody else has made it",
        "account b has QoS x, which is not in the values, and nobody else has made it",
    )


def test_all_contradictions_are_told_at_once():
    plan = plan_accounts(values("accounts: {a: {parent: b}}\nusers: {bob: {accounts: {c: {}}}}"), EMPTY)
    assert len(plan.contradictions) == 2


def test_an_unknown_key_is_no_value():
    with pytest.raises(msgspec.ValidationError, match="share"):
        values("accounts: {a: {share: 3}}")
