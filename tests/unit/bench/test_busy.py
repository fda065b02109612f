"""What the bench of a busy queue reads, and that the chart asks for it."""

from __future__ import annotations

from tests.bench.busy.measure import cycle_mean_s
from tests.bench.busy.sides import chart_parameters

_SDIAG = """\
Main schedule statistics (microseconds):
\tMean cycle:        47796

Backfilling stats
\tTotal cycles: 7
\tMean cycle:        131000
\tDepth Mean: 9415
"""


def test_the_cycle_is_that_of_backfill():
    assert cycle_mean_s(_SDIAG) == 0.131


def test_without_a_cycle_there_is_no_mean():
    assert cycle_mean_s(_SDIAG.partition("\tTotal")[0]) == 0.0


def test_a_cycle_of_the_chart_may_be_longer_than_the_time_between_two():
    limits = dict(entry.partition("=")[::2] for entry in chart_parameters())
    assert int(limits["bf_max_time"]) > 10 * int(limits["bf_interval"])
