from sunkpy.core.model.removal_token import Token
from sunkpy.core.nodeset.actions import AddFinalizer, AnnotateJobs, CancelPending, CreatePod, DeletePod, MarkPending
from sunkpy.operator.execute import PodEvent, group_removals
from tests.unit.core.nodeset.build import NOW, make_nodeset, make_pod

NODESET = make_nodeset()


def pod(number):
    return make_pod(NODESET, number)


def test_pods_that_go_for_one_reason_are_told_together():
    actions = [
        AddFinalizer(),
        MarkPending(pod(1), Token(NOW, "rollout")),
        MarkPending(pod(2), Token(NOW, "scale-down")),
        MarkPending(pod(3), Token(NOW, "rollout")),
        CancelPending(pod(4)),
        DeletePod(pod(5), "drained"),
        DeletePod(pod(6), "failed"),
        DeletePod(pod(8), "replaced"),
        AnnotateJobs(pod(9), "12"),
        CreatePod("n7", "gpu-012-007", {}),
    ]
    assert group_removals(actions) == {
        PodEvent("PodsDraining", "will be removed (rollout) once drained"): ["gpu-012-001", "gpu-012-003"],
        PodEvent("PodsDraining", "will be removed (scale-down) once drained"): ["gpu-012-002"],
        PodEvent("RemovalCancelled", "will not be removed"): ["gpu-012-004"],
        PodEvent("PodsDeleted", "deleted (drained)"): ["gpu-012-005"],
        PodEvent("PodsDeleted", "deleted (failed)"): ["gpu-012-006"],
        PodEvent("PodsDeleted", "deleted (replaced)"): ["gpu-012-008"],
    }
