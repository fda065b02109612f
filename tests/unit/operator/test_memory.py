import msgspec
import pytest

from sunkpy.core.nodeset.actions import AddFinalizer, CreatePod
from sunkpy.core.nodeset.slurmd_pod import GPUS_AWAY_S, OFFER_LASTS_S
from sunkpy.core.nodeset.spec import Gpu, Growth
from sunkpy.core.nodeset.world import WAVE
from sunkpy.operator.memory import CREATED_PER_S, GUARD_LASTS_S, Memory
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_template

NODESET = make_nodeset()


def creation(node):
    return CreatePod(node, f"gpu-{node}", {})


def test_a_node_is_claimed_by_one_nodeset_at_a_time():
    memory = Memory()
    with memory.claim([AddFinalizer(), creation("n1")]) as first:
        with memory.claim([creation("n1"), creation("n2")]) as second:
            assert [found.node for found in first] == ["n1"]
            assert [found.node for found in second] == ["n2"]
        with memory.claim([creation("n1"), creation("n2")]) as third:
            assert [found.node for found in third] == ["n2"]
    with memory.claim([creation("n1")]) as last:
        assert [found.node for found in last] == ["n1"]


def test_a_claim_ends_when_the_creation_fails():
    memory = Memory()
    with pytest.raises(OSError, match="away"), memory.claim([creation("n1")]):
        raise OSError("away")
    with memory.claim([creation("n1")]) as again:
        assert [found.node for found in again] == ["n1"]


def test_a_refusal_is_about_one_template():
    memory = Memory()
    memory.note_refusal(NODESET, "image: Required value")
    assert memory.refusal(NODESET) == "image: Required value"
    assert memory.refusal(make_nodeset(template=make_template(image="slurmd:2"))) == ""
    memory.note_refusal(NODESET, "")
    assert memory.refusal(NODESET) == ""


def test_a_template_is_asked_about_once_and_again_while_it_is_refused():
    memory = Memory()
    assert not memory.is_vetted(NODESET)
    memory.note_vetted(NODESET)
    assert memory.is_vetted(NODESET)
    assert not memory.is_vetted(make_nodeset(template=make_template(image="slurmd:2")))
    memory.note_refusal(NODESET, "image: Required value")
    assert not memory.is_vetted(NODESET)


def test_failures_add_up_until_a_pod_of_the_node_is_ready():
    memory = Memory()
    failed = make_pod(NODESET, 1, phase="Failed", ready=False)
    for _ in range(2):
        memory.note_failure(NODESET, failed)
    memory.note_failure(NODESET, make_pod(NODESET, 2, phase="Failed"))
    memory.pod_changed(failed, make_pod(NODESET, 1, ready=False))
    assert memory.failures(NODESET) == {"n1": 2, "n2": 1}
    memory.pod_changed(None, make_pod(NODESET, 1))
    assert memory.failures(NODESET) == {"n2": 1}
    memory.pod_changed(make_pod(NODESET, 2), None)
    assert memory.failures(NODESET) == {"n2": 1}


def test_failures_on_a_node_that_has_left_are_forgotten():
    memory = Memory()
    for number in (1, 2):
        memory.note_failure(NODESET, make_pod(NODESET, number, phase="Failed"))
    memory.node_changed(make_node(1), None)
    memory.node_changed(make_node(2), make_node(2))
    assert memory.failures(NODESET) == {"n2": 1}


def test_a_budget_is_written_again_after_a_while_for_somebody_may_have_deleted_it():
    now_s = 1000.0
    memory = Memory(lambda: now_s)
    memory.note_guarded(NODESET)
    now_s += GUARD_LASTS_S - 1
    assert memory.is_guarded(NODESET)
    now_s += 1
    assert not memory.is_guarded(NODESET)


def test_a_budget_is_that_of_one_nodeset_not_of_its_name():
    memory = Memory()
    memory.note_guarded(NODESET)
    assert memory.is_guarded(NODESET)
    again = msgspec.structs.replace(NODESET, metadata=msgspec.structs.replace(NODESET.metadata, uid="another"))
    assert not memory.is_guarded(again)


def test_nothing_is_left_of_a_nodeset_that_is_gone():
    memory = Memory()
    memory.note_refusal(NODESET, "no")
    memory.note_failure(NODESET, make_pod(NODESET, 1))
    memory.note_guarded(NODESET)
    memory.forget(NODESET.key)
    assert memory.refusal(NODESET) == ""
    assert memory.failures(NODESET) == {}
    assert not memory.is_guarded(NODESET)


def test_an_offer_counts_as_changed_when_it_has_lasted():
    now_s = 0.0
    memory = Memory(lambda: now_s)
    assert memory.lasting_offers(NODESET, {"a": "gres="}) == (frozenset(), OFFER_LASTS_S)
    now_s = 20.0
    assert memory.lasting_offers(NODESET, {"a": "gres=", "b": "gres="})[1] == OFFER_LASTS_S - 20.0
    now_s = OFFER_LASTS_S
    assert memory.lasting_offers(NODESET, {"a": "gres=", "b": "gres="})[0] == {"a"}
    assert memory.lasting_offers(NODESET, {"a": "gres=gpu:4"})[0] == frozenset(), "another change starts anew"
    assert memory.lasting_offers(NODESET, {}) == (frozenset(), None)


def test_a_node_is_idle_for_long_when_nothing_has_run_there_without_a_pause():
    now_s = 0.0
    memory = Memory(lambda: now_s)
    spec = msgspec.structs.replace(NODESET.spec, growth=Growth(release_after_seconds=600))
    nodeset = msgspec.structs.replace(NODESET, spec=spec)
    assert memory.long_idle(nodeset, ["a"]) == (frozenset(), 600.0)
    now_s = 400.0
    assert memory.long_idle(nodeset, ["a", "b"]) == (frozenset(), 200.0)
    now_s = 600.0
    assert memory.long_idle(nodeset, ["a", "b"]) == ({"a"}, 400.0)
    assert memory.long_idle(nodeset, ["b"]) == (frozenset(), 400.0), "a job has begun"
    assert memory.long_idle(nodeset, ["a", "b"]) == (frozenset(), 400.0), "and ended: anew"


def test_a_device_plugin_may_be_away_for_minutes():
    """Then nodes with GPUs offer none, and Slurm needs no plugin. Fewer GPUs are no plugin that is away."""
    now_s = 0.0
    memory = Memory(lambda: now_s)
    gpus = make_nodeset(gpu=Gpu())
    offers = {"away": "cpus=8 memory=32000 gres=", "fewer": "cpus=8 memory=32000 gres=gpu:7"}
    assert memory.lasting_offers(gpus, offers) == (frozenset(), OFFER_LASTS_S)
    now_s = OFFER_LASTS_S
    assert memory.lasting_offers(gpus, offers) == ({"fewer"}, GPUS_AWAY_S - OFFER_LASTS_S)
    by_driver = make_nodeset(name="driver", gpu=Gpu(driver="d"))
    assert memory.lasting_offers(by_driver, offers)[1] == OFFER_LASTS_S, "a driver that says so is not away"
    now_s = GPUS_AWAY_S
    assert memory.lasting_offers(gpus, offers) == ({"away", "fewer"}, None), "by then they are gone"


def test_pods_are_created_in_waves_that_fill_up_with_time():
    now_s = 0.0
    memory = Memory(lambda: now_s)
    assert memory.room_to_create(NODESET) == WAVE
    memory.note_created(NODESET, WAVE)
    assert memory.room_to_create(NODESET) == 0
    now_s = 0.1
    assert memory.room_to_create(NODESET) == 0, "a few are not worth a pass"
    now_s = 0.5
    assert memory.room_to_create(NODESET) == CREATED_PER_S // 2
    now_s = 60.0
    assert memory.room_to_create(NODESET) == WAVE


def test_a_template_is_trusted_once_a_pod_of_it_was_accepted():
    memory = Memory()
    assert not memory.is_accepted(NODESET)
    memory.note_refusal(NODESET, "")
    assert memory.is_accepted(NODESET)
    assert not memory.is_accepted(make_nodeset(template=make_template(image="slurmd:2")))
    memory.note_refusal(NODESET, "quota exceeded")
    assert not memory.is_accepted(NODESET)
