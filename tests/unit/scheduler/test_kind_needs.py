"""When a kind is kept, and when nobody has needed it for long enough."""

from sunkpy.core.model.objects import Kind
from sunkpy.scheduler.kind_needs import UNNEEDED_S, KindNeeds

CREW = Kind(group="example.com", kind="Crew")


class Needs(KindNeeds):
    """With a clock that the test sets, and pods below kinds."""

    def __init__(self):
        self.now, self.below = 0.0, set()
        super().__init__(lambda: self.now)
        self.add_asker(lambda: self.below)

    def after(self, seconds):
        self.now += seconds
        return self.take_unneeded()


def test_a_kind_is_kept_while_a_pod_is_below_it_and_for_a_while_after():
    needs = Needs()
    needs.note(CREW)
    needs.below = {CREW}
    assert needs.after(10 * UNNEEDED_S) == []
    needs.below = set()
    assert needs.after(0.5 * UNNEEDED_S) == []
    assert needs.after(0.5 * UNNEEDED_S) == [CREW]
    assert needs.after(10 * UNNEEDED_S) == []


def test_a_kind_that_is_looked_for_now_and_then_is_kept():
    needs = Needs()
    for _ in range(5):
        needs.note(CREW)
        assert needs.after(0.9 * UNNEEDED_S) == []


def test_a_kind_that_somebody_follows_for_itself_is_kept_for_good():
    needs = Needs()
    needs.always(CREW)
    needs.note(CREW)
    assert needs.after(10 * UNNEEDED_S) == []
