"""Makes the values.schema.json of a chart from its values.yaml and its values.rules.yaml.

The type of a key is inferred from its default. A map that is not empty is a section: it allows these keys and no
others. A rule in values.rules.yaml adds what the default cannot tell; its key is the dotted path of the value:

* `*` in a path matches any text, and `.` is the whole file. If several rules match a key, the last one counts.
* A word is a JSON type, or a definition in the same file or in charts/definitions.yaml.
* `^…` is the pattern of a string. A list gives the allowed values.
* Keywords of JSON schema are added to the inferred schema. With `type` among them, nothing is inferred.
* `properties` gives all keys of a map, unless the rule also has `additionalProperties`.
* `define: NAME` on a section makes it a definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

Node = dict[str, object]

TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
KEYWORDS = Draft7Validator.META_SCHEMA["properties"].keys()
ONE = ("additionalProperties", "items", "not", "propertyNames")
"""Keywords of JSON schema whose value is a schema."""
SEVERAL = ("allOf", "anyOf", "oneOf")
"""Keywords of JSON schema whose value is a list of schemas."""
IMPLIED: Mapping[str, Node] = {
    "additionalProperties": {"type": "object"},
    "items": {"type": "array"},
    "properties": {"type": "object", "additionalProperties": False},
}
"""Keyword of JSON schema → the schema that it implies."""
OF_HELM: Node = {"global": {"type": "object"}}
"""Keys that helm itself passes to a chart."""


class _Chart:
    """The rules of one chart; it notes which of them were used."""

    def __init__(self, rules: Mapping[str, object], definitions: Mapping[str, object]) -> None:
        self._rules = rules
        self._shapes = definitions
        self._in_place = {rule["define"] for rule in rules.values() if isinstance(rule, dict) and "define" in rule}
        self._used: set[str] = set()
        self.definitions: Node = {}

    def unused(self) -> list[str]:
        """Return the rules that match no key."""
        return [path for path in self._rules if path not in self._used]

    def key(self, path: str, default: object) -> Node:
        """Return the schema of a key, from its default and its rule."""
        rule = self._rule(path)
        if not isinstance(rule, dict) or "type" in rule:
            return self._shape(rule)
        keywords = {keyword: value for keyword, value in rule.items() if keyword != "define"}
        node = self._inferred(path, default) | self._shape(keywords)
        return self._defined(rule["define"], node) if "define" in rule else node

    def _rule(self, path: str) -> object:
        fitting = [pattern for pattern in self._rules if fnmatchcase(path, pattern)]
        self._used.update(fitting[-1:])
        return self._rules[fitting[-1]] if fitting else {}

    def _inferred(self, path: str, default: object) -> Node:
        if type(default) not in TYPES:
            raise ValueError(f"{path} needs a rule: its default {default!r} has no type")
        if not isinstance(default, dict) or not default:
            return {"type": TYPES[type(default)]}
        above = "" if path == "." else f"{path}."
        keys = {key: self.key(f"{above}{key}", value) for key, value in default.items()}
        return {"type": "object", "additionalProperties": False, "properties": keys}

    def _shape(self, shape: object) -> Node:
        if isinstance(shape, list):
            return {"enum": shape}
        if isinstance(shape, str):
            return {"type": "string", "pattern": shape} if shape.startswith("^") else self._word(shape)
        if not isinstance(shape, dict):
            raise ValueError(f"{shape!r} is no rule")
        if unknown := shape.keys() - KEYWORDS:
            raise ValueError(f"no keyword of JSON schema: {', '.join(sorted(unknown))}")
        node: Node = {}
        for keyword in shape:
            node |= IMPLIED.get(keyword, {})
        return node | {keyword: self._value(keyword, value) for keyword, value in shape.items()}

    def _value(self, keyword: str, value: object) -> object:
        if keyword == "properties" and isinstance(value, dict):
            return {name: self._shape(each) for name, each in value.items()}
        if keyword in SEVERAL and isinstance(value, list):
            return [self._shape(each) for each in value]
        return self._shape(value) if keyword in ONE else value

    def _word(self, word: str) -> Node:
        if word in (*TYPES.values(), "null"):
            return {"type": word}
        if word in self._shapes:
            return self._defined(word, self._shape(self._shapes[word]))
        if word not in self._in_place:
            raise ValueError(f"{word} is neither a type nor a definition")
        return _reference(word)

    def _defined(self, name: str, node: Node) -> Node:
        if self.definitions.setdefault(name, node) != node:
            raise ValueError(f"{name} is defined twice, and not in the same way")
        return _reference(name)


def _reference(name: str) -> Node:
    return {"$ref": f"#/definitions/{name}"}


def schema(values: Node, rules: Node, shared: Node) -> Node:
    """Return the schema of values with these defaults. `shared`: the definitions of all charts.

    Raises:
        ValueError: a rule has no key, a definition no use, or something has no meaning.
    """
    paths = {path: rule for path, rule in rules.items() if path != "definitions"}
    own = rules.get("definitions", {})
    assert isinstance(own, dict)
    chart = _Chart(paths, {**shared, **own})
    root = chart.key(".", values)
    if unused := chart.unused():
        raise ValueError(f"rules that hold for no key of values.yaml: {', '.join(unused)}")
    if unused := [name for name in own if name not in chart.definitions]:
        raise ValueError(f"definitions that nothing names: {', '.join(unused)}")
    properties = root["properties"]
    assert isinstance(properties, dict)
    start = {"$schema": Draft7Validator.META_SCHEMA["$schema"]}
    return start | root | {"properties": properties | OF_HELM, "definitions": chart.definitions}


def of_chart(folder: Path) -> Node:
    """Return the values' schema of the chart in a folder."""
    files = (folder / "values.yaml", folder / "values.rules.yaml", folder.parent / "definitions.yaml")
    try:
        return schema(*(yaml.safe_load(file.read_text()) for file in files))
    except ValueError as error:
        raise ValueError(f"{files[1]}: {error}") from error
