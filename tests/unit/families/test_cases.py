from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.operators import catalog
from tests.families import cases
from tests.families.cases import JobShape
from tests.manifests import FOLDERS

EXPECTED = """
- manifest: jobset/coordinator.yaml
  needs: jobset
  jobs: [{count: 2, pods: 5, cpus: 9, mem_mib: 928}]
  waves: [driver 1, 'workers 4, when the driver is Ready']
  preempt: gang
  comes_back: 'no: backoffLimit 0'
- manifest: trainer/a.yaml
  needs: trainer v2, jobset, their webhooks
  jobs: [{count: 1, pods: 1, cpus: 1, mem_mib: 128, gpus: 1}]
- manifest: spark-operator/spark-pi.yaml
  needs: spark-operator v2.5.2, its webhook, Java and a Spark distribution
  jobs: [{count: 1, pods: 2, cpus: 2, mem_mib: 1792}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "expected.yaml").write_text(EXPECTED)
    return tmp_path


def test_an_entry_becomes_a_case(folder: Path):
    first = cases.read(folder)[0]
    assert first.jobs == (JobShape(5, 9, 928),) * 2
    assert first.operators == ("jobset",)
    assert first.must_come_back is False
    assert len(first.waves) == 2


def test_cases_run_together_when_they_need_the_same_operators(folder: Path):
    found = [(names, [case.manifest for case in each]) for names, each in cases.phases(cases.read(folder))]
    assert (("jobset", "trainer"), ["trainer/a.yaml"]) in found
    assert (("jobset",), ["jobset/coordinator.yaml"]) in found


def test_what_cannot_run_here_says_why(folder: Path):
    assert cases.read(folder)[2].missing == "Java, Spark or Flink is not on the machine"


def test_what_nothing_here_gives_is_refused_by_name_and_has_no_job(folder: Path):
    manifest = "slurm-bridge/dra-nvidia-pod.yaml"
    (folder / "expected.yaml").write_text(EXPECTED.replace("trainer/a.yaml", manifest))
    case = cases.read(folder)[1]
    assert (case.jobs, case.missing) == ((), "")
    assert case.refused == "deviceclass.resource.kubernetes.io/gpu.nvidia.com"


def test_every_operator_that_a_case_may_need_can_be_installed():
    assert set(cases.OPERATORS.values()) <= {operator.name for operator in catalog.OPERATORS}


every_folder = pytest.mark.parametrize("manifests", FOLDERS.values(), ids=FOLDERS)


@every_folder
def test_each_manifest_has_an_entry_and_each_entry_a_manifest(manifests: Path):
    files = {str(path.relative_to(manifests)) for path in manifests.glob("*/*.y*ml")}
    assert {case.manifest for case in cases.read(manifests)} == files


@every_folder
@pytest.mark.parametrize(
    "manifest", ["volcano/queue-default.yaml", "kueue/00-setup.yaml", "spark-native/driver-template.yml"]
)
def test_queues_and_templates_are_no_workload(manifests: Path, manifest: str):
    (case,) = (case for case in cases.read(manifests) if case.manifest == manifest)
    assert case.jobs == ()


@every_folder
def test_what_is_said_here_about_manifests_is_about_some_that_exist(manifests: Path):
    known = {case.manifest for case in cases.read(manifests)}
    said = {
        *cases.ALSO,
        *cases.ENDS_BETWEEN,
        *cases.SMALL,
        *cases.NOT_RUN,
        *cases.REFUSED,
        *cases.COMES_BACK,
        *cases.FIRST,
        *(one for many in cases.FIRST.values() for one in many),
    }
    assert said <= known
