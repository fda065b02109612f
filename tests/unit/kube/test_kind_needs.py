"""When a kind is followed, and when nobody has needed it for long enough."""

from sunkpy.core.model.objects import Kind
from sunkpy.kube.kinds import KIND_TIMES, OwnerKinds

CREW = Kind(group="example.com", kind="Crew")


class Needs(OwnerKinds):
    """Needs of kinds, with a clock that the test sets, and pods below kinds."""

    def __init__(self):
        self.now, self.below = 0.0, set()
        super().__init__(None, clock=lambda: self.now, on_change=lambda _: None)

    def after(self, seconds):
        self.now += seconds
        return self.drop_unneeded(self.below)


def test_a_kind_is_followed_while_a_pod_is_below_it_and_for_a_while_after():
    needs = Needs()
    needs.follow(CREW)
    needs.below = {CREW}
    assert needs.after(10 * KIND_TIMES.unneeded_s) == []
    needs.below = set()
    assert needs.after(0.5 * KIND_TIMES.unneeded_s) == []
    assert needs.after(0.5 * KIND_TIMES.unneeded_s) == [CREW]
    assert not needs.follows(CREW)
    assert needs.after(10 * KIND_TIMES.unneeded_s) == []


def test_a_kind_that_is_looked_for_now_and_then_is_followed():
    needs = Needs()
    for _ in range(5):
        needs.follow(CREW)
        assert needs.after(0.9 * KIND_TIMES.unneeded_s) == []


def test_a_kind_that_somebody_follows_for_itself_is_followed_for_good():
    needs = Needs()
    needs.follow(CREW, for_good=True)
    needs.follow(CREW)
    assert needs.after(10 * KIND_TIMES.unneeded_s) == []
