"""What would be more than a name in slurm.conf, or is none of Kubernetes, is refused by the key that it stands in."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import Refused, of_kind, render

LINE = "x\nSlurmUser=root"


def refusal(values: Mapping[str, object]) -> str:
    """All that helm has to say against the values, at once."""
    with pytest.raises(Refused) as refused:
        render("slurm", values)
    return str(refused.value)


@pytest.mark.parametrize("key", ["partitions", "nodeSets"])
def test_a_hostile_name_of_a_partition_or_nodeset_is_refused(key: str):
    hostile = (LINE, "a b", "a=b", "$(id)", "`id`", "a;id", "../x", "-x", "")
    said = refusal({key: {name: {} for name in hostile}})
    assert said.count("does not match pattern") == len(hostile)


@pytest.mark.parametrize("field", ["maxTime", "defaultTime"])
def test_a_time_that_is_more_than_a_time_is_refused(field: str):
    hostile = (LINE, "1 AllowGroups=all", "1\n", "soon", "1-", ":1", "1:2:3:4", "1-2-3", -1)
    said = refusal({"partitions": {f"p{i}": {field: text} for i, text in enumerate(hostile)}})
    assert [text for i, text in enumerate(hostile) if f"/partitions/p{i}/{field}" not in said] == []


def test_times_reach_slurm_as_they_are_written():
    times = ("30", "1:30", "1-0", "2-12:30:00", "INFINITE", "unlimited", 2000000)
    partitions = {f"p{i}": {"maxTime": text} for i, text in enumerate(times)}
    conf = of_kind(render("slurm", {"partitions": partitions}), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"]
    assert [text for text in times if f" MaxTime={text}\n" not in f"{conf}\n"] == []


@pytest.mark.parametrize("field", ["namespaces", "partitions", "accounts", "qos", "reservations", "licenses"])
def test_access_names_only_what_can_be_a_name(field: str):
    hostile = (LINE, "a b", "a,b", "$(id)", "a;id", "../x", "")
    said = refusal({"scheduler": {"access": [{"namespaces": ["x"]} | {field: list(hostile)}]}})
    assert [text for i, text in enumerate(hostile) if f"/scheduler/access/0/{field}/{i}'" not in said] == []
    access = [{"namespaces": ["x"]} | {field: ["*", "a-1"]}]
    render("slurm", {"partitions": {"a-1": {}}, "scheduler": {"access": access}})


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"partitions": {"low": {"nodeSets": [LINE]}}}, "/partitions/low/nodeSets/0"),
        ({"partitions": {"low": {"nodeSets": ["a State=DOWN"]}}}, "/partitions/low/nodeSets/0"),
        ({"nodeSets": {"c": {"gpu": {"resource": "nvidia.com/gpu", "type": "a:8"}}}}, "/nodeSets/c/gpu/type"),
        ({"nodeSets": {"c": {"gpu": {"resource": "a b", "type": "a"}}}}, "/nodeSets/c/gpu/resource"),
        ({"nodeSets": {"c": {"services": {"../x": {"script": "#!/bin/sh\n"}}}}}, "'../x' does not match pattern"),
        ({"scheduler": {"gpuResources": {"nvidia.com/gpu": "gpu:8,x"}}}, "/scheduler/gpuResources/nvidia.com"),
        ({"scheduler": {"deviceClasses": {"gpu.nvidia.com": "gpu:a100:8"}}}, "/scheduler/deviceClasses/gpu.nvidia.com"),
        ({"slurmConfig": {"conf": {LINE: 1}}}, "does not match pattern '^[A-Za-z][A-Za-z0-9]*$'"),
        ({"slurmConfig": {"conf": {"SchedulerParameters": [LINE]}}}, "/slurmConfig/conf/SchedulerParameters"),
        ({"slurmConfig": {"conf": {"SchedulerParameters": {LINE: 1}}}}, "/slurmConfig/conf/SchedulerParameters"),
        ({"accounting": {"tres": [LINE]}}, "/accounting/tres/0"),
        ({"accounts": {"wanted": {"accounts": {"a' or '1": {}}}}}, "'a\\' or \\'1' does not match pattern"),
        (
            {"accounts": {"wanted": {"users": {"../root": {"accounts": {"default": {}}}}}}},
            "'../root' does not match pattern",
        ),
    ],
)
def test_what_would_be_more_than_a_word_is_refused(values: Mapping[str, object], told: str):
    assert told in refusal(values)
