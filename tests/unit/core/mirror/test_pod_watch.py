"""While the watch of pods is down nothing is lifted, and it is looked at again once it may be up."""

from __future__ import annotations

import pytest

from sunkpy.core import names
from sunkpy.core.mirror import SlurmAnswer, UndrainNode, View, decide_mirror
from sunkpy.core.model.objects import Condition, Meta, Pod, PodStatus
from sunkpy.core.model.states import SlurmNode

POD = Pod(
    metadata=Meta(name="gpu-001", namespace="slurm", uid="u"),
    status=PodStatus(conditions=(Condition(type="ContainersReady", status="True"),)),
)
CORDONED_BEFORE = SlurmNode(
    name="gpu-001", state=frozenset({"IDLE", "DRAIN"}), reason=f"{names.REASON_PREFIX}cordon: node cordoned"
)


@pytest.mark.parametrize("known", [True, False])
def test_a_drain_whose_cause_is_over_is_lifted_as_soon_as_the_pods_are_known(known):
    answer = SlurmAnswer(node=CORDONED_BEFORE, number=1, at_s=100.0)
    view = View(name="gpu-001", namespace="slurm", pod=POD, answer=answer, are_pods_known=known)
    decision = decide_mirror(view, 100.5)
    assert any(isinstance(action, UndrainNode) for action in decision.actions) is known
    assert decision.wants_next_answer is not known
