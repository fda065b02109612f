"""Checks of idle machines: their partition, which every other preempts, and the syncer's settings for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from sunkpy.core.nodeset.idle_checks import IdleRule
from sunkpy.syncer.settings import SyncerSettings
from tests.unit.charts.rendering import Refused, of_kind, render

SCRIPT = "#!/bin/bash\ndcgmi diag -r 3\n"
CHECK = {"script": SCRIPT, "idle": {"everyHours": 24}}
ON = {"compute": {"verify": CHECK}}


def conf(values: dict[str, Any]) -> str:
    return str(of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"])


def settings(values: dict[str, Any]) -> SyncerSettings:
    text = of_kind(render("slurm", values), "ConfigMap")["demo-syncer"]["data"]["config.yaml"]
    return msgspec.convert(yaml.safe_load(text), SyncerSettings)


def test_without_hours_there_are_none():
    assert "sunkpy-verify" not in conf({"compute": {"verify": {"script": SCRIPT}}})
    assert not settings({}).idle_checks.node_sets


def test_each_nodeset_has_its_own_and_the_partition_has_their_nodes_alone():
    own = {"gpu": {"verify": {"idle": {"maxPercent": 50}}}, "cpu": {"verify": {"idle": {"everyHours": 0}}}, "old": {}}
    values = {**ON, "nodeSets": own}
    assert conf(values).splitlines()[-1] == (
        "PartitionName=sunkpy-verify Nodes=gpu,old PriorityTier=0 PreemptMode=CANCEL RootOnly=YES "
        "DisableRootJobs=NO Hidden=YES TRESBillingWeights=CPU=0"
    )
    told = settings(values).idle_checks
    assert (told.partition, told.node_sets) == (
        "sunkpy-verify", {"gpu": IdleRule(seconds=86400, max_percent=50), "old": IdleRule(seconds=86400)},
    )  # fmt: skip


def test_they_roll_no_pods():
    without = of_kind(render("slurm", {"compute": {"verify": {"script": SCRIPT}}}), "NodeSet")
    assert of_kind(render("slurm", ON), "NodeSet") == without


def test_with_preemption_by_qos_they_have_one():
    by_qos = {"slurmConfig": {"conf": {"PreemptType": "preempt/qos"}}}
    named = {"script": SCRIPT, "idle": {"everyHours": 24, "qos": "checks"}}
    lowest = {"partitions": {"scavenger": {"priorityTier": 0}}}
    told = settings({"compute": {"verify": named}, **by_qos, **lowest})
    assert told.idle_checks.node_sets["compute"].qos == "checks"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"compute": {"verify": {"idle": {"everyHours": 24}}}}, "NodeSet compute: there is no compute.verify.script"),
        ({**ON, "syncer": {"metrics": {"enabled": False}}}, "compute.verify.idle needs syncer.metrics.enabled"),
        ({**ON, "partitions": {"sunkpy-verify": {}}}, "partitions.sunkpy-verify: with compute.verify.idle"),
        (
            {**ON, "slurmConfig": {"conf": {"PreemptMode": "OFF"}}},
            "compute.verify.idle needs preemption, or jobs would wait until checks end: set "
            "slurmConfig.conf.PreemptMode",
        ),
        (
            {**ON, "slurmConfig": {"conf": {"preemptexempttime": "00:10:00"}}},
            "compute.verify.idle: with slurmConfig.conf.PreemptExemptTime, jobs would wait until checks end: leave out",
        ),
        (
            {**ON, "slurmConfig": {"conf": {"PreemptType": "preempt/qos"}}},
            "of NodeSet compute: with slurmConfig.conf.PreemptType preempt/qos, jobs would not preempt checks. Set "
            "PreemptType",
        ),
        (
            {**ON, "partitions": {"scavenger": {"priorityTier": 0}}},
            "partitions.scavenger.priorityTier: 0 is the tier of the checks of compute.verify.idle, which jobs of this "
            "partition would not preempt: set at least 1",
        ),
        ({"compute": {"verify": {"script": SCRIPT, "idle": {"everyHours": -1}}}}, "/compute/verify/idle/everyHours"),
    ],
)  # fmt: skip
def test_what_would_keep_jobs_waiting_is_refused(values, why):
    with pytest.raises(Refused) as refused:
        render("slurm", values)
    assert why in str(refused.value)
