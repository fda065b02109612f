"""Makes the request bodies for slurmrestd's `/slurmdb/` from records. slurmdbd reads these bodies by its own rules:

* `infinite` lifts a limit that is a number. A TRES limit is lifted by the count -1: on a QoS, an empty list of TRES
  changes nothing.
* An empty list of QoS changes nothing, and a list with an empty name crashes slurmrestd (24.11.5, 26.05.5).
* `user` must be given; it is empty in the association of an account.
* slurmdbd takes the comment of an association only when it makes the association.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sunkpy.core.accounts.records import AccountRecord, AssociationRecord, Limits, QosRecord, Tres
from sunkpy.slurm.accounting_wire import PREEMPT_MODE_OF_CLUSTER, QOS_FLAGS

Body = dict[str, object]

_NO_LIMIT: Final = -1
_FLAG_NAMES: Final = {name: flag for flag, name in QOS_FLAGS.items()}


def account_body(record: AccountRecord, association: AssociationRecord, cluster: str) -> Body:
    """Return the body of POST accounts_association/: an account and its place in the tree."""
    about = {"description": record.description, "organization": record.organization}
    return {
        "association_condition": {
            "accounts": [association.account],
            "clusters": [cluster],
            "association": {"parent": association.parent, **_new(association)},
        },
        "account": about,
    }


def membership_body(associations: Sequence[AssociationRecord], cluster: str, *, is_default: bool) -> Body:
    """Return the body of POST users_association/: it puts users into an account, and makes users that do not exist."""
    first = associations[0]
    return {
        "association_condition": {
            "users": [association.user for association in associations],
            "accounts": [first.account],
            "clusters": [cluster],
            "association": _new(first),
        },
        "user": {"defaultaccount": first.account} if is_default else {},
    }


def association_body(after: AssociationRecord, before: AssociationRecord, cluster: str) -> Body:
    """Return the body of POST associations/, which changes the parent, shares, QoS or limits of an association. A TRES
    limit that only `before` has is lifted.
    """
    limits = after.limits
    jobs = {
        "count": _number(limits.jobs),
        "submitted": _number(limits.submitted),
        "wall_clock": _number(limits.job_minutes),
    }
    tres = {
        "total": _tres(limits.tres, before.limits.tres),
        "group": {"minutes": _tres(limits.tres_minutes, before.limits.tres_minutes)},
        "per": {"job": _tres(limits.job_tres, before.limits.job_tres)},
    }
    return {
        "account": after.account,
        "user": after.user,
        "cluster": cluster,
        **({} if after.user else {"parent_account": after.parent}),
        "shares_raw": after.shares,
        "qos": list(after.qos),
        "default": {"qos": after.default_qos},
        "max": {"jobs": {"per": jobs}, "tres": tres},
    }


def qos_body(name: str, after: QosRecord, before: QosRecord) -> Body:
    """Return the body of POST qos/, which makes or changes a QoS. A TRES limit that only `before` has is lifted."""
    preempt: Body = {"mode": [after.preempt_mode or PREEMPT_MODE_OF_CLUSTER]}
    if after.preempts:
        preempt["list"] = list(after.preempts)
    return {
        "name": name,
        "description": after.description,
        "priority": _number(after.priority),
        "flags": [_FLAG_NAMES.get(flag, flag) for flag in after.flags],
        "preempt": preempt,
        "limits": {"max": _qos_limits(after, before)},
    }


def _qos_limits(after: QosRecord, before: QosRecord) -> Body:
    limits, user, account = after.limits, after.per_user, after.per_account
    per = {
        "job": _tres(limits.job_tres, before.limits.job_tres),
        "user": _tres(user.tres, before.per_user.tres),
        "account": _tres(account.tres, before.per_account.tres),
    }
    return {
        "active_jobs": {"count": _number(limits.jobs)},
        "jobs": {
            "count": _number(limits.submitted),
            "active_jobs": {"per": {"user": _number(user.jobs), "account": _number(account.jobs)}},
            "per": {"user": _number(user.submitted), "account": _number(account.submitted)},
        },
        "tres": {
            "total": _tres(limits.tres, before.limits.tres),
            "minutes": {"total": _tres(limits.tres_minutes, before.limits.tres_minutes)},
            "per": per,
        },
        "wall_clock": {"per": {"job": _number(limits.job_minutes)}},
    }


def _new(association: AssociationRecord) -> Body:
    """Return the settings with which an association is created, with the field names of sacctmgr(1). Limits, QoS and
    default QoS that the association does not have are left out.
    """
    return {
        "fairshare": association.shares,
        "comment": association.comment,
        **({"qoslevel": list(association.qos)} if association.qos else {}),
        **({"defaultqos": association.default_qos} if association.default_qos else {}),
        **_new_limits(association.limits),
    }


def _new_limits(limits: Limits) -> Mapping[str, object]:
    numbers = {
        "grpjobs": limits.jobs,
        "grpsubmitjobs": limits.submitted,
        "maxwalldurationperjob": limits.job_minutes,
    }
    tables = {"grptres": limits.tres, "grptresmins": limits.tres_minutes, "maxtresperjob": limits.job_tres}
    return {
        **{name: _number(number) for name, number in numbers.items() if number is not None},
        **{name: _tres(table, {}) for name, table in tables.items() if table},
    }


def _number(number: int | None) -> Body:
    return {"set": number is not None, "infinite": number is None, "number": number or 0}


def _tres(after: Tres, before: Tres) -> list[Body]:
    lifted = dict.fromkeys(set(before) - set(after), _NO_LIMIT)
    return [_amount(label, count) for label, count in sorted({**after, **lifted}.items())]


def _amount(label: str, count: int) -> Body:
    kind, _, name = label.partition("/")
    return {"type": kind, "name": name, "count": count}
