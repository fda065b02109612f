import re
from pathlib import Path

import pytest

from devcluster.binaries import (
    CONTAINERD,
    COREDNS,
    HELM,
    KUBERNETES_DEFAULT,
    KUBERNETES_RELEASES,
    MODULES,
    PAUSE,
    PRODUCTS,
    Binaries,
    Product,
    is_new_enough,
    kubernetes_of,
    parse_go_version,
)
from devcluster.controlplane import corefile, workload_flags, workload_gate
from devcluster.errors import DevclusterError
from devcluster.layout import Layout


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


@pytest.mark.parametrize("minor", KUBERNETES_RELEASES)
def test_kubernetes_says_its_version(minor: str):
    product = kubernetes_of(minor)
    assert product.version.startswith(f"{minor}.")
    assert f"gitVersion=v{product.version}" in product.ldflags
    assert "kubelet" in product.programs


def test_another_kubernetes_than_the_default_is_built_with_its_own_libraries():
    go_mod = kubernetes_of("1.34").go_mod
    assert "require k8s.io/kubernetes v1.34.4" in go_mod
    assert "replace k8s.io/client-go => k8s.io/client-go v0.34.4" in go_mod


def test_a_kubernetes_whose_archive_has_a_pinned_checksum_is_downloaded():
    release = kubernetes_of("1.35").release
    assert release is not None
    assert release.archive.startswith("v1.35.4/kubernetes-server-linux-")
    assert kubernetes_of("1.37").release is None


def test_the_workload_api_is_on_where_there_is_one():
    assert workload_flags("1.34.4") == workload_gate("1.34.4") == []
    assert "--runtime-config=scheduling.k8s.io/v1alpha1=true" in workload_flags("1.35.4")
    assert "--runtime-config=scheduling.k8s.io/v1beta1=true" in workload_flags("1.37.2")
    assert workload_gate("1.37.2") == ["--feature-gates=GenericWorkload=true"]


def test_a_kubernetes_that_cannot_be_had_is_refused_by_name():
    with pytest.raises(DevclusterError, match=r"SUNKPY_KUBERNETES=1\.29: it is one of 1\.34, 1\.35, 1\.37"):
        kubernetes_of("1.29")


@pytest.mark.parametrize("product", [product for product in PRODUCTS if product.module], ids=lambda p: p.name)
def test_a_module_of_ours_is_pinned_by_its_checksums(product: object):
    folder = MODULES / product.module
    assert (folder / "go.mod").exists()
    if "require" in (folder / "go.mod").read_text():
        assert (folder / "go.sum").exists()


KUBERNETES = kubernetes_of(KUBERNETES_DEFAULT)
MODULE_OF = {
    "k8s.io/kubernetes": KUBERNETES,
    "github.com/containerd/containerd/v2": CONTAINERD,
    "github.com/coredns/coredns": COREDNS,
    "helm.sh/helm/v3": HELM,
}
NOT_SHARED = {
    "k8s.io/cri-api",
    "k8s.io/kubelet",
    # containerd does not compile with later ones.
    "github.com/containerd/containerd/api",
    "github.com/opencontainers/runtime-spec",
    "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
    # Two or three packages each.
    "github.com/containerd/platforms",
    "github.com/containernetworking/plugins",
    "go.opentelemetry.io/otel/exporters/otlp/otlptrace",
    "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc",
    "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
}


def required(product: Product) -> dict[str, str]:
    """Module -> version, as the go.mod of a product asks for it."""
    assert product.module
    text = (MODULES / product.module / "go.mod").read_text()
    return dict(re.findall(r"^\t?(?:require )?(\S+) v(\S+)(?: // indirect)?$", text, re.MULTILINE))


def replaced(product: Product) -> dict[str, str]:
    """Module -> the version that is taken in place of the one that is asked for."""
    assert product.module
    text = (MODULES / product.module / "go.mod").read_text()
    return dict(re.findall(r"^\t(\S+) => \1 v(\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize("module", MODULE_OF)
def test_the_module_of_a_product_has_its_version_of_the_table(module: str):
    product = MODULE_OF[module]
    assert required(product)[module] == product.version
    assert f"-X helm.sh/helm/v3/internal/version.version=v{HELM.version}" in HELM.ldflags


def test_what_the_programs_of_a_cluster_have_in_common_is_of_one_version():
    """So it is compiled once, with the libraries of its Kubernetes."""
    libraries = replaced(KUBERNETES)
    ours, theirs = required(KUBERNETES) | libraries, required(CONTAINERD) | replaced(CONTAINERD)
    assert libraries["k8s.io/client-go"] == theirs["k8s.io/client-go"] == KUBERNETES.version.replace("1.", "0.", 1)
    assert {module for module in ours.keys() & theirs.keys() if ours[module] != theirs[module]} <= NOT_SHARED


def test_coredns_has_the_plugins_that_its_configuration_names():
    written = (MODULES / "cluster" / "coredns" / "main.go").read_text()
    plugins = set(re.findall(r'_ "github.com/coredns/coredns/plugin/(\w+)"', written))
    text = corefile(Layout(root=Path("/r"), name="c", slot=0))
    assert {line.split()[0] for line in text.splitlines() if re.match(r" {4}\w", line)} == plugins
