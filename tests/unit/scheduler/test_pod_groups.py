"""Phases of pod groups, kept against a small apiserver."""

import asyncio
import contextlib

import pytest

from sunkpy.core.gang.families import volcano
from sunkpy.core.model.objects import Kind, Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer, Together
from sunkpy.scheduler.owners.pod_groups import PodGroups
from sunkpy.scheduler.owners.watch import OwnerWatches
from tests.doubles.apiserver import Apiserver
from tests.doubles.leading import make_leader
from tests.doubles.serving import answering
from tests.unit.scheduler.world import reference

GROUP = "scheduling.volcano.sh/v1beta1"
CREW = Kind(group="example.com", kind="Crew")


@contextlib.asynccontextmanager
async def keeping(api, folder):
    async with answering(api.handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        pods = Together([Informer(kube, paths.ALL_PODS, Pod)])
        reads = (volcano.POD_GROUP, CREW)
        watches = OwnerWatches(kube, reads=reads, pods=pods, clock=lambda: 0.0, on_unreadable=lambda *_: None)
        groups = PodGroups(make_leader(kube=kube), watches, pods)
        tasks = [asyncio.ensure_future(each.run()) for each in (pods.parts[0], watches, groups)]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def api():
    api = Apiserver()
    api.define(GROUP, "PodGroup", "podgroups")
    api.define("example.com/v1", "Crew", "crews")
    return api


def add_group(api, name, *, scheduler="slurm"):
    spec = {"schedulerName": scheduler}
    crew = {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": name, "namespace": "d"}, "spec": spec}
    meta = {"name": name, "namespace": "d", "ownerReferences": [reference(api.put("crews", crew))]}
    body = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1}}
    return api.put("podgroups", body)


def phase(api, name):
    return api.objects["podgroups", "d", name].get("status", {}).get("phase")


async def test_a_group_whose_pods_will_be_ours_is_let_through_and_runs_when_they_are_bound(api, tmp_path):
    async with keeping(api, tmp_path):
        add_group(api, "others", scheduler="volcano")
        add_group(api, "band")
        await api.until(lambda: phase(api, "band") == "Inqueue")
        meta = {"name": "p", "namespace": "d", "annotations": {volcano.GROUP_NAME: "band"}}
        api.put("pods", {"metadata": meta, "spec": {"schedulerName": "slurm"}})
        api.change("pods", "d", "p", {"spec": {"nodeName": "n1"}})
        await api.until(lambda: phase(api, "band") == "Running")
        assert phase(api, "others") is None


async def test_a_group_whose_crd_has_no_status_subresource_gets_its_phase_as_well(api, tmp_path):
    api.undivided.add("podgroups")
    async with keeping(api, tmp_path):
        add_group(api, "band")
        await api.until(lambda: phase(api, "band") == "Inqueue")


async def test_a_group_that_is_made_anew_begins_again(api, tmp_path):
    async with keeping(api, tmp_path):
        add_group(api, "band")
        await api.until(lambda: phase(api, "band") == "Inqueue")
        api.remove("podgroups", "d", "band")
        add_group(api, "band")
        assert phase(api, "band") is None
        await api.until(lambda: phase(api, "band") == "Inqueue")


async def test_a_group_that_nobody_owns_is_left_alone(api, tmp_path):
    async with keeping(api, tmp_path):
        meta = {"name": "alone", "namespace": "d"}
        api.put("podgroups", {"apiVersion": GROUP, "kind": "PodGroup", "metadata": meta})
        add_group(api, "band")
        await api.until(lambda: phase(api, "band") == "Inqueue")
        assert phase(api, "alone") is None
