"""values.schema.json: how a key is inferred, what a rule adds, and that people find the keys of entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.unit.charts.rendering import CHARTS, ROOT
from tools import values_schema

AS_IN_KUBERNETES = {"resources", "affinity", "extraRules"}
"""Keys whose values are those of a Pod or a ClusterRole."""
EXPLAINED = (*(ROOT / "crds").glob("*.yaml"), ROOT / "docs" / "workloads" / "queues-and-groups.md")
"""Where comments of values.yaml send people."""
TEXT = {"type": "string"}
NAMED = {"$ref": "#/definitions/name"}


def _schema(default: object, **rules: object) -> Mapping[str, Any]:
    return values_schema.schema({"key": default}, rules, {"name": "^[a-z]+$"})


@pytest.mark.parametrize(
    ("default", "schema"),
    [
        (True, {"type": "boolean"}),
        (1, {"type": "integer"}),
        (0.5, {"type": "number"}),
        ("", TEXT),
        (["a"], {"type": "array"}),
        ({}, {"type": "object"}),
        ({"a": ""}, {"type": "object", "additionalProperties": False, "properties": {"a": TEXT}}),
    ],
)
def test_the_type_is_inferred_from_the_default(default: object, schema: object):
    assert _schema(default)["properties"]["key"] == schema


@pytest.mark.parametrize(
    ("default", "rule", "schema"),
    [
        (1, {"minimum": 0}, {"type": "integer", "minimum": 0}),
        (1, {"type": "number", "minimum": 0}, {"type": "number", "minimum": 0}),
        ("a", ["a", "b"], {"enum": ["a", "b"]}),
        ("", "^a?$", {"type": "string", "pattern": "^a?$"}),
        ("", "name", NAMED),
        ([], "array", {"type": "array"}),
        ([], {"items": "name", "minItems": 1}, {"type": "array", "items": NAMED, "minItems": 1}),
        ({"a": ""}, {"type": "object"}, {"type": "object"}),
        (
            {"a": ""},
            {"additionalProperties": "string"},
            {"type": "object", "additionalProperties": TEXT, "properties": {"a": TEXT}},
        ),
        (
            [],
            {"items": {"properties": {"a": "string"}, "required": ["a"]}},
            {
                "type": "array",
                "items": {
                    "type": "object", "additionalProperties": False, "properties": {"a": TEXT}, "required": ["a"]
                },
            },
        ),
        ({}, {"propertyNames": {"not": ["a"]}}, {"type": "object", "propertyNames": {"not": {"enum": ["a"]}}}),
        ("", {"anyOf": ["name", "null"]}, {"type": "string", "anyOf": [NAMED, {"type": "null"}]}),
    ],
)  # fmt: skip
def test_a_rule_says_what_a_default_cannot(default: object, rule: object, schema: object):
    assert _schema(default, key=rule)["properties"]["key"] == schema


def test_the_last_rule_that_fits_holds():
    rules = {"*.a": "^1", "key.b.*": "^2", "key.b.c": "^3"}
    keys = _schema({"a": "", "b": {"a": "", "c": ""}}, **rules)["properties"]["key"]["properties"]
    assert keys["a"]["pattern"] == "^1"
    assert {name: key["pattern"] for name, key in keys["b"]["properties"].items()} == {"a": "^2", "c": "^3"}


def test_only_definitions_that_are_named_are_there():
    assert _schema("")["definitions"] == {}
    assert _schema("", key="name")["definitions"] == {"name": {"type": "string", "pattern": "^[a-z]+$"}}


def test_a_section_can_be_a_definition():
    schema = _schema({"a": {}, "b": ""}, key={"define": "part"}, **{"key.a": {"additionalProperties": "string"}})
    assert schema["properties"]["key"] == {"$ref": "#/definitions/part"}
    assert schema["definitions"]["part"]["properties"]["b"] == TEXT


@pytest.mark.parametrize(
    ("default", "rules", "why"),
    [
        ("", {"kye": "string"}, "rules that hold for no key of values.yaml: kye"),
        ("", {"key": "string", "key.a": "^a"}, "rules that hold for no key of values.yaml: key.a"),
        ("", {"k*": "string", "key": "name"}, r"rules that hold for no key of values.yaml: k\*"),
        ("", {"definitions": {"other": "string"}}, "definitions that nothing names: other"),
        ("", {"key": "nmae"}, "nmae is neither a type nor a definition"),
        (1, {"key": {"minumum": 1}}, "no keyword of JSON schema: minumum"),
        (1, {"key": 1}, "1 is no rule"),
        (None, {}, "key needs a rule: its default None has no type"),
        ({"a": {}, "b": ""}, {"key.*": {"define": "one"}}, "one is defined twice, and not in the same way"),
    ],
)
def test_a_wrong_rule_is_refused_by_name(default: object, rules: Mapping[str, object], why: str):
    with pytest.raises(ValueError, match=why):
        _schema(default, **rules)


def _of_entries(schema: Mapping[str, Any], node: Mapping[str, Any], *, is_named: bool) -> Iterator[str]:
    """Keys of what people name themselves: a partition, a person, a QoS."""
    whole = schema["definitions"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    for key, below in whole.get("properties", {}).items():
        if key not in AS_IN_KUBERNETES:
            yield from [key] if is_named else []
            yield from _of_entries(schema, below, is_named=is_named)
    for named in (whole.get("additionalProperties"), whole.get("items")):
        if isinstance(named, dict):
            yield from _of_entries(schema, named, is_named=True)


@pytest.mark.parametrize("chart", ["slurm", "sunkpy", "openldap"])
def test_each_key_of_an_entry_is_in_an_example_or_a_comment(chart: str):
    schema, text = values_schema.of_chart(CHARTS / chart), (CHARTS / chart / "values.yaml").read_text()
    words = set(re.findall(r"\w+", "\n".join([text, *(page.read_text() for page in EXPLAINED)])))
    assert sorted(set(_of_entries(schema, schema, is_named=False)) - words) == []
