"""Which signals of health can be written in values, and what the operator reads of them."""

from __future__ import annotations

import msgspec

from sunkpy.core.health.known import KNOWN
from sunkpy.operator.settings import OperatorSettings
from tests.unit.charts.rendering import of_kind, render


def settings(**health: object) -> OperatorSettings:
    text = of_kind(render("sunkpy", {"health": health}), "ConfigMap")["demo-operator"]["data"]["config.yaml"]
    return msgspec.yaml.decode(text, type=OperatorSettings)


def test_nothing_counts_by_default() -> None:
    assert settings().health.rules.signals == {}


def test_the_operator_reads_what_values_say() -> None:
    signal = {"condition": "GpuFell", "patienceSeconds": 5, "cure": "reboot"}
    health = settings(sources=list(KNOWN), without=["NTPProblem"], signals={"gpu": signal}, maxPercent=10).health
    known = {name for rules in KNOWN.values() for name in rules}
    assert set(health.rules.signals) == {*known, "gpu"} - {"NTPProblem"}
    assert health.max_percent == 10
