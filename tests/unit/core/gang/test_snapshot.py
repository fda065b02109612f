"""What is seen of a gang."""

import pytest
from msgspec.structs import replace

from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.gang import extra_unit
from sunkpy.core.gang.snapshot import Snapshot
from tests.unit.core.gang.families.ensembles import ALONE_OR_ABOVE, ENSEMBLES, OF_ONE
from tests.unit.core.gang.pods import make_pod


def seen(pod, owners=(), **id):
    gang_id = replace(identify(pod, owners), **id)
    return Snapshot(id=gang_id, gang=assemble(gang_id, [pod], owners))


@pytest.mark.parametrize("name", [*ENSEMBLES, *OF_ONE])
def test_a_gang_that_an_owner_declares_can_have_several_pods_also_when_it_has_one_place(name):
    owners, makers = (ENSEMBLES | OF_ONE)[name]
    assert seen(makers[0](1), owners).is_several


def test_a_gang_that_is_one_pod_cannot():
    job, (make,) = ALONE_OR_ABOVE["Job"]
    assert not seen(make(1), job).is_several
    assert not seen(make_pod()).is_several
    owners, makers = ENSEMBLES["Grove"]
    assert not seen(makers[2](1), owners, unit=extra_unit(makers[2](1))).is_several
    assert not Snapshot(id=seen(make_pod()).id, gang=None).is_several
