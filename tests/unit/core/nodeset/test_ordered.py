from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.nodeset.ordered import Ordered


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 3)), st.booleans())))
def test_items_stand_in_the_order_of_their_keys_however_they_came(changes):
    ordered, expected = Ordered(), {}
    for number, key, is_listed in changes:
        name = f"item-{number}"
        ordered.drop(name)
        expected.pop(name, None)
        if key is not None:
            ordered.put(name, (key,), name)
            expected[name] = key
        if is_listed:
            assert list(ordered) == sorted(expected, key=lambda name: (expected[name], name))
    assert len(ordered) == len(expected)
    assert list(ordered) == sorted(expected, key=lambda name: (expected[name], name))
