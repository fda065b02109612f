"""What pods of a namespace may ask of Slurm, and which Slurm users own their jobs.

The administrator maps namespaces to Slurm users in `scheduler.access`. If a rule gives a namespace users, the jobs of
its pods are submitted as one of these users, and Slurm applies that user's limits. If a rule gives no users, or lets
pods name any user (`*`) and a pod names none, the scheduler's own Slurm user owns the job. Then only the rule says
which partitions, accounts and so on the job may use. A namespace without a rule gets only the default partition.

A rule names namespaces, or has labels that a namespace must have. If no rule covers a namespace, annotations on the
namespace can say the same, except the limit for grace periods. They count only with `scheduler.annotatedAccess`. Set it
only if nobody but administrators can write these annotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.options import Problem, is_user
from sunkpy.core.model.job_spec import JobSpec

ANY: Final = "*"


class AccessRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One rule of `scheduler.access`: what pods of some namespaces may ask for. `namespaces`: the names of these
    namespaces, or `*` for all. `namespace_labels`: the rule also covers namespaces that have all these labels.

    Each other list has the names that pods may use; `*` allows any name. If a pod names no user, partition, account or
    QoS, it gets the first name of that list, or none if the list is empty or begins with `*`. If a pod names no
    reservation or license, it gets none. `longest_grace_seconds`: the limit for the grace period of pods whose job has
    lost the node; 0: the rule sets no limit.
    """

    namespaces: tuple[str, ...] = ()
    namespace_labels: dict[str, str] = {}
    users: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()
    licenses: tuple[str, ...] = ()
    longest_grace_seconds: int = 0

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True if the rule applies to a namespace with this name and these labels: it names the namespace, or it has
        labels and the namespace has all of them.
        """
        by_name = ANY in self.namespaces or namespace in self.namespaces
        by_label = bool(self.namespace_labels) and self.namespace_labels.items() <= labels.items()
        return by_name or by_label


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """The name, labels and annotations of a namespace, as far as they are known."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


_LISTS: Final = {
    "user": "users",
    "partition": "partitions",
    "account": "accounts",
    "qos": "qos",
    "reservation": "reservations",
    "licenses": "licenses",
}
"""Field of JobSpec → the field of AccessRule that lists its allowed names."""

_ONLY_IF_ASKED: Final = frozenset({"reservation", "licenses"})
"""Options without a default. For all other options a pod that names none gets the first allowed value."""


def rule_for(rules: Iterable[AccessRule], namespace: Namespace, *, annotated: bool = False) -> AccessRule:
    """Return the first rule that covers a namespace. If none does, return a rule made of the annotations of the
    namespace, or an empty rule, which allows nothing but the default partition.

    `annotated`: whether to read the annotations of the namespace (`scheduler.annotatedAccess` of the chart). It should
    be True only if nobody but administrators can write these annotations.
    """
    own = _annotated_rule(namespace.annotations) if annotated else AccessRule()
    return next((rule for rule in rules if rule.covers(namespace.name, namespace.labels)), own)


def _annotated_rule(annotations: Mapping[str, str]) -> AccessRule:

    def said(annotation: str) -> tuple[str, ...]:
        return tuple(name for part in annotations.get(annotation, "").split(",") if (name := part.strip()))

    return AccessRule(
        users=said(names.ANNOTATION_USERS),
        partitions=said(names.ANNOTATION_PARTITIONS),
        accounts=said(names.ANNOTATION_ACCOUNTS),
        qos=said(names.ANNOTATION_QOS),
        reservations=said(names.ANNOTATION_RESERVATIONS),
        licenses=said(names.ANNOTATION_LICENSES),
    )


def restricted(gang: Gang, rule: AccessRule, *, default_partition: str = "") -> Gang:
    """Return the gang with only those users, partitions, accounts, QoS, reservations and licenses that the rule of its
    namespace allows, and with the rule's limit for grace periods. An option that nobody set gets the default of the
    rule. For each option that the namespace may not use, the gang gets a fatal problem, and is not submitted.

    A refused option is replaced by the default, too: pods that somebody bound by hand get a job although their gang is
    refused.
    """
    changes: dict[str, str] = {}
    problems: list[Problem] = []
    for option, listed in _LISTS.items():
        allowed: tuple[str, ...] = getattr(rule, listed)
        if option == "partition" and default_partition and not allowed:
            allowed = (default_partition,)
        asked: str = getattr(gang.options, option)
        refused = [name for name in _named(option, asked) if ANY not in allowed and name not in allowed]
        if refused:
            problems.append(_refusal(gang, option, refused, allowed))
        if refused or not asked:
            has_default = option not in _ONLY_IF_ASKED and allowed and allowed[0] != ANY
            changes[option] = allowed[0] if has_default else ""
    options: JobSpec = msgspec.structs.replace(gang.options, **changes)
    if options.user and not is_user(options.user):
        text = (
            f"Slurm user {options.user!r} of namespace {gang.id.namespace} (scheduler.access) is not the name of a "
            "person"
        )
        problems.append(Problem(text=text, fatal=True))
        options = msgspec.structs.replace(options, user="")
    across = {} if options.user else _across_namespaces(gang, options)
    options = msgspec.structs.replace(options, **dict.fromkeys(across, ""))
    problems = [*gang.problems, *problems, *across.values()]
    return msgspec.structs.replace(
        gang, options=options, problems=tuple(problems), longest_grace_s=rule.longest_grace_seconds
    )


def _named(option: str, asked: str) -> list[str]:
    """Return the names in the value of an option, such as two partitions in `a,b`. The counts of licenses are cut off
    (`sbatch --licenses`: `a:2,b`, `a|b`).
    """
    parts = re.split(r"[,;|()\s]+", asked) if option == "licenses" else asked.split(",")
    return [name for part in parts if (name := part.partition(":")[0] if option == "licenses" else part)]


def _across_namespaces(gang: Gang, options: JobSpec) -> dict[str, Problem]:
    """Return the options of the gang that would affect other namespaces, by their field in JobSpec. Each comes with a
    fatal problem, by which the gang is refused. Slurm applies these options to all jobs of a user, and here several
    namespaces share the scheduler's Slurm user.
    """
    asked = {
        "dependency": ("dependency", "singleton" in options.dependency, "singleton would wait for jobs"),
        "shared": ("exclusive", options.shared == "user", "the value user would share nodes with jobs"),
    }
    why = (
        f"of other namespaces, too, because namespace {gang.id.namespace} has no Slurm user of its own. Leave it out, "
        "or ask an administrator for a Slurm user of the namespace: scheduler.access of the Slurm cluster"
    )
    return {
        field: Problem(annotation=names.PREFIX + name, text=f"{what} {why}", fatal=True)
        for field, (name, is_asked, what) in asked.items()
        if is_asked
    }


def unknown_namespace(gang: Gang) -> Gang:
    """Return the gang for the time while its namespace is not known yet: without options, without a Slurm user, and
    with a fatal problem, so that no job is submitted for pods without a node.
    """
    text = f"the scheduler does not know yet what namespace {gang.id.namespace} may ask of Slurm"
    problems = (*gang.problems, Problem(text=text, fatal=True))
    return msgspec.structs.replace(gang, options=JobSpec(), problems=problems)


def _refusal(gang: Gang, option: str, refused: list[str], allowed: tuple[str, ...]) -> Problem:
    may = f"it may use {', '.join(allowed)}" if allowed else "it may name none"
    text = (
        f"namespace {gang.id.namespace} may not use {option} {', '.join(refused)}: {may}; "
        "an administrator can allow more in scheduler.access of the Slurm cluster"
    )
    return Problem(annotation=names.PREFIX + option, text=text, fatal=True)
