"""What of the surveys is judged when: by real informers and indexes that were fed by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.model.objects import Node
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.nodeset.verdict import Trait
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.operator.pod_index import PodIndex
from sunkpy.operator.surveys import Surveys
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_template
from tests.unit.core.nodeset.test_survey import sums
from tests.unit.operator.test_operator import node

NODESET = make_nodeset(template=make_template(nodeSelector={"pool": "gpu"}))


RIVAL = make_nodeset(name="cpu")


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def slurmd(draw):
    """A slurmd pod of this NodeSet or of another, on one of three nodes, in some state."""
    nodeset, number = draw(st.sampled_from([NODESET, NODESET, RIVAL])), draw(st.integers(1, 3))
    return make_pod(
        nodeset,
        number,
        name=f"{nodeset.name}-012-{number:03d}",
        bound=draw(st.booleans()),
        ready=draw(st.booleans()),
        deleting=draw(st.booleans()),
        token=draw(st.sampled_from([None, "2026-11-20T11:30:00+00:00/rollout"])),
        created=draw(st.sampled_from(["2026-11-20T11:00:00Z", "2026-11-20T11:30:00Z"])),
    )


@settings(max_examples=100)
@given(st.data())
def test_whatever_is_told_in_whatever_order_the_survey_is_the_one_made_anew(data):
    clock, nodes = Clock(), Informer(None, paths.NODES, Node)
    pods = PodIndex(clock)
    grown, seen = Surveys(nodes, pods), {}
    pods.add_handler(grown.touch)
    nodes.add_handler(grown.node_changed)
    grown.survey(NODESET)
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["pod", "pod", "gone", "assumed", "node", "no node", "known", "later"])):
            case "pod":
                pod = slurmd(data.draw)
                pods.update(seen.get(pod.key), pod)
                seen[pod.key] = pod
            case "gone" if seen:
                pods.update(seen.pop(data.draw(st.sampled_from(sorted(seen)))), None)
            case "assumed":
                pods.assume(slurmd(data.draw))
            case "node":
                number, pool = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(["gpu", "cpu"]))
                version = str(data.draw(st.integers(1, 10**9)))
                made = make_node(number, labels={"pool": pool})
                meta = msgspec.structs.replace(made.metadata, resource_version=version)
                nodes._change(made.key, msgspec.structs.replace(made, metadata=meta))
            case "no node":
                nodes._change(("", f"n{data.draw(st.integers(1, 3))}"), None)
            case "known":
                pods.know(data.draw(st.sampled_from([NODESET, RIVAL])))
            case "later":
                clock.now_s += data.draw(st.sampled_from([10.0, 31.0]))
                pods.expire()
        assert sums(grown.survey(NODESET)) == sums(Surveys(nodes, pods).survey(NODESET))


class Cluster:
    """Nodes of an apiserver, pods as the test says, the surveys of both."""

    def __init__(self, api: Apiserver, kube: Kube) -> None:
        self.api = api
        self.nodes = Informer(kube, paths.NODES, Node)
        self.pods = PodIndex()
        self.pods.know(NODESET)
        self.surveys = Surveys(self.nodes, self.pods)
        self.pods.add_handler(self.surveys.touch)
        self.nodes.add_handler(self.surveys.node_changed)

    def possible(self):
        return self.surveys.survey(NODESET).possible


@pytest.fixture
async def cluster(tmp_path: Path):
    api = Apiserver()
    for number in (1, 2, 3):
        api.put("nodes", node(number))
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        made = Cluster(api, kube)
        watch = asyncio.ensure_future(made.nodes.run())
        await made.nodes.synced.wait()
        yield made
        watch.cancel()


async def test_the_first_survey_has_all_nodes(cluster):
    await cluster.surveys.catch_up(NODESET)
    assert cluster.possible() == 3


async def test_a_node_that_changes_is_judged_at_the_next_look(cluster):
    assert cluster.possible() == 3
    cluster.api.change("nodes", "", "n1", {"metadata": {"labels": {"pool": "cpu"}}})
    await cluster.api.until(lambda: cluster.possible() == 2)
    cluster.api.remove("nodes", "", "n2")
    await cluster.api.until(lambda: cluster.possible() == 1)


async def test_a_pod_counts_from_the_moment_it_is_assumed_until_it_is_gone(cluster):
    pod = make_pod(NODESET, 1)
    assert len(cluster.surveys.survey(NODESET).free) == 3
    cluster.pods.assume(pod)
    assert len(cluster.surveys.survey(NODESET).free) == 2
    cluster.pods.update(None, pod)
    cluster.pods.update(pod, None)
    assert len(cluster.surveys.survey(NODESET).free) == 3


async def test_another_spec_is_another_survey(cluster):
    assert cluster.possible() == 3
    other = make_nodeset(template=make_template(nodeSelector={"pool": "cpu"}))
    assert cluster.surveys.survey(other).possible == 0


async def test_pods_of_a_nodeset_that_is_seen_later_hold_their_nodes(cluster):
    rival = make_nodeset(name="cpu")
    cluster.pods.update(None, make_pod(rival, 1, name="cpu-012-001"))
    assert cluster.possible() == 3, "nobody knows of such a NodeSet: it may be made up"
    cluster.pods.know(rival)
    assert cluster.possible() == 2


async def test_an_offer_that_has_lasted_makes_its_pod_outdated(cluster):
    pod = make_pod(NODESET, 1, annotations={names.ANNOTATION_OFFERED: "cpus=1"})
    cluster.pods.update(None, pod)
    survey = cluster.surveys.survey(NODESET)
    assert (survey.counts[Trait.OTHER_OFFER], len(survey.outdated)) == (1, 0)
    assert len(cluster.surveys.survey(NODESET, frozenset({pod.uid})).outdated) == 1
    assert len(cluster.surveys.survey(NODESET, frozenset()).outdated) == 0


async def test_a_node_that_cannot_be_read_is_looked_at_again(cluster):
    assert cluster.possible() == 3
    cluster.api.change("nodes", "", "n1", {"status": {"allocatable": {"cpu": "many"}}})
    asking = make_nodeset(template=make_template(nodeSelector={"pool": "gpu"}, requests={"cpu": "1"}))

    def is_refused() -> bool:
        with pytest.raises(BadQuantity):
            cluster.surveys.survey(asking)
        return True

    await cluster.api.until(lambda: cluster.nodes.get("", "n1").status.allocatable["cpu"] == "many")
    assert is_refused()
    assert is_refused()
    cluster.api.change("nodes", "", "n1", {"status": {"allocatable": {"cpu": "8"}}})
    await cluster.api.until(lambda: cluster.nodes.get("", "n1").status.allocatable["cpu"] == "8")
    assert cluster.surveys.survey(asking).possible == 3


async def test_a_resync_judges_every_node_anew(cluster):
    assert cluster.possible() == 3
    before = cluster.surveys.survey(NODESET)
    cluster.surveys.touch_all()
    await cluster.surveys.catch_up(NODESET)
    assert cluster.surveys.survey(NODESET) is before
    assert cluster.possible() == 3
