import msgspec

from sunkpy.core.model.objects import Meta, OwnerReference, Pod, PodSpec
from sunkpy.operator.pod_index import PodIndex
from tests.unit.core.nodeset.build import make_nodeset, make_pod

NODESET = make_nodeset()
OWNER = {"api_version": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "controller": True}


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def knowing(clock=lambda: 0.0):
    index = PodIndex(clock)
    index.know(NODESET)
    return index


def found(index):
    index.expire()
    return [pod.name for pod in index.slurmd_pods("n1")]


def test_a_created_pod_counts_before_the_watch_has_shown_it():
    index = knowing()
    index.assume(make_pod(NODESET, 1, bound=False))
    assert found(index) == ["gpu-012-001"]
    index.update(None, make_pod(NODESET, 1, bound=False))
    assert found(index) == ["gpu-012-001"]


def test_a_created_pod_that_is_gone_again_is_gone():
    index = knowing()
    pod = make_pod(NODESET, 1)
    index.assume(pod)
    index.update(pod, None)
    assert found(index) == []


def test_a_pod_that_the_watch_never_shows_is_given_up():
    clock = Clock()
    index = knowing(clock)
    index.assume(make_pod(NODESET, 1))
    clock.now_s = 29.0
    assert found(index) == ["gpu-012-001"]
    clock.now_s = 31.0
    assert found(index) == []


def test_an_answer_that_is_older_than_the_watch_changes_nothing():
    index = knowing()
    index.update(None, make_pod(NODESET, 1))
    index.assume(make_pod(NODESET, 1, bound=False))
    assert [pod.spec.node_name for pod in index.slurmd_pods("n1")] == ["n1"]


def test_a_pod_is_found_on_the_node_it_is_bound_or_pinned_to():
    index = knowing()
    pinned, bound = make_pod(NODESET, 1, bound=False), make_pod(NODESET, 1)
    index.update(None, pinned)
    assert list(index.on_node("n1")) == [pinned]
    assert index.slurmd_on("n1") is None
    index.update(pinned, bound)
    assert list(index.on_node("n1")) == [bound]
    assert index.slurmd_on("n1") == bound


def test_pods_of_others_take_room_only_once_they_are_bound():
    index = knowing()
    waiting = Pod(metadata=Meta(name="web", namespace="default"))
    bound = Pod(metadata=Meta(name="web", namespace="default"), spec=PodSpec(node_name="n1"))
    index.update(None, waiting)
    assert index.nodes() == set()
    index.update(waiting, bound)
    assert list(index.on_node("n1")) == [bound]
    assert found(index) == []


def test_of_two_slurmd_pods_on_a_node_the_live_one_then_the_older_speaks_for_it():
    index = knowing()
    over = make_pod(NODESET, 1, name="over", phase="Failed", created="2026-11-20T09:00:00Z")
    older = make_pod(NODESET, 1, name="older", created="2026-11-20T10:00:00Z")
    younger = make_pod(NODESET, 1, name="younger", created="2026-11-20T11:00:00Z")
    for pod in (younger, over, older):
        index.update(None, pod)
    assert index.slurmd_on("n1") == older
    index.update(older, None)
    assert index.slurmd_on("n1") == younger


def test_labels_alone_make_no_slurmd_pod():
    index = knowing()
    real = make_pod(NODESET, 1)
    for number, owners in enumerate(
        ([], [OwnerReference(**{**OWNER, "uid": "made-up"})], [OwnerReference(kind="Job")])
    ):
        meta = msgspec.structs.replace(
            real.metadata, name=f"fake-{number}", namespace="mallory", owner_references=owners
        )
        index.update(None, msgspec.structs.replace(real, metadata=meta))
    assert found(index) == []
    assert index.slurmd_on("n1") is None
    assert len(index.on_node("n1")) == 3, "they take room like any other pod"


def test_a_pod_of_another_namespace_that_names_a_nodeset_its_owner_is_none_of_its():
    index = knowing()
    pod = make_pod(NODESET, 1)
    forged = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace="team-a"))
    index.update(None, forged)
    assert found(index) == []
    assert index.slurmd_on("n1") is None
