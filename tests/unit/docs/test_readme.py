"""What README and the examples tell people to write is accepted by the charts and by the scheduler."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.model.objects import Pod
from tests.unit.charts.rendering import check_accepted

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()
START = (ROOT / "docs/start.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = yaml.safe_load((ROOT / "docs" / "examples" / "inference.yaml").read_text())
CHART = ROOT / "charts" / "slurm"


def _gang(pod):
    return assemble(identify(pod), [pod])


def test_the_first_values_file_is_valid():
    (block,) = re.findall(r"```yaml\n(.*?)```", START, flags=re.DOTALL)
    values = yaml.safe_load(block)
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))
    assert "images" not in values, "charts of a release name theirs"


@pytest.mark.parametrize(("folder", "chart"), [("sunkpy", "sunkpy"), ("staging", "slurm"), ("production", "slurm")])
def test_the_values_of_the_repository_for_gitops_are_valid(folder, chart):
    values = yaml.safe_load((ROOT / "docs" / "examples" / "gitops" / folder / "values.yaml").read_text())
    jsonschema.validate(values, json.loads((ROOT / "charts" / chart / "values.schema.json").read_text()))


def test_no_page_makes_up_a_tag_for_an_image():
    """A patched image under the tag of before would restart nothing: each build has its own, in images.json."""
    said = {
        (str(file.relative_to(ROOT)), *image)
        for file in [*PAGES, *(ROOT / "docs/examples").rglob("*.yaml")]
        for image in re.findall(r"registry\.example\.com/sunkpy/(\w+):(\S+)", file.read_text())
    }
    assert {image for _, image, _ in said} >= {"login", "sunkpy"}
    assert {each for each in said if not re.fullmatch(r"TAG|\S+-[0-9a-f]{12}(@sha256:[0-9a-f]+…)?", each[2])} == set()


@pytest.mark.parametrize("file", ["sunkpy", "staging", "production"])
def test_flux_reads_the_values_that_argo_cd_reads(file):
    examples = ROOT / "docs" / "examples" / "gitops"
    flux, argo = (yaml.safe_load((examples / of / f"{file}.yaml").read_text()) for of in ("flux", "applications"))
    source, chart = argo["spec"]["sources"][0], flux["spec"]["chart"]["spec"]
    (own,) = source["helm"]["valueFiles"]
    assert chart["chart"] == source["path"]
    assert chart["valuesFiles"] == [f"{chart['chart']}/values.yaml", own.removeprefix("$site/")]
    assert flux["spec"]["releaseName"] == source["helm"]["releaseName"]
    assert flux["spec"]["targetNamespace"] == argo["spec"]["destination"]["namespace"]


def test_argo_cd_removes_the_operator_last():
    """By waves, the highest first. NodeSets need the operator to end."""
    examples = ROOT / "docs" / "examples" / "gitops"
    folder = examples / yaml.safe_load((examples / "root.yaml").read_text())["spec"]["source"]["path"]
    found = [yaml.safe_load(file.read_text())["metadata"] for file in folder.glob("*.yaml")]
    waves = {each["name"]: int(each.get("annotations", {}).get("argocd.argoproj.io/sync-wave", 0)) for each in found}
    assert waves == {"sunkpy": -1, "slurm": 0, "slurm-staging": 0}


def test_the_example_is_valid_and_its_pods_are_for_slurm():
    check_accepted(EXAMPLE)
    pod = msgspec.convert(EXAMPLE["spec"]["template"], Pod)
    assert pod.spec.scheduler_name == "slurm"
    assert _gang(pod).problems == ()


def test_the_pods_of_the_first_gang_have_one_job_with_a_seat_for_each():
    job = yaml.safe_load((ROOT / "docs" / "examples" / "gang.yaml").read_text())
    check_accepted(job)
    pod = msgspec.convert(job["spec"]["template"], Pod)
    gang = _gang(pod)
    assert (pod.spec.scheduler_name, gang.problems) == ("slurm", ())
    assert gang.seats == job["spec"]["parallelism"] == job["spec"]["completions"] == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:`|^ {4}|A=\w+ )make ([a-z][a-z0-9-]+)", page.read_text(), flags=re.MULTILINE)) <= targets
