"""Named figures as text for Prometheus, with a bound on how many series one name may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple

import msgspec

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Sample(NamedTuple):
    """One series of a family: the values of its labels, in the order of the family, and the figure."""

    labels: tuple[str, ...]
    value: float


class MetricFamily(msgspec.Struct, frozen=True, kw_only=True):
    """All series of one metric name. If the figure only rises it is a counter: its name ends with `_total`.

    `lines`: how many series belong together; more than one only in a histogram. Its last label is
    `le`, where its `_sum` and `_count` have these words.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    samples: Sequence[Sample] = ()
    lines: int = 1

    @property
    def kind(self) -> str:
        """The type of the metric, as Prometheus calls it."""
        return "histogram" if self.lines > 1 else "counter" if self.name.endswith("_total") else "gauge"


class Page(NamedTuple):
    """Figures as text, and how many series of a name the bound left out."""

    text: bytes
    cut: Mapping[str, int]


def single(name: str, help_text: str, value: float) -> MetricFamily:
    """A figure without labels."""
    return MetricFamily(name=name, help=help_text, samples=(Sample((), value),))


def render(families: Iterable[MetricFamily], *, most: int) -> Page:
    """Render in the text format of Prometheus. `most`: the most series of each name; the first ones by their labels are
    kept.
    """
    lines: list[str] = []
    cut: dict[str, int] = {}
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
        samples = family.samples
        if len(samples) > most:
            samples = nsmallest(most - most % family.lines, samples)  # in steps: sorting all would hold the interpreter
            cut[family.name] = len(family.samples) - len(samples)
        line = _histogram_line if family.kind == "histogram" else _line
        lines += [line(family, sample) for sample in samples]
    return Page("".join(lines).encode(), cut)


def _line(family: MetricFamily, sample: Sample, end: str = "") -> str:
    if not family.labels:
        return f"{family.name} {sample.value}\n"
    pairs = zip(family.labels, sample.labels, strict=not end)
    labels = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{family.name}{end}{{{labels}}} {sample.value}\n"


def _histogram_line(family: MetricFamily, sample: Sample) -> str:
    *others, le = sample.labels
    return _line(family, Sample(tuple(others), sample.value), le) if le[0] == "_" else _line(family, sample, "_bucket")
