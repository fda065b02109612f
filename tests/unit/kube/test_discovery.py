"""Kinds found by asking a small apiserver over HTTP."""

import contextlib

from sunkpy.core.model.objects import Kind
from sunkpy.kube.client import Kube
from sunkpy.kube.discovery import Discovery
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

JOBSET = Kind(group="jobset.x-k8s.io", kind="JobSet")


@contextlib.asynccontextmanager
async def discovering(api, folder, clock):
    async with answering(api.handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield Discovery(kube, clock)


async def test_a_kind_is_found_in_the_version_that_has_it(tmp_path):
    api = Apiserver()
    api.define("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
    async with discovering(api, tmp_path, lambda: 0.0) as discovery:
        found = await discovery.find(JOBSET)
    assert (found.title, found.collection) == ("jobsets.jobset.x-k8s.io", "/apis/jobset.x-k8s.io/v1alpha2/jobsets")
    assert found.path("team", "train") == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/train"


async def test_a_kind_of_the_first_group_and_one_without_namespace(tmp_path):
    api = Apiserver()
    api.define("example.com/v1", "Fleet", "fleets", namespaced=False)
    async with discovering(api, tmp_path, lambda: 0.0) as discovery:
        event = await discovery.find(Kind(group="", kind="Event"))
        fleet = await discovery.find(Kind(group="example.com", kind="Fleet"))
    assert (event.title, event.path("d", "e")) == ("events", "/api/v1/namespaces/d/events/e")
    assert fleet.path("d", "f") == "/apis/example.com/v1/fleets/f"


async def test_a_kind_that_is_not_there_is_asked_for_again_after_a_while(tmp_path):
    api, now = Apiserver(), [0.0]
    async with discovering(api, tmp_path, lambda: now[0]) as discovery:
        assert await discovery.find(JOBSET) is None
        api.define("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
        assert await discovery.find(JOBSET) is None
        now[0] = 11.0
        assert await discovery.find(JOBSET) is not None
