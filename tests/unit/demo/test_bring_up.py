from pathlib import Path

import pytest

from demo.bring_up import CannotStart, Image, fingerprint, own_cluster, publish, slurm_values
from demo.stack import Stack
from devcluster import Cluster

IMAGES = {"sunkpy": Image(ref="docker.io/sunkpy/sunkpy:1", archive="build/images/sunkpy.tar")}


def _chart(folder: Path) -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("name: x")
    (folder / "templates" / "a.yaml").write_text("a: 1")
    return folder


def test_the_fingerprint_of_a_chart_is_that_of_its_files_and_values(tmp_path: Path) -> None:
    one, other = _chart(tmp_path / "one"), _chart(tmp_path / "other")
    assert fingerprint(one, {"image": "x", "n": 1}) == fingerprint(other, {"n": 1, "image": "x"})
    assert fingerprint(one, {"image": "x"}) != fingerprint(one, {"image": "y"})
    (other / "templates" / "a.yaml").write_text("a: 2")
    assert fingerprint(one, {}) != fingerprint(other, {})


def test_somebody_elses_cluster_needs_a_way_to_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMAGE_REGISTRY", raising=False)
    monkeypatch.delenv("SUNKPY_IMAGES_LOADED", raising=False)
    with pytest.raises(CannotStart, match="IMAGE_REGISTRY"):
        publish(IMAGES)
    monkeypatch.setenv("SUNKPY_IMAGES_LOADED", "1")
    assert publish(IMAGES) == {"sunkpy": "docker.io/sunkpy/sunkpy:1"}


def test_a_kubeconfig_of_somebody_else_is_respected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert own_cluster("sunkpy") is None


def test_the_kubeconfig_of_the_development_cluster_is_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(Cluster("sunkpy").kubeconfig))
    assert own_cluster("sunkpy") is not None
    monkeypatch.delenv("KUBECONFIG")
    assert own_cluster("sunkpy") is not None


def test_nodes_that_are_one_machine_do_not_pin_their_jobs_to_its_cpus(tmp_path: Path) -> None:
    def values(bin_dir: Path | None) -> object:
        stack = Stack(suite="trixie", kubeconfig=tmp_path / "config", bin_dir=bin_dir, images={})
        return slurm_values(stack).get("slurmConfig")

    assert values(tmp_path) == {"cgroup": "disabled"}
    assert values(None) is None, "another cluster has what the chart has"
