from pathlib import Path

import msgspec
import pytest

from devcluster.errors import DevclusterError
from devcluster.operators import catalog, manifests
from devcluster.operators.build import product
from devcluster.operators.catalog import Edit


def deployment(image: str, **container: object) -> dict[str, object]:
    return {
        "kind": "Deployment",
        "metadata": {"name": "manager", "namespace": "its-system"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"image": image, **container}]}}},
    }


def test_an_operator_brings_what_it_needs_and_that_comes_first():
    assert [each.name for each in catalog.select(("trainer",))] == ["jobset", "trainer"]


@pytest.mark.parametrize(
    ("names", "says"), [(("slurm",), "no operator slurm"), (("mpi-operator", "training-operator"), "own the same CRD")]
)
def test_what_cannot_be_installed_is_said(names: tuple[str, ...], says: str):
    with pytest.raises(DevclusterError, match=says):
        catalog.select(names)


def test_every_operator_is_built_at_the_version_in_the_table():
    for operator in catalog.OPERATORS:
        built = product(operator)
        assert f"require {operator.module} v{operator.version}\n" in built.go_mod
        assert all(package.startswith(operator.module) for package in built.packages)


def test_programs_are_found_under_the_names_that_go_gives_them():
    names = {name for operator in catalog.OPERATORS for name in product(operator).programs}
    assert {"jobset", "cmd", "training-operator.v1", "ray-operator", "workflow-controller"} <= names


def test_a_deployment_gets_the_image_on_the_nodes_and_keeps_nothing_from_the_workloads():
    image = f"{catalog.KUBERAY.programs[0].image}:v9"
    [prepared] = [
        each
        for each in manifests.prepare(catalog.KUBERAY, [deployment(image, resources={"requests": {"cpu": 1}})])
        if each["kind"] == "Deployment"
    ]
    assert prepared["spec"]["replicas"] == 1
    [container] = prepared["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "docker.io/sunkpy/kuberay-manager:1.4.2"
    assert "resources" not in container
    assert {"name": "ENABLE_PROBES_INJECTION", "value": "false"} in container["env"]


def test_an_image_that_nothing_stands_for_is_an_error():
    with pytest.raises(DevclusterError, match=r"runs docker\.io/other:1"):
        manifests.prepare(catalog.JOBSET, [deployment("docker.io/other:1")])


def test_what_is_left_out_is_gone_and_what_others_refer_to_comes_first():
    bare = msgspec.structs.replace(catalog.JOBSET, without=frozenset({"Job/init"}))
    documents = [
        {"kind": "Service", "metadata": {"name": "x"}},
        {"kind": "Job", "metadata": {"name": "init"}},
        {"kind": "Namespace", "metadata": {"name": "x"}},
    ]
    assert [each["kind"] for each in manifests.prepare(bare, documents)] == ["Namespace", "Service"]


def test_an_edit_of_text_that_is_not_there_is_an_error(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("kind: A\n")
    manifests.apply_edit(tmp_path, Edit("a.yaml", "kind: A", "kind: B"))
    assert (tmp_path / "a.yaml").read_text() == "kind: B\n"
    with pytest.raises(DevclusterError, match="look what it says instead"):
        manifests.apply_edit(tmp_path, Edit("a.yaml", "kind: A", "kind: B"))
