"""What docs/examples/sites/keys.yaml says of public configurations, and the chart's own words on their keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypedDict

import yaml

from tests.unit.charts.rendering import CHARTS, ROOT

FOLDER: Final = ROOT / "docs/examples/sites"
CONF: Final = "slurmConfig.conf"
RELIES: Final = "the chart sets it, and the parts of sunkpy rely on it"

Value = str | int | bool
Line = Mapping[str, Value]


class Said(TypedDict, total=False):
    """What is said of a key: see keys.yaml."""

    was: Value
    note: str
    by: str
    gives: str
    refused: str
    left_out: str


class Source(TypedDict):
    """Where the original is."""

    repository: str
    file: str
    commit: str


class Site(TypedDict, total=False):
    """A configuration: its keys, its lines of partitions, and what their nodes are called here."""

    title: str
    source: Source
    keys: Mapping[str, Said]
    partitions: Mapping[str, Line]
    nodes: Mapping[str, str]


SITES: Final[Mapping[str, Site]] = yaml.safe_load((FOLDER / "keys.yaml").read_text())
OF_SLURM: Final = tuple(name for name in SITES if name != "aws-p5")
"""Those whose keys are of slurm.conf."""
_CLASSES: Final = yaml.safe_load((CHARTS / "slurm/files/slurm-conf.yaml").read_text())[CONF]

What = Literal["taken", "by", "refused", "left out"]


class Row(NamedTuple):
    """A key of a site; `gives` is what slurm.conf has then, `says` what a reader is told besides."""

    key: str
    was: str
    what: What
    says: str
    gives: str


def written(value: Value) -> str:
    """As slurm.conf has it."""
    return {True: "YES", False: "NO"}[value] if isinstance(value, bool) else str(value)


def rows(site: str) -> Iterator[Row]:
    """The keys of a site, in its order."""
    for key, said in SITES[site]["keys"].items():
        was = written(said["was"])
        match said:
            case {"by": by}:
                yield Row(key, was, "by", by, said.get("gives", was))
            case {"refused": instead}:
                yield Row(key, was, "refused", instead, "")
            case {"left_out": why}:
                yield Row(key, was, "left out", why, "")
            case _:
                yield Row(key, was, "taken", said.get("note", ""), was)


def words_of_chart(key: str, value: str) -> str:
    """With which the template refuses a key of slurm.conf; empty where it takes it."""
    lower = key.lower()
    for name, instead in _CLASSES["ours"].items():
        if name.lower() == lower:
            return f"use {instead}" if instead else RELIES
    for name, why in _CLASSES["refused"].items():
        if name.lower() == lower:
            return str(why)
    for name, refused in _CLASSES["values"].items():
        for pattern, why in refused.items() if name.lower() == lower else ():
            if found := re.search(pattern, value):
                return f"{found[0].strip(',')}: {why}"
    return ""


def here(site: str, row: Row) -> str:
    """What becomes of a key, for a reader."""
    match row.what:
        case "taken":
            return "accepted" + (f": {row.says}" if row.says else "")
        case "by":
            return f"`{row.says}`" + (f": `{row.gives}`" if row.gives and row.gives != row.was else "")
        case "refused":
            words = words_of_chart(row.key, row.was) if site in OF_SLURM else "no such value"
            return f"refused: *{words}*" + (f"; {row.says}" if row.says else "")
        case "left out":
            return f"left out: {row.says}"
