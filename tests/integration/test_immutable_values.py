"""What no upgrade can change is refused before it changes anything else, on a real apiserver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver
from tests.unit.charts.rendering import CHARTS, helm, with_images

pytestmark = pytest.mark.integration

STATEFULSETS = "/apis/apps/v1/namespaces/research/statefulsets"
CLAIMS = "/api/v1/namespaces/research/persistentvolumeclaims"
OLDER = {"slurmctld": {"persistence": {"size": "1Gi"}, "backup": {"persistence": {"size": "1Gi"}}}}
"""What values said before volumes of slurmctld became larger."""
KEYS = {
    "demo-slurm-key": ("StatefulSet demo-slurmctld", "keys.existingSlurmSecret"),
    "demo-jwt-key": ("StatefulSet demo-slurmctld", "keys.existingJwtSecret"),
    "demo-ssh-host-key": ("StatefulSet demo-login", "keys.existingSshHostSecret"),
    "demo-compute-ssh-host-key": ("NodeSet gpu", "keys.existingComputeSshHostSecret"),
    "demo-database": ("StatefulSet demo-mariadb", "accounting.database.existingSecret"),
}
"""The Secrets that a Job of the chart makes: by name, whose pods have one and the value that names another."""
SECRETS = "/api/v1/namespaces/research/secrets"
NODESETS = "/apis/sunkpy.dev/v1alpha1/namespaces/research/nodesets"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    api = Apiserver(tmp_path_factory.mktemp("api"), {})
    default = {"metadata": {"name": "plain", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}
    try:
        api.make("/apis/storage.k8s.io/v1/storageclasses", {**default, "provisioner": "example.com/none"})
        assert upgrade(api, OLDER) == ""
        bind(api)
        yield api
    finally:
        api.stop()


def make_keys(api: Apiserver) -> None:
    """What the Job of a hook does, as far as Secrets are missing."""
    for name in KEYS:
        made = api.ask("admin", "POST", SECRETS, {"metadata": {"name": name}, "data": {}})
        assert made.status_code in (201, 409), made.text


def upgrade(
    api: Apiserver, values: Mapping[str, object], chart: str = "slurm", *args: str, charts: Path = CHARTS
) -> str:
    """What helm says where it fails; without its hooks, for nobody would run their Jobs."""
    argv = (
        helm(), "upgrade", "--install", {"slurm": "demo"}.get(chart, chart), str(charts / chart), "--create-namespace",
        "--namespace=research", "--no-hooks", f"--kubeconfig={api.kubeconfig('admin')}", "--values=-", *args,
    )  # fmt: skip
    given = {"nodeSets": {"compute": None}, **values} if chart == "slurm" else values
    text = yaml.safe_dump(with_images(chart, given))
    done = subprocess.run(argv, input=text, text=True, capture_output=True, check=False)
    if not done.returncode:
        make_keys(api)
    return done.stderr if done.returncode else ""


def remove(api: Apiserver, claim: str) -> None:
    """As by a person, and by the controller that sees that no pod uses it."""
    assert api.ask("admin", "PATCH", f"{CLAIMS}/{claim}", {"metadata": {"finalizers": []}}).is_success
    assert api.ask("admin", "DELETE", f"{CLAIMS}/{claim}").is_success


def bind(api: Apiserver) -> None:
    """What a cluster does with claims, and a claim with a volume cannot lose."""
    for claim in api.ask("admin", "GET", CLAIMS).json()["items"]:
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        volume = {"spec": {"volumeName": f"of-{claim['metadata']['name']}"}}
        status = {"phase": "Bound", "capacity": claim["spec"]["resources"]["requests"]}
        assert api.ask("admin", "PATCH", path, volume).is_success
        assert api.ask("admin", "PATCH", f"{path}/status", {"status": status}).is_success


def test_volumes_that_were_made_smaller_than_new_ones_stay_as_they_are(api: Apiserver):
    assert upgrade(api, {}) == ""
    (claim,) = api.ask("admin", "GET", f"{STATEFULSETS}/demo-slurmctld").json()["spec"]["volumeClaimTemplates"]
    backup = api.ask("admin", "GET", f"{CLAIMS}/demo-state-backup").json()
    assert [each["spec"]["resources"]["requests"]["storage"] for each in (claim, backup)] == ["1Gi", "1Gi"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"slurmctld": {"persistence": {"size": "2Gi"}}},
            "slurmctld.persistence.size: 2Gi, but the volume was made with 1Gi, and no upgrade can change that. "
            "To enlarge the volume: kubectl -n research patch pvc state-demo-slurmctld-0",
        ),
        (
            {"slurmctld": {"persistence": {"accessModes": ["ReadWriteMany"]}}},
            "slurmctld.persistence: with these values slurmctld would keep its state on another volume "
            "(state-demo-slurmctld-0 is the claim of a single slurmctld). First move the state. Stop slurmctld "
            "(kubectl -n research delete statefulset demo-slurmctld; jobs go on), make",
        ),
        (
            {"accounting": {"database": {"persistence": {"size": "9Gi"}}}},
            "accounting.database.persistence.size: 9Gi, but the volume was made with 8Gi",
        ),
        (
            {"home": {"size": "9Gi"}},
            "home.size: 9Gi, but PersistentVolumeClaim demo-home has 10Gi, and no volume can become smaller: set at "
            "least",
        ),
        (
            {"accounting": {"backup": {"persistence": {"size": "7Gi"}}}},
            "accounting.backup.persistence.size: 7Gi, but PersistentVolumeClaim demo-backup has 8Gi",
        ),
        (
            {"home": {"storageClass": "fast"}},
            "home.storageClass: fast, but PersistentVolumeClaim demo-home has plain, and Kubernetes cannot change "
            "the class of a claim: set plain, or copy the data to a claim of yours and name it in home.existingClaim",
        ),
        (
            {"slurmctld": {"persistence": {"storageClass": "fast"}}},
            'slurmctld.persistence.storageClass: fast, but StatefulSet demo-slurmctld has none (""), and Kubernetes '
            'cannot change the class of a claim: set "", or copy the data to a claim of yours and name it in '
            "slurmctld.persistence.existingClaim",
        ),
        (
            {"accounting": {"database": {"persistence": {"storageClass": "fast"}}}},
            'accounting.database.persistence.storageClass: fast, but StatefulSet demo-mariadb has none (""), and '
            'Kubernetes cannot change the class of a claim: set "", or save the data elsewhere, delete StatefulSet '
            "demo-mariadb and PersistentVolumeClaim data-demo-mariadb-0, and upgrade again",
        ),
        (
            {"accounting": {"backup": {"persistence": {"storageClass": "fast"}}}},
            "accounting.backup.persistence.storageClass: fast, but PersistentVolumeClaim demo-backup has plain, and "
            "Kubernetes cannot change the class of a claim: set plain, or save the data elsewhere, delete PersistentV",
        ),
        (
            {"slurmctld": {"backup": {"persistence": {"storageClass": "fast"}}}},
            "slurmctld.backup.persistence.storageClass: fast, but PersistentVolumeClaim demo-state-backup has plain",
        ),
        (
            {"clusterName": "other"},
            "clusterName is other, but this cluster was installed as demo, and the state of slurmctld and the records "
            "of slurmdbd are kept under that name. Set clusterName: demo",
        ),
        (
            {"partitions": {"high": None, "fast": {"priorityTier": 10}}},
            "partitions: the values no longer have partition high, and slurmctld would end the jobs that run in it. "
            "First set partitions.high.state: DRAIN, wait until `squeue -p high` is empty, then leave out the "
            "partition",
        ),
        (
            {"priorityClasses": {"slurmd": 5}},
            "priorityClasses.slurmd: 5, but PriorityClass research-demo-slurmd has 900000000, and Kubernetes cannot "
            "change the value of a PriorityClass: kubectl delete priorityclass research-demo-slurmd",
        ),
    ],
)
def test_it_is_refused_with_what_to_do(api: Apiserver, values: dict[str, object], said: str):
    before = api.ask("admin", "GET", STATEFULSETS).json()["items"]
    assert said in upgrade(api, {**values, "login": {"replicas": 3}})
    assert api.ask("admin", "GET", STATEFULSETS).json()["items"] == before


@pytest.mark.parametrize("state", [{}, {"state": "DRAIN"}])
def test_null_does_not_open_a_partition_that_has_limits(api: Apiserver, state: Mapping[str, object]):
    of_gpus = {"maxTime": 60, "conf": {"AllowAccounts": ["chem"]}, **state}
    assert upgrade(api, {"partitions": {"gpu": of_gpus, "new": None}}) == ""
    said = "partitions.gpu: null does not remove the partition, but its limits. To remove the partition, set"
    assert said in upgrade(api, {"partitions": {"gpu": None, "new": None}})
    assert upgrade(api, {"partitions": {"gpu": {}, "new": None}}) == ""
    assert upgrade(api, {"partitions": {"gpu": {"state": "DRAIN"}, "new": {"state": "DRAIN"}}}) == ""
    assert upgrade(api, {}) == ""


@pytest.mark.parametrize(
    ("chart", "values", "said"),
    [
        (
            "openldap",
            {"persistence": {"size": "2Gi"}},
            "persistence.size: 2Gi, but the volume was made with 1Gi, and no upgrade can change that. To enlarge the "
            "volume: kubectl -n research patch pvc data-openldap-openldap-0",
        ),
        (
            "openldap",
            {"persistence": {"storageClass": "fast"}},
            'persistence.storageClass: fast, but StatefulSet openldap-openldap has none (""), and Kubernetes cannot',
        ),
        (
            "sunkpy",
            {"priorityClass": {"value": 5}},
            "priorityClass.value: 5, but PriorityClass research-sunkpy-operator has 1000000000, and Kubernetes cannot "
            "change the value of a PriorityClass: kubectl delete priorityclass research-sunkpy-operator",
        ),
    ],
)
def test_so_it_is_with_the_other_charts(api: Apiserver, chart: str, values: dict[str, object], said: str):
    assert upgrade(api, {}, chart) == ""
    assert said in upgrade(api, values, chart)


PEOPLE: dict[str, object] = {
    "users": {"people": {"ann": {"uid": 2001, "sshKeys": [f"ssh-ed25519 {'A' * 68}"]}}},
    "compute": {"ssh": {"enabled": True}},
    "nodeSets": {"gpu": {}},
}
"""With them every key is used."""


@pytest.fixture(scope="module")
def nodesets(api: Apiserver) -> None:
    """The kind, which chart sunkpy brings."""
    assert upgrade(api, {}, "sunkpy") == ""
    assert wait_until(lambda: upgrade(api, PEOPLE) == "", timeout_s=60)


@pytest.mark.usefixtures("nodesets")
@pytest.mark.parametrize("lost", KEYS)
def test_no_key_is_made_in_place_of_one_that_pods_have(api: Apiserver, lost: str):
    user, value = KEYS[lost]
    assert upgrade(api, PEOPLE) == ""
    assert api.ask("admin", "DELETE", f"{SECRETS}/{lost}").is_success
    said = upgrade(api, PEOPLE)
    make_keys(api)
    assert f"Secret {lost} is gone, and pods of {user} use its key" in said
    assert f"set {value}" in said


@pytest.mark.usefixtures("nodesets")
def test_nor_in_place_of_one_that_pods_of_the_default_nodeset_have(api: Apiserver):
    values = {**PEOPLE, "nodeSets": {}}
    lost = "demo-compute-ssh-host-key"
    assert upgrade(api, values) == ""
    assert api.ask("admin", "DELETE", f"{SECRETS}/{lost}").is_success
    said = upgrade(api, values)
    make_keys(api)
    assert f"Secret {lost} is gone, and pods of NodeSet compute use its key" in said


@pytest.mark.usefixtures("nodesets")
def test_a_key_that_no_pod_has_is_made(api: Apiserver):
    """As somebody brings another, and takes it away again."""
    assert upgrade(api, PEOPLE) == ""
    assert api.ask("admin", "DELETE", f"{SECRETS}/demo-jwt-key").is_success
    assert upgrade(api, {**PEOPLE, "keys": {"existingJwtSecret": "own"}}) == ""
    assert api.ask("admin", "DELETE", f"{SECRETS}/demo-jwt-key").is_success
    assert upgrade(api, PEOPLE) == ""


def test_two_slurmctld_want_a_claim_that_both_can_mount(api: Apiserver):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    api.make(CLAIMS, {"metadata": {"name": "mine"}, "spec": spec})
    two = {"slurmctld": {"replicas": 2, "persistence": {"existingClaim": "mine"}}}
    assert (
        "slurmctld.persistence.existingClaim: PersistentVolumeClaim mine has the access mode ReadWriteOnce, and "
        "two slurmctld need ReadWriteMany" in upgrade(api, two)
    )


def test_a_claim_without_a_volume_may_go(api: Apiserver):
    """As of a class that there is not."""
    first = {"home": {"existingClaim": "mine"}, "slurmctld": {"backup": {"enabled": False}}}
    assert upgrade(api, first) == ""
    remove(api, "demo-state-backup")
    wrong, right = ({"slurmctld": {"backup": {"persistence": {"storageClass": name}}}} for name in ("nfs", "plain"))
    assert upgrade(api, wrong) == ""
    assert (
        "slurmctld.backup.persistence.storageClass: plain, but PersistentVolumeClaim demo-state-backup has nfs, and "
        "Kubernetes cannot change the class of a claim: set nfs, or delete the claim, which has no volume yet, and "
        "upgrade again: kubectl -n research delete pvc demo-state-backup" in upgrade(api, right)
    )
    remove(api, "demo-state-backup")
    assert upgrade(api, right) == ""
    bind(api)


def test_a_claim_keeps_the_class_that_values_named(api: Apiserver):
    named = {"slurmctld": {"backup": {"persistence": {"storageClass": "plain"}}}}
    assert upgrade(api, named) == ""
    for values in ({}, {"login": {"replicas": 3}}, {}):
        assert upgrade(api, values) == ""


def test_a_claim_of_somebody_else_stays_theirs_while_values_want_none_of_its_name(api: Apiserver):
    """Two slurmctld would want one of this name."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "theirs"}
    api.make(CLAIMS, {"metadata": {"name": "demo-state"}, "spec": spec})
    assert upgrade(api, {}) == ""
    assert api.ask("admin", "GET", f"{CLAIMS}/demo-state").json()["metadata"].get("labels", {}) == {}
    remove(api, "demo-state")


def test_the_same_size_in_other_words_is_the_same(api: Apiserver):
    sizes = {
        "slurmctld": {"persistence": {"size": "1024Mi"}},
        "accounting": {"database": {"persistence": {"size": "8192Mi"}}},
    }
    assert upgrade(api, sizes) == ""


def test_a_statefulset_that_makes_its_pods_in_order_can_be_upgraded(api: Apiserver):
    """Releases of before have such."""
    made = api.ask("admin", "GET", f"{STATEFULSETS}/demo-mariadb").json()
    assert made["spec"]["podManagementPolicy"] == "Parallel"
    assert api.ask("admin", "DELETE", f"{STATEFULSETS}/demo-mariadb").status_code == 200
    kept = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    api.make(STATEFULSETS, {**made, "metadata": kept, "spec": made["spec"] | {"podManagementPolicy": "OrderedReady"}})
    assert upgrade(api, {"accounting": {"database": {"podAnnotations": {"a": "b"}}}}) == ""
    spec = api.ask("admin", "GET", f"{STATEFULSETS}/demo-mariadb").json()["spec"]
    assert (spec["podManagementPolicy"], spec["template"]["metadata"]["annotations"]["a"]) == ("OrderedReady", "b")


def test_a_partition_that_takes_no_jobs_can_be_left_out(api: Apiserver):
    assert upgrade(api, {"partitions": {"old": {"state": "DRAIN"}}}) == ""
    assert upgrade(api, {}) == ""


def test_a_nodeset_that_is_going_is_not_taken_for_the_one_that_is_wanted(api: Apiserver):
    """Renamed, and renamed back before its jobs have ended: the release would have no nodes in the end."""
    assert upgrade(api, {}, "sunkpy") == ""
    wanted = {"nodeSets": {"gpu": {}}}
    assert wait_until(lambda: upgrade(api, wanted) == "", timeout_s=60)
    nodeset = f"{NODESETS}/gpu"
    assert api.ask("admin", "PATCH", nodeset, {"metadata": {"finalizers": ["sunkpy.dev/jobs"]}}).is_success
    assert api.ask("admin", "DELETE", nodeset).is_success
    assert "nodeSets.gpu: a NodeSet of this name is being deleted, and waits for the jobs" in upgrade(api, wanted)
    assert api.ask("admin", "PATCH", nodeset, {"metadata": {"finalizers": []}}).is_success
    assert upgrade(api, wanted) == ""


def test_a_claim_that_no_class_was_given_takes_the_one_that_values_name(api: Apiserver):
    classes, claims = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/namespaces/research/persistentvolumeclaims"
    assert api.ask("admin", "PATCH", f"{classes}/plain", {"metadata": {"annotations": None}}).is_success
    assert api.ask("admin", "PATCH", f"{claims}/demo-home", {"metadata": {"finalizers": []}}).is_success
    assert api.ask("admin", "DELETE", f"{claims}/demo-home").is_success
    assert upgrade(api, {}) == ""
    assert "storageClassName" not in api.ask("admin", "GET", f"{claims}/demo-home").json()["spec"]
    assert upgrade(api, {"home": {"storageClass": "plain"}}) == ""
    assert api.ask("admin", "GET", f"{claims}/demo-home").json()["spec"]["storageClassName"] == "plain"


def test_a_volume_that_was_grown_as_it_said_is_taken(api: Apiserver):
    assert api.ask("admin", "DELETE", f"{STATEFULSETS}/demo-slurmctld").status_code == 200
    assert upgrade(api, {"slurmctld": {"persistence": {"size": "2Gi"}}}) == ""


def test_two_slurmctld_want_a_backup_that_both_can_mount(api: Apiserver):
    assert api.ask("admin", "DELETE", f"{STATEFULSETS}/demo-slurmctld").status_code == 200
    two = {"slurmctld": {"replicas": 2, "persistence": {"accessModes": ["ReadWriteMany"]}}}
    said = upgrade(api, two)
    assert "slurmctld.backup: two slurmctld on two machines have to mount PersistentVolumeClaim" in said
    claims = "/api/v1/namespaces/research/persistentvolumeclaims"
    finalizers = {"metadata": {"finalizers": []}}
    assert api.ask("admin", "PATCH", f"{claims}/demo-state-backup", finalizers).is_success
    assert api.ask("admin", "DELETE", f"{claims}/demo-state-backup").is_success
    assert upgrade(api, two) == ""
    one = {"slurmctld": {**two["slurmctld"], "replicas": 1}}
    assert upgrade(api, one) == "", "and the way back"
