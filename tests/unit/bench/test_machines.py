"""What of BENCH=machines runs on the machine."""

from __future__ import annotations

from pathlib import Path

from demo.stack import Stack
from tests.bench import machines
from tests.unit.charts.rendering import render

OF_PODS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "NodeSet")


def test_while_charts_are_installed_nothing_goes_to_the_machine():
    values = dict(machines.slurm_values(Stack(suite="sid", kubeconfig=Path("none"), bin_dir=None, images={})))
    del values["images"]
    made = [each for each in (*render("slurm", values), *render("sunkpy")) if each["kind"] in OF_PODS]
    assert {each["kind"] for each in made} >= {"Deployment", "StatefulSet", "Job", "NodeSet"}
    for each in made:
        tolerations = each["spec"]["template"]["spec"].get("tolerations", ())
        keys = {toleration.get("key") for toleration in tolerations if toleration.get("effect") != "NoExecute"}
        assert not keys & {None, machines.KEEP_OFF}, each["metadata"]["name"]
