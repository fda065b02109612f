"""The policies of the chart for pods, on a real apiserver without a cluster: none skips the queue by naming its node or
grows in place, what links one to its job is not taken off, and none leaves its containers behind.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from devcluster.waiting import wait_until
from sunkpy.core import names
from sunkpy.core.gang.identity import BindingNote, GangId
from sunkpy.core.model.states import JobId
from sunkpy.core.nodeset.asking import placeholder
from sunkpy.core.nodeset.spec import Gpu
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import render
from tests.unit.core.nodeset.build import make_nodeset

pytestmark = pytest.mark.integration

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
USERS = {
    "tenant": "pods pods/status pods/resize pods/eviction",
    "binder": "pods pods/status pods/resize pods/eviction pods/binding",
    "kubelet": "pods",
}
DAEMONS = "system:serviceaccount:kube-system:daemon-set-controller"
"""Kubernetes gives this account the right to create pods/binding."""
VERBS = ["create", "patch", "update", "delete", "deletecollection", "list"]
SAYS = "only users who may create pods/binding can put a pod of this scheduler on a node by spec.nodeName"
SAYS_OF_GRACE = "terminationGracePeriodSeconds of a pod of this scheduler must be at least 1, because"
SAYS_OF_NOTES = (
    "only users who may create pods/binding can change the annotations sunkpy.dev/job-id, gang-id, slurm-node, place, "
    "gpu-indices, devices of a pod that is on its node"
)
NOTE = names.ANNOTATION_JOB_ID
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
BY_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        }
    }
}
ALIAS = "other-name"


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    folder, users = tmp_path_factory.mktemp("apiserver"), {name: name for name in USERS} | {"daemons": DAEMONS}
    with alone(folder, users, {"kubelet": "system:nodes"}) as apiserver:
        give_rights(apiserver)
        yield apiserver


def give_rights(apiserver: Apiserver) -> None:
    """Give the users their rights, and wait until the policies of the chart are enforced."""
    apiserver.make_account("default")
    for user, resources in USERS.items():
        rules = [{"apiGroups": [""], "resources": resources.split(), "verbs": VERBS}]
        apiserver.make(f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        apiserver.make(
            f"{RBAC}/clusterrolebindings", {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]}
        )
    manifests = render("slurm", {"scheduler": {"aliases": [ALIAS], "gpuSharing": "plugin"}})
    apiserver.install(manifests, "-node-names", "-job-notes", "-forced-deletion", "-device-plugin", "-grace")
    assert wait_until(lambda: SAYS in created(apiserver, nodeName="n1").text, timeout_s=60, every_s=0.5)
    assert wait_until(
        lambda: SAYS_OF_GRACE in created(apiserver, terminationGracePeriodSeconds=0).text, timeout_s=60, every_s=0.5
    )
    make_pod(apiserver, "first", nodeName="n1")
    changes = {NOTE: "8"}
    assert wait_until(lambda: SAYS_OF_NOTES in annotated(apiserver, "first", changes).text, timeout_s=60, every_s=0.5)
    assert wait_until(lambda: SAYS_OF_FORCE in evicted(apiserver, "first", 0).text, timeout_s=60, every_s=0.5)


def created(
    apiserver: Apiserver, user: str = "tenant", *, annotations: dict[str, str] | None = None, **spec: object
) -> httpx.Response:
    return apiserver.ask(user, "POST", f"{PODS}?dryRun=All", a_pod("p", annotations or {}, **spec))


def owned(apiserver: Apiserver, user: str, **spec: object) -> httpx.Response:
    """The answer to who makes a pod of a DaemonSet, with the note of a job that it does not have."""
    note = {NOTE: "7", names.ANNOTATION_DEVICES: "n1/gpu-0"}
    metadata = {"name": "p", "annotations": note, "ownerReferences": [OWNER]}
    return apiserver.ask(user, "POST", f"{PODS}?dryRun=All", a_pod("p", {}, **spec) | {"metadata": metadata})


def a_pod(name: str, annotations: dict[str, str], **spec: object) -> dict[str, object]:
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "demo", "containers": containers} | spec,
    }


def evicted(apiserver: Apiserver, name: str, grace_s: int | None, user: str = "tenant") -> httpx.Response:
    options = {"dryRun": ["All"]} | ({} if grace_s is None else {"gracePeriodSeconds": grace_s})
    return apiserver.ask(user, "POST", f"{PODS}/{name}/eviction", an_eviction(name) | {"deleteOptions": options})


def an_eviction(name: str) -> dict[str, object]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


def deleted(
    apiserver: Apiserver, name: str, grace_s: int | None, user: str = "tenant", *, dry_run: bool = True
) -> httpx.Response:
    options = {"gracePeriodSeconds": grace_s} | ({"dryRun": ["All"]} if dry_run else {})
    return apiserver.ask(user, "DELETE", f"{PODS}/{name}", options)


def make_pod(apiserver: Apiserver, name: str, **spec: object) -> None:
    note = BindingNote(job=JobId(7), gang=GangId(namespace="default", name="g", uid="u"), seat="worker/0").annotations
    apiserver.make(PODS, a_pod(name, note | {"sunkpy.dev/gang": "g"}, **spec))


def annotated(
    apiserver: Apiserver, name: str, annotations: dict[str, str | None] | None, user: str = "tenant", *, part: str = ""
) -> httpx.Response:
    body = {"metadata": {"annotations": annotations}}
    return apiserver.ask(user, "PATCH", f"{PODS}/{name}{part}?dryRun=All", body)


@pytest.mark.parametrize("scheduler", ["demo", ALIAS])
@pytest.mark.parametrize("annotations", [{}, {"kubernetes.io/config.mirror": "x"}])
def test_nobody_skips_the_queue(apiserver: Apiserver, scheduler: str, annotations: dict[str, str]) -> None:
    refused = created(apiserver, schedulerName=scheduler, nodeName="n1", annotations=annotations)
    assert (refused.status_code, SAYS in refused.json()["message"]) == (403, True)


def test_who_may_bind_pods_may_name_their_node(apiserver: Apiserver) -> None:
    for user in ("binder", "admin"):
        answer = created(apiserver, user, nodeName="n1")
        assert answer.is_success, answer.text


def test_a_kubelet_makes_the_mirrors_of_its_own_pods(apiserver: Apiserver) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}
    metadata = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    mirror = a_pod("m", {}, nodeName="n1") | {"metadata": metadata}
    answer = apiserver.ask("kubelet", "POST", f"{PODS}?dryRun=All", mirror)
    assert answer.is_success, answer.text


def test_all_else_of_pods_is_as_it_was(apiserver: Apiserver) -> None:
    for spec in ({}, {"affinity": BY_AFFINITY}, {"schedulerName": "default-scheduler", "nodeName": "n1"}):
        answer = created(apiserver, **spec)
        assert answer.is_success, answer.text


@pytest.mark.parametrize("user", ["daemons", "binder", "admin"])
def test_a_controller_that_may_bind_pods_lends_this_right_to_nobody(apiserver: Apiserver, user: str) -> None:
    """The node name and the grace period of its pods are those that a tenant has written into a DaemonSet."""
    fails = {"exec": {"command": ["false"]}, "terminationGracePeriodSeconds": 86400}
    for spec, says in (
        ({"nodeName": "n1"}, SAYS),
        ({"terminationGracePeriodSeconds": 86400}, SAYS_OF_GRACE),
        ({"terminationGracePeriodSeconds": 0}, SAYS_OF_GRACE),
        ({"containers": [{"name": "c", "image": "i", "livenessProbe": fails}]}, SAYS_OF_GRACE),
    ):
        made = created(apiserver, user, **spec)
        assert made.is_success, (spec, made.text)
        refused = owned(apiserver, user, **spec)
        assert (refused.status_code, says in refused.text) == (403, True), (spec, refused.text)


def test_pods_of_daemonsets_are_made_for_the_node_of_their_affinity(apiserver: Apiserver) -> None:
    others = {"schedulerName": "default-scheduler", "nodeName": "n1", "terminationGracePeriodSeconds": 86400}
    for spec in ({"affinity": BY_AFFINITY}, {"affinity": BY_AFFINITY, "terminationGracePeriodSeconds": 300}, others):
        answer = owned(apiserver, "daemons", **spec)
        assert answer.is_success, answer.text


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_pods_of_others_do_not_ask_for_what_the_device_plugin_hands_out(apiserver: Apiserver, where: str) -> None:
    """The kubelet asks it for GPUs without a word about the pod."""
    asking = {"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec: dict[str, object] = {"containers": [{"name": "c", "image": "i"}]} | {where: [asking]}
    assert wait_until(lambda: created(apiserver, schedulerName="x", **spec).status_code == 403, timeout_s=60)
    refused = created(apiserver, schedulerName="default-scheduler", **spec)
    assert "Slurm hands out nvidia.com/gpu here: set schedulerName: demo in the spec of" in refused.json()["message"]
    for scheduler in ("demo", ALIAS):
        answer = created(apiserver, schedulerName=scheduler, **spec)
        assert answer.is_success, answer.text


def test_placeholders_for_nodes_that_are_wanted_may_ask_for_them_and_run_nowhere(apiserver: Apiserver) -> None:
    template = {"spec": {"containers": [{"name": names.SLURMD_CONTAINER, "image": "i"}]}}
    wanted = placeholder(make_nodeset(gpu=Gpu(), template=template), "compute-wanted-1")["spec"]
    assert "nvidia.com/gpu" in str(wanted["containers"])
    answer = created(apiserver, **wanted)
    assert answer.is_success, answer.text
    refused = created(apiserver, **wanted, nodeName="n1")
    assert "Slurm hands out nvidia.com/gpu here" in refused.json()["message"]


@pytest.fixture(scope="module")
def bound(apiserver: Apiserver) -> str:
    """A pod on its node, under job 7."""
    make_pod(apiserver, "bound", nodeName="n1")
    return "bound"


@pytest.mark.parametrize("part", ["", "/status"])
@pytest.mark.parametrize(
    "annotations",
    [
        {NOTE: "8"},
        {NOTE: None},
        {NOTE: None, "sunkpy.dev/gang": "other"},
        {names.ANNOTATION_GANG_ID: "k8s:default/other:o"},
        {names.ANNOTATION_GANG_ID: None},
        {names.ANNOTATION_PLACED_ON: "n2"},
        {names.ANNOTATION_PLACE: "worker/1"},
        {names.ANNOTATION_GPU_INDICES: "0,1,2,3"},
        None,
    ],
)
def test_nobody_takes_the_note_of_its_job_off_a_pod_that_is_on_its_node(
    apiserver: Apiserver, bound: str, annotations: dict[str, str | None] | None, part: str
) -> None:
    refused = annotated(apiserver, bound, annotations, part=part)
    assert (refused.status_code, SAYS_OF_NOTES in refused.json()["message"]) == (403, True)


def test_nobody_writes_a_note_on_a_pod_that_has_none(apiserver: Apiserver) -> None:
    apiserver.make(PODS, a_pod("unnoted", {}, nodeName="n1"))
    for name in names.BINDING_NOTE:
        assert annotated(apiserver, "unnoted", {name: "8"}).status_code == 403, name
    assert annotated(apiserver, "unnoted", {"other": "x"}).is_success


def test_who_may_bind_pods_may_note_their_jobs(apiserver: Apiserver, bound: str) -> None:
    for user in ("binder", "admin"):
        answer = annotated(apiserver, bound, {NOTE: "8", names.ANNOTATION_GANG_ID: None}, user)
        assert answer.is_success, answer.text


def test_all_else_on_a_bound_pod_is_its_owners(apiserver: Apiserver, bound: str) -> None:
    for changes in ({NOTE: "7", "sunkpy.dev/gang": "other"}, {"sunkpy.dev/gang": None, "x": "y"}):
        answer = annotated(apiserver, bound, changes)
        assert answer.is_success, answer.text


def test_pods_that_wait_and_those_of_other_schedulers_are_nobodys_business(apiserver: Apiserver) -> None:
    make_pod(apiserver, "waits")
    make_pod(apiserver, "foreign", nodeName="n1", schedulerName="default-scheduler")
    for name in ("waits", "foreign"):
        answer = annotated(apiserver, name, {NOTE: None})
        assert answer.is_success, answer.text


def resized(apiserver: Apiserver, name: str, user: str = "tenant") -> httpx.Response:
    body = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "64"}}}]}}
    return apiserver.ask(user, "PATCH", f"{PODS}/{name}/resize?dryRun=All", body)


def test_nobody_takes_more_of_a_node_than_slurm_gave(apiserver: Apiserver) -> None:
    """Its job stays as it is: one cpu would become the node."""
    # From Kubernetes 1.37 on, the node of a pod that is resized has to exist.
    room = {"cpu": "128", "memory": "1Ti", "pods": "9"}
    node = {"metadata": {"name": "n1"}, "status": {"capacity": room, "allocatable": room}}
    assert apiserver.ask("admin", "POST", "/api/v1/nodes", node).is_success
    requests = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    make_pod(apiserver, "small", nodeName="n1", **requests)
    refused = resized(apiserver, "small")
    says = "only users who may create pods/binding can resize a pod of this scheduler in place"
    assert (refused.status_code, says in refused.json()["message"]) == (403, True)
    answer = resized(apiserver, "small", "binder")
    assert answer.is_success, answer.text
    body = a_pod("small-owned", {}, **requests)
    apiserver.make(PODS, body | {"metadata": {"name": "small-owned", "ownerReferences": [OWNER]}})
    answer = resized(apiserver, "small-owned", "binder")
    assert answer.is_success, answer.text
    make_pod(apiserver, "small-foreign", nodeName="n1", schedulerName="default-scheduler", **requests)
    assert resized(apiserver, "small-foreign").is_success


AN_AGE_S = 2**31
SAYS_OF_FORCE = (
    "only users who may create pods/binding can delete or evict pods by force (grace period 0), or with a grace period "
    "of more than 300 s"
)


def test_nobody_leaves_containers_behind_that_nobody_can_end(apiserver: Apiserver) -> None:
    make_pod(apiserver, "slow", nodeName="n1", terminationGracePeriodSeconds=AN_AGE_S)
    make_pod(apiserver, "quick", nodeName="n1", terminationGracePeriodSeconds=1)
    for name in ("slow", "quick"):
        for refused in (deleted(apiserver, name, 0), evicted(apiserver, name, 0)):
            assert (refused.status_code, SAYS_OF_FORCE in refused.json()["message"]) == (403, True)
    at_once = {"gracePeriodSeconds": 0, "dryRun": ["All"]}
    refused = apiserver.ask("tenant", "DELETE", PODS, at_once)
    assert (refused.status_code, SAYS_OF_FORCE in refused.json()["message"]) == (403, True)
    for user in ("binder", "admin", "kubelet"):
        answer = deleted(apiserver, "slow", 0, user)
        assert answer.is_success, (user, answer.text)


def test_nobody_gives_a_long_grace_for_a_kubelet_goes_on_with_the_first(apiserver: Apiserver) -> None:
    make_pod(apiserver, "ending", nodeName="n1")
    make_pod(apiserver, "slow-ending", nodeName="n1", terminationGracePeriodSeconds=AN_AGE_S)
    for refused in (deleted(apiserver, "ending", AN_AGE_S), evicted(apiserver, "ending", AN_AGE_S)):
        assert (refused.status_code, SAYS_OF_FORCE in refused.json()["message"]) == (403, True)
    answer = deleted(apiserver, "ending", AN_AGE_S, "binder")
    assert answer.is_success, answer.text
    for grace_s in (None, 1):
        answer = deleted(apiserver, "slow-ending", grace_s, dry_run=False)
        assert answer.is_success, answer.text
    refused = deleted(apiserver, "slow-ending", 0)
    assert (refused.status_code, SAYS_OF_FORCE in refused.json()["message"]) == (403, True)


def test_all_else_is_deleted_as_it_was(apiserver: Apiserver) -> None:
    slow = {"terminationGracePeriodSeconds": AN_AGE_S}
    make_pod(apiserver, "slow-waits", **slow)
    make_pod(apiserver, "slow-foreign", nodeName="n1", schedulerName="default-scheduler", **slow)
    make_pod(apiserver, "slow-ended", nodeName="n1", **slow)
    ended = apiserver.ask("admin", "PATCH", f"{PODS}/slow-ended/status", {"status": {"phase": "Failed"}})
    assert ended.is_success, ended.text
    for name in ("slow-waits", "slow-foreign", "slow-ended"):
        answer = deleted(apiserver, name, 0)
        assert answer.is_success, (name, answer.text)
    make_pod(apiserver, "slow-too", nodeName="n1", **slow)
    for grace_s in (None, 1, AN_AGE_S):
        answer = deleted(apiserver, "slow-too", grace_s)
        assert answer.is_success, (grace_s, answer.text)
    for grace_s in (None, 1, 300):
        answer = evicted(apiserver, "slow-too", grace_s)
        assert answer.is_success, (grace_s, answer.text)


@pytest.mark.parametrize(("seconds", "expected"), [(300, True), (301, False), (2**31, False)])
def test_a_tenant_makes_no_pod_that_may_keep_its_node_for_long(
    apiserver: Apiserver, seconds: int, expected: bool
) -> None:
    made = created(apiserver, terminationGracePeriodSeconds=seconds)
    assert made.is_success is expected, made.text
    assert expected or "that of the pod and of its probes may be at most 300, because" in made.text
    assert created(apiserver, "binder", terminationGracePeriodSeconds=seconds).is_success
    assert created(apiserver, schedulerName="another", terminationGracePeriodSeconds=seconds).is_success


def test_nor_one_that_an_eviction_deletes_by_force(apiserver: Apiserver) -> None:
    """An eviction does not show the policies what the pod asks for."""
    make_pod(apiserver, "without-grace", nodeName="n1", terminationGracePeriodSeconds=0)
    gone = apiserver.ask("tenant", "POST", f"{PODS}/without-grace/eviction", an_eviction("without-grace"))
    assert gone.is_success, gone.text
    assert apiserver.ask("admin", "GET", f"{PODS}/without-grace").status_code == 404, "it is gone before it has ended"
    made = created(apiserver, terminationGracePeriodSeconds=0)
    says = "Kubernetes forgets a pod with 0 while its containers still run"
    assert (made.status_code, says in made.json()["message"]) == (403, True)
    for allowed in (
        created(apiserver, terminationGracePeriodSeconds=1),
        created(apiserver, "binder", terminationGracePeriodSeconds=0),
        created(apiserver, schedulerName="another", terminationGracePeriodSeconds=0),
    ):
        assert allowed.is_success, allowed.text


@pytest.mark.parametrize("of", ["containers", "initContainers"])
@pytest.mark.parametrize("probe", ["livenessProbe", "startupProbe"])
@pytest.mark.parametrize(("seconds", "expected"), [(300, True), (301, False)])
def test_nor_does_a_probe_keep_it(apiserver: Apiserver, of: str, probe: str, seconds: int, expected: bool) -> None:
    """A kubelet that ends a container for its probe hears of nothing else meanwhile."""
    plain = {"name": "c", "image": "i"}
    fails = {"exec": {"command": ["false"]}, "terminationGracePeriodSeconds": seconds}
    probed = {"name": "p", "image": "i", probe: fails} | ({"restartPolicy": "Always"} if of != "containers" else {})
    made = created(apiserver, **({"containers": [plain]} | {of: [probed]}))
    assert made.is_success is expected, made.text
