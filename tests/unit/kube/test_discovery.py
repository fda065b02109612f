"""Kinds found by asking a small apiserver over HTTP."""

import contextlib

import msgspec
import pytest
from aiohttp import web

from sunkpy.core.model.objects import Kind
from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.kube.discovery import Resource, Served, explain_absent, read_served
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

JOBSET = Kind(group="jobset.x-k8s.io", kind="JobSet")
MPIJOB = Kind(group="kubeflow.org", kind="MPIJob")


@contextlib.asynccontextmanager
async def connected(handle, folder):
    async with answering(handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield kube


def answer(*groups):
    """An apiserver that has these groups, and none without a name."""

    async def handle(request):
        items = groups if request.path == "/apis" else ()
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})

    return handle


def version(name, *entries, **more):
    return {"version": name, "resources": [*entries], **more}


def entry(plural, kind, scope="Namespaced"):
    """As k8s.io/api/apidiscovery/v2 has it; what nobody reads is there as well."""
    of = {"group": "", "version": "", "kind": kind}
    return {"resource": plural, "responseKind": of, "scope": scope, "singularResource": "", "verbs": ["list"]}


async def test_a_kind_is_found_in_the_version_that_has_it(tmp_path):
    api = Apiserver()
    api.define("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
    async with connected(api.handle, tmp_path) as kube:
        found = (await read_served(kube)).find(JOBSET)
    assert (found.title, found.collection) == ("jobsets.jobset.x-k8s.io", "/apis/jobset.x-k8s.io/v1alpha2/jobsets")
    assert found.path("team", "train") == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/train"


async def test_a_kind_of_the_first_group_and_one_without_namespace(tmp_path):
    api = Apiserver()
    api.define("example.com/v1", "Fleet", "fleets", namespaced=False)
    async with connected(api.handle, tmp_path) as kube:
        served = await read_served(kube)
    event, fleet = served.find(Kind(group="", kind="Event")), served.find(Kind(group="example.com", kind="Fleet"))
    assert (event.title, event.path("d", "e")) == ("events", "/api/v1/namespaces/d/events/e")
    assert fleet.path("d", "f") == "/apis/example.com/v1/fleets/f"
    assert served.find(JOBSET) is None


async def test_what_a_pod_names_as_its_owner_is_one_name_whatever_stands_in_it(tmp_path):
    api = Apiserver()
    api.define("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
    async with connected(api.handle, tmp_path) as kube:
        found = (await read_served(kube)).find(JOBSET)
    assert found.path("team", "../../else/jobsets/x?watch=1").endswith(
        "/namespaces/team/jobsets/..%2F..%2Felse%2Fjobsets%2Fx%3Fwatch%3D1"
    )


async def test_all_kinds_cost_two_requests(tmp_path):
    api = Apiserver()
    for number in range(50):
        api.define(f"g{number}.example.com/v1", f"Kind{number}", f"kinds{number}")
    async with connected(api.handle, tmp_path) as kube:
        served = await read_served(kube)
    assert served.find(Kind(group="g7.example.com", kind="Kind7")) is not None
    assert api.asked == {"/api": 1, "/apis": 1}


async def test_of_several_versions_the_preferred_one_or_the_one_that_is_in_use(tmp_path):
    both = [version("v2", entry("mpijobs", "MPIJob")), version("v1", entry("mpijobs", "MPIJob"), entry("old", "Old"))]
    async with connected(answer({"metadata": {"name": "kubeflow.org"}, "versions": both}), tmp_path) as kube:
        served = await read_served(kube)
    older = Resource(kind=MPIJOB, api_version="kubeflow.org/v1", plural="mpijobs", namespaced=True)
    assert served.find(MPIJOB).api_version == "kubeflow.org/v2"
    assert served.find(MPIJOB, rather=older) == older
    gone = msgspec.structs.replace(older, api_version="kubeflow.org/v1beta1")
    assert served.find(MPIJOB, rather=gone).api_version == "kubeflow.org/v2"
    assert served.find(Kind(group="kubeflow.org", kind="Old")).collection == "/apis/kubeflow.org/v1/old"


async def test_what_has_subresources_only_is_no_kind_and_a_server_behind_that_is_away_is_known(tmp_path):
    parentless = {"resource": "things", "responseKind": None, "scope": "Namespaced", "subresources": []}
    metrics = {"metadata": {"name": "metrics.k8s.io"}, "versions": [version("v1", parentless, freshness="Stale")]}
    async with connected(answer(metrics), tmp_path) as kube:
        assert await read_served(kube) == Served(uncertain=frozenset({"metrics.k8s.io"}))


async def test_an_answer_in_another_form_is_no_answer(tmp_path):
    async def unaggregated(_):
        return web.json_response({"kind": "APIGroupList", "groups": []})

    async with connected(unaggregated, tmp_path) as kube:
        with pytest.raises(errors.UnreadableAnswer, match=r"GET /api: .*items"):
            await read_served(kube)


def test_a_kind_that_is_absent_is_named():
    assert explain_absent(JOBSET) == ("the apiserver knows no kind JobSet of jobset.x-k8s.io: its CRD is not installed")
    assert explain_absent(Kind(group="", kind="Ghost")) == "the apiserver knows no kind Ghost: its CRD is not installed"
