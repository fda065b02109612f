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


@pytest.mark.parametrize("mount", ["scratch", "/a b", "/a'", "/$(id)", "/a#", "/%@", "/", "/a\n"])
def test_a_mount_that_is_more_than_a_path_is_refused(mount):
    with pytest.raises(Refused):
        render("slurm", {"jobContainers": {"mounts": [mount]}})
