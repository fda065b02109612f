"""Named figures as text for Prometheus, with a bound on how many series one name may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple

import msgspec

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Sample(NamedTuple):
    """One series: the values of the labels, in the order of the family's, and the figure."""

    labels: tuple[str, ...]
    value: float


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """All series of a name. Figures that only rise are counters: their name ends with `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    samples: Sequence[Sample] = ()


class Page(NamedTuple):
    """Figures as text, and how many series of a name the bound left out."""

    text: bytes
    cut: Mapping[str, int]


def single(name: str, help_text: str, value: float) -> Family:
    """A figure without labels."""
    return Family(name=name, help=help_text, samples=(Sample((), value),))


def render(families: Iterable[Family], *, most: int) -> Page:
    """The text format of Prometheus; of each name at most so many series, the first by their labels."""
    lines: list[str] = []
    cut: dict[str, int] = {}
    for family in families:
        kind = "counter" if family.name.endswith("_total") else "gauge"
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {kind}\n")
        samples = family.samples
        if len(samples) > most:
            cut[family.name] = len(samples) - most
            samples = nsmallest(most, samples)  # in steps: sorting all would hold the interpreter
        lines += [_line(family, sample) for sample in samples]
    return Page("".join(lines).encode(), cut)


def _line(family: Family, sample: Sample) -> str:
    if not family.labels:
        return f"{family.name} {sample.value}\n"
    pairs = zip(family.labels, sample.labels, strict=True)
    labels = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{family.name}{{{labels}}} {sample.value}\n"
