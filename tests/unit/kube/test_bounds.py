"""How much of an object's metadata is remembered."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Meta, OwnerReference, Pod
from sunkpy.kube.bounds import MOST_OF_ALL, MOST_OF_ONE, MOST_OWNERS, bounded

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def annotations(written: dict[str, str]) -> dict[str, str]:
    return dict(bounded(Pod(metadata=Meta(name="p", annotations=written))).annotations)


def test_what_people_write_stays_as_it_is():
    pod = Pod(metadata=Meta(name="p", annotations={"sunkpy.dev/partition": "low", "example.com/a": "x" * 1000}))
    assert bounded(pod) is pod


@pytest.mark.parametrize(
    "written",
    [
        {"sunkpy.dev/comment": "x" * 250_000},
        {f"sunkpy.dev/{number}": "" for number in range(20_000)},
        {f"example.com/{number}": "x" * 500 for number in range(500)},
    ],
    ids=["one long", "many", "both"],
)
def test_of_hundreds_of_kilobytes_little_is_kept(written):
    kept = annotations(written)
    assert sum(map(len, [*kept, *kept.values()])) <= MOST_OF_ALL


def test_what_came_with_the_binding_is_kept_before_all_else():
    flood = {f"example.com/{number}": "x" * 500 for number in range(500)}
    note = dict.fromkeys(names.BINDING_NOTE, "7")
    assert annotations(flood | note).items() >= note.items()


def test_a_list_that_is_too_long_can_not_be_read_any_more():
    assert annotations({"yunikorn.apache.org/task-groups": "[" + "{}," * 80_000 + "{}]"}) == {
        "yunikorn.apache.org/task-groups": "[" + ("{}," * 80_000)[: MOST_OF_ONE - 1]
    }


def test_what_kubectl_applied_last_is_not_kept():
    assert annotations({LAST_APPLIED: "{}", "a": "b"}) == {"a": "b"}


MEGABYTE = 1_000_000


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_pod_of_a_megabyte_of_short_texts_takes_no_more_than_is_said(where):
    text = msgspec.json.encode({"metadata": {where: {f"a{number:x}": "" for number in range(MEGABYTE // 11)}}})
    tracemalloc.start()
    try:
        kept = [bounded(msgspec.json.decode(text, type=Pod)) for _ in range(3)]
        assert tracemalloc.get_traced_memory()[0] / len(kept) <= 1.5 * MOST_OF_ALL
    finally:
        tracemalloc.stop()


def test_of_thousands_of_owners_the_responsible_one_is_kept():
    others = [OwnerReference(kind="Other", name=str(number)) for number in range(10_000)]
    maker = OwnerReference(kind="Job", name="maker", controller=True)
    kept = bounded(Pod(metadata=Meta(owner_references=(*others, maker)))).metadata.owner_references
    assert kept == (maker, *others[: MOST_OWNERS - 1])
