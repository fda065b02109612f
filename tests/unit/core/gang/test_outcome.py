import pytest
from msgspec.structs import replace

from sunkpy.core.gang.gang import ANY_PLACE, Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.outcome import has_succeeded
from tests.unit.core.gang.pods import make_pod

ID = GangId(namespace="default", name="train", uid="uid-1")
OK, BAD = "Succeeded", "Failed"


def role(name, *phases, indexes=None, decides=True, places=2):
    members = []
    for number, phase in enumerate(phases):
        pod = make_pod(f"{name}-{number}", uid=f"{name}-{number}", phase=phase)
        made = replace(pod, metadata=replace(pod.metadata, creation_timestamp=str(number)))
        members.append(Member(pod=made, index=indexes[number] if indexes else number))
    return Role(name=name, places=places, first=1, members=tuple(members), decides=decides)


@pytest.mark.parametrize(
    ("roles", "succeeded"),
    [
        ([role("worker", OK, OK)], True),
        ([role("worker", OK, BAD)], False),
        ([role("worker", OK), role("ps", BAD, decides=False)], True),
        ([role("worker"), role("ps", BAD, decides=False)], False),
        ([role("launcher", BAD, OK, indexes=(0, 0), places=1)], True),
        ([role("launcher", OK, BAD, indexes=(0, 0), places=1)], False),
        ([role("pod", BAD, OK, OK, indexes=(ANY_PLACE,) * 3)], True),
        ([role("pod", OK, OK, BAD, indexes=(ANY_PLACE,) * 3)], False),
    ],
)
def test_the_last_try_of_those_that_decide_counts(roles, succeeded):
    assert has_succeeded(Gang(id=ID, roles=tuple(roles))) is succeeded
