"""Backups of slurmctld's state and of the database, their copies in a bucket, and what fills an empty volume."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import Refused, of_kind, render

BUCKET = {"endpoint": "https://s3.example.com", "bucket": "backups", "existingSecret": "bucket"}
BACKUPS = {"demo-backup": "demo-mariadb", "demo-state-backup": "demo-slurmctld"}


def _backup(name: str, values: Mapping[str, object] | None = None) -> Mapping[str, object]:
    return of_kind(render("slurm", values), "CronJob")[name]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def _env(container: Mapping[str, object]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container.get("env", ())}


def _restore(name: str, values: Mapping[str, object]) -> Mapping[str, object] | None:
    pod = of_kind(render("slurm", values), "StatefulSet")[name]["spec"]["template"]["spec"]
    return next((each for each in pod["initContainers"] if each["name"] == "restore"), None)


def _reach(values: Mapping[str, object], *, port: int) -> set[str]:
    """Parts that may go to this port of addresses that are not pods."""
    policies = of_kind(render("slurm", values), "NetworkPolicy").items()
    rules = [(name, rule) for name, policy in policies for rule in policy["spec"]["egress"]]
    return {
        name.removeprefix("demo-")
        for name, rule in rules
        if {"port": port, "protocol": "TCP"} in rule.get("ports", ()) and rule.get("to") == [{"ipBlock": CIDR}]
    }


CIDR = {"cidr": "192.0.2.0/24"}


@pytest.mark.parametrize(("name", "of"), BACKUPS.items())
def test_a_backup_is_made_beside_what_it_reads_and_outlives_the_release(name: str, of: str):
    manifests = render("slurm")
    (beside,) = _backup(name)["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = of_kind(manifests, "StatefulSet")[of]["spec"]["template"]["metadata"]["labels"]
    assert beside["labelSelector"]["matchLabels"].items() <= labels.items()
    claim = of_kind(manifests, "PersistentVolumeClaim")[name]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_slurmctld_is_backed_up_without_accounting_and_each_backup_can_be_off():
    def made(**values: object) -> set[str]:
        return set(of_kind(render("slurm", values), "CronJob"))

    assert made() == set(BACKUPS)
    assert made(accounting={"enabled": False}) == {"demo-state-backup"}
    assert made(slurmctld={"backup": {"enabled": False}}) == {"demo-backup"}


def test_without_backups_a_volume_may_be_for_one_pod():
    values = {"persistence": {"accessModes": ["ReadWriteOncePod"]}, "backup": {"enabled": False}}
    (claim,) = of_kind(render("slurm", {"slurmctld": values}), "StatefulSet")["demo-slurmctld"]["spec"][
        "volumeClaimTemplates"
    ]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]


@pytest.mark.parametrize("name", BACKUPS)
def test_a_backup_that_is_not_wherever_it_should_be_is_not_made_again(name: str):
    """copy-backup ends with 3 when another dump would not help; any other end is tried again."""
    job = of_kind(render("slurm"), "CronJob")[name]["spec"]["jobTemplate"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule == {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    assert job["backoffLimit"] > 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_a_backup_says_when_it_is_late():
    def late(values: Mapping[str, object]) -> dict[str, str]:
        made = of_kind(render("slurm", values), "CronJob")
        return {name: made[name]["metadata"]["annotations"]["sunkpy.dev/late-after"] for name in BACKUPS}

    assert late({}) == {"demo-backup": "108000", "demo-state-backup": "14400"}
    changed = {"slurmctld": {"backup": {"lateAfterHours": 2}}, "accounting": {"backup": {"lateAfterHours": 49}}}
    assert late(changed) == {"demo-backup": "176400", "demo-state-backup": "7200"}


@pytest.mark.parametrize(("name", "of"), BACKUPS.items())
def test_helm_does_not_wait_for_the_first_backup_to_bind_its_volume(name: str, of: str):
    pod = of_kind(render("slurm"), "StatefulSet")[of]["spec"]["template"]["spec"]
    assert {"name": "backup", "persistentVolumeClaim": {"claimName": name}} in pod["volumes"]


def test_what_is_backed_up_has_no_key_of_the_bucket():
    for name in BACKUPS.values():
        with_bucket, without = (of_kind(render("slurm", each), "StatefulSet")[name] for each in ({"s3": BUCKET}, {}))
        assert with_bucket["spec"]["template"] == without["spec"]["template"]


@pytest.mark.parametrize("name", BACKUPS)
def test_with_a_bucket_backups_have_its_key_and_address(name: str):
    assert "s3" not in {each["name"] for each in _backup(name)["volumes"]}
    assert not [key for key in _env(_backup(name)["containers"][0]) if "S3" in key]
    pod = _backup(name, {"s3": BUCKET})
    assert {"name": "s3", "mountPath": "/s3", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert {
        "SUNKPY_S3_ENDPOINT": "https://s3.example.com",
        "SUNKPY_S3_BUCKET": "backups",
        "SUNKPY_S3_PREFIX": "research/demo/",
        "SUNKPY_S3_REGION": "us-east-1",
    }.items() <= _env(pod["containers"][0]).items()


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("https://s3.example.com", 443), ("http://minio.storage:9000", 9000), ("http://minio", 80)],
)
def test_only_backups_reach_the_bucket_and_only_where_there_is_one(endpoint: str, port: int):
    s3 = {**BUCKET, "endpoint": endpoint, "cidrs": [CIDR["cidr"]]}
    assert _reach({"s3": s3}, port=port) == {"backup", "state-backup"}
    assert _reach({"s3": {"cidrs": [CIDR["cidr"]]}}, port=port) == set()


def test_a_restore_from_the_bucket_begins_before_what_it_fills():
    values = {"s3": {**BUCKET, "cidrs": [CIDR["cidr"]]}, "restore": {"from": "s3", "prefix": "old/slurm/"}}
    for name in BACKUPS.values():
        assert _restore(name, {"s3": BUCKET}) is None
        restore = _restore(name, values)
        assert restore is not None
        assert _env(restore)["SUNKPY_S3_PREFIX"] == "old/slurm/"
        assert {"name": "s3", "mountPath": "/s3", "readOnly": True} in restore["volumeMounts"]
    assert _reach(values, port=443) == {"backup", "state-backup", "mariadb", "slurmctld"}


def test_a_restore_from_the_volume_can_name_its_backup():
    state, database = "state-20260801T034700Z.tar.gz", "slurm_acct_db-20260801T031700Z.sql.gz"
    values = {"restore": {"from": "volume", "state": state, "database": database}}
    for name, backup in (("demo-slurmctld", state), ("demo-mariadb", database)):
        restore = _restore(name, values)
        assert restore is not None
        assert (_env(restore)["SUNKPY_RESTORE"], _env(restore).get("SUNKPY_S3_ENDPOINT")) == (backup, None)
        assert {"name": "backup", "mountPath": "/backup", "readOnly": True} in restore["volumeMounts"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"s3": {"bucket": "backups"}}, r"s3: endpoint, bucket and existingSecret belong together: set s3.endpoint"),
        ({"s3": {"endpoint": "https://s3"}}, r"set s3.bucket"),
        ({"s3": {**BUCKET, "existingSecret": ""}}, r"set s3.existingSecret"),
        ({"s3": {**BUCKET, "endpoint": "s3.example.com"}}, "/s3/endpoint"),
        ({"s3": {**BUCKET, "endpoint": "https://s3.example.com/backups"}}, "/s3/endpoint"),
        ({"s3": {**BUCKET, "bucket": "Back ups"}}, "/s3/bucket"),
        ({"s3": {**BUCKET, "prefix": "slurm"}}, "/s3/prefix"),
        ({"restore": {"from": "s3"}}, "restore.from is s3, and there is no bucket: set s3.endpoint"),
        ({"restore": {"from": "tape"}}, "/restore/from"),
        ({"restore": {"from": "volume", "state": "../x"}}, "/restore/state"),
        (
            {"restore": {"from": "volume"}, "slurmctld": {"backup": {"enabled": False}}},
            "restore.from is volume: enable slurmctld.backup and accounting.backup",
        ),
        (
            {"slurmctld": {"persistence": {"accessModes": ["ReadWriteOncePod"]}}},
            "slurmctld.persistence.accessModes: ReadWriteOncePod lets only one pod mount the volume, .* Set "
            r"\[ReadWriteOnce\], or disable slurmctld.backup",
        ),
    ],
)
def test_what_is_no_bucket_and_no_backup_is_refused_by_name(values: dict[str, object], says: str):
    with pytest.raises(Refused, match=says):
        render("slurm", values)
