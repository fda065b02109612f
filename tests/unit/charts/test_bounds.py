"""What one user can fill of slurmctld: its volume, its queue, its time. By default it is bounded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from tests.unit.charts.rendering import of_kind, render


def _conf(key: str, values: Mapping[str, object] | None = None) -> set[str]:
    """The options of a key of slurm.conf."""
    text = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"]
    (line,) = [line for line in text.splitlines() if line.startswith(f"{key}=")]
    return {*line.partition("=")[2].split(",")}


def _config(process: str) -> Mapping[str, object]:
    return yaml.safe_load(of_kind(render("slurm"), "ConfigMap")[f"demo-{process}"]["data"]["config.yaml"])


def test_ten_thousand_scripts_fit_onto_a_new_volume():
    """As many as MaxJobCount lets there be, each as large as max_script_size."""
    values: dict[str, object] = {"slurmctld": {"persistence": {"accessModes": ["ReadWriteMany"]}}}
    shared = of_kind(render("slurm", values), "PersistentVolumeClaim")["demo-state"]["spec"]
    (own,) = of_kind(render("slurm"), "StatefulSet")["demo-slurmctld"]["spec"]["volumeClaimTemplates"]
    assert shared["resources"]["requests"]["storage"] == own["spec"]["resources"]["requests"]["storage"] == "20Gi"
    (jobs,), script = _conf("MaxJobCount"), 1 << 20
    assert f"max_script_size={script}" in _conf("SchedulerParameters")
    assert int(jobs) * script < 20 << 30


def test_a_size_of_the_site_is_that_of_the_volume():
    values = {"slurmctld": {"persistence": {"size": "1Gi"}}}
    (own,) = of_kind(render("slurm", values), "StatefulSet")["demo-slurmctld"]["spec"]["volumeClaimTemplates"]
    assert own["spec"]["resources"]["requests"]["storage"] == "1Gi"


def test_calls_are_counted_by_user_unless_the_site_wants_none_of_it():
    assert {"enable_configless", "rl_enable", "rl_bucket_size=20000", "rl_refill_rate=100"} <= _conf(
        "SlurmctldParameters"
    )
    off = {"slurmConfig": {"conf": {"SlurmctldParameters": {"rl_enable": False}}}}
    assert "rl_enable" not in _conf("SlurmctldParameters", off)
    none = {"slurmConfig": {"conf": {"SlurmctldParameters": None}}}
    assert _conf("SlurmctldParameters", none) == {"enable_configless"}


@pytest.mark.parametrize(("process", "user", "reader"), [("scheduler", "k8s", "slurm"), ("syncer", "slurm", None)])
def test_what_sunkpy_reads_is_read_by_slurmuser_whose_calls_slurmctld_does_not_count(process, user, reader):
    slurm = _config(process)["slurm"]
    assert (slurm["user"], slurm.get("reader")) == (user, reader)


def test_people_have_a_bound_of_submitted_jobs():
    assert _config("accounts")["wanted"]["submittedPerUser"] == 2000
