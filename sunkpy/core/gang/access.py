"""What pods of a namespace may ask of Slurm, and to which Slurm users their jobs belong: the admin's map.

Slurm knows users, Kubernetes namespaces: only an administrator can say which belong together. Where the map gives a
namespace users, its jobs are submitted as one of them, and Slurm holds its own limits against that person. Where it
gives none, they are the scheduler's own, and the map alone says what they may use. A namespace that it does not know
gets the default partition and no more.

The map is made of rules, by name or label of the namespace; of a namespace that no rule covers its annotations may
speak, which only administrators may set.
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
    """One rule of `scheduler.access`: which namespaces may ask for what. `namespaces`: their names, or `*` for all.
    `namespace_labels`: a namespace must have all of them.

    Each list has what is allowed, `*` for anything; its first name, if it is one, is what a pod gets that names none.
    `longest_grace_seconds`: what its pods are given to end that have lost their node; 0: as all others.
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
        """True if the rule is about this namespace."""
        by_name = ANY in self.namespaces or namespace in self.namespaces
        by_label = bool(self.namespace_labels) and self.namespace_labels.items() <= labels.items()
        return by_name or by_label


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace, as far as it is known."""

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
"""Field of JobSpec → the field of Rule that lists its allowed names."""

_ONLY_IF_ASKED: Final = frozenset({"reservation", "licenses"})
"""Options without a default. For all other options a pod that names none gets the first allowed value."""


def rule_for(rules: Iterable[AccessRule], namespace: Namespace, *, annotated: bool = False) -> AccessRule:
    """The first rule that covers a namespace; without one, a rule that allows nothing but the default partition.

    `annotated`: the annotations of the namespace count, because only administrators can have set them.
    """
    own = _annotated_rule(namespace.annotations) if annotated else AccessRule()
    return next((rule for rule in rules if rule.covers(namespace.name, namespace.labels)), own)


def _annotated_rule(annotations: Mapping[str, str]) -> AccessRule:
    """What a namespace says of itself."""

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
    """The gang with the defaults of its namespace, and a fatal problem for each thing that it may not ask for.

    What is refused is not kept: pods that have a node, and anybody can make one that does, get a job all the same.
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
        text = f"namespace {gang.id.namespace} is given to user {options.user!r}, which is not the name of a person"
        problems.append(Problem(text=text, fatal=True))
        options = msgspec.structs.replace(options, user="")
    across = {} if options.user else _across_namespaces(gang, options)
    options = msgspec.structs.replace(options, **dict.fromkeys(across, ""))
    problems = [*gang.problems, *problems, *across.values()]
    return msgspec.structs.replace(
        gang, options=options, problems=tuple(problems), longest_grace_s=rule.longest_grace_seconds
    )


def _named(option: str, asked: str) -> list[str]:
    """The names in the value of an option; of licenses without their numbers (`sbatch --licenses`: `a:2,b`, `a|b`)."""
    parts = re.split(r"[,;|()\s]+", asked) if option == "licenses" else asked.split(",")
    return [name for part in parts if (name := part.partition(":")[0] if option == "licenses" else part)]


def _across_namespaces(gang: Gang, options: JobSpec) -> dict[str, Problem]:
    """What Slurm decides by the user of a job, and why it is refused where several namespaces have the same one."""
    asked = {
        "dependency": ("dependency", "singleton" in options.dependency, "singleton waits for jobs"),
        "shared": ("exclusive", options.shared == "user", "exclusive: user shares nodes with jobs"),
    }
    why = (
        f"of other namespaces too, because namespace {gang.id.namespace} has no Slurm user of its own; "
        "an administrator gives it one in scheduler.access of the Slurm cluster"
    )
    return {
        field: Problem(annotation=names.PREFIX + name, text=f"{what} {why}", fatal=True)
        for field, (name, is_asked, what) in asked.items()
        if is_asked
    }


def unknown_namespace(gang: Gang) -> Gang:
    """The gang as long as it is not known what its namespace may ask for: it asks for nothing, and
    belongs to no user.
    """
    text = f"what namespace {gang.id.namespace} may ask of Slurm is not known yet"
    problems = (*gang.problems, Problem(text=text, fatal=True))
    return msgspec.structs.replace(gang, options=JobSpec(), problems=problems)


def _refusal(gang: Gang, option: str, refused: list[str], allowed: tuple[str, ...]) -> Problem:
    may = f"it may use {', '.join(allowed)}" if allowed else "it may name none"
    text = (
        f"namespace {gang.id.namespace} may not use {option} {', '.join(refused)}: {may}; "
        "an administrator opens it in scheduler.access of the Slurm cluster"
    )
    return Problem(annotation=names.PREFIX + option, text=text, fatal=True)
