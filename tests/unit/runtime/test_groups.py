"""Values that belong to keys."""

from sunkpy.core.model.objects import Meta, Pod
from sunkpy.runtime.groups import Groups, Watched


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


def test_an_object_of_a_watch_is_under_the_keys_that_it_names_now():
    def pod(uid: str, *labels: str) -> Pod:
        return Pod(metadata=Meta(uid=uid, labels=dict.fromkeys(labels, "")))

    found: Watched[str, Pod] = Watched(lambda pod: pod.labels)
    first, moved, other = pod("1", "a", "b"), pod("1", "b", "c"), pod("2", "b")
    found.follow(None, first)
    found.follow(None, other)
    assert found == {"a": {"1": first}, "b": {"1": first, "2": other}}
    found.follow(first, moved)
    assert found == {"b": {"2": other, "1": moved}, "c": {"1": moved}}
    found.follow(moved, pod("3"))
    found.follow(other, None)
    assert found == {}
