"""docs/reference/rights.md has all rights that the charts give; values that give more are in docs/rights.md."""

from __future__ import annotations

import pytest

from tests.unit.charts import rights
from tests.unit.charts.rendering import of_kind, render
from tests.unit.charts.rights import CLUSTER, OWN, RELEASE
from tests.unit.docs.rights_table import Right, rights_in_the_docs, rights_of_rules


def test_the_rights_in_kubernetes_are_those_of_the_table():
    found: dict[str, set[Right]] = {}
    for process, where, rule in rights.rules(rights.manifests()):
        found.setdefault(process, set()).update(rights_of_rules(where, [rule]))
    assert found == rights_in_the_docs(release=RELEASE)


def test_a_role_that_is_bound_to_nobody_is_found():
    without = [each for each in rights.manifests() if each["kind"] != "RoleBinding"]
    with pytest.raises(ValueError, match="bound to nobody"):
        list(rights.rules(without))


def test_who_does_not_wait_for_jobs_gives_the_uninstall_one_right_more():
    roles = of_kind(render("slurm", {"uninstall": {"waitForJobs": False}}, release=RELEASE), "Role")
    rights = set(rights_of_rules(OWN, roles[f"{RELEASE}-uninstall"]["rules"]))
    patch = Right(OWN, "nodesets.sunkpy.dev", "", "patch")
    assert rights - rights_in_the_docs(release=RELEASE)["uninstall"] == {patch}


def test_owners_are_changed_only_where_somebody_asked_for_it():
    def patched(values: dict[str, object]) -> set[str]:
        role = of_kind(render("slurm", values, release=RELEASE), "ClusterRole")[f"sunkpy:scheduler-name:{RELEASE}"]
        return {right.resource for right in rights_of_rules(CLUSTER, role["rules"]) if right.verb == "patch"}

    before, after = patched({}), patched({"scheduler": {"suspendOwners": True}})
    volcano = {"podgroups.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh/status"}
    assert before == {"pods", "pods/status", "persistentvolumeclaims", *volcano}
    assert {"jobs.batch", "jobsets.jobset.x-k8s.io", "rayjobs.ray.io", "trainjobs.trainer.kubeflow.org"} < after
