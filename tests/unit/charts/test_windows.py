"""Windows of a NodeSet's roll in values."""

from __future__ import annotations

import pytest

from tests.unit.charts.rendering import Refused, of_kind, render


def strategy(window: dict[str, object]) -> dict[str, object]:
    return {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%", "windows": [window]}}}


def test_they_reach_the_nodeset_as_they_are_written() -> None:
    window = {"days": ["Fri", "Sat"], "start": "22:00", "hours": 6}
    nodeset = of_kind(render("slurm", {"nodeSets": {"gpu": strategy(window)}}), "NodeSet")["gpu"]
    assert nodeset["spec"]["updateStrategy"] == strategy(window)["updateStrategy"]


@pytest.mark.parametrize(
    ("window", "at"),
    [
        ({"start": "22:00"}, "windows/0"),
        ({"start": "24:00", "hours": 1}, "windows/0/start"),
        ({"start": "22:00", "hours": 0}, "windows/0/hours"),
        ({"start": "22:00", "hours": 1, "days": ["Friday"]}, "windows/0/days"),
    ],
)
def test_one_that_is_none_is_refused(window: dict[str, object], at: str) -> None:
    with pytest.raises(Refused, match=at):
        render("slurm", {"nodeSets": {"gpu": strategy(window)}})
