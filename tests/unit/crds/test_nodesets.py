"""The schema of NodeSets: what it takes and refuses. (Its CEL rules run in a real apiserver only: tests/e2e.)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from sunkpy.core import names
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.nodeset.slurmd_pod import template_hash
from sunkpy.core.nodeset.spec import NodeSet, NodeSetSpec, NodeSetStatus

CRD = yaml.safe_load((Path(__file__).parents[3] / "crds" / "sunkpy.dev_nodesets.yaml").read_text())
VERSION = CRD["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]


def closed(schema: Any) -> Any:
    """The schema as jsonschema reads it: no unknown fields, and integers or text where Kubernetes says so."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if found.pop("nullable", False):
        found["type"] = [found["type"], "null"]
    if (
        "properties" in found
        and not schema.get("x-kubernetes-preserve-unknown-fields")
        and isinstance(found.get("type"), str)
    ):
        found.setdefault("additionalProperties", False)
    return found


VALIDATOR = jsonschema.Draft202012Validator(closed(SCHEMA["properties"]["spec"]))


def spec(**fields: Any) -> dict[str, Any]:
    return {"cluster": "c1", "template": {"spec": {"containers": [{"name": "slurmd"}]}}, **fields}


def every(schema: Any, path: str = ""):
    if isinstance(schema, dict):
        yield path, schema
        for key, inner in schema.get("properties", {}).items():
            yield from every(inner, f"{path}.{key}")
        yield from every(schema.get("items"), f"{path}[]")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"replicas": 0},
        {"gpu": {"resource": "nvidia.com/gpu", "type": "h100"}},
        {"gpu": {"types": [{"type": "1g.5gb", "resource": "nvidia.com/mig-1g.5gb"}]}},
        {"gpu": {"driver": "gpu.nvidia.com", "types": [{"type": "x", "attributes": {"profile": "1g.5gb"}}]}},
        {"reserved": {"cpu": 1, "memory": "2Gi"}},
        {"reserved": {"cpu": "500m"}},
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}}},
        {"updateStrategy": {"rollingUpdate": {"windows": [{"days": ["Sat"], "start": "22:30", "hours": 6}]}}},
        {"updateStrategy": {"rollingUpdate": {"windows": [{"start": "00:00", "hours": 24}]}}},
        {"updateStrategy": {"type": "OnDelete"}},
        {"naming": "NodeName", "podNamePrefix": "h100", "features": ["ib", "k8s/x"], "paused": True},
        {"drainTimeoutSeconds": 600, "drainTimeoutPolicy": "Force"},
        {"growth": {"potential": 100}},
        {"growth": {"potential": 100, "shape": {"cpus": 96, "memory": "900Gi", "gres": "gpu:h100:8,nic:4"}}},
        {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"anything": 1, "containers": [{"name": "slurmd"}]}}},
    ],
)
def test_good_specs_pass_and_decode(fields):
    VALIDATOR.validate(spec(**fields))
    msgspec.convert(spec(**fields), NodeSetSpec)


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": -1},
        {"replica": 3},
        {"naming": "Random"},
        {"gpu": {"types": [{"resource": "nvidia.com/mig-1g.5gb"}]}},
        {"gpu": {"types": [{"type": "a:b", "resource": "nvidia.com/gpu"}]}},
        {"podNamePrefix": "Has_Caps"},
        {"features": ["with space"]},
        {"reserved": {"memory": "lots"}},
        {"updateStrategy": {"type": "Sometimes"}},
        *(
            {"updateStrategy": {"rollingUpdate": {"windows": [window]}}}
            for window in (
                {"start": "22:30"},
                {"start": "24:00", "hours": 1},
                {"start": "22:30", "hours": 25},
                {"days": ["Saturday"], "start": "22:30", "hours": 1},
            )
        ),
        {"drainTimeoutSeconds": 0},
        {"drainTimeoutPolicy": "Maybe"},
        {"growth": {"potential": -1}},
        {"growth": {"potential": 9, "shape": {"cpus": 96}}},
        {"growth": {"potential": 9, "shape": {"cpus": 96, "memory": "1Gi", "gres": "gpu:h100"}}},
        {"template": {"spec": {}}},
        {"template": {"spec": {"containers": [{"image": "x"}]}}},
        {"cluster": ""},
    ],
)
def test_bad_specs_are_refused(fields):
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(spec(**fields))


def test_names_are_the_public_interface():
    assert CRD["metadata"]["name"] == f"{names.NODESET_PLURAL}.{names.API_GROUP}"
    assert CRD["spec"]["names"]["kind"] == names.NODESET_KIND
    assert VERSION["name"] == names.API_VERSION
    assert CRD["spec"]["names"]["shortNames"] == ["nset"]


def test_every_field_of_the_code_is_in_the_schema():
    in_spec = {field.encode_name for field in msgspec.structs.fields(NodeSetSpec)}
    in_status = {field.encode_name for field in msgspec.structs.fields(NodeSetStatus)}
    assert in_spec == set(SCHEMA["properties"]["spec"]["properties"])
    assert in_status == set(SCHEMA["properties"]["status"]["properties"])


def test_every_field_of_growth_is_in_the_schema():
    growth = SCHEMA["properties"]["status"]["properties"]["growth"]["properties"]
    assert {field.encode_name for field in msgspec.structs.fields(GrowthStatus)} == set(growth)
    fields = {field.encode_name for field in msgspec.structs.fields(GrowthRequest)}
    assert fields == set(growth["requests"]["items"]["properties"])


def test_every_field_of_spec_and_status_is_described():
    conditions = ".status.conditions[]"
    missing = [
        path for path, schema in every(SCHEMA)
        if path.startswith((".spec", ".status")) and not path.startswith(conditions) and "[]" not in path
        and "description" not in schema and not path.endswith(("labels", "annotations", "rollingUpdate"))
    ]  # fmt: skip
    assert missing == []


def test_scaling_and_columns_point_at_fields_that_exist():
    fields = {path for path, _ in every(SCHEMA)}
    scale = VERSION["subresources"]["scale"]
    columns = [column["jsonPath"] for column in VERSION["additionalPrinterColumns"]]
    assert {scale["specReplicasPath"], scale["statusReplicasPath"], scale["labelSelectorPath"]} <= fields
    assert {path for path in columns if path.startswith((".spec", ".status"))} <= fields
    shown = [c["name"].upper() for c in VERSION["additionalPrinterColumns"] if not c.get("priority")]
    assert shown == ["DESIRED", "FEASIBLE", "CURRENT", "READY", "DRAIN", "RUNNING", "UNAVAILABLE", "AGE"]


def test_rules_that_need_the_apiserver_are_there():
    rules = [rule["message"] for _, schema in every(SCHEMA) for rule in schema.get("x-kubernetes-validations", [])]
    for word in ("cluster cannot be changed", "container named slurmd", "maxUnavailable", "OnDelete"):
        assert any(word in message for message in rules)


def test_defaults_of_schema_and_code_agree():
    nodeset = NodeSet(spec=msgspec.convert(spec(), NodeSetSpec))
    for path, schema in every(SCHEMA["properties"]["spec"]):
        if "default" in schema and path.count(".") == 1:
            name = next(f.name for f in msgspec.structs.fields(NodeSetSpec) if f.encode_name == path[1:])
            assert getattr(nodeset.spec, name) == schema["default"]
    rolling = SCHEMA["properties"]["spec"]["properties"]["updateStrategy"]["properties"]["rollingUpdate"]
    default = rolling["properties"]["maxUnavailable"]["default"]
    assert nodeset.spec.update_strategy.rolling_update.max_unavailable == default == "25%"


SHAPING = {
    "podNamePrefix": "h100",
    "naming": "NodeName",
    "features": ["ib"],
    "featureLabels": ["rack"],
    "weight": 2,
    "weightLabel": "weight",
    "gpu": {
        "resource": "example.com/gpu",
        "type": "h100",
        "typeLabel": "gpu",
        "driver": "gpu.example.com",
        "types": [{"type": "1g.5gb", "resource": "example.com/mig", "attributes": {"profile": "1g.5gb"}}],
    },
    "gres": [{"name": "nic", "count": 1}, {"name": "fpga", "resource": "example.com/fpga"}],
    "reserved": {"cpu": "2", "memory": "8Gi"},
    "smt": "apart",
}


@pytest.mark.parametrize(("fields", "known"), [({}, "ffb625fe5c"), (SHAPING, "b5000e39b9")])
def test_an_operator_knows_the_pods_that_older_ones_have_made(fields, known):
    """Never another hash: each slurmd pod of each cluster would be replaced because its operator is upgraded."""
    VALIDATOR.validate(spec(**fields))
    nodeset = {"metadata": {"name": "compute"}, "spec": spec(**fields)}
    assert template_hash(msgspec.convert(nodeset, NodeSet)) == known
    # The apiserver gives the defaults of a new CRD also to NodeSets that are there.
    assert template_hash(msgspec.convert(with_defaults(SCHEMA, nodeset), NodeSet)) == known


def with_defaults(schema, value):
    """As the apiserver fills in what is left out."""
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), each) for each in value]
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties", {})
    missing = {key: field["default"] for key, field in fields.items() if "default" in field and key not in value}
    return {key: with_defaults(fields.get(key, {}), inner) for key, inner in {**value, **missing}.items()}
