"""values.yaml, from which the reference is made, and values.schema.json know the same keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, ROOT

WHOLE = ("slurm", "sunkpy", "openldap")
HELMS = {"global"}
"""Keys that helm itself gives to a chart."""
AS_IN_KUBERNETES = {"resources", "affinity", "extraRules"}
"""Keys whose values are those of a Pod or a ClusterRole."""
EXPLAINED = (*(ROOT / "crds").glob("*.yaml"), ROOT / "docs" / "workloads" / "queues-and-groups.md")
"""Where comments of values.yaml send people."""


class Keys:
    """Of one chart."""

    def __init__(self, chart: str) -> None:
        self.text = (CHARTS / chart / "values.yaml").read_text()
        self.values: Mapping[str, Any] = yaml.safe_load(self.text)
        self.schema = json.loads((CHARTS / chart / "values.schema.json").read_text())

    def followed(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The definition that a reference means."""
        return self.followed(self.schema["definitions"][node["$ref"].rpartition("/")[2]]) if "$ref" in node else node

    def differing(self) -> Iterator[str]:
        """Keys that only one of the two has, where the schema names all keys of a section."""
        yield from self._differing(self.schema, self.values, ())

    def _differing(self, node: Mapping[str, Any], value: object, path: tuple[str, ...]) -> Iterator[str]:
        known = self.followed(node).get("properties")
        if known is None or not isinstance(value, dict) or (path and path[-1] in AS_IN_KUBERNETES):
            return
        yield from (".".join((*path, key)) for key in (set(known) - HELMS) ^ set(value))
        for key in set(known) & set(value):
            yield from self._differing(known[key], value[key], (*path, key))

    def of_entries(self) -> set[str]:
        """Keys of what people name themselves: a partition, a person, a QoS."""
        return set(self._of_entries(self.schema, is_named=False))

    def _of_entries(self, node: Mapping[str, Any], *, is_named: bool) -> Iterator[str]:
        whole = self.followed(node)
        for key, below in whole.get("properties", {}).items():
            if key not in AS_IN_KUBERNETES:
                yield from [key] if is_named else []
                yield from self._of_entries(below, is_named=is_named)
        for named in (whole.get("additionalProperties"), whole.get("items")):
            if isinstance(named, dict):
                yield from self._of_entries(named, is_named=True)


@pytest.mark.parametrize("chart", WHOLE)
def test_each_key_of_a_section_is_in_both(chart: str) -> None:
    assert sorted(Keys(chart).differing()) == []


@pytest.mark.parametrize("chart", WHOLE)
def test_each_key_of_an_entry_is_in_an_example_or_a_comment(chart: str) -> None:
    keys = Keys(chart)
    words = set(re.findall(r"\w+", "\n".join([keys.text, *(page.read_text() for page in EXPLAINED)])))
    assert sorted(keys.of_entries() - words) == []
