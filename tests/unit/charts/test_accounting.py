"""Accounting: slurmdbd, its database and backups, and the accounts that values want."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from sunkpy.accounts.settings import AccountsSettings
from sunkpy.core.accounts import Accounting, describe_plan, plan_accounts
from tests.unit.charts.rendering import Manifest, Refused, of_kind, render

EXTERNAL = {
    "database": {
        "existingSecret": "db",
        "external": {"host": "db.example.com", "port": 3307, "name": "slurm", "user": "me", "cidrs": ["10.1.0.0/16"]},
    }
}
GUEST = {
    "clusterName": "staging",
    "keys": {"existingSlurmSecret": "shared", "existingJwtSecret": "shared"},
    "accounting": {
        "slurmdbd": {
            "external": {
                "host": "slurm-slurmdbd.slurm",
                "peers": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "slurm"}}}],
            }
        }
    },
}
"""A release that uses the slurmdbd of another one."""

CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def _names(manifests: object) -> set[str]:
    return {f"{manifest['kind']}/{manifest['metadata']['name']}" for manifest in manifests}


def _conf(values: Mapping[str, object] | None = None) -> list[str]:
    data = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]
    return data["slurm.conf"].splitlines()


def _pod(kind: str, name: str, values: Mapping[str, object] | None = None) -> Mapping[str, object]:
    spec = of_kind(render("slurm", values), kind)[name]["spec"]
    return spec["jobTemplate" if kind == "CronJob" else "template"]["spec"] | (
        spec["jobTemplate"]["spec"]["template"]["spec"] if kind == "CronJob" else {}
    )


def _env(pod: Mapping[str, object]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["containers"][0].get("env", ())}


def _wanted(values: Mapping[str, object] | None = None) -> AccountsSettings:
    text = of_kind(render("slurm", values), "ConfigMap")["demo-accounts"]["data"]["config.yaml"]
    return msgspec.yaml.decode(text, type=AccountsSettings)


PARTS = {
    "Deployment/demo-slurmdbd",
    "Service/demo-slurmdbd",
    "Deployment/demo-accounts",
    "StatefulSet/demo-mariadb",
    "Service/demo-mariadb",
    "CronJob/demo-backup",
    "PersistentVolumeClaim/demo-backup",
}


def test_all_of_it_is_there_by_default():
    assert _names(render("slurm")) >= PARTS
    assert {
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=demo-slurmdbd",
        "AccountingStorageEnforce=associations,limits,qos",
        "AccountingStorageTRES=gres/gpu",
        "JobAcctGatherType=jobacct_gather/cgroup",
    } <= set(_conf())


def test_nothing_of_it_is_there_without_accounting():
    off = {"accounting": {"enabled": False}}
    left = [
        name
        for name in _names(render("slurm", off))
        for part in ("slurmdbd", "mariadb", "backup", "accounts")
        if part in name and "state-backup" not in name
    ]
    assert not left
    assert not [line for line in _conf(off) if "Accounting" in line]
    assert "JobAcctGatherType=jobacct_gather/none" in _conf({**off, "slurmConfig": {"cgroup": "disabled"}})
    assert "SUNKPY_OPENAPI" not in _env(_pod("Deployment", "demo-slurmrestd", off))
    assert not _env(_pod("StatefulSet", "demo-slurmctld", off))


def test_a_database_of_the_site_takes_the_place_of_our_own():
    manifests = render("slurm", {"accounting": EXTERNAL})
    assert not [name for name in _names(manifests) if "mariadb" in name or name.endswith("demo-backup")]
    conf = of_kind(manifests, "ConfigMap")["demo-slurmdbd"]["data"]["slurmdbd.conf"].splitlines()
    assert {"StorageHost=db.example.com", "StoragePort=3307", "StorageLoc=slurm", "StorageUser=me"} <= set(conf)
    policy = of_kind(manifests, "NetworkPolicy")["demo-slurmdbd"]["spec"]
    to = [{"ipBlock": {"cidr": "10.1.0.0/16"}}]
    assert {"ports": [{"port": 3307, "protocol": "TCP"}], "to": to} in policy["egress"]
    sources = [
        source["secret"]["name"]
        for v in _pod("Deployment", "demo-slurmdbd", {"accounting": EXTERNAL})["volumes"]
        for source in v.get("projected", {}).get("sources", ())
    ]
    assert "db" in sources


def test_a_database_of_the_site_wants_its_password_named():
    with pytest.raises(Refused, match="existingSecret"):
        render("slurm", {"accounting": {"database": {"external": {"host": "db"}}}})


def test_a_slurmdbd_of_others_takes_the_place_of_our_own():
    manifests = render("slurm", GUEST)
    parts = ("slurmdbd", "mariadb", "demo-backup", "database")
    assert not [name for name in _names(manifests) for part in parts if part in name]
    assert {"ClusterName=staging", "AccountingStorageHost=slurm-slurmdbd.slurm", "AccountingStoragePort=6819"} <= set(
        _conf(GUEST)
    )
    assert _env(_pod("StatefulSet", "demo-slurmctld", GUEST)) == {"SUNKPY_ACCOUNTING": "slurm-slurmdbd.slurm:6819"}
    check = of_kind(manifests, "Job")["demo-check"]["spec"]["template"]["spec"]
    assert [each["name"] for each in check["containers"]] == ["slurmctld", "login", "domain"]
    assert "Job/demo-keys" not in _names(manifests), "nothing is left that it would make"
    assert (_wanted().is_guest, _wanted(GUEST).is_guest) == (False, True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"keys": {"existingSlurmSecret": "shared"}}, "slurm.key and jwt.key"),
        ({"keys": {"existingJwtSecret": "shared"}}, "slurm.key and jwt.key"),
        ({"clusterName": ""}, "no other cluster of that slurmdbd has"),
        ({"accounts": {"wanted": {"qos": {"fast": {}}}}}, "accounts.wanted.qos: all clusters of a slurmdbd share"),
        ({"accounting": {"slurmdbd": {"external": {"host": "dbd"}}}}, "accounting.slurmdbd.external.peers: name"),
    ],
)
def test_a_slurmdbd_of_others_is_refused_while_it_could_not_be_used(change: dict[str, object], says: str):
    with pytest.raises(Refused, match=says):
        render("slurm", {**GUEST, **change})


def test_a_slurmdbd_of_others_needs_no_peers_without_network_policies():
    alone = {"accounting": {"slurmdbd": {"external": {"host": "dbd"}}}, "networkPolicies": {"enabled": False}}
    assert "AccountingStorageHost=dbd" in _conf({**GUEST, **alone})


@pytest.mark.parametrize(
    ("kind", "name", "user"),
    [("Deployment", "demo-slurmdbd", 401), ("StatefulSet", "demo-mariadb", 404), ("CronJob", "demo-backup", 404)],
)
def test_what_keeps_the_records_is_locked_up_and_no_cordon_stops_it(kind: str, name: str, user: int):
    pod = _pod(kind, name)
    assert pod["automountServiceAccountToken"] is False
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, user)
    for container in pod["containers"]:
        context = container["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert CORDONED in pod["tolerations"]
    assert pod["priorityClassName"] == "research-demo-control-plane"


def test_slurmdbd_leaves_a_dead_node_and_the_database_stays_with_its_volume():
    keys = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert keys <= {each["key"] for each in _pod("Deployment", "demo-slurmdbd")["tolerations"]}
    assert not keys & {each["key"] for each in _pod("StatefulSet", "demo-mariadb")["tolerations"]}
    assert of_kind(render("slurm"), "Deployment")["demo-slurmdbd"]["spec"]["strategy"] == {"type": "Recreate"}


def test_slurmctld_may_wait_for_a_slurmdbd_that_hangs_and_slurmdbd_end_what_it_converts():
    slurmctld, slurmdbd = _pod("StatefulSet", "demo-slurmctld"), _pod("Deployment", "demo-slurmdbd")
    assert slurmctld["terminationGracePeriodSeconds"] > 15 * 60
    assert slurmdbd["terminationGracePeriodSeconds"] >= 3600


def test_values_say_how_long_slurmctld_and_slurmdbd_have_to_end():
    def times(seconds: int) -> Mapping[str, object]:
        grace = {"terminationGracePeriodSeconds": seconds}
        return {"slurmctld": grace, "accounting": {"slurmdbd": grace}}

    for kind, name in (("StatefulSet", "demo-slurmctld"), ("Deployment", "demo-slurmdbd")):
        assert _pod(kind, name, times(77))["terminationGracePeriodSeconds"] == 77
    with pytest.raises(Refused, match="/slurmctld/terminationGracePeriodSeconds': minimum: got 29, want 30"):
        render("slurm", times(29))


def test_slurmctld_starts_when_slurmdbd_is_there_and_slurmrestd_asks_both():
    assert _env(_pod("StatefulSet", "demo-slurmctld")) == {"SUNKPY_ACCOUNTING": "demo-slurmdbd:6819"}
    assert _env(_pod("Deployment", "demo-slurmrestd"))["SUNKPY_OPENAPI"] == "slurmctld,slurmdbd"


def test_by_default_everybody_of_the_images_has_an_account_so_that_jobs_start():
    every = frozenset({"cpu", "mem", "node", "gres/gpu"})
    plan = plan_accounts(_wanted().wanted, Accounting(tres=every))
    assert describe_plan(plan).splitlines() == [
        "+ account default: parent root, shares 1, QoS normal, default QoS normal, "
        "description k8s: Everybody, organization default",
        "+ user k8s in account default: shares parent, QoS normal, default QoS normal",
        "+ user user1 in account default: shares 1, QoS normal, default QoS normal, limits submitted 2000",
    ]


def test_the_next_accounts_process_begins_when_the_last_has_ended():
    """It is ready when it has done its work, for which it needs the Lease of the last."""
    spec = of_kind(render("slurm"), "Deployment")["demo-accounts"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_accounts_of_people_who_prefer_sacctmgr_are_left_to_them():
    manifests = render("slurm", {"accounts": {"enabled": False}})
    assert "Deployment/demo-slurmdbd" in _names(manifests)
    assert not [name for name in _names(manifests) if "demo-accounts" in name]


def _restarted(values: Mapping[str, object]) -> set[str]:
    def templates(manifests: list[Manifest]) -> dict[str, object]:
        kinds = ("Deployment", "StatefulSet", "NodeSet")
        return {m["metadata"]["name"]: m["spec"]["template"] for m in manifests if m["kind"] in kinds}

    before, after = templates(render("slurm")), templates(render("slurm", values))
    return {name.removeprefix("demo-") for name in before if before[name] != after[name]}


def test_another_user_restarts_nothing_but_who_writes_them_down():
    assert _restarted({"accounts": {"wanted": {"users": {"ann": {"accounts": {"default": {}}}}}}}) == {"accounts"}
    assert _restarted({"accounting": {"slurmdbd": {"conf": {"PurgeJobAfter": "24month"}}}}) == {"slurmdbd"}
    assert _restarted({"accounting": {"backup": {"keepDays": 3}}}) == set()


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"users": {"bob; rm -rf /": {"accounts": {"default": {}}}}}, "rm -rf"),
        ({"users": {"bob": {"accounts": {"default": {"share": 3}}}}}, "share"),
        ({"users": {"bob": {}}}, "accounts"),
        ({"accounts": {"Chem": {}}}, "Chem"),
        ({"pods": {"account": ""}}, "/pods/account': '' does not match pattern"),
        ({"pods": {"account": None}}, r"accounts\.wanted\.pods\.account: name one of accounts\.wanted\.accounts"),
        ({"pods": None}, r"accounts\.wanted\.pods\.account: name one of accounts\.wanted\.accounts"),
        ({"accounts": {"a'b": {}}}, "does not match pattern"),
        ({"accounts": {"chem": {"description": "a\nb"}}}, "description"),
        ({"accounts": {"chem": {"limits": {"tres": {"gres/gpu": -1}}}}}, "gpu"),
        ({"qos": {"fast": {"flags": ["Fast"]}}}, "flags"),
        ({"qos": {"fast": {"preemptMode": "SUSPEND"}}}, "preemptMode"),
        ({"qso": {}}, "qso"),
    ],
)
def test_hostile_and_mistaken_accounts_are_refused_by_name(wanted: dict[str, object], says: str):
    with pytest.raises(Refused, match=says):
        render("slurm", {"accounts": {"wanted": wanted}})


@pytest.mark.parametrize(
    ("accounting", "says"),
    [
        ({"enforce": ["limit"]}, "enforce"),
        ({"database": {"external": {"host": "x y"}}}, "host"),
        ({"database": {"bufferPool": "1Gi"}}, "bufferPool"),
        ({"backup": {"keepDays": 0}}, "keepDays"),
        ({"databse": {}}, "databse"),
    ],
)
def test_a_wrong_value_of_accounting_is_refused_by_name(accounting: dict[str, object], says: str):
    with pytest.raises(Refused, match=says):
        render("slurm", {"accounting": accounting})


def test_priorities_are_what_the_values_weigh():
    weights = {"Fairshare": 10000, "QOS": 5, "Age": 2000000}
    conf = _conf({"slurmConfig": {"conf": {f"PriorityWeight{name}": n for name, n in weights.items()}}})
    # Helm reads numbers as floats, and slurmctld ends at 2e+06.
    assert {"PriorityWeightFairshare=10000", "PriorityWeightQOS=5", "PriorityWeightAge=2000000"} <= set(conf)
    assert not [line for line in _conf() if line.startswith("PriorityWeight")]
