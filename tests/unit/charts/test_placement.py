"""Where the chart puts what holds tokens and keys: not beside jobs, if there are other nodes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import Manifest, Refused, of_kind, render
from tests.unit.charts.restarts import BASE

LABEL = {"key": "sunkpy.dev/nodeset", "operator": "DoesNotExist"}
NOT_GPU = {"key": "pool", "operator": "NotIn", "values": ["gpu"]}
GPU_POOL = {"controlPlane": {"avoid": {"pool": "gpu"}}}
CONTROL_PLANE = {
    f"demo-{part}" for part in ("accounts", "mariadb", "scheduler", "slurmctld", "slurmdbd", "slurmrestd", "syncer")
}

JOBS = ("keys", "check", "check-compute", "uninstall")


def _affinities(manifests: list[Manifest]) -> dict[str, Mapping[str, object]]:
    kinds = ("Deployment", "StatefulSet")
    found = (manifest for manifest in manifests if manifest["kind"] in kinds)
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"].get("affinity", {}) for each in found}


def _preferred(*expressions: Mapping[str, object]) -> Mapping[str, object]:
    terms = [{"weight": 100, "preference": {"matchExpressions": [each]}} for each in expressions]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def _required(*expressions: Mapping[str, object]) -> Mapping[str, object]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("values", "affinity"),
    [
        pytest.param({}, _preferred(LABEL), id="by the label of nodes that have a slurmd pod"),
        pytest.param(GPU_POOL, _preferred(LABEL, NOT_GPU), id="and before there are any"),
        pytest.param(
            {"controlPlane": {"besideJobs": "never", "avoid": {"pool": "gpu"}}}, _required(LABEL, NOT_GPU), id="never"
        ),
        pytest.param({"controlPlane": {"besideJobs": "allow", "avoid": {"pool": "gpu"}}}, {}, id="anywhere"),
    ],
)
def test_the_control_plane_avoids_nodes_with_jobs(values, affinity):
    found = _affinities(render("slurm", values))
    assert {name: found[name] for name in CONTROL_PLANE} == dict.fromkeys(CONTROL_PLANE, affinity)


@pytest.mark.parametrize("besides", ["avoid", "never"])
def test_one_node_set_more_starts_again_only_what_reads_slurm_conf(besides: str) -> None:
    """Which has a line for it."""
    own = {"nodeSelector": {"pool": "gpu"}, "gpu": {"resource": "nvidia.com/gpu"}}
    values = {"controlPlane": {"besideJobs": besides}, "nodeSets": {"compute": {}}}
    one = _pods(render("slurm", values))
    two = _pods(render("slurm", values | {"nodeSets": {"compute": {"nodeSelector": {"pool": "cpu"}}, "gpu": own}}))
    assert {name for name in CONTROL_PLANE if one[name] != two[name]} == {"demo-slurmctld", "demo-slurmrestd"}
    assert all(one[name]["spec"] == two[name]["spec"] for name in CONTROL_PLANE), "all but the hash of slurm.conf"


def _pods(manifests: list[Manifest]) -> dict[str, Mapping[str, object]]:
    kinds = ("Deployment", "StatefulSet")
    return {each["metadata"]["name"]: each["spec"]["template"] for each in manifests if each["kind"] in kinds}


def test_an_affinity_of_values_replaces_it():
    mine = {"podAffinity": {}}
    found = _affinities(render("slurm", {"slurmctld": {"affinity": mine}}))
    assert (found["demo-slurmctld"], found["demo-syncer"]) == (mine, _preferred(LABEL))


@pytest.mark.parametrize(
    ("values", "affinity"),
    [
        ({}, _preferred(LABEL)),
        ({"besideJobs": "never"}, _required(LABEL)),
        ({"besideJobs": "allow"}, {}),
        ({"affinity": {"podAffinity": {}}}, {"podAffinity": {}}),
    ],
)
def test_the_operator_avoids_them_as_well(values, affinity):
    assert _affinities(render("sunkpy", values)) == {"demo-operator": affinity}


ALL_PODS = BASE | {
    "accounting": {"backup": {"enabled": True}},
    "slurmctld": {"backup": {"enabled": True}},
    "login": BASE["login"] | {"sets": {"gpu": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}},
    "nodeSets": {"compute": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
    "page": {"enabled": True},
}
LOGINS = {"demo-login", "demo-gpu-login", "demo-login-ann"}
CORDON, DRAIN, LOCK = "node.kubernetes.io/unschedulable", "sunkpy.dev/drain", "sunkpy.dev/lock"


def _tolerated(manifests: list[Manifest]) -> dict[tuple[str, str], set[str]]:
    """Keys of taints with NoSchedule that the pods tolerate, by kind and name of what makes them."""
    found = {}
    for each in manifests:
        if each["kind"] in ("CronJob", "Deployment", "Job", "StatefulSet"):
            spec = each["spec"].get("jobTemplate", each)["spec"]["template"]["spec"]
            keys = {one["key"] for one in spec.get("tolerations", []) if one.get("effect") == "NoSchedule"}
            found[each["kind"], each["metadata"]["name"]] = keys
    return found


def test_all_pods_of_the_release_find_a_node_while_jobs_run_on_all_of_them():
    """Otherwise an upgrade or uninstall would wait for the end of all jobs."""
    tolerated = _tolerated(render("slurm", ALL_PODS))
    assert {kind for kind, _ in tolerated} == {"CronJob", "Deployment", "Job", "StatefulSet"}
    assert {name for _, name in tolerated} > LOGINS | CONTROL_PLANE | {f"demo-{job}" for job in JOBS}
    assert {made for made, keys in tolerated.items() if not keys >= {LOCK, DRAIN}} == set()


def test_all_but_login_pods_find_one_while_all_are_cordoned():
    """kubectl drain evicts a login pod once. It would come back to its node, and end there with the machine."""
    tolerated = _tolerated(render("slurm", ALL_PODS))
    assert {name for (_, name), keys in tolerated.items() if CORDON not in keys} == LOGINS


def test_another_word_is_refused():
    with pytest.raises(Refused, match="besideJobs"):
        render("slurm", {"controlPlane": {"besideJobs": "no"}})


def test_a_drain_takes_what_runs_several_times_one_by_one():
    budgets = of_kind(render("slurm", {"login": {"replicas": 2}, "scheduler": {"replicas": 1}}), "PodDisruptionBudget")
    assert set(budgets) == {"demo-syncer", "demo-login"}
    for name, budget in budgets.items():
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] == name.removeprefix("demo-")
    two = {part: {"replicas": 2} for part in ("syncer", "scheduler", "slurmrestd", "slurmctld", "login")}
    two["slurmctld"]["persistence"] = {"accessModes": ["ReadWriteMany"]}
    assert set(of_kind(render("slurm", two), "PodDisruptionBudget")) == {f"demo-{part}" for part in two}
    (operator,) = of_kind(render("sunkpy"), "PodDisruptionBudget").values()
    assert operator["spec"]["maxUnavailable"] == 1


def test_a_pod_of_a_bad_release_does_not_hold_up_the_next_one():
    """A StatefulSet that makes its pods in order waits for them to be ready, whatever the template is by then."""
    sets = of_kind([*render("slurm"), *render("openldap")], "StatefulSet")
    policies = {name: each["spec"].get("podManagementPolicy") for name, each in sets.items()}
    assert policies == dict.fromkeys(sets, "Parallel")
    assert len(sets) == 4
