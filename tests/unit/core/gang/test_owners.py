import pytest

from sunkpy.core.gang.gang import Family, Link
from sunkpy.core.gang.owners import MOST_CONTROLLERS, Absence, climb
from sunkpy.core.model.objects import Kind, Meta, Owner, OwnerReference
from tests.unit.core.gang.pods import make_pod

CREW = Kind(group="example.com", kind="Crew")
GROUP = Kind(group="example.com", kind="Group")


def make_owner(name, *above, kind="Crew"):
    meta = Meta(name=name, namespace="default", uid=f"uid-of-{name}", owner_references=above)
    return Owner(api_version="example.com/v1", kind=kind, metadata=meta)


def made_by(owner, *, controller=True):
    return OwnerReference(
        api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid, controller=controller
    )


def pod_below(owner, **fields):
    pod = make_pod(**fields)
    return type(pod)(
        metadata=Meta(name="p", namespace="default", uid="pod-1", owner_references=(made_by(owner),)), spec=pod.spec
    )


def family(*reads, refers=()):
    return Family(
        name="f", known_by="", identify=lambda p, o: None, assemble=None, reads=reads, refers=lambda pod: refers
    )


def looking(*owners, **absent):
    """Finds these owners; of others says what `absent` has for their name."""
    known = {owner.uid: owner for owner in owners} | {owner.name: owner for owner in owners}

    def look(link):
        found = known.get(link.uid or link.name)
        return found if found is not None else absent.get(link.name, Absence.GONE)

    return look


def names(above):
    return [owner.name for owner in above.owners]


def test_controllers_come_nearest_first_and_then_what_is_named():
    top = make_owner("top")
    middle = make_owner("middle", made_by(top))
    group = make_owner("group", kind="Group")
    named = (Link(kind=GROUP, namespace="default", name="group"),)
    above = climb(pod_below(middle), [family(CREW, GROUP, refers=named)], looking(top, middle, group))
    assert names(above) == ["middle", "top", "group"]
    assert above.waits_for is None


def test_an_owner_that_is_no_controller_is_not_followed():
    top = make_owner("top")
    middle = make_owner("middle", made_by(top, controller=False))
    assert names(climb(pod_below(middle), [family(CREW)], looking(top, middle))) == ["middle"]


def test_a_chain_without_end_is_cut():
    owners = {f"o{number}": None for number in range(10)}
    above = ()
    for name in reversed(owners):
        owners[name] = make_owner(name, *above)
        above = (made_by(owners[name]),)
    found = climb(pod_below(owners["o0"]), [family(CREW)], looking(*owners.values()))
    assert len(found.owners) == MOST_CONTROLLERS


@pytest.mark.parametrize(
    ("absence", "reads", "waits"),
    [
        (Absence.UNKNOWN, (), True),
        (Absence.UNKNOWN, (CREW,), True),
        (Absence.UNREADABLE, (), False),
        (Absence.UNREADABLE, (CREW,), True),
        (Absence.GONE, (CREW,), False),
    ],
)
def test_what_is_not_at_hand_is_waited_for_or_ends_the_chain(absence, reads, waits):
    middle = make_owner("middle")
    above = climb(pod_below(middle), [family(*reads)], looking(middle=absence))
    assert (above.waits_for is not None) == waits
    assert above.owners == ()


@pytest.mark.parametrize(
    ("absence", "reads", "waits"),
    [(Absence.GONE, (GROUP,), True), (Absence.GONE, (), False), (Absence.UNREADABLE, (), False)],
)
def test_a_named_object_must_be_there_when_a_family_reads_it(absence, reads, waits):
    named = (Link(kind=GROUP, namespace="default", name="group"),)
    above = climb(make_pod(), [family(*reads, refers=named)], looking(group=absence))
    assert (above.waits_for is not None) == waits


def test_a_link_with_a_uid_leads_to_no_other_object_of_the_name():
    owner = make_owner("band")
    link = Link(kind=CREW, namespace="default", name="band", uid="another")
    assert not link.leads_to(owner)
    assert Link(kind=CREW, namespace="default", name="band").leads_to(owner)
