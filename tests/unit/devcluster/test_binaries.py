from pathlib import Path

import pytest

from devcluster.binaries import KUBERNETES, MODULES, PAUSE, PRODUCTS, Binaries, is_new_enough, parse_go_version


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.9 linux/amd64", (1, 9)),
        ("go version devel go1.27-abc linux/arm64", (1, 27)),
        ("command not found", (0, 0)),
    ],
)
def test_the_version_of_go_is_read(said: str, version: tuple[int, int]):
    assert parse_go_version(said) == version


def test_a_go_that_cannot_be_run_is_not_new_enough(tmp_path: Path):
    assert not is_new_enough(tmp_path / "go")


def test_binaries_are_kept_per_version_and_built_only_when_one_is_missing(tmp_path: Path):
    binaries = Binaries(cache=tmp_path)
    assert binaries.missing([PAUSE]) == [PAUSE]
    binaries.pause.mkdir(parents=True)
    (binaries.pause / "pause").touch()
    assert binaries.missing([PAUSE]) == []
    binaries.ensure([PAUSE], progress=pytest.fail)
    assert len({binaries.folder(product) for product in PRODUCTS}) == len(PRODUCTS)


def test_kubernetes_says_its_version():
    assert "gitVersion=v1.35.4" in KUBERNETES.ldflags
    assert "kubelet" in KUBERNETES.programs


@pytest.mark.parametrize("product", [product for product in PRODUCTS if product.module], ids=lambda p: p.name)
def test_a_module_of_ours_is_pinned_by_its_checksums(product: object):
    folder = MODULES / product.module
    assert (folder / "go.mod").exists()
    if "require" in (folder / "go.mod").read_text():
        assert (folder / "go.sum").exists()


def test_the_kubernetes_module_is_of_the_version_in_the_table():
    text = (MODULES / "kubernetes" / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{KUBERNETES.version}" in text
