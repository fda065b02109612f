"""Pods among pods, host ports and devices: a constraint where Slurm can hold it, refused by name where not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.gang import Role
from sunkpy.core.gang.limits import (
    Surroundings,
    avoid_nodes,
    deciding_specs,
    depend_on,
    topics_of,
    touches,
    within_limits,
)
from sunkpy.core.model.devices import CLAIMED, DEVICE_CLASS
from sunkpy.core.model.objects import Pod, PodSpec, Toleration
from tests.unit.core.gang.families.makers import bare, job, jobs_of, stateful_set, sums
from tests.unit.core.gang.families.workload import gang, manifest, owner, pod
from tests.unit.core.gang.pods import make_node

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def term(key=HOST, app="web", **more):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def apart(*terms):
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def near(*terms):
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def evenly(key=HOST, app="web", **more):
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": {"matchLabels": {"app": app}}} | more]}


def ports(*numbers, **more):
    return {"containers": [{"name": "c", "ports": [{"hostPort": number, **more} for number in numbers]}]}


def sidecar(*numbers, restart="Always"):
    return {"initContainers": [ports(*numbers)["containers"][0] | {"restartPolicy": restart}]}


def of(spec, size=2, **more):
    """A gang of pods with the label app=web, of which one is there."""
    annotations = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": str(size)} if size > 1 else {}
    return gang([pod("p", labels={"app": "web"}, annotations=annotations, spec=spec, **more)])


@pytest.mark.parametrize(
    ("spec", "one_per_node", "one_domain"),
    [
        ({}, False, ""),
        (apart(term()), True, ""),
        (apart(term(app="other")), False, ""),
        (apart({"topologyKey": HOST}), False, ""),
        (apart({"topologyKey": HOST, "labelSelector": {}}), True, ""),
        (apart(term(namespaces=["other"])), False, ""),
        (apart(term(namespaces=["other"], namespaceSelector={})), True, ""),
        (near(term()), False, HOST),
        (near(term(ZONE)), False, ZONE),
        (near(term(ZONE), term()), False, HOST),
        (near(term(ZONE, "db")), False, ""),
        (evenly(), True, ""),
        (evenly(app="other"), False, ""),
        (evenly(ZONE, whenUnsatisfiable="ScheduleAnyway"), False, ""),
        (ports(80), True, ""),
        (ports(0), False, ""),
        (sidecar(80), True, ""),
        (sidecar(80, restart=None), False, ""),
    ],
)
def test_what_becomes_a_constraint_of_a_gang(spec, one_per_node, one_domain):
    made = within_limits(of(spec), gpu_resources={})
    assert (made.refused, made.one_per_node, made.one_domain) == ("", one_per_node, one_domain)


def test_a_gang_that_must_be_spread_over_domains_is_refused():
    assert within_limits(of(evenly(ZONE)), gpu_resources={}).refused == (
        f"pod p must be spread over {ZONE} with others of its gang (topologySpreadConstraints): Slurm can keep the "
        "pods of a job on different nodes, not spread them over domains"
    )


@pytest.mark.parametrize("spec", [apart(term()), apart(term(ZONE)), near(term(ZONE)), ports(80), evenly(ZONE)])
def test_nothing_of_that_limits_a_single_pod(spec):
    made = of(spec, 1)
    assert within_limits(made, gpu_resources={}) == made


def test_templates_of_later_waves_say_on_which_nodes_but_not_what_they_bear():
    gpu = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "a"}], "containers": [{"name": "c"}]}
    shapes = [msgspec.convert(spec, PodSpec) for spec in (gpu, {"containers": [{"name": "c"}]})]
    lead, *_ = of({}).roles
    later = [Role(name=str(n), seats=2, first=0, members=(), shape=shape) for n, shape in enumerate(shapes)]
    (first, template) = deciding_specs(msgspec.structs.replace(of({}), roles=(lead, *later)))
    assert first == lead.members[0].pod.spec
    assert template == PodSpec(node_selector={"pool": "gpu"}, tolerations=(Toleration(operator="Exists"),))


SPREAD = "Slurm can keep the pods of a job on different nodes, not in different domains"


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        (apart(term(ZONE)), f"pod p must not share its {ZONE} with others of its gang: {SPREAD}"),
        (
            near(term()) | ports(80),
            "its pods must be on one node (pod affinity or a required topology) and on different nodes (anti-affinity "
            "or the same hostPort): remove one of the two",
        ),
        (
            near(term(ZONE), term("rack")),
            f"its pods must be together by rack and by {ZONE}: Slurm can keep a job together by only one of these "
            "labels",
        ),
        (
            {"resourceClaims": [{"name": "gpu"}, {"name": "nic"}]},
            "pod p has resource claims (gpu, nic): Slurm cannot allocate the devices of a claim",
        ),
    ],
)
def test_what_is_refused(spec, refused):
    assert within_limits(of(spec), gpu_resources={}).refused == refused


def test_a_gang_that_is_refused_keeps_what_holds_it_together():
    """The job that it has in the queue waits on, within the same domain."""
    made = within_limits(of(near(term(ZONE)) | {"resourceClaims": [{"name": "gpu"}]}), gpu_resources={})
    assert (bool(made.refused), made.one_domain) == (True, ZONE)


def test_a_role_that_must_not_be_beside_another_role_spreads_the_gang():
    said = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-roles": "leader=1,worker=2"}
    pods = [
        pod(name, labels={"app": name}, annotations=said | {"sunkpy.dev/gang-role": name}, spec=spec)
        for name, spec in (("leader", {}), ("worker", apart(term(app="leader"))))
    ]
    assert within_limits(gang(pods), gpu_resources={}).one_per_node


@pytest.mark.parametrize(
    ("asked", "one_domain", "refused"),
    [
        (("rack", "rack"), "rack", ""),
        (("rack", ""), "rack", ""),
        (("", ""), "", ""),
        ((HOST, HOST), HOST, ""),
        (
            ("rack", ZONE),
            "rack",
            f"its pods must be together by rack and by {ZONE}: Slurm can keep a job together by only one of these "
            "labels",
        ),
    ],
)
@pytest.mark.parametrize(
    "annotation", ["kueue.x-k8s.io/podset-required-topology", "kai.scheduler/topology-required-placement"]
)
def test_a_domain_that_pods_require_as_for_kueue_or_kai_is_that_of_the_gang(annotation, asked, one_domain, refused):
    said = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    wishes = [{annotation: label} if label else {} for label in asked]
    pods = [pod(f"p{number}", annotations=said | wish) for number, wish in enumerate(wishes)]
    made = within_limits(gang(pods), gpu_resources={})
    assert (made.one_domain, made.refused) == (one_domain, refused)


@pytest.mark.parametrize(("size", "one_domain"), [(2, "rack"), (1, "")])
def test_so_is_one_that_their_owner_requires_as_for_kai(size, one_domain):
    said = {"kai.scheduler/topology-required-placement": "rack"}
    made = owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "annotations": said}})
    annotations = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": str(size)}
    pods = [pod("p", owned_by=[made], annotations=annotations)]
    assert within_limits(gang(pods, [made]), gpu_resources={}).one_domain == one_domain


def test_what_a_family_found_out_stays():
    pods = [bare(each) for each in manifest("armada/gang-pods.shape.yaml")]
    made = gang(pods)
    assert within_limits(made, gpu_resources={}).one_domain == HOST


@pytest.mark.parametrize(
    ("name", "expand", "resource"),
    [
        (
            "slurm-bridge/dra-nvidia-pod.yaml",
            lambda document: ((), [bare(document)]),
            "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        ),
        ("slurm-bridge/dra-example-job.yaml", job, "deviceclass.resource.kubernetes.io/gpu.example.com"),
    ],
)
def test_a_device_class_needs_a_gres(name, expand, resource, manifests):
    owners, pods = expand(manifest(manifests / name)[0])
    (made,) = jobs_of(pods, owners)
    refused = within_limits(made, gpu_resources={"nvidia.com/gpu": "gpu"}).refused
    asks = f"pod {pods[0].name} asks for {resource}"
    assert refused == f"{asks}, for which the scheduler knows no GRES: ask for the devices by a ResourceClaim"
    mapped = within_limits(made, gpu_resources={resource: "gpu"})
    assert (mapped.refused, sums(mapped, gpu_resources=(resource,))) == ("", (1, 1, 128, 1))


def test_nobody_asks_for_the_devices_of_a_claim_without_one():
    resource = CLAIMED + "gpu.example.com"
    made = of({"containers": [{"name": "c", "resources": {"requests": {resource: "1"}}}]}, 1)
    assert "ask for the devices by a ResourceClaim" in within_limits(made, gpu_resources={resource: "gpu"}).refused


def test_a_device_of_a_plugin_is_the_business_of_nodes_that_offer_it():
    made = of({"containers": [{"name": "c", "resources": {"requests": {"example.com/deviceA": "1"}}}]}, 1)
    assert within_limits(made, gpu_resources={}).refused == ""


def test_a_daemon_is_never_refused():
    made = owner_of_a_daemon()
    assert within_limits(made, gpu_resources={}) == made


def owner_of_a_daemon():
    made = owner({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "kube-system"}})
    spec = {"containers": [{"name": "c", "resources": {"limits": {DEVICE_CLASS + "x": "1"}}}]}
    return gang([pod("d-x", owned_by=[made], namespace="kube-system", spec=spec)], [made])


# ---------------------------------------------------------------------- pods of other gangs, where they are now

NODES = {
    "n1": make_node("n1", labels={HOST: "n1", ZONE: "a"}),
    "n2": make_node("n2", labels={HOST: "n2", ZONE: "a"}),
    "n3": make_node("n3", labels={HOST: "n3", ZONE: "b"}),
    "n4": make_node("n4", labels={HOST: "n4"}),
}


def there(spec=None, app="web", **more):
    return pod("other", labels={"app": app}, spec=spec or {}, **more)


def one(spec, app="web"):
    return pod("p", labels={"app": app}, spec=spec)


def around(pods_on):
    bound = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        for node, pods in pods_on.items()
        for pod in pods
    ]
    return Surroundings.of(NODES, bound)


IN_ANTI = "near pod default/other, which its anti-affinity avoids"
IN_ELSEWHERE = "near a pod of another namespace, which its anti-affinity avoids"
KEEPS_AWAY = "near pod default/other, whose anti-affinity keeps it away"
NOT_THERE = "without a pod that its affinity asks for"


@pytest.mark.parametrize(
    ("mine", "theirs", "avoided"),
    [
        ({}, {"n1": [there()]}, {}),
        (apart(term()), {"n1": [there()]}, {"n1": IN_ANTI}),
        (apart(term()), {"n1": [there(app="db")]}, {}),
        (apart(term()), {"n1": [there(status={"phase": "Succeeded"})]}, {}),
        (apart(term()), {"n1": [there(namespace="elsewhere")]}, {}),
        (apart(term() | {"namespaces": ["elsewhere"]}), {"n1": [there()]}, {}),
        (apart(term() | {"namespaces": ["elsewhere"]}), {"n1": [there(namespace="elsewhere")]}, {"n1": IN_ELSEWHERE}),
        (apart(term() | {"namespaceSelector": {}}), {"n1": [there(namespace="elsewhere")]}, {"n1": IN_ELSEWHERE}),
        (apart(term(ZONE)), {"n1": [there()]}, {"n1": IN_ANTI, "n2": IN_ANTI}),
        (apart(term(ZONE)), {"n4": [there()]}, {}),
        ({}, {"n3": [there(apart(term()))]}, {"n3": KEEPS_AWAY}),
        ({}, {"n3": [there(apart(term(app="db")))]}, {}),
        (
            {},
            {"n3": [there(apart(term(namespaces=["default"])), namespace="elsewhere")]},
            {"n3": "near a pod of another namespace, whose anti-affinity keeps it away"},
        ),
        (ports(80), {"n2": [there(ports(80))]}, {"n2": "host port 80 is taken"}),
        (sidecar(80), {"n2": [there(ports(80))]}, {"n2": "host port 80 is taken"}),
        (ports(80), {"n2": [there(ports(80, protocol="UDP"))]}, {}),
        (ports(80, hostIP="10.0.0.1"), {"n2": [there(ports(80, hostIP="10.0.0.2"))]}, {}),
        (ports(80, hostIP="10.0.0.1"), {"n2": [there(ports(80))]}, {"n2": "host port 80 is taken"}),
        (near(term(ZONE)), {"n1": [there()]}, {"n3": NOT_THERE, "n4": NOT_THERE}),
        (near(term(ZONE)), {}, {}),
        (near(term(ZONE, "db")), {}, dict.fromkeys(NODES, NOT_THERE)),
    ],
)
def test_nodes_to_avoid_now(mine, theirs, avoided):
    assert avoid_nodes([one(mine)], around(theirs)) == avoided


def test_who_may_see_all_pods_learns_which_one_is_in_the_way():
    mine, theirs = apart(term() | {"namespaces": ["elsewhere"]}), {"n1": [there(namespace="elsewhere")]}
    avoided = avoid_nodes([one(mine)], around(theirs), names_all=True)
    assert avoided == {"n1": "near pod elsewhere/other, which its anti-affinity avoids"}


def test_pods_of_its_own_gang_and_those_that_are_ending_can_be_left_out():
    other = there(apart(term()))
    assert avoid_nodes([one({})], around({"n1": [other]}), but={other.uid}) == {}
    ending = there(apart(term()), deletionTimestamp="2026-11-21T00:00:00Z")
    assert avoid_nodes([one({})], around({"n1": [ending]})) == {"n1": KEEPS_AWAY}
    assert avoid_nodes([one({})], around({"n1": [ending]}), but={ending.uid}) == {}


def test_each_part_of_a_pulsar_avoids_the_nodes_of_its_set_only():
    sets = {
        each["metadata"]["name"]: each
        for each in manifest("pulsar/cluster.rendered.yaml")
        if each["kind"] == "StatefulSet"
    }
    bookies = stateful_set(sets["log-bookie"])[1]
    proxies = stateful_set(sets["log-proxy"])[1]
    theirs = {"n1": [bookies[0], proxies[0]], "n2": [bookies[1]]}
    assert set(avoid_nodes([bookies[2]], around(theirs))) == {"n1", "n2"}
    assert set(avoid_nodes([proxies[1]], around(theirs))) == {"n1"}
    brokers = stateful_set(sets["log-broker"])[1]
    assert avoid_nodes([brokers[1]], around({"n1": [brokers[0]]})) == {}, "a preferred term binds nobody"


LABELS = st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"))
LINE = st.fixed_dictionaries(
    {
        "key": st.sampled_from("xy"),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.lists(st.sampled_from(["1", "2", *(f"other-{n}" for n in range(20))]), max_size=18),
    }
)
SELECTOR = st.none() | st.builds(
    lambda labels, lines: {"matchLabels": labels, "matchExpressions": lines}, LABELS, st.lists(LINE, max_size=2)
)
TERM = st.fixed_dictionaries(
    {"topologyKey": st.just("kubernetes.io/hostname"), "labelSelector": SELECTOR},
    optional={"namespaces": st.lists(st.sampled_from("ab"), max_size=2), "namespaceSelector": st.just({})},
)
REQUIRED = st.lists(TERM, max_size=2).map(lambda terms: {"requiredDuringSchedulingIgnoredDuringExecution": terms})
SPREAD = st.fixed_dictionaries(
    {"topologyKey": st.just("zone"), "whenUnsatisfiable": st.just("DoNotSchedule"), "labelSelector": SELECTOR}
)
AMONG_OTHERS = st.builds(
    lambda namespace, labels, apart, near, ports, spread: msgspec.convert(
        {
            "metadata": {"namespace": namespace, "labels": labels},
            "spec": {
                "affinity": {"podAntiAffinity": apart, "podAffinity": near},
                "containers": [{"ports": [{"hostPort": port} for port in ports]}],
                "topologySpreadConstraints": spread,
            },
        },
        Pod,
    ),
    st.sampled_from("ab"),
    LABELS,
    REQUIRED,
    REQUIRED,
    st.lists(st.sampled_from([80, 443]), max_size=1),
    st.lists(SPREAD, max_size=1),
)


def test_a_term_has_few_topics_however_many_values_and_namespaces_it_names():
    """Each takes some memory as long as the pod waits."""
    for namespaces, values in ((16, 2), (4, 5), (1, 2000), (500, 17), (16, 1)):
        line = {"key": "app", "operator": "In", "values": [f"web-{n}" for n in range(values)]}
        where = {"namespaces": [f"ns-{n}" for n in range(namespaces)], "topologyKey": HOST}
        spec = apart(where | {"labelSelector": {"matchExpressions": [line]}})
        meant = [topic for topic in topics_of([pod("p", spec=spec)]) if topic[0] == "meant"]
        assert 1 <= len(meant) <= 16


@given(st.lists(AMONG_OTHERS, min_size=1, max_size=2), AMONG_OTHERS)
def test_who_depends_on_another_pod_shares_a_topic_with_it(pods, other):
    assert not depend_on(pods, other) or {*topics_of(pods)} & {*touches(other)}
