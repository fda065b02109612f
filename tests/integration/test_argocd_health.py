"""What the Lua of docs/examples/gitops makes of a NodeSet; Argo CD reads it as Lua 5.1 does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from devcluster import packages
from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.status import make_status
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_world

pytestmark = pytest.mark.integration

CONFIG: Final = Path(__file__).resolve().parents[2] / "docs" / "examples" / "gitops" / "argocd-cm.yaml"
KEY: Final = "resource.customizations.health.sunkpy.dev_NodeSet"


@pytest.fixture(scope="module", autouse=True)
def lua():
    packages.ensure({"lua5.1": "lua5.1"}, progress=print)


def literal(value: object) -> str:
    """A value of JSON as Lua writes it."""
    match value:
        case dict():
            return "{" + ", ".join(f"[{literal(key)}] = {literal(each)}" for key, each in value.items()) + "}"
        case list():
            return "{" + ", ".join(map(literal, value)) + "}"
    return "nil" if value is None else json.dumps(value, ensure_ascii=False)


def health(nodeset: object) -> str:
    """`status: message` of an object."""
    code = yaml.safe_load(CONFIG.read_text())["data"][KEY]
    script = f"obj = {literal(nodeset)}\nlocal function health()\n{code}\nend\n"
    script += 'local hs = health()\nio.write(hs.status, ": ", hs.message)'
    return subprocess.run(["lua5.1", "-"], input=script, capture_output=True, text=True, check=True).stdout


def seen(*, generation_ahead=0, **world):
    """A NodeSet with the status that the operator writes."""
    nodeset = make_nodeset()
    made = make_world(nodeset, [make_node(1)], **world)
    status = msgspec.json.decode(msgspec.json.encode(make_status(made, decide_nodeset(made))))
    return {"metadata": {"generation": nodeset.metadata.generation + generation_ahead}, "status": status}


def test_a_nodeset_as_wanted_is_healthy():
    assert health(seen(pods=[make_pod(make_nodeset(), 1)])).startswith("Healthy: MinimumAvailable: ")


def test_a_nodeset_whose_pod_starts_is_progressing():
    assert health(seen(pods=[make_pod(make_nodeset(), 1, ready=False)])).startswith("Progressing: WaitingForReady: ")


@pytest.mark.parametrize("nodeset", [{"metadata": {"generation": 1}}, seen(generation_ahead=1)])
def test_a_change_that_the_operator_has_not_seen_is_progressing(nodeset):
    assert health(nodeset) == "Progressing: the operator has not seen the last change"


def test_a_nodeset_that_only_a_person_can_mend_is_degraded():
    assert health(seen(create_error="image: Required")).startswith("Degraded: CreateFailed: ")
