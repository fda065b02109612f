"""The tables of docs/rights.md, and the same read off rendered charts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "rights.md").read_text()
CLUSTER, OWN = "cluster", "own"


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource (`nodesets.sunkpy.dev/status`), on one object of it if `name` says so."""

    where: str
    resource: str
    name: str
    verb: str


def rights_in_the_docs(*, release: str) -> dict[str, set[Right]]:
    """What the first table says, by process."""
    rights: dict[str, set[Right]] = {}
    for process, where, resource, verbs in _rows("process"):
        resources, _, named = resource.partition(" named ")
        name = named.strip("`").replace("<release>", release)
        for each in re.findall(r"`([^`]+)`", resources):
            found = {Right(where, each, name, verb) for verb in verbs.split(", ")}
            rights.setdefault(process, set()).update(found)
    return rights


def holders_in_the_docs() -> set[tuple[str, str, str]]:
    """What the second table says: container, user, keys and tokens."""
    return {(container.replace("`", ""), user, keys.replace("`", "")) for container, user, keys in _rows("container")}


def rights_of_rules(where: str, rules: Iterable[Mapping[str, Sequence[str]]]) -> Iterator[Right]:
    """Rules of a Role or of a SelfSubjectRulesReview, one right each."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                kind, slash, sub = resource.partition("/")
                full = f"{kind}.{group}{slash}{sub}" if group else resource
                for name in rule.get("resourceNames", [""]):
                    yield from (Right(where, full, name, verb) for verb in rule["verbs"])


def _rows(title: str) -> Iterator[list[str]]:
    (table,) = re.findall(rf"^\| {title} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, flags=re.MULTILINE)
    return ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines())
