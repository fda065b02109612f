"""Recorded answers hold what the client reads, and no more.

Write an answer as it came to `recorded/<Slurm>/<API version>/<name>.json`, then run this file:

    .venv/bin/python -m tests.unit.slurm.trim

A field stays where some reply of the client declares it. Those in WHOLE stay as Slurm said them: they prove that fields
nobody reads do no harm. Of the lists in FIRST the first entries stay. Values and their order never change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.inspect import Field, StructType, Type, UnionType, VarTupleType

from sunkpy.slurm import accounting_wire, wire

RECORDED = Path(__file__).parent / "recorded"
WHOLE = ("nodes", "job-running")
FIRST = {"shares": 6}
WIDTH = 120

REPLIES = [
    each
    for module in (wire, accounting_wire)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, wire.Reply)
]
READ = msgspec.inspect.multi_type_info(REPLIES)


def trim(text: str, name: str) -> str:
    """The recording `name`, cut."""
    recording = json.loads(text)
    if name not in WHOLE and isinstance(recording["body"], dict):
        recording["body"] = _kept(recording["body"], READ)
    return _laid_out({key: recording[key] for key in ("request", "status", "body")}) + "\n"


def _kept(value: object, types: Sequence[Type]) -> object:
    """What of a JSON value some of these types declare."""
    if isinstance(value, list):
        entries = [each.item_type for each in _unpacked(types) if isinstance(each, VarTupleType)]
        return [_kept(each, entries) for each in value]
    fields = [field for each in _unpacked(types) if isinstance(each, StructType) for field in each.fields]
    if not isinstance(value, dict) or not fields:
        return value
    return {
        key: _field(key, inner, fields) for key, inner in value.items() if any(f.encode_name == key for f in fields)
    }


def _field(key: str, value: object, fields: Sequence[Field]) -> object:
    kept = _kept(value, [field.type for field in fields if field.encode_name == key])
    return kept[: FIRST.get(key)] if isinstance(kept, list) else kept


def _unpacked(types: Sequence[Type]) -> Iterator[Type]:
    for each in types:
        yield from each.types if isinstance(each, UnionType) else [each]


def _laid_out(value: object, before: str = "", depth: int = 0) -> str:
    """As JSON, with what fits into a line in one line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or depth + len(before) + len(line) < WIDTH:
        return line
    entries = value.items() if isinstance(value, dict) else (("", each) for each in value)
    inner = "\n" + " " * (depth + 1)
    parts = []
    for key, each in entries:
        start = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(value, dict) else ""
        parts.append(inner + start + _laid_out(each, start, depth + 1))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + ",".join(parts) + inner[:-1] + closing


if __name__ == "__main__":
    for path in sorted(RECORDED.rglob("*.json")):
        path.write_text(trim(path.read_text(), path.stem))
