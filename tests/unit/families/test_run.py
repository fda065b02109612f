from __future__ import annotations

import pytest
from click import ClickException

from tests.bench.asked import Asked
from tests.bench.chaos.record import Owner, Running, Sample
from tests.families.cases import Case, JobShape
from tests.families.compare import SeenPod
from tests.families.figures import figures, measure, wanted_text
from tests.families.run import Outcome, overlaps, target
from tests.families.workload import adapt


def pods(text: str) -> list[SeenPod]:
    return [SeenPod(uid=word[0], name=word[0], job=int(word[1]), node=word[2]) for word in text.split()]


def running(door: str, name: str, node: str = "node-1") -> Running:
    return Running(node=node, owner=Owner(door, name), pod_uid=f"uid-of-{name}", pids=(1,))


def test_the_node_that_is_taken_leaves_most_of_the_largest_job_elsewhere():
    assert target(pods("a1x b1x c1y d2z")) == "y"


def test_pods_of_a_workload_may_be_beside_each_other_but_not_beside_the_job_that_took_their_place():
    together = Sample(at_s=1, running=(running("pod", "a"), running("pod", "b")))
    assert overlaps([together]) == []
    beside = Sample(at_s=2, running=(running("pod", "a"), running("job", "families")))
    assert overlaps([together, beside]) == ["job families and pod workload ran on node-1 for 0.0 s"]


def test_every_container_gets_the_mark_and_every_pod_the_scheduler_of_the_cluster():
    container = {"name": "c", "image": "x", "env": None}
    template = {"spec": {"schedulerName": "slurm-bridge-scheduler", "containers": [container]}}
    adapt([{"kind": "Job", "spec": {"template": template}}], scheduler="slurm-sid")
    assert template["spec"]["schedulerName"] == "slurm-sid"
    assert [variable["name"] for variable in container["env"]] == ["CHAOS_POD"]


def test_a_report_counts_what_is_right_and_says_what_is_wrong():
    good = Case(manifest="a.yaml", jobs=(JobShape(2, 2, 256),) * 2)
    bad = Case(manifest="b.yaml", jobs=())
    elsewhere = Case(manifest="c.yaml", jobs=(), missing="Java")
    outcomes = [Outcome(case=good, jobs=("1", "2")), Outcome(case=bad, wrong=("no pod came back",))]
    whole, first, second = figures(outcomes, [good, bad, elsewhere])
    assert (whole.value, whole.unit, whole.holds) == (1, "of 2", False)
    assert whole.limited_by == "1 more cannot run here"
    assert first.figure == "a.yaml: 2 x (2 pods, 2 cpus, 256 MiB)"
    assert first.holds
    assert (second.holds, second.limited_by) == (False, "no pod came back")
    assert wanted_text(bad) == "no job of its own"


def test_manifests_that_are_not_there_are_refused_before_anything_is_started():
    asked = Asked(quick=False, only="nothing/such", sizes=(), minutes=1.0, seed=1)
    with pytest.raises(ClickException, match=r"^--only nothing/such: no manifest has any of it in its name$"):
        measure(asked)
