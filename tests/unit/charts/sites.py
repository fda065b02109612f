"""The tables of docs/examples/sites/README.md: what keys.yaml says of public configurations, and the chart's own words
on their keys.
"""

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
    """What keys.yaml says of one key of a site. The fields are explained at the top of keys.yaml."""

    was: Value
    note: str
    by: str
    gives: str
    refused: str
    left_out: str


class Source(TypedDict):
    """The place on GitHub from which a site's configuration was copied."""

    repository: str
    file: str
    commit: str


class Site(TypedDict, total=False):
    """A site's configuration: its keys, its lines PartitionName, and how `nodes` of these lines are called in our
    values.
    """

    title: str
    source: Source
    keys: Mapping[str, Said]
    partitions: Mapping[str, Line]
    nodes: Mapping[str, str]


SITES: Final[Mapping[str, Site]] = yaml.safe_load((FOLDER / "keys.yaml").read_text())
OF_SLURM: Final = tuple(name for name in SITES if name != "aws-p5")
"""The sites whose configuration is a slurm.conf."""
_CLASSES: Final = yaml.safe_load((CHARTS / "slurm/files/slurm-conf.yaml").read_text())[CONF]

What = Literal["taken", "by", "refused", "left out"]


class Row(NamedTuple):
    """A key of a site and what becomes of it: `gives` is the value that slurm.conf then has, `says` what the table adds
    for its reader.
    """

    key: str
    was: str
    what: What
    says: str
    gives: str


def written(value: Value) -> str:
    """Return a value as it is written in slurm.conf."""
    return {True: "YES", False: "NO"}[value] if isinstance(value, bool) else str(value)


def rows(site: str) -> Iterator[Row]:
    """Yield a row for each key of a site, in the order of keys.yaml."""
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
    """Return the words with which the chart's template refuses a key with this value; empty if it accepts them."""
    lower = key.lower()
    for name, instead in _CLASSES["ours"].items():
        if name.lower() == lower:
            return f"use the value {instead}" if instead else RELIES
    for name, why in _CLASSES["refused"].items():
        if name.lower() == lower:
            return str(why)
    for name, refused in _CLASSES["values"].items():
        for pattern, why in refused.items() if name.lower() == lower else ():
            if found := re.search(pattern, value):
                return f"{found[0].strip(',')}: {why}"
    return ""


def here(site: str, row: Row) -> str:
    """Return the last cell of the table: what becomes of a site's key."""
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
