"""docs/reference/ is what tools/make-reference makes, and its sources are what the code says, no more and no less."""

from __future__ import annotations

import importlib.util
import re
import sys
from fnmatch import fnmatch
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest
import yaml

from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.core import names
from sunkpy.core.gang.job.options import OPTIONS
from sunkpy.core.reasons import CONDITION_REASONS, CONDITIONS, EVENTS
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import ProcessSettings
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.slurm import NodeCache
from sunkpy.slurm.prometheus import PrometheusRecorder
from sunkpy.syncer.metrics import NodeCollector, SyncerMetrics
from tests.unit.docs import source
from tests.unit.slurm.answers import Rest, answer

FOLDER = source.ROOT / "docs" / "reference"
PAGES = [*sorted((source.ROOT / "docs" / "tasks").glob("*.md")), source.ROOT / "docs" / "troubleshooting.md"]
FROM_CONDITIONS = {"CreateFailed", "DrainTimeout", "NoNodeFits", "TooFewNodes", "TooManyAtOnce", "VersionSkew"}
"""Events of a NodeSet that repeat the reason of a condition (`core.nodeset.status:report`)."""

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"$ref": "#/definitions/part"},
        "level": {"enum": ["", "info", "debug"]},
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "definitions": {
        "part": {"type": "object", "properties": {"b": {}, "c": {}, "resources": {"properties": {"d": {}}}}}
    },
}
VALUES = """\
# About the file.

# Above a,
# - not prose
# on two lines <x>.
a:
  # Of b.
  b: []
  # - {x: 1}
  # Of c.
  c: 1 # and more
  resources: {d: 1}
level: info # how much
free: {}
#   k: v
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    loader = SourceFileLoader("make_reference", str(source.ROOT / "tools" / "make-reference"))
    spec = importlib.util.spec_from_loader("make_reference", loader)
    assert spec is not None
    module = sys.modules["make_reference"] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _first_column(page: str, title: str) -> set[str]:
    tables = re.findall(rf"^\| {title} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", (FOLDER / page).read_text(), flags=re.M)
    return {line.split("`")[1] for table in tables for line in table.splitlines()}


def test_the_pages_are_current(tool, capsys):
    assert tool.main(is_to_write=False) == 0, capsys.readouterr().out
    assert {file.name for file in FOLDER.glob("*.md")} == set(tool.PAGES)


def test_conditions():
    assert set(CONDITIONS) == source.condition_types() == _first_column("conditions.md", "condition")


def test_reasons_of_conditions():
    files = (source.ROOT / "sunkpy").rglob("*.py")
    code = "\n".join(file.read_text() for file in files if file.name != "reasons.py")
    assert source.condition_reasons() - set(CONDITION_REASONS) == set()
    assert [reason for reason in CONDITION_REASONS if f'"{reason}"' not in code] == []
    assert set(CONDITION_REASONS) == _first_column("conditions.md", "reason")


def test_events():
    assert source.condition_reasons() >= FROM_CONDITIONS
    assert set(EVENTS) == source.event_reasons() | FROM_CONDITIONS
    assert set(EVENTS) == _first_column("events.md", "Event")


def test_labels_annotations_finalizers_and_taints(tool):
    on_objects = {each.name for each in tool.named()}
    assert on_objects == source.names_on_objects()
    asked = {names.PREFIX + name for name in OPTIONS}
    assert _first_column("annotations.md", "name") == on_objects | asked


async def test_metrics(tool, rest: Rest):
    rest.say(answer("26.05", "v0.0.45", "nodes"))
    registry = Process("docs", ProcessSettings()).registry
    for metrics in (
        OperatorMetrics,
        SchedulerMetrics,
        SyncerMetrics,
        AccountsMetrics,
        LoginsMetrics,
        PrometheusRecorder,
    ):
        metrics(registry)
    cache = NodeCache(rest.client("v0.0.45"))
    await cache.refresh()
    registry.register(NodeCollector(cache))
    tool.of_volumes(registry)
    families = {f"{found.name}_total" if found.type == "counter" else found.name for found in registry.collect()}
    ours = {name for name in families if not name.startswith(("process_", "python_"))}
    figures = {name for name, _, _ in tool.figures()}
    patterns = [name for name in figures if "*" in name]
    assert len(patterns) == len(tool.FIGURES), "a pattern that nothing fits"
    by_name = {name for name in ours if not any(fnmatch(name, pattern) for pattern in patterns)}
    assert _first_column("metrics.md", "metric") == by_name | figures


def test_a_value_has_the_comment_above_and_behind_it_and_its_examples(tool):
    found = {".".join(v.path): v[1:] for v in tool.values_of(VALUES, tool.Schema(SCHEMA))}
    assert found == {
        "a": (None, "on two lines &lt;x>.", ""),
        "a.b": ("[]", "Of b.", "- {x: 1}"),
        "a.c": ("1", "Of c. and more", ""),
        "a.resources": ('{"d": 1}', "", ""),
        "level": ('"info"', "how much", ""),
        "free": ("{}", "", "k: v"),
    }


def test_the_meaning_of_a_value_is_its_comment_or_the_usual_one_and_names_what_is_allowed(tool):
    schema = tool.Schema(SCHEMA)
    by_path = {".".join(v.path): v for v in tool.values_of(VALUES, schema)}
    assert tool.meaning(by_path["level"], schema) == "how much One of `info`, `debug`."
    assert tool.meaning(by_path["a.resources"], schema) == tool.USUAL["resources"]
    with pytest.raises(ValueError, match="free has no comment"):
        tool.meaning(by_path["free"], schema)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_keys_of_values_on_a_page_exist(page):
    sections = r"hooks|uninstall|keys|slurmConfig|compute|users|login|accounting|accounts|scheduler|networkPolicies"
    values = yaml.safe_load((source.ROOT / "charts" / "slurm" / "values.yaml").read_text())
    for key in re.findall(rf"`((?:{sections})\.[\w.]+)`", page.read_text()):
        here = values
        for part in key.split("."):
            assert part in here, key
            here = here[part]
