import pytest
from msgspec.structs import replace

from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.outcome import has_exit_code, has_succeeded
from sunkpy.core.model.objects import PodSpec
from tests.unit.core.gang.pods import make_pod

ID = GangId(namespace="default", name="train", uid="uid-1")
OK, BAD = "Succeeded", "Failed"


def role(name, *phases, indexes=None, decides=True, seats=2):
    members = []
    for number, phase in enumerate(phases):
        pod = make_pod(f"{name}-{number}", uid=f"{name}-{number}", phase=phase)
        made = replace(pod, metadata=replace(pod.metadata, creation_timestamp=str(number)))
        members.append(Member(pod=made, index=indexes[number] if indexes else number))
    return Role(name=name, seats=seats, first=1, members=tuple(members), decides=decides)


@pytest.mark.parametrize(
    ("roles", "succeeded"),
    [
        ([role("worker", OK, OK)], True),
        ([role("worker", OK, BAD)], False),
        ([role("worker", OK), role("ps", BAD, decides=False)], True),
        ([role("worker"), role("ps", BAD, decides=False)], False),
        ([role("launcher", BAD, OK, indexes=(0, 0), seats=1)], True),
        ([role("launcher", OK, BAD, indexes=(0, 0), seats=1)], False),
        ([role("pod", BAD, OK, OK, indexes=(ANY_SEAT,) * 3)], True),
        ([role("pod", OK, OK, BAD, indexes=(ANY_SEAT,) * 3)], False),
    ],
)
def test_the_last_try_of_those_that_decide_counts(roles, succeeded):
    assert has_succeeded(Gang(id=ID, roles=tuple(roles))) is succeeded


ALWAYS, NEVER = PodSpec(restart_policy="Always"), PodSpec(restart_policy="Never")


def serving(spec, *, shape=None, members=2):
    pods = [make_pod(f"p-{number}", uid=f"p-{number}", restart_policy=spec.restart_policy) for number in range(members)]
    return Role(name="pod", seats=2, first=1, members=tuple(Member(pod=pod) for pod in pods), shape=shape)


@pytest.mark.parametrize(
    ("roles", "has"),
    [
        ([serving(ALWAYS)], False),
        ([serving(ALWAYS, shape=ALWAYS)], False),
        ([serving(NEVER)], True),
        ([serving(PodSpec(restart_policy="OnFailure"))], True),
        ([serving(ALWAYS), serving(NEVER)], True),
        ([serving(ALWAYS), serving(ALWAYS, shape=NEVER, members=0)], True),
    ],
)
def test_a_job_has_an_exit_code_when_any_of_its_pods_can_end_by_itself(roles, has):
    assert has_exit_code(Gang(id=ID, roles=tuple(roles))) is has
