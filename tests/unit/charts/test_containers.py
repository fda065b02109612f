"""Jobs in containers: what Slurm is told of them, and that nothing of a bundle gets into what it runs as root."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import Refused, of_kind, render


def _oci(values: Mapping[str, object]) -> dict[str, str] | None:
    text = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"].get("oci.conf")
    return None if text is None else dict(line.split("=", 1) for line in text.splitlines())


def test_a_task_is_run_by_our_script_and_slurm_runs_nothing_else():
    oci = _oci({})
    assert oci is not None
    assert oci["IgnoreFileConfigJson"] == "true"
    assert "exec /usr/local/bin/run-container '%b' '%e' \\# task: %@" in oci["RunTimeRun"]
    assert (oci["RunTimeKill"], oci["RunTimeDelete"]) == ('"/bin/true"', '"/bin/true"')
    assert not {"RunTimeQuery", "RunTimeCreate", "RunTimeStart"} & set(oci)


def test_folders_of_the_site_are_seen_in_containers():
    oci = _oci({"jobContainers": {"mounts": ["/scratch", "/opt/data-1"]}})
    assert oci is not None
    assert "run-container --mount /scratch --mount /opt/data-1 '%b'" in oci["RunTimeRun"]


def test_containers_need_nothing_of_the_pod_that_it_has_not_anyway():
    with_them, without = (
        of_kind(render("slurm", {"jobContainers": {"enabled": each}}), "NodeSet") for each in (True, False)
    )
    assert with_them == without
    assert _oci({"jobContainers": {"enabled": False}}) is None


def _plugstack(values: Mapping[str, object]) -> str | None:
    return of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"].get("plugstack.conf")


def test_slurm_loads_our_plugin_and_what_the_site_adds():
    ours = "optional /usr/local/lib/sunkpy_containers.so"
    assert _plugstack({}) == f"{ours}\n"
    site = {"slurmConfig": {"files": {"plugstack.conf": "optional own.so"}}}
    folders = {"cache": "/scratch/images", "mounts": ["/scratch"]}
    assert (
        _plugstack(site | {"jobContainers": folders})
        == f"{ours} cache=/scratch/images folder=/scratch\noptional own.so\n"
    )


def test_pyxis_takes_the_place_of_our_plugin():
    pyxis = {"slurmConfig": {"files": {"plugstack.conf": "required spank_pyxis.so"}}}
    assert _plugstack(pyxis | {"jobContainers": {"images": False}}) == "required spank_pyxis.so\n"
    assert _plugstack({"jobContainers": {"enabled": False}}) is None
    with pytest.raises(Refused, match=r"plugstack\.conf loads Pyxis, whose flags are the chart's, too"):
        _plugstack(pyxis)


@pytest.mark.parametrize("mount", ["scratch", "/a b", "/a'", "/$(id)", "/a#", "/%@", "/", "/a\n"])
def test_a_mount_that_is_more_than_a_path_is_refused(mount):
    with pytest.raises(Refused):
        render("slurm", {"jobContainers": {"mounts": [mount]}})
