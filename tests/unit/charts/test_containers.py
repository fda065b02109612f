"""Jobs in containers: Slurm's configuration for them, and that nothing of a bundle runs as root."""

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


OF_THE_POD = "include /etc/sunkpy/plugstack.conf\n"


def _plugstack(values: Mapping[str, object]) -> str:
    """What slurmctld sends to all nodes."""
    return str(of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["plugstack.conf"])


def _plugins_of_pods(values: Mapping[str, object]) -> dict[str, str | None]:
    """The site's lines, of each container that has them."""
    manifests = render("slurm", values)
    pods = [of_kind(manifests, "NodeSet")["compute"], of_kind(manifests, "StatefulSet")["demo-login"]]
    containers = [container for pod in pods for container in pod["spec"]["template"]["spec"]["containers"]]
    envs = {each["name"]: {one["name"]: one.get("value") for one in each.get("env", [])} for each in containers}
    return {name: env["SUNKPY_PLUGSTACK"] for name, env in envs.items() if "SUNKPY_PLUGSTACK" in env}


def test_slurm_loads_our_plugin_and_what_the_pod_brings():
    ours = "optional /usr/local/lib/sunkpy_containers.so"
    assert _plugstack({}) == f"{ours}\n{OF_THE_POD}"
    folders = {"cache": "/scratch/images", "mounts": ["/scratch"]}
    assert _plugstack({"jobContainers": folders}) == f"{ours} cache=/scratch/images folder=/scratch\n{OF_THE_POD}"
    assert _plugstack({"jobContainers": {"enabled": False}}) == OF_THE_POD
    assert _plugins_of_pods({}) == {}


def test_plugins_of_the_site_come_with_the_pods_that_have_them_and_slurmctld_sends_none():
    """A running slurmd pod may lack them; one that is required would end its slurmd."""
    lines = "required /opt/spank_own.so home=$(HOME)\n# ours"
    site = {"slurmConfig": {"files": {"plugstack.conf": f"{lines}\n"}}}
    (slurm, slurmctld), (bare, alone) = (
        (
            of_kind(manifests, "ConfigMap")["demo-slurm-config"]["data"],
            of_kind(manifests, "StatefulSet")["demo-slurmctld"],
        )
        for manifests in (render("slurm", site), render("slurm"))
    )
    assert slurm == bare
    assert slurmctld == alone, "slurmctld does not restart, and tells nobody"
    for_kubelets = lines.replace("$", "$$")
    assert _plugins_of_pods(site) == {"slurmd": for_kubelets, "sackd": for_kubelets}


def test_pyxis_takes_the_place_of_our_plugin():
    pyxis = {"slurmConfig": {"files": {"plugstack.conf": "required /opt/pyxis/spank_pyxis.so"}}}
    assert _plugstack(pyxis | {"jobContainers": {"images": False}}) == OF_THE_POD
    with pytest.raises(Refused, match=r"plugstack\.conf names Pyxis, which has the same options as the chart's own"):
        _plugstack(pyxis)


@pytest.mark.parametrize("mount", ["scratch", "/a b", "/a'", "/$(id)", "/a#", "/%@", "/", "/a\n"])
def test_a_mount_that_is_more_than_a_path_is_refused(mount):
    with pytest.raises(Refused):
        render("slurm", {"jobContainers": {"mounts": [mount]}})


def test_the_bounds_of_the_cache_come_with_the_pods():
    def images(values: Mapping[str, object]) -> str:
        pod = of_kind(render("slurm", {"jobContainers": values}), "NodeSet")["compute"]["spec"]["template"]["spec"]
        env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        return str(env["SUNKPY_IMAGES"])

    assert images({}) == "/var/spool/slurmd/images 30 200"
    assert images({"cache": "/scratch/images", "cacheDays": 0, "cacheGiB": 4000}) == "/scratch/images 0 4000"
    with pytest.raises(Refused, match="cacheGiB"):
        images({"cacheGiB": -1})
