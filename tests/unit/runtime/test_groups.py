"""Values that belong to keys."""

from sunkpy.runtime.groups import Groups


def test_a_key_is_there_as_long_as_it_has_a_value():
    groups: Groups[str, int, str] = Groups()
    for id, value in ((1, "old"), (2, "b"), (1, "a")):
        groups.put("k", id, value)
    assert groups.of("k") == ("a", "b")
    groups.drop("k", 1)
    groups.drop("k", 3)
    assert groups == {"k": {2: "b"}}
    groups.drop("k", 2)
    groups.drop("other", 2)
    assert (groups, groups.of("k")) == ({}, ())
