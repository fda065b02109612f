"""What docs/operations.md explains is what the code says, no more and no less: conditions, names, Events, metrics."""

from __future__ import annotations

import re

import pytest
import yaml

from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import ProcessSettings
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.slurm import NodeCache
from sunkpy.slurm.recorder import PrometheusRecorder
from sunkpy.syncer.metrics import NodeCollector, SyncerMetrics
from tests.unit.docs import source
from tests.unit.slurm.answers import Rest, answer

TEXT = (source.ROOT / "docs" / "operations.md").read_text()
FROM_CONDITIONS = {"CreateFailed", "DrainTimeout", "NoNodeFits", "TooFewNodes", "TooManyAtOnce"}
"""Events of a NodeSet that repeat the reason of a condition (`core.nodeset.status:report`)."""


def _first_column(title: str) -> list[str]:
    """The names in the first column of each table with this title."""
    found: list[str] = []
    for table in re.findall(rf"^\| {title} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, flags=re.MULTILINE):
        for line in table.splitlines():
            found += re.findall(r"`([^`]+)`", line.split("|")[1])
    return found


def test_conditions():
    assert set(_first_column("condition")) == source.condition_types()


def test_labels_annotations_finalizers_and_taints():
    assert set(_first_column("name")) == source.names_on_objects()


def test_events():
    assert source.condition_reasons() >= FROM_CONDITIONS
    assert set(_first_column("Event")) == source.event_reasons() | FROM_CONDITIONS


async def test_metrics(rest: Rest):
    rest.say(answer("26.05", "v0.0.45", "nodes"))
    registry = Process("docs", ProcessSettings()).registry
    for metrics in (
        OperatorMetrics,
        SchedulerMetrics,
        SyncerMetrics,
        AccountsMetrics,
        LoginsMetrics,
        PrometheusRecorder,
    ):
        metrics(registry)
    cache = NodeCache(rest.client("v0.0.45"))
    await cache.refresh()
    registry.register(NodeCollector(cache))
    families = {f"{found.name}_total" if found.type == "counter" else found.name for found in registry.collect()}
    ours = {name for name in families if not name.startswith(("process_", "python_"))}
    assert set(_first_column("metric")) == ours


@pytest.mark.parametrize("key", sorted(set(re.findall(r"`((?:hooks|uninstall|keys|slurmConfig|compute)\.\w+)", TEXT))))
def test_keys_of_the_values(key):
    values = yaml.safe_load((source.ROOT / "charts" / "slurm" / "values.yaml").read_text())
    section, _, name = key.partition(".")
    assert name in values[section]
