"""Services of a site: in the order of their dependencies, in the NodeSets that have them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sunkpy.core import names
from tests.unit.charts.rendering import Refused, of_kind, render

SCRIPT = "#!/bin/bash\ntrue\n"
SERVICES = {
    "agent": {"type": "longrun", "script": SCRIPT, "dependencies": ["mount", "zfs"], "timeoutDown": 3},
    "mount": {"script": SCRIPT, "dependencies": ["zfs"], "timeoutUp": 0},
    "zfs": {"type": "oneshot", "script": SCRIPT},
}


def _slurmd(manifest: Mapping[str, object]) -> Mapping[str, object]:
    return manifest["spec"]["template"]["spec"]["containers"][0]


def test_services_start_before_slurmd_in_the_order_of_their_dependencies():
    manifests = render("slurm", {"compute": {"services": SERVICES}})
    data = of_kind(manifests, "ConfigMap")["demo-compute-services"]["data"]
    assert data["services.list"] == "zfs oneshot 60 10\nmount oneshot 0 10\nagent longrun 60 3\n"
    assert {name for name, text in data.items() if text == SCRIPT} == set(SERVICES)
    slurmd = _slurmd(of_kind(manifests, "NodeSet")["compute"])
    assert slurmd["command"][-2:] == ["/usr/local/bin/run-services", "/usr/local/bin/start-slurmd"]
    assert {"name": "services", "mountPath": "/etc/sunkpy/services", "readOnly": True} in slurmd["volumeMounts"]


def test_without_services_and_a_tmp_for_each_job_slurmd_is_started_by_its_image():
    manifests = render("slurm", {"slurmConfig": {"privateTmp": False}})
    assert "command" not in _slurmd(of_kind(manifests, "NodeSet")["compute"])
    assert "demo-compute-services" not in of_kind(manifests, "ConfigMap")


@pytest.mark.parametrize("services", [{}, SERVICES])
def test_with_a_tmp_for_each_job_all_of_the_pod_begins_where_namespaces_can_be_held(services: Mapping[str, object]):
    values = {"compute": {"services": services}}
    command = _slurmd(of_kind(render("slurm", values), "NodeSet")["compute"])["command"]
    assert command[:3] == ["/usr/local/bin/hold-namespaces", "/usr/bin/tini", "--"]
    assert command[-1] == "/usr/local/bin/start-slurmd"
    assert ("/usr/local/bin/run-services" in command) == bool(services)


def test_a_nodeset_has_its_own_and_those_of_all_but_what_it_does_not_want():
    own = {
        "gpu": {"services": {"zfs": None, "mount": {"script": SCRIPT, "dependencies": []}, "mig": {"script": SCRIPT}}}
    }
    services = {name: SERVICES[name] for name in ("mount", "zfs")}
    manifests = render("slurm", {"compute": {"services": services}, "nodeSets": own | {"compute": {}}})
    maps = of_kind(manifests, "ConfigMap")
    assert maps["demo-compute-services"]["data"]["services.list"].split("\n")[0] == "zfs oneshot 60 10"
    assert maps["demo-gpu-services"]["data"]["services.list"] == "mig oneshot 60 10\nmount oneshot 0 10\n"
    assert "services" not in of_kind(manifests, "NodeSet")["gpu"]["spec"]


CHECK = {"script": "#!/bin/bash\nnvidia-smi\n", "timeoutSeconds": 1800}


def test_the_check_of_the_site_comes_after_all_services_and_its_time_stands_on_the_pod():
    manifests = render("slurm", {"compute": {"services": SERVICES, "verify": CHECK, "podAnnotations": {"a": "b"}}})
    data = of_kind(manifests, "ConfigMap")["demo-compute-services"]["data"]
    assert data["services.list"].splitlines()[-1] == "verify oneshot 1800 10"
    assert data["verify"] == CHECK["script"]
    nodeset = of_kind(manifests, "NodeSet")["compute"]
    notes = nodeset["spec"]["template"]["metadata"]["annotations"]
    assert (notes[names.ANNOTATION_VERIFY_SECONDS], notes["a"]) == ("1800", "b")
    assert "verify" not in nodeset["spec"]


def test_a_nodeset_has_a_check_of_its_own_or_none():
    own = {"gpu": {"verify": CHECK}, "cpu": {}, "old": {"verify": {"script": ""}}}
    for of_all, checked in (({}, {"gpu"}), ({"script": "#!/bin/sh\ntrue\n"}, {"gpu", "cpu"})):
        manifests = render("slurm", {"compute": {"verify": of_all}, "nodeSets": own})
        found = {
            name
            for name, nodeset in of_kind(manifests, "NodeSet").items()
            if names.ANNOTATION_VERIFY_SECONDS in (nodeset["spec"]["template"]["metadata"].get("annotations") or {})
        }
        assert found == checked


@pytest.mark.parametrize(
    ("compute", "why"),
    [
        (
            {"verify": CHECK, "services": {"verify": {"script": SCRIPT}}},
            "services of NodeSet compute: with compute.verify.script the chart makes a service verify itself: rename "
            "yours",
        ),
        ({"verify": {"script": "nvidia-smi"}}, "/compute/verify/script"),
        ({"verify": {"script": SCRIPT, "timeoutSeconds": 0}}, "/compute/verify/timeoutSeconds"),
    ],
)
def test_a_check_that_could_not_run_is_refused(compute: Mapping[str, object], why: str):
    with pytest.raises(Refused, match=why):
        render("slurm", {"compute": compute})


def test_a_changed_service_rolls_the_pods():
    def template(script: str) -> object:
        manifests = render("slurm", {"compute": {"services": {"zfs": {"script": script}}}})
        return of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]

    assert template(SCRIPT) != template(SCRIPT + "false\n")


@pytest.mark.parametrize(
    ("services", "why"),
    [
        ({"a": {"script": SCRIPT, "dependencies": ["b"]}}, "services.a.dependencies: there is no service b"),
        (
            {"a": {"script": SCRIPT, "dependencies": ["b"]}, "b": {"script": SCRIPT, "dependencies": ["a"]}},
            "services.a depends on itself",
        ),
        ({"a": {"script": SCRIPT, "dependencies": ["a"]}}, "services.a depends on itself"),
    ],
)
def test_what_could_never_start_is_refused(services: Mapping[str, object], why: str):
    with pytest.raises(Refused, match=why):
        render("slurm", {"compute": {"services": services}})


HOSTILE = ("../x", "a/b", "services.list", "..", "-x", "a b", "$(id)", "A", "", "a\nb", "x" * 64)


def test_a_hostile_name_and_what_is_no_script_are_refused():
    with pytest.raises(Refused) as refused:
        render("slurm", {"compute": {"services": {name: {"script": SCRIPT} for name in HOSTILE}}})
    assert str(refused.value).count("does not match pattern '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'") == len(HOSTILE)
    odd = {
        "a": {"script": "true"},
        "b": {"script": SCRIPT, "type": "x"},
        "c": {"script": SCRIPT, "timeoutUp": -1},
        "d": {},
    }
    with pytest.raises(Refused) as refused:
        render("slurm", {"compute": {"services": odd}})
    assert all(f"/compute/services/{name}" in str(refused.value) for name in odd)
