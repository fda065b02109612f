"""Types of slurmrestd's `/slurmdb/` answers, v0.0.42 … v0.0.45, and their conversion to `sunkpy.core.accounts.records`.

The API has its own names for limits. This table gives the names of `sacctmgr show` for them:

    association                                     QoS
    max.jobs.per.count          GrpJobs             limits.max.active_jobs.count            GrpJobs
    max.jobs.per.submitted      GrpSubmitJobs       limits.max.jobs.count                   GrpSubmitJobs
    max.tres.total              GrpTRES             limits.max.tres.total                   GrpTRES
    max.tres.group.minutes      GrpTRESMins         limits.max.tres.minutes.total           GrpTRESMins
    max.tres.per.job            MaxTRESPerJob       limits.max.tres.per.job                 MaxTRESPerJob
    max.jobs.per.wall_clock     MaxWall             limits.max.wall_clock.per.job           MaxWall
                                                    limits.max.jobs.active_jobs.per.user    MaxJobsPerUser
                                                    limits.max.jobs.per.user                MaxSubmitJobsPerUser
                                                    limits.max.tres.per.user                MaxTRESPerUser
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from sunkpy.core.accounts.records import AccountRecord, AssociationRecord, Ceiling, Limits, QosRecord, Tres
from sunkpy.core.figures.shares import Share
from sunkpy.slurm.wire import Number, Reply

QOS_FLAGS: Final = {
    "DENY_LIMIT": "DenyOnLimit",
    "ENFORCE_USAGE_THRESHOLD": "EnforceUsageThreshold",
    "NO_DECAY": "NoDecay",
    "NO_RESERVE": "NoReserve",
    "OVERRIDE_PARTITION_QOS": "OverPartQOS",
    "PARTITION_MAXIMUM_NODE": "PartitionMaxNodes",
    "PARTITION_MINIMUM_NODE": "PartitionMinNodes",
    "PARTITION_TIME_LIMIT": "PartitionTimeLimit",
    "REQUIRED_RESERVATION": "RequiresReservation",
    "USAGE_FACTOR_SAFE": "UsageFactorSafe",
}
"""Name of a QoS flag in the API → its name in sacctmgr(1)."""

PREEMPT_MODE_OF_CLUSTER: Final = "DISABLED"
"""The API's name for the mode of a QoS that leaves preemption to slurm.conf."""


class WireTres(msgspec.Struct, frozen=True):
    """An amount of a TRES. For a GRES, `type` is `gres` and `name` is the GRES."""

    type: str = ""
    name: str = ""
    count: int = 0

    @property
    def label(self) -> str:
        """Slurm's name of the TRES, such as `cpu` or `gres/gpu`."""
        return f"{self.type}/{self.name}" if self.name else self.type


TresList = tuple[WireTres, ...]


def _limit(number: Number) -> int | None:
    return number.value if number.set and not number.infinite else None


def _tres(amounts: Iterable[WireTres]) -> Tres:
    return {each.label: each.count for each in amounts}


# ----------------------------------------------------------------------------------------------------- associations


class JobsPer(msgspec.Struct, frozen=True, kw_only=True):
    """The object `max.jobs.per` of an association."""

    count: Number = Number()
    submitted: Number = Number()
    wall_clock: Number = Number()


class MaxJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The object `max.jobs` of an association."""

    per: JobsPer = JobsPer()


class TresGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The object `max.tres.group` of an association."""

    minutes: TresList = ()


class TresPer(msgspec.Struct, frozen=True, kw_only=True):
    """The object `max.tres.per` of an association, and `limits.max.tres.per` of a QoS."""

    account: TresList = ()
    job: TresList = ()
    user: TresList = ()


class MaxTres(msgspec.Struct, frozen=True, kw_only=True):
    """The object `max.tres` of an association."""

    total: TresList = ()
    group: TresGroup = TresGroup()
    per: TresPer = TresPer()


class AssociationMax(msgspec.Struct, frozen=True, kw_only=True):
    """The object `max` of an association: its limits."""

    jobs: MaxJobs = MaxJobs()
    tres: MaxTres = MaxTres()


class DefaultQos(msgspec.Struct, frozen=True, kw_only=True):
    """The object `default` of an association: its default QoS."""

    qos: str = ""


class UsageAmount(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of usage: TRES times seconds."""

    seconds: int = 0


class WireUsage(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `accounting`: the usage of one TRES in the hour, day or month that begins at `start`."""

    allocated: UsageAmount = UsageAmount()
    start: int = 0
    tres: WireTres = msgspec.field(default=WireTres(), name="TRES")


class WireAssociation(msgspec.Struct, frozen=True, kw_only=True):
    """An association in slurmdbd's answer."""

    account: str
    user: str = ""
    cluster: str = ""
    partition: str = ""
    parent_account: str = ""
    shares_raw: int = 1
    qos: tuple[str, ...] = ()
    default: DefaultQos = DefaultQos()
    is_default: bool = False
    comment: str = ""
    max: AssociationMax = AssociationMax()
    accounting: tuple[WireUsage, ...] = ()

    @property
    def usage(self) -> dict[str, int]:
        """The usage by the name of the TRES, in TRES times seconds; empty if the request did not ask for it."""
        used: dict[str, int] = {}
        for each in self.accounting:
            used[each.tres.label] = used.get(each.tres.label, 0) + each.allocated.seconds
        return used

    def to_core(self) -> AssociationRecord:
        """Return the association as an `AssociationRecord`. The limits include inherited ones, unless the request
        excluded these.
        """
        jobs, tres = self.max.jobs.per, self.max.tres
        return AssociationRecord(
            account=self.account,
            user=self.user,
            parent=self.parent_account,
            shares=self.shares_raw,
            qos=tuple(sorted(self.qos)),
            default_qos=self.default.qos,
            comment=self.comment,
            limits=Limits(
                jobs=_limit(jobs.count),
                submitted=_limit(jobs.submitted),
                tres=_tres(tres.total),
                tres_minutes=_tres(tres.group.minutes),
                job_tres=_tres(tres.per.job),
                job_minutes=_limit(jobs.wall_clock),
            ),
        )


class AssociationsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET associations/."""

    associations: tuple[WireAssociation, ...] = ()


# --------------------------------------------------------------------------------------------- accounts, users, TRES


class WireAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account in slurmdbd's answer."""

    name: str
    description: str = ""
    organization: str = ""

    def to_core(self) -> AccountRecord:
        """Return the account's description and organization as an `AccountRecord`."""
        return AccountRecord(description=self.description, organization=self.organization)


class AccountsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET accounts/."""

    accounts: tuple[WireAccount, ...] = ()


class WireUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user in slurmdbd's answer."""

    name: str


class UsersReply(Reply, frozen=True, kw_only=True):
    """The answer to GET users/."""

    users: tuple[WireUser, ...] = ()


class TresReply(Reply, frozen=True, kw_only=True):
    """The answer to GET tres/."""

    tres: TresList = msgspec.field(default=(), name="TRES")


# -------------------------------------------------------------------------------------------------------------- QoS


class PerUserAndAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Two limits of a QoS: one for each user, and one for each account."""

    account: Number = Number()
    user: Number = Number()


class ActiveJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The objects `limits.max.active_jobs` and `limits.max.jobs.active_jobs` of a QoS."""

    count: Number = Number()
    per: PerUserAndAccount = PerUserAndAccount()


class QosJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The object `limits.max.jobs` of a QoS."""

    count: Number = Number()
    active_jobs: ActiveJobs = ActiveJobs()
    per: PerUserAndAccount = PerUserAndAccount()


class QosTresMinutes(msgspec.Struct, frozen=True, kw_only=True):
    """The object `limits.max.tres.minutes` of a QoS."""

    total: TresList = ()


class QosTres(msgspec.Struct, frozen=True, kw_only=True):
    """The object `limits.max.tres` of a QoS."""

    total: TresList = ()
    minutes: QosTresMinutes = QosTresMinutes()
    per: TresPer = TresPer()


class WallClockPer(msgspec.Struct, frozen=True, kw_only=True):
    """The object `limits.max.wall_clock.per` of a QoS."""

    job: Number = Number()


class WallClock(msgspec.Struct, frozen=True, kw_only=True):
    """The object `limits.max.wall_clock` of a QoS."""

    per: WallClockPer = WallClockPer()


class QosMax(msgspec.Struct, frozen=True, kw_only=True):
    """The object `limits.max` of a QoS."""

    active_jobs: ActiveJobs = ActiveJobs()
    jobs: QosJobs = QosJobs()
    tres: QosTres = QosTres()
    wall_clock: WallClock = WallClock()


class QosLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The object `limits` of a QoS."""

    max: QosMax = QosMax()


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """The object `preempt` of a QoS: which QoS it preempts, and how."""

    list: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()


class WireQos(msgspec.Struct, frozen=True, kw_only=True):
    """A QoS in slurmdbd's answer."""

    name: str
    description: str = ""
    priority: Number = Number()
    flags: tuple[str, ...] = ()
    limits: QosLimits = QosLimits()
    preempt: Preemption = Preemption()

    def to_core(self) -> QosRecord:
        """Return the QoS as a `QosRecord`, with its flags named as in sacctmgr(1). A flag that is not in `QOS_FLAGS`
        keeps the API's name.
        """
        limits = self.limits.max
        per, minutes, jobs = limits.tres.per, limits.tres.minutes, limits.jobs
        running = jobs.active_jobs.per
        return QosRecord(
            description=self.description,
            priority=self.priority.value,
            preempts=tuple(sorted(self.preempt.list)),
            preempt_mode=next((mode for mode in self.preempt.mode if mode != PREEMPT_MODE_OF_CLUSTER), ""),
            flags=tuple(sorted(QOS_FLAGS.get(flag, flag) for flag in self.flags)),
            limits=Limits(
                jobs=_limit(limits.active_jobs.count),
                submitted=_limit(jobs.count),
                tres=_tres(limits.tres.total),
                tres_minutes=_tres(minutes.total),
                job_tres=_tres(per.job),
                job_minutes=_limit(limits.wall_clock.per.job),
            ),
            per_user=Ceiling(jobs=_limit(running.user), submitted=_limit(jobs.per.user), tres=_tres(per.user)),
            per_account=Ceiling(
                jobs=_limit(running.account), submitted=_limit(jobs.per.account), tres=_tres(per.account)
            ),
        )


class QosReply(Reply, frozen=True, kw_only=True):
    """The answer to GET qos/."""

    qos: tuple[WireQos, ...] = ()


# ------------------------------------------------------------------------------------------------------------- jobs


class RecordedState(msgspec.Struct, frozen=True, kw_only=True):
    """The object `state` of a job record in slurmdbd."""

    current: tuple[str, ...] = ()


class WireRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job record in slurmdbd's answer."""

    job_id: int
    state: RecordedState = RecordedState()
    nodes: str = ""


class RecordsReply(Reply, frozen=True, kw_only=True):
    """The answer of slurmdbd to GET job/{id}."""

    jobs: tuple[WireRecord, ...] = ()


# ----------------------------------------------------------------------------------------------------------- shares


class FairShare(msgspec.Struct, frozen=True, kw_only=True):
    """The object `fairshare` of an entry of GET shares."""

    factor: Number = Number()


class WireShare(msgspec.Struct, frozen=True, kw_only=True):
    """The fair share of a user or an account. `parent` is the user's account, or the account above an account."""

    name: str = ""
    parent: str = ""
    type: tuple[str, ...] = ()
    shares_normalized: Number = Number()
    effective_usage: Number = Number()
    usage: int = 0
    fairshare: FairShare = FairShare()

    def to_core(self) -> Share:
        """Return the fair share as the metrics use it."""
        is_user = "USER" in self.type
        return Share(
            account=self.parent if is_user else self.name,
            user=self.name if is_user else "",
            norm_shares=float(self.shares_normalized.number),
            effective_usage=float(self.effective_usage.number),
            usage_s=self.usage,
            factor=float(self.fairshare.factor.number),
        )


class WireShares(msgspec.Struct, frozen=True, kw_only=True):
    """The object `shares` in the answer to GET shares."""

    shares: tuple[WireShare, ...] = ()


class SharesReply(Reply, frozen=True, kw_only=True):
    """The answer of slurmctld to GET shares."""

    shares: WireShares = WireShares()
