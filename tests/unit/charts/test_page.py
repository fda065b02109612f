"""The page: off unless somebody wants it, without a key in the container that people reach, and without a write."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.scheduler.settings import SchedulerSettings
from tests.unit.charts.rendering import Refused, check_accepted, of_kind, render

ON = {"page": {"enabled": True, "grafanaUrl": "https://grafana.example.com/", "url": "https://page.example.com"}}
READS = {"get", "list"}
ASKS = ("tokenreviews", "subjectaccessreviews")


def of_page(manifests, kind):
    return next(each for name, each in of_kind(manifests, kind).items() if name.endswith("-page"))


@pytest.fixture(scope="module")
def manifests():
    return render("slurm", ON)


def test_there_is_none_by_default():
    assert not [each for each in render("slurm") if each["metadata"]["name"].endswith("-page")]


def test_the_container_that_people_reach_has_no_key(manifests):
    pod = of_page(manifests, "Deployment")["spec"]["template"]["spec"]
    mounts = {each["name"]: {mount["name"] for mount in each["volumeMounts"]} for each in pod["containers"]}
    assert mounts == {"page": {"config", "token"}, "token": {"keys", "token"}}
    assert pod["containers"][1]["args"][2:] == [
        "--user=nobody",
        "--file=/run/slurm/token",
        "--page-key-file=/run/slurm/page.key",
    ]
    assert "ports" not in pod["containers"][1]


def test_it_decides_by_the_schedulers_settings_and_asks_slurm_with_a_token():
    users = [{"namespaces": ["team"], "partitions": ["low"], "users": ["ann"]}]
    manifests = render("slurm", ON | {"scheduler": {"access": users}})
    own = of_kind(manifests, "ConfigMap")["demo-scheduler"]["data"]
    assert of_page(manifests, "ConfigMap")["data"] == own
    assert msgspec.yaml.decode(own["config.yaml"], type=SchedulerSettings).access[0].users == ("ann",)
    args = of_page(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[:3] == ["page", "--config=/etc/sunkpy/config.yaml", "--serve"]
    assert {
        "--slurmrestd=http://demo-slurmrestd:6820",
        "--slurm-token-file=/run/slurm/token",
        "--session-key-file=/run/slurm/page.key",
    } <= set(args)


@pytest.mark.parametrize(("hides", "is_told"), [("usage,Jobs", True), (["jobs"], True), ("usage", False)])
def test_it_knows_that_slurm_hides_jobs_from_it_and_the_scheduler_that_events_must_not_tell_of_them(hides, is_told):
    manifests = render("slurm", ON | {"slurmConfig": {"conf": {"PrivateData": hides}}})
    settings = of_kind(manifests, "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    assert ("\nprivateJobs: true\n" in settings) is is_told
    args = of_page(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert ("--private-jobs" in args) is is_told


def test_each_object_is_what_kubernetes_accepts(manifests):
    for manifest in manifests:
        if manifest["metadata"]["name"].endswith("-page"):
            check_accepted(manifest)


def test_it_may_read_and_ask_and_nothing_else(manifests):
    rules = of_page(manifests, "ClusterRole")["rules"] + of_page(manifests, "Role")["rules"]
    for rule in rules:
        asks = all(resource in ASKS for resource in rule["resources"])
        assert set(rule["verbs"]) <= ({"create"} if asks else READS), rule
        assert "secrets" not in rule["resources"]


def test_people_reach_its_port_and_it_reaches_slurmrestd(manifests):
    policy = of_page(manifests, "NetworkPolicy")["spec"]
    assert {"ports": [{"port": 8000, "protocol": "TCP"}]} in policy["ingress"]
    assert any(port["port"] == 6820 for rule in policy["egress"] for port in rule.get("ports", ()))


def test_grafana_and_the_page_link_to_each_other():
    manifests = render("slurm", ON | {"dashboards": {"enabled": True}})
    args = of_page(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--dashboards=https://grafana.example.com/d/research-demo-" in args
    boards = of_kind(manifests, "ConfigMap")
    board = msgspec.json.decode(boards["demo-dashboard-pool"]["data"]["pool.json"])
    assert board["uid"] == "research-demo-pool"
    assert [link["url"] for link in board["links"]] == ["https://page.example.com"]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://a b", 'https://a"onclick="'])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(Refused):
        render("slurm", {"page": {"enabled": True, "grafanaUrl": url}})
