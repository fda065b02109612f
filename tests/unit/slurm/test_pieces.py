"""A long answer means the same in pieces as in one go, whatever stands in it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.slurm import pieces, wire
from tests.unit.slurm.answers import answer

SEPARATORS = [None, (",", ":"), (" ,\n ", " : ")]
words = st.text(alphabet='},{ "\\[]:nae', max_size=12) | st.sampled_from(['},{"name":"x"', "}, {", '\\"},{\\"name'])
nodes = st.fixed_dictionaries(
    {"name": words, "state": st.just(["IDLE"]), "comment": words, "energy": st.just({"watts": 1})},
    optional={"extra": words, "parts": st.lists(st.fixed_dictionaries({"name": words}), max_size=3)},
)
failures = st.lists(st.fixed_dictionaries({"error": words}), max_size=3)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 40)


def text_of(body: object, separators: tuple[str, str] | None) -> bytes:
    return json.dumps(body, separators=separators, ensure_ascii=False).encode()


@given(
    listed=st.lists(nodes, max_size=8),
    errors=failures,
    warnings=failures,
    errors_first=st.booleans(),
    separators=st.sampled_from(SEPARATORS),
)
def test_pieces_tell_what_the_whole_tells(listed, errors, warnings, errors_first, separators) -> None:
    around = {"errors": errors, "warnings": warnings, "last_update": {"set": True, "number": 7}}
    body = around | {"nodes": listed} if errors_first else {"nodes": listed} | around
    text = text_of(body, separators)
    assert wire.NodesReply.read(text) == msgspec.json.decode(text, type=wire.NodesReply)


def test_an_ordinary_answer_is_cut() -> None:
    listed = [{"name": f"n-{number}", "state": ["IDLE"]} for number in range(9)]
    text = text_of({"nodes": listed, "errors": []}, None)
    cuts = pieces._find_cuts(text)
    assert len(cuts) > 3
    assert pieces._decode(text, cuts, wire.NodesReply, field="nodes", entry=wire.WireNode) is not None


@pytest.mark.parametrize("cut", [1, 60, 200])
def test_half_an_answer_is_none(cut: int) -> None:
    listed = [{"name": f"n-{number}", "state": ["IDLE"]} for number in range(9)]
    with pytest.raises(msgspec.DecodeError):
        wire.NodesReply.read(text_of({"nodes": listed}, None)[:-cut])


@pytest.mark.parametrize(("slurm", "api"), [("24.11", "v0.0.42"), ("26.05", "v0.0.45")])
def test_recorded_answers_are_read_alike(slurm: str, api: str) -> None:
    text = answer(slurm, api, "nodes").content
    assert wire.NodesReply.read(text) == msgspec.json.decode(text, type=wire.NodesReply)
