"""Nodes that pods must avoid: worked out once for a template, and again when a pod that matters came or went."""

import msgspec
import pytest

from sunkpy.core.gang.limits import avoid_nodes, depend_on, topics_of, touches
from sunkpy.core.model.objects import Pod
from sunkpy.runtime.verdicts import _ASKED_LAST, Verdicts
from sunkpy.scheduler.pods.neighbours import Neighbours
from tests.unit.core.gang.pods import make_node

HOST = "kubernetes.io/hostname"
NODES = {name: make_node(name, labels={HOST: name}) for name in ("n1", "n2", "n3")}


def terms(kind, app):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


APART, NEAR = terms("podAntiAffinity", "web"), terms("podAffinity", "db")
PORT = {"containers": [{"ports": [{"hostPort": 80}]}]}


def make(name, *, app="web", node="", scheduler="slurm", phase="Pending", **spec):
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {"schedulerName": scheduler, "nodeName": node, **spec},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, Pod)


class Cluster:
    """Pods on three nodes; counts how often it was worked out where others may go, and what woke the gangs."""

    def __init__(self):
        self.judged, self.woken = 0, 0
        self.pods = {}
        self.verdicts = Verdicts(self._judge, topics=topics_of)
        self.neighbours = Neighbours(on_moved=self._moved)

    def _moved(self, pod):
        self.woken += self.verdicts.doubt(lambda pods: depend_on(pods, pod), about=touches(pod))

    def _judge(self, pods):
        self.judged += 1
        return avoid_nodes(pods, self.neighbours.around(NODES))

    def put(self, pod):
        old, self.pods[pod.uid] = self.pods.get(pod.uid), pod
        self.neighbours.update(old, pod)

    def remove(self, uid):
        self.neighbours.update(self.pods.pop(uid), None)

    def avoided_by(self, spec, replicas=240):
        """The verdict for each of the replicas, which is the same for all."""
        found = [self.verdicts.of(b"template", [make(f"waits-{number}", **spec)]) for number in range(replicas)]
        assert len({id(each.value) for each in found}) == 1
        return found[0]


def test_it_is_worked_out_once_for_all_replicas_and_again_when_one_was_bound_or_left():
    cluster = Cluster()
    first = cluster.avoided_by(APART)
    assert (dict(first.value), cluster.judged) == ({}, 1)
    cluster.neighbours.note_sent(make("bound", node="n1", **APART))
    assert cluster.woken == 1
    assert not cluster.verdicts.holds(first)
    second = cluster.avoided_by(APART)
    assert (set(second.value), cluster.judged) == ({"n1"}, 2)
    cluster.put(make("bound", node="n1", **APART))
    assert cluster.verdicts.holds(second), "the watch shows what was known since the binding was sent"
    cluster.put(make("bound", node="n1", phase="Succeeded", **APART))
    assert not cluster.verdicts.holds(second)
    assert (dict(cluster.avoided_by(APART).value), cluster.judged, cluster.woken) == ({}, 3, 2)


@pytest.mark.parametrize("spec", [APART, NEAR, PORT], ids=["anti-affinity", "affinity", "port"])
def test_pods_that_do_not_matter_cost_nothing(spec):
    cluster = Cluster()
    found = cluster.avoided_by(spec)
    for number in range(100):
        cluster.put(make(f"waits-too-{number}", **spec))
        cluster.put(make(f"other-{number}", app="cache", node="n1"))
    cluster.put(make("stranger", app="cache", node="n2", scheduler="default-scheduler"))
    cluster.remove("other-7")
    assert cluster.verdicts.holds(found)
    assert (cluster.judged, cluster.woken) == (1, 0)


@pytest.mark.parametrize(
    ("spec", "other", "avoided"),
    [
        (APART, {"app": "web"}, {"n2"}),
        ({}, APART, {"n2"}),
        (NEAR, {"app": "db"}, {"n1", "n3"}),
        (PORT, PORT, {"n2"}),
    ],
    ids=["anti-affinity", "of the other", "affinity", "port"],
)
@pytest.mark.parametrize("scheduler", ["slurm", "default-scheduler"])
def test_a_pod_that_matters_is_seen_when_it_comes_and_when_it_goes(spec, other, avoided, scheduler):
    cluster = Cluster()
    cluster.put(make("shuts-out", app="x", node="n3", **terms("podAntiAffinity", "y")))
    before = cluster.avoided_by(spec)
    pod = make("other", node="n2", scheduler=scheduler, **other)
    cluster.put(pod)
    assert not cluster.verdicts.holds(before)
    there = cluster.avoided_by(spec)
    assert set(there.value) == avoided
    cluster.remove("other")
    assert not cluster.verdicts.holds(there)
    assert cluster.avoided_by(spec).value == before.value
    assert (cluster.judged, cluster.woken) == (3, 2)


def test_when_nodes_change_it_is_worked_out_again_and_the_same_result_concerns_nobody():
    cluster = Cluster()
    found = cluster.avoided_by(APART)
    cluster.verdicts.doubt()
    assert cluster.verdicts.holds(found)
    assert cluster.judged == 2


def test_a_template_goes_with_the_last_who_holds_a_verdict_and_the_few_that_were_asked_for_last():
    worked_out = []
    verdicts = Verdicts(lambda template: worked_out.append(template) or template)
    held = verdicts.of(b"held", "held")
    for number in range(5_000):
        verdicts.of(str(number).encode(), number)
    assert len(verdicts) == 1 + _ASKED_LAST
    assert verdicts.doubt()
    assert verdicts.holds(held)
    assert worked_out.count("held") == 2
    del held
    assert len(verdicts) == _ASKED_LAST


def test_whether_pods_without_terms_have_to_be_looked_at():
    cluster = Cluster()
    cluster.put(make("bound", node="n1", **PORT))
    assert cluster.neighbours.is_open
    cluster.neighbours.note_sent(make("sent", node="n1", **APART))
    assert not cluster.neighbours.is_open
    cluster.neighbours.drop_sent("sent")
    assert cluster.neighbours.is_open


def test_what_templates_are_about_goes_with_them():
    verdicts = Verdicts(lambda pods: {}, topics=topics_of)
    for number in range(5_000):
        verdicts.of(
            str(number).encode(), [make("waits", app=f"app-{number}", **terms("podAntiAffinity", f"app-{number}"))]
        )
    assert len(verdicts) <= _ASKED_LAST
    assert len(verdicts._about) <= 1_000
