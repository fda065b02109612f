"""Writes metrics as text for Prometheus, and limits how many series one metric may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple

import msgspec

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Sample(NamedTuple):
    """One series of a metric: the values of its labels, in the order in which the metric names the labels, and its
    number.
    """

    labels: tuple[str, ...]
    value: float


class MetricFamily(msgspec.Struct, frozen=True, kw_only=True):
    """One metric with all its series. A metric whose name ends with `_total` is a counter.

    `lines`: how many samples one histogram has (a sample for each bucket, the sum and the count); 1 for other metrics.
    The last label of a histogram is `le`; in the samples of sum and count its value is `_sum` or `_count`.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    samples: Sequence[Sample] = ()
    lines: int = 1

    @property
    def kind(self) -> str:
        """The metric's type for Prometheus: `histogram`, `counter` or `gauge`."""
        return "histogram" if self.lines > 1 else "counter" if self.name.endswith("_total") else "gauge"


class Page(NamedTuple):
    """Metrics as text for Prometheus. `cut`: metric → how many of its samples were left out, for each metric that had
    too many.
    """

    text: bytes
    cut: Mapping[str, int]


def single(name: str, help_text: str, value: float) -> MetricFamily:
    """Return a metric with one series and no labels."""
    return MetricFamily(name=name, help=help_text, samples=(Sample((), value),))


def render(families: Iterable[MetricFamily], *, most: int) -> Page:
    """Return the metrics in the text format of Prometheus.

    `most`: the most samples of one metric; those whose labels come first in sorted order are kept. A histogram is kept
    or left out as a whole.
    """
    lines: list[str] = []
    cut: dict[str, int] = {}
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
        samples = family.samples
        if len(samples) > most:
            # `sorted` would sort all samples in one call, during which no other thread runs.
            samples = nsmallest(most - most % family.lines, samples)
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
