"""The first table of docs/reference/rights.md, and the same as the apiserver answers it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.unit.charts.rights import full_name

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "rights.md"


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource (`nodesets.sunkpy.dev/status`), on one object of it if `name` says so."""

    where: str
    resource: str
    name: str
    verb: str


def rights_in_the_docs(*, release: str) -> dict[str, set[Right]]:
    """What the table says, by process."""
    rights: dict[str, set[Right]] = {}
    for process, where, resource, verbs in _rows("process"):
        resources, _, named = resource.partition(" named ")
        objects = re.findall(r"`([^`]+)`", named.replace("<release>", release)) or [""]
        for each in re.findall(r"`([^`]+)`", resources):
            found = {Right(where, each, name, verb) for verb in verbs.split(", ") for name in objects}
            rights.setdefault(process, set()).update(found)
    return rights


def rights_of_rules(where: str, rules: Iterable[Mapping[str, Sequence[str]]]) -> Iterator[Right]:
    """Rules of a Role or of a SelfSubjectRulesReview, one right each."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    yield from (Right(where, full_name(group, resource), name, verb) for verb in rule["verbs"])


def _rows(title: str) -> Iterator[list[str]]:
    (table,) = re.findall(rf"^\| {title} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE.read_text(), flags=re.MULTILINE)
    return ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines())
