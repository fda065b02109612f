"""How the bench sees that a pod got a node without a job."""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Meta, Pod, PodSpec
from tests.bench.abuse.measure import without_job
from tests.e2e.timeline import Sighting


def _seen(name: str, *, node: str = "", job: str = "") -> Sighting[Pod]:
    annotations = {names.ANNOTATION_JOB_ID: job} if job else {}
    pod = Pod(metadata=Meta(name=name, annotations=annotations), spec=PodSpec(node_name=node))
    return Sighting(at_s=0, old=None, new=pod)


def test_a_pod_must_have_its_job_when_it_is_first_seen_on_a_node():
    waits, bound = _seen("a"), _seen("a", node="n1", job="7")
    gone = Sighting(at_s=0, old=bound.new, new=None)
    assert without_job([waits, bound, gone]) == []
    assert without_job([_seen("b", node="n1"), _seen("b", node="n1", job="8"), gone]) == ["b"]
