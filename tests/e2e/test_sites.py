"""Three public configurations (docs/examples/sites), installed unchanged except for what this cluster requires.

At each site, a job finds the same by every door, and a pod runs as a job. The demo's Slurm sleeps meanwhile.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from demo import person, story
from demo.bring_up import install, put_to_sleep
from demo.stack import ROOT, Stack
from devcluster import Cluster
from devcluster.waiting import NotYet, wait, wait_until_none
from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Node
from tests.e2e import workloads
from tests.e2e.conftest import CLUSTER
from tests.e2e.test_inside_a_job import WAYS, at_the_doors, differs

pytestmark = [pytest.mark.e2e, pytest.mark.long]

Values = dict[str, Any]
SITES: Final[Mapping[str, Values]] = yaml.safe_load(Path(__file__).with_name("sites.yaml").read_text())
POD: Final = "at-a-site"


@pytest.fixture(autouse=True)
def clean() -> None:
    """The demo's Slurm has nothing to be looked at: it sleeps."""


@pytest.fixture(scope="module")
def asleep(stack: Stack) -> Iterator[Stack]:
    """The stack whose Slurm sleeps, and wakes when all sites are gone."""
    put_to_sleep(stack, print)
    yield stack
    install(stack, print)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the machine, in place of the disk that a site has for its jobs."""
    return tmp_path_factory.mktemp("disk")


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest, asleep: Stack, disk: Path) -> Iterator[Stack]:
    """One of them, alone on the cluster, in a namespace of its name."""
    name: str = request.param
    forced = SITES[name]
    stack = asleep.with_images(asleep.images)
    stack.release = stack.namespace = stack.scheduler_name = stack.cluster = name
    labels, resources = forced.get("labels", {}), forced.get("resources", {})
    nodes = [node.name for node in stack.kubectl.list(Node, "nodes")]
    try:
        for node in nodes:
            _mark(stack, node, labels.get(node, {}), resources)
            stack.kubectl("annotate", "node", node, f"{names.ANNOTATION_PLACED_ON}-")  # the name that it had elsewhere
        install(stack, print, slurm=values_of(stack, disk))
        yield stack
    finally:
        stack.helm("uninstall", name, "--namespace", name, "--wait")
        stack.kubectl("delete", "namespace", name, timeout_s=120)
        for node in nodes:
            _mark(stack, node, dict.fromkeys(labels.get(node, {})), dict.fromkeys(resources))


def _mark(stack: Stack, node: str, labels: Mapping[str, str | None], resources: Mapping[str, str | None]) -> None:
    """Give a node labels and extended resources; those that are None are taken away."""
    stack.kubectl("patch", "node", node, "-p", json.dumps({"metadata": {"labels": labels}}))
    status = json.dumps({"status": {"capacity": resources}})
    stack.kubectl("patch", "node", node, "--subresource=status", "-p", status)


def values_of(stack: Stack, disk: Path) -> Values:
    """Those of the site of that name, with what is forced, Ann, and the images of the stack."""
    values: Values = yaml.safe_load((ROOT / f"docs/examples/sites/{stack.release}.yaml").read_text())
    for more in ({"images": stack.images}, person.values(), SITES[stack.release]["values"]):
        _lay_over(values, more)
    if (scratch := values.get("compute", {}).get("scratch", {})).get("hostPath", {}).get("path") == "SCRATCH":
        scratch["hostPath"]["path"] = str(disk)
    return values


def _lay_over(values: Values, more: Mapping[str, Any]) -> None:
    """As helm does with a second file, but that null takes away what stands in the first one, and lists are joined."""
    for key, value in more.items():
        if value is None:
            del values[key]
        elif isinstance(value, Mapping):
            _lay_over(values.setdefault(key, {}), value)
        elif key == "extraObjects":
            values[key] = [*values.get(key, []), *value]
        else:
            values[key] = value


def test_a_job_finds_what_the_page_says_and_a_pod_is_one(site: Stack, disk: Path) -> None:
    wait(lambda: _all_idle(site), timeout_s=180, what="nodes of the site")
    if "topology.conf" in values_of(site, disk).get("slurmConfig", {}).get("files", {}):
        site.scontrol("reconfigure")  # the tree knows nodes that are there: docs/surprises.md
        wait(lambda: _all_in_the_tree(site), timeout_s=60, what="nodes of the site in its tree")
    forced = SITES[site.release]
    cpus, virtual_percent = os.cpu_count() or 1 if "cpus" in forced else 1, forced.get("virtual_percent", 0)
    with at_the_doors(site) as people:
        found = {
            f"{way}, {submit.__name__}": differs(site, people[way], submit, cpus=cpus, virtual_percent=virtual_percent)
            for way, submit in WAYS
        }
    different = "".join(f"\n{door}:{wrong}" for door, wrong in found.items() if wrong)
    assert different == "", different
    volumes = Cluster(CLUSTER).layout.volumes
    if below := {"unsw": disk / "unsw-unsw", "aws-p5": volumes}.get(site.release):
        _writes_below(site, below)
    pod = workloads.pod(POD, image=site.images["sunkpy"], scheduler=site.scheduler_name, command=["true"])
    try:
        site.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        ended = "--for=jsonpath={.status.phase}=Succeeded"
        site.kubectl("wait", ended, f"pod/{POD}", "-n", workloads.NAMESPACE, "--timeout=90s", timeout_s=100)
    finally:
        site.kubectl("delete", "pod", POD, "-n", workloads.NAMESPACE, "--ignore-not-found")


def _writes_below(site: Stack, folder: Path) -> None:
    """A job's file in /tmp lies below the folder of the machine, and goes with the user's last job on the node."""
    name = f"of-a-job-at-{site.release}"

    def written() -> bool:
        if not (found := list(folder.rglob(name))):
            raise NotYet(f"{folder} has {[str(each.relative_to(folder)) for each in folder.rglob('*')][:20]}")
        assert len(found) == 1
        return True

    job = site.sbatch("--time=2", script=f"touch /tmp/{name}; sleep 100")
    wait(written, timeout_s=30, what="the job's file on the disk of the site")
    site.admin("scancel", str(job))
    wait_until_none(lambda: [str(each) for each in folder.rglob(name)], timeout_s=60, what="the job's file to go")


def _all_idle(site: Stack) -> bool:
    nodes = site.slurm_nodes()
    if sum(map(story.is_idle, nodes.values())) != (2 if site.release == "aws-p5" else 3):
        raise NotYet(f"they are {[(name, node['State']) for name, node in nodes.items()]}")
    return True


def _all_in_the_tree(site: Stack) -> bool:
    """Slurm answers before its tree is worked out, and until then refuses jobs of several nodes."""
    lists = re.findall(r"Level=0 .*\bNodes=(\S+)", site.scontrol("show", "topology"))
    placed = {name for each in lists for name in hostlist.expand(each)}
    if outside := site.slurm_nodes().keys() - placed:
        raise NotYet(f"outside are {sorted(outside)}")
    return _all_idle(site)
