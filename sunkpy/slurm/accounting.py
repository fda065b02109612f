"""Requests to slurmdbd: reads and changes of accounts, QoS, users and associations, and reads of usage.

slurmrestd passes all of them on to slurmdbd, except the read of fair shares, which slurmctld computes. Traps that were
seen with Slurm 24.11.5 and 26.05.5:

* slurmdbd accepts almost anything. It drops values that it does not know (a TRES, a default QoS) and reports success.
  So callers read an object again after a write.
* Make an account with `accounts_association/`: `associations/` makes one without a parent, outside of the tree.
* If slurmdbd answers 304 to a write, the object exists already, and nothing was changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from sunkpy.core.accounts.records import Accounting, AccountRecord, AssociationRecord, JobRecord, QosRecord
from sunkpy.core.figures.shares import Share
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import JobId
from sunkpy.slurm import accounting_bodies as bodies
from sunkpy.slurm import accounting_wire, wire
from sunkpy.slurm.errors import Malformed, NotFound
from sunkpy.slurm.request import Request
from sunkpy.slurm.transport import Transport

T = TypeVar("T")

_ITS_OWN: Final = {"Exclude limits from parents": "true"}
"""The parameter of slurmrestd that leaves out limits and QoS which an association inherits from its parents."""

_USAGE: Final = {"Include usage": "true"}


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of an account's jobs, or of one user's jobs in it if `user` is set. `tres_seconds`: by Slurm's name of
    the TRES.
    """

    account: str
    user: str
    tres_seconds: Mapping[str, int]


class AccountingCalls:
    """The methods of `sunkpy.slurm.client.Slurm` about accounts. `cluster` is Slurm's ClusterName.

    A read takes 2–10 ms, and 0.1 s for 1,000 associations.

    If no answer comes, the request that creates an account or a membership is sent again, because it leaves an existing
    object as it is. A change, or a write of a QoS, is not sent again, because it could then overwrite later changes of
    others, or recreate what others have deleted. Read the object before you repeat a change.
    """

    _transport: Transport

    async def accounting(self, cluster: str) -> Accounting:
        """Read all that slurmdbd keeps of one cluster, except usage. This takes five requests, so the answer is not of
        one moment.

        Associations with a partition are left out, because the chart's values cannot make them.

        Raises:
            Unreachable: slurmdbd, or its database, is away.
            Malformed: the answer lacks objects that every slurmdbd has, so others may be missing too.
        """
        reply = await self._associations(cluster, _ITS_OWN)
        associations = [each.to_core() for each in reply.associations if not each.partition]
        # A user has a default account in each cluster, and `users/` names that of any.
        defaults = {each.user: each.account for each in reply.associations if each.user and each.is_default}
        return Accounting(
            cluster=cluster,
            qos=await self._qos(),
            accounts=await self._accounts(),
            associations={association.key: association for association in associations},
            default_accounts=dict.fromkeys(await self._users(), "") | defaults,
            tres=await self._tres(),
        )

    async def usage(self, cluster: str, *, start_s: int, end_s: int) -> list[Usage]:
        """Read the usage of each account and user of a cluster between two times (seconds since 1970). Only whole hours
        count, because slurmdbd adds up usage when an hour is over.
        """
        params: dict[str, str | int] = {**_USAGE, "usage_start": start_s, "usage_end": end_s}
        reply = await self._associations(cluster, params)
        return [
            Usage(account=each.account, user=each.user, tres_seconds=each.usage)
            for each in reply.associations
            if each.accounting
        ]

    async def job_record(self, job_id: JobId) -> JobRecord | None:
        """Return slurmdbd's record of a job; None if slurmdbd has none that this client's Slurm user may see.

        Raises:
            Unreachable: slurmdbd is away; with HTTP status 404, slurmrestd has no slurmdbd to ask.
        """
        what = f"read job {job_id} of slurmdbd"
        request = Request(what=what, method="GET", endpoint="job/{name}", name=job_id, api="slurmdb", attempts=1)
        try:
            reply = await self._transport.ask(request, accounting_wire.RecordsReply)
        except NotFound:
            return None
        found = [each for each in reply.jobs if each.job_id == job_id]
        if not found:
            return None
        return JobRecord(state=frozenset(found[-1].state.current), nodes=tuple(hostlist.expand(found[-1].nodes)))

    async def shares(self) -> list[Share]:
        """Read the fair shares of accounts and users, as slurmctld computes them now."""
        request = Request(what="read the shares", method="GET", endpoint="shares", attempts=1)
        reply = await self._transport.ask(request, accounting_wire.SharesReply)
        return await asyncio.to_thread(lambda: [each.to_core() for each in reply.shares.shares])

    async def put_qos(self, name: str, after: QosRecord, before: QosRecord | None = None) -> None:
        """Make a QoS, or change it from `before` to `after`. If no answer comes, the request is not sent again. If two
        people write the same QoS, the later write wins.

        Raises:
            Unreachable: slurmdbd may or may not have written the QoS.
            Rejected: the QoS preempts a QoS that does not exist (2066), or itself (2067).
        """
        body = {"qos": [bodies.qos_body(name, after, before or QosRecord())]}
        await self._write(f"write QoS {name}", "qos/", body, attempts=1)

    async def make_account(self, record: AccountRecord, association: AssociationRecord, *, cluster: str) -> None:
        """Make an account below its parent. An existing account stays as it is.

        Raises:
            Rejected: the parent (2046) or a QoS (2066) does not exist.
        """
        body = bodies.account_body(record, association, cluster)
        await self._write(f"make account {association.account}", "accounts_association/", body)

    async def describe_account(self, name: str, record: AccountRecord) -> None:
        """Change description and organization of an account, in all clusters. If no answer comes, the request is not
        sent again.
        """
        account = {"name": name, "description": record.description, "organization": record.organization}
        await self._write(f"describe account {name}", "accounts/", {"accounts": [account]}, attempts=1)

    async def make_memberships(
        self, associations: Sequence[AssociationRecord], *, cluster: str, is_default: bool = False
    ) -> None:
        """Put users into one account, all with equal shares and limits, in one request. The account becomes a user's
        default account if the user had none in this cluster, or if `is_default` is True.

        Ten users take as long as one. If the account or a QoS does not exist, nothing is made, and no error is raised.
        """
        what = f"put user {_first(associations)} into account {associations[0].account}"
        body = bodies.membership_body(associations, cluster, is_default=is_default)
        await self._write(what, "users_association/", body)

    async def change_associations(
        self, changes: Sequence[tuple[AssociationRecord, AssociationRecord]], *, cluster: str
    ) -> None:
        """Change existing associations of accounts or of users, each given as (after, before).

        slurmdbd changes the associations in order, and stops at the first one that it refuses. If no answer comes, the
        request is not sent again.
        """
        first = changes[0][0]
        users = _first([after for after, _ in changes])
        who = f"user {users} in account {first.account}" if first.user else f"account {first.account}"
        body = {"associations": [bodies.association_body(after, before, cluster) for after, before in changes]}
        await self._write(f"change {who}", "associations/", body, attempts=1)

    async def set_default_account(self, association: AssociationRecord, *, cluster: str) -> None:
        """Set a user's default account in this cluster, for jobs that name no account. The user must be in the account.
        If no answer comes, the request is not sent again.

        The endpoint `users/` is not used, because it would set the default account in all clusters.
        """
        what = f"make {association.account} the default account of user {association.user}"
        body = {**bodies.association_body(association, association, cluster), "is_default": True}
        await self._write(what, "associations/", {"associations": [body]}, attempts=1)

    # ---------------------------------------------------------------------------------------------------- the parts

    async def _associations(self, cluster: str, params: Mapping[str, str | int]) -> accounting_wire.AssociationsReply:
        request = _read("associations", params={"cluster": cluster, **params})
        return await self._transport.ask(request, accounting_wire.AssociationsReply)

    async def _qos(self) -> dict[str, QosRecord]:
        reply = await self._transport.ask(_read("qos"), accounting_wire.QosReply)
        return {qos.name: qos.to_core() for qos in _some("qos", reply.qos)}

    async def _accounts(self) -> dict[str, AccountRecord]:
        reply = await self._transport.ask(_read("accounts"), accounting_wire.AccountsReply)
        return {account.name: account.to_core() for account in _some("accounts", reply.accounts)}

    async def _users(self) -> list[str]:
        reply = await self._transport.ask(_read("users"), accounting_wire.UsersReply)
        return [user.name for user in _some("users", reply.users)]

    async def _tres(self) -> frozenset[str]:
        reply = await self._transport.ask(_read("tres"), accounting_wire.TresReply)
        return frozenset(each.label for each in _some("tres", reply.tres))

    async def _write(
        self, what: str, endpoint: str, body: Mapping[str, object], *, attempts: int | None = None
    ) -> None:
        request = Request(what=what, method="POST", endpoint=endpoint, api="slurmdb", body=body, attempts=attempts)
        await self._transport.call(request, wire.Reply)


def _first(associations: Sequence[AssociationRecord]) -> str:
    """Return, for an error's text, the user of the first association and the number of others."""
    others = f" and {len(associations) - 1} others" if len(associations) > 1 else ""
    return f"{associations[0].user}{others}"


def _some(what: str, listed: tuple[T, ...]) -> tuple[T, ...]:
    """Return `listed`, the objects of one kind (`what`) in slurmdbd's answer. Raise Malformed if there are none: every
    slurmdbd has QoS `normal`, user and account `root`, and TRES `cpu`.
    """
    if not listed:
        raise Malformed(
            f"read the {what} of slurmdbd", endpoint=f"slurmdb/{what}/", text="the answer lists none at all"
        )
    return listed


def _read(what: str, params: Mapping[str, str | int] | None = None) -> Request:
    return Request(
        what=f"read the {what} of slurmdbd", method="GET", endpoint=f"{what}/", api="slurmdb", params=params or {}
    )
