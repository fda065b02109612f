"""What docs/operations.md explains is what the code says: conditions, annotations, Events, metrics, values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "operations.md").read_text()
SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "sunkpy").rglob("*.py")))
METRIC = re.compile(r"^(?:sunkpy|slurm|kube_sunk)_[a-z_]+$")


def _first_column(title: str) -> list[str]:
    """The names in the first column of each table with this title."""
    found: list[str] = []
    for table in re.findall(rf"^\| {title} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, flags=re.MULTILINE):
        for line in table.splitlines():
            found += re.findall(r"`([^`]+)`", line.split("|")[1])
    return found


def _is_literal(text: str) -> bool:
    return f'"{text}"' in SOURCES


@pytest.mark.parametrize("name", _first_column("condition"))
def test_conditions(name):
    assert _is_literal(name) or f'PREFIX + "{name.removeprefix("sunkpy.dev/")}"' in SOURCES


@pytest.mark.parametrize("reason", _first_column("Event"))
def test_events(reason):
    assert _is_literal(reason)


@pytest.mark.parametrize("name", _first_column("name"))
def test_annotations(name):
    assert f'PREFIX + "{name.removeprefix("sunkpy.dev/")}"' in SOURCES


@pytest.mark.parametrize("name", _first_column("metric"))
def test_metrics(name):
    assert METRIC.match(name)
    in_source = name.removesuffix("_total") if name != "slurm_nodes_total" else name
    assert _is_literal(in_source) or (
        in_source.startswith("slurm_nodes_") and _is_literal(in_source.removeprefix("slurm_nodes_"))
    )


def test_every_metric_of_the_code_is_explained():
    named = set(re.findall(r'"((?:sunkpy_|kube_sunk_)[a-z_]+)"', SOURCES))
    explained = {name.removesuffix("_total") for name in _first_column("metric")}
    assert named <= explained


def test_every_event_reason_of_the_code_is_explained():
    said = set(re.findall(r'reason="([A-Z]\w+)", action=', SOURCES))
    assert said <= set(_first_column("Event"))


@pytest.mark.parametrize("key", sorted(set(re.findall(r"`((?:hooks|uninstall|keys|slurmConfig|compute)\.\w+)", TEXT))))
def test_keys_of_the_values(key):
    values = yaml.safe_load((ROOT / "charts" / "slurm" / "values.yaml").read_text())
    section, _, name = key.partition(".")
    assert name in values[section]
