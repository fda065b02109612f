"""Lists and events of which one object cannot be read."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model.objects import Owner, Pod
from sunkpy.kube.decoding import TOO_DEEP, Decoder, Unreadable, cut, read_event, read_page

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OWNERS = Decoder(Owner)


def written(name: str, depth: int = 0) -> str:
    spec = '{"a":' * depth + "{}" + "}" * depth
    return f'{{"spec":{spec},"metadata":{{"name":"{name}","namespace":"d","resourceVersion":"7"}}}}'


def a_list(*items: str) -> bytes:
    meta = '{"resourceVersion":"40","continue":"c"}'
    return f'{{"kind":"List","metadata":{meta},"items":[{",".join(items)}]}}'.encode()


def deep_at(tree: object, levels: int) -> object:
    """The slow way to say what `cut` does."""
    if isinstance(tree, dict | list) and levels == 0:
        return None
    if isinstance(tree, dict):
        return {key: deep_at(each, levels - 1) for key, each in tree.items()}
    return [deep_at(each, levels - 1) for each in tree] if isinstance(tree, list) else tree


@given(tree=JSON, levels=st.integers(0, 4), indent=st.sampled_from([None, 1]))
def test_what_is_nested_deeper_is_cut_out(tree, levels, indent):
    document = json.dumps(tree, indent=indent, ensure_ascii=False).encode()
    assert json.loads(cut(document, levels=levels)) == deep_at(tree, levels)


def test_of_a_list_only_the_deep_object_is_unreadable():
    answer = read_page(a_list(written("a"), written("b", 9000), written("c", 40)))
    read = [OWNERS.read(item) for item in answer.items]
    assert (answer.version, answer.next_page) == ("40", "c")
    assert [type(each) for each in read] == [Owner, Unreadable, Owner]
    assert (read[1].object.key, read[1].object.metadata.resource_version, read[1].why) == (("d", "b"), "7", TOO_DEEP)
    assert bytes(read[2].spec) == b'{"a":' * 40 + b"{}" + b"}" * 40


@given(items=st.lists(st.dictionaries(st.text(), JSON), max_size=4))
def test_items_are_found_without_recursion(items):
    answer = json.dumps({"kind": "items", "metadata": {"items": [1]}, "items": items})[:-1] + ',"x":'
    answer += "[" * 2000 + "]" * 2000 + "}"
    assert [json.loads(bytes(item)) for item in read_page(answer.encode()).items] == items


def test_an_event_says_which_object_cannot_be_read():
    event = read_event(f'{{"type":"ADDED","object":{written("b", 9000)}}}'.encode())
    assert (event.type, event.is_cut) == ("ADDED", True)
    assert msgspec.json.decode(event.object, type=Owner).key == ("d", "b")
    assert not read_event(f'{{"type":"ADDED","object":{written("b", 90)}}}'.encode()).is_cut


def test_an_object_of_another_form_says_what_is_wrong():
    found = Decoder(Pod).read(b'{"metadata":{"name":"p","namespace":"d"},"spec":{"containers":3}}')
    assert isinstance(found, Unreadable)
    assert (found.object.key, found.why) == (("d", "p"), "Expected `array`, got `int` - at `$.spec.containers`")


@pytest.mark.parametrize("text", [b"", b"{", b'{"items":3}', b"[" * 9000, b'{"items":[' + b"[" * 9000])
def test_what_is_no_answer_is_an_error(text):
    with pytest.raises(msgspec.DecodeError):
        read_page(text)


def test_an_object_without_metadata_is_an_error():
    with pytest.raises(msgspec.DecodeError):
        OWNERS.read(b'{"metadata":3}')
