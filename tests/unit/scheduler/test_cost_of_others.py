"""What pods of others cost: daemons on each node, and all that ever ran."""

import msgspec
import pytest

from sunkpy.core.gang.limits import avoid_nodes
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod
from sunkpy.runtime import verdicts
from sunkpy.scheduler.pods.neighbours import Neighbours
from tests.unit.core.gang.pods import make_node
from tests.unit.scheduler.counting import calls_of, entered, lines_of
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

HOST = "kubernetes.io/hostname"
FEW, MANY = 10, 500
DAEMON_PORTS = (9100, 9400, 9500, 8472)


def apart_from(**labels):
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def everywhere(**labels):
    term = apart_from(**labels)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    required = [term | {"namespaceSelector": {}}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def make(name, *, node="", ports=(), namespace="default", labels=None, **spec):
    containers = [{"ports": [{"hostPort": port} for port in ports]}]
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "labels": labels or {}},
        "spec": {"nodeName": node, "containers": containers, **spec},
    }
    return msgspec.convert(body, Pod)


def crowded(count):
    """Nodes with four daemons each that have a port of the node, and an operator that keeps away its like."""
    nodes = {name: make_node(name, labels={HOST: name}) for name in (f"n{number}" for number in range(count))}
    pods = [
        make(f"daemon-{port}-{node}", namespace="kube-system", node=node, ports=(port,))
        for port in DAEMON_PORTS
        for node in nodes
    ]
    for node in nodes:
        apart = apart_from(app="cni-operator")
        pods.append(make(f"op-{node}", namespace="kube-system", node=node, labels={"app": "cni-operator"}, **apart))
    neighbours = Neighbours()
    for pod in pods:
        neighbours.update(None, pod)
    return nodes, neighbours


@pytest.mark.parametrize(
    "asked", [{}, {"ports": (80,)}, {"labels": {"app": "web"}}], ids=["plain", "with a port", "with labels"]
)
def test_a_binding_costs_as_much_with_daemons_on_many_nodes_as_with_daemons_on_few(asked):
    costs = []
    for count in (FEW, MANY):
        nodes, neighbours = crowded(count)
        listed = {"n1": [make("other", node="n1", ports=(443,))]}
        costs.append(
            calls_of(lambda: avoid_nodes([make("mine", **asked)], neighbours.around(nodes, listed=listed)))  # noqa: B023
        )
    assert costs[0] == costs[1]


def everywhere_on_linux(how):
    """Terms that select all pods of all namespaces, in a domain that is the whole cluster."""
    all_of = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/os"}
    return {"affinity": {how: {"requiredDuringSchedulingIgnoredDuringExecution": [all_of]}}}


@pytest.mark.parametrize("how", ["podAntiAffinity", "podAffinity", "of others"])
def test_a_rule_about_all_pods_costs_time_by_the_number_of_pods_and_of_nodes_and_not_by_their_product(how):
    costs = []
    for count in (50, 400):
        nodes = {f"n{number}": make_node(f"n{number}", labels={"kubernetes.io/os": "linux"}) for number in range(count)}
        theirs = everywhere_on_linux("podAntiAffinity") if how == "of others" else {}
        pods = [make(f"web-{name}", node=name, **theirs) for name in nodes]
        mine = make("mine", namespace="tenant", **({} if how == "of others" else everywhere_on_linux(how)))
        neighbours = Neighbours()
        for pod in pods:
            neighbours.update(None, pod)
        costs.append(lines_of(lambda: avoid_nodes([mine], neighbours.around(nodes))))  # noqa: B023
    assert costs[1] < 12 * costs[0]


def line(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


NAMING = {
    "nobody": lambda number: [line("job", "In", f"never-{number}")],
    "nobody, and a label that all have": lambda number: [line("app", "Exists"), line("job", "In", f"never-{number}")],
    "nearly all": lambda number: [line("job", "NotIn", f"never-{number}")],
    "nearly all, by a label that all have": lambda number: [line("app", "In", "web"), *NAMING["nearly all"](number)],
    "nobody, by what all have": lambda number: [line("job", "DoesNotExist"), line("app", "NotIn", f"never-{number}")],
    "nobody, by what half of all have": lambda number: [line("0", "Exists"), line("1", "Exists", f"{number}")],
}


@pytest.mark.parametrize("how", ["podAntiAffinity", "podAffinity"])
@pytest.mark.parametrize("lines", NAMING.values(), ids=NAMING)
def test_terms_about_all_namespaces_are_not_compared_with_each_pod(lines, how):
    """Whoever may make a pod may give it 16 terms that no other pod has."""
    costs, few, many = [], 200, 2_000
    for count in (few, many):
        nodes = {name: make_node(name, labels={HOST: name}) for name in ("n0", "n1")}
        neighbours = Neighbours()
        for number in range(count):
            labels = {"app": "web", "job": f"job-{number}", f"{number % 2}": "x"}
            neighbours.update(None, make(f"pod-{number}", node=f"n{number % 2}", labels=labels))
        selectors = [{"matchExpressions": lines(number)} for number in range(16)]
        terms = [{"topologyKey": HOST, "namespaceSelector": {}, "labelSelector": each} for each in selectors]
        mine = make("mine", affinity={how: {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
        costs.append(lines_of(lambda: avoid_nodes([mine], neighbours.around(nodes))))  # noqa: B023
    # The values of a label are put together once, and not for each term.
    assert costs[1] - costs[0] <= 3 * (many - few)


def test_constraints_about_pods_that_are_not_there_are_not_compared_with_each_pod_of_the_namespace():
    costs = []
    for count in (200, 2_000):
        neighbours = Neighbours()
        for number in range(count):
            neighbours.update(None, make(f"pod-{number}", node="n1", labels={"job": f"job-{number}"}))
        selectors = [{"matchExpressions": NAMING["nobody"](number)} for number in range(16)]
        even = [{"topologyKey": HOST, "maxSkew": 1, "labelSelector": each} for each in selectors]
        mine = make("mine", topologySpreadConstraints=[each | {"whenUnsatisfiable": "DoNotSchedule"} for each in even])
        nodes = {"n1": make_node("n1", labels={HOST: "n1"})}
        costs.append(lines_of(lambda: avoid_nodes([mine], neighbours.around(nodes))))  # noqa: B023
    assert costs[0] == costs[1]


@pytest.mark.parametrize("namespace", ["default", "tenant"])
def test_a_binding_costs_as_much_with_many_workloads_that_keep_away_their_like(namespace):
    costs = []
    for count in (FEW, MANY):
        pods = [make(f"web-{n}", namespace=namespace, node="n1", **apart_from(app=f"web-{n}")) for n in range(count)]
        neighbours = Neighbours()
        for pod in pods:
            neighbours.update(None, pod)
        nodes = {"n1": make_node("n1", labels={HOST: "n1"})}
        mine = [make("mine", labels={"app": "web-3"})]
        costs.append(calls_of(lambda: avoid_nodes(mine, neighbours.around(nodes))))  # noqa: B023
        assert bool(avoid_nodes(mine, neighbours.around(nodes))) == (namespace == "default")
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("term", "is_kept_away"),
    [
        (apart_from(app="web"), False),
        (everywhere(app="web"), True),
        (everywhere(app="other"), False),
        (everywhere(), True),
    ],
    ids=["its own namespace", "any", "others of any", "everybody"],
)
def test_who_means_pods_of_another_namespace_is_found(term, is_kept_away):
    neighbours = Neighbours()
    neighbours.update(None, make("tenant", namespace="tenant", node="n1", **term))
    around = neighbours.around({"n1": make_node("n1", labels={HOST: "n1"})})
    assert bool(avoid_nodes([make("mine", labels={"app": "web"})], around)) == is_kept_away


def test_what_is_in_its_way_is_found_among_them():
    nodes, neighbours = crowded(FEW)
    neighbours.update(None, make("web-0", node="n2", labels={"app": "web"}, **apart_from(app="web")))
    mine, around = [make("mine", ports=(9100,), labels={"app": "web"})], neighbours.around(nodes)
    assert set(avoid_nodes(mine, around)) == set(nodes)
    assert avoid_nodes(mine, around)["n2"] == "near pod default/web-0, whose anti-affinity keeps it away"
    assert avoid_nodes(mine, around)["n3"] == "host port 9100 is taken"
    gone = neighbours.around(nodes, listed={"n3": []})
    assert "n3" not in avoid_nodes(mine, gone), "the apiserver has no pod there any more"
    neighbours.update(make("web-0", node="n2", labels={"app": "web"}, **apart_from(app="web")), None)
    assert avoid_nodes([make("mine", labels={"app": "web"})], neighbours.around(nodes)) == {}


def test_an_index_holds_no_more_than_is_there():
    _, neighbours = crowded(FEW)
    for number in range(100):
        pod = make(f"pod-{number}", node="n1", ports=(number + 1,), **apart_from(app=f"app-{number}"))
        neighbours.update(None, pod)
        neighbours.update(pod, None)
    assert len(neighbours._there) == FEW + len({"kube-system", "cni-operator"})
    assert len(neighbours._on_port) == len(DAEMON_PORTS)
    assert len(neighbours._with_term) == len(neighbours._terms) == len(neighbours._meaning) == 1


@pytest.mark.parametrize("asked", ["app", "job-name"])
async def test_jobs_that_ever_ran_make_no_event_of_a_pod_dearer(tmp_path, monkeypatch, asked):
    """Each has labels of its own, and a pod that shuts out others asks for labels: perhaps for just these."""
    monkeypatch.setattr(verdicts, "_ASKED_LAST", 1)
    world = World()
    world.add_node(1)
    meta = {"name": "operator", "namespace": "kube-system", "labels": {"app": "cni-operator"}}
    apart = everywhere(**{asked: "cni-operator"})
    world.put("pods", {"metadata": meta, "spec": {"nodeName": "node-1", **apart}, "status": {"phase": "Running"}})
    async with leading(world, tmp_path):
        neighbours, templates = world.term._cluster.neighbours, world.term._cluster._shut_out
        stranger = make("stranger", node="node-1", labels={"app": "web"})

        def come_and_go():
            neighbours.update(None, stranger)
            neighbours.update(stranger, None)

        before = calls_of(come_and_go)
        for number in range(30):
            world.add_pod(f"job-{number}", labels={"job-name": f"job-{number}"})
        await world.until(lambda: len(world.submissions) == 30)
        assert len(templates) == (30 if asked == "job-name" else 1)
        assert calls_of(come_and_go) == before
        for number in range(30):
            world.pod_vanishes(f"job-{number}")
        await world.until(lambda: len(templates) <= 1)
        assert calls_of(come_and_go) == before


async def test_a_binding_does_not_add_up_the_containers_of_strangers_on_its_node(tmp_path):
    """A tenant's pods may have ten thousand each, and a node a hundred pods: that would hold the loop for seconds."""
    world = World()
    world.add_node(1)
    asked = {"resources": {"requests": {"cpu": "1m", "memory": "1Ki"}}}
    for number in range(3):
        meta = {"name": f"stranger-{number}", "namespace": "other"}
        spec = {"nodeName": "node-1", "containers": [{"name": f"c{each}", **asked} for each in range(500)]}
        world.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        with entered(matching._requests) as count:
            await bound_pod(world, call)
            assert count() < 500


def anywhere(*lines):
    required = [{"topologyKey": HOST, "namespaceSelector": {}, "labelSelector": {"matchExpressions": list(lines)}}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    "apart",
    [
        pytest.param(lambda own: apart_from(app=own), id="in their namespace"),
        pytest.param(lambda own: anywhere(line("app", "In", own)), id="in any"),
        pytest.param(lambda own: anywhere(line("tier", "NotIn", "x"), line("app", "In", own, f"{own}-too")), id="two"),
        pytest.param(lambda own: anywhere(line(own, "Exists"), line("app", "NotIn", own)), id="with any value"),
    ],
)
async def test_workloads_that_wait_and_keep_away_their_like_make_no_event_of_other_pods_dearer(tmp_path, apart):
    world = World()
    world.add_node(1, cpu="0")
    async with leading(world, tmp_path):
        neighbours, templates = world.term._cluster.neighbours, world.term._cluster._looking
        theirs = [{}, apart_from(app="stranger")]
        strangers = [make(f"s{n}", node="node-1", labels={"app": "s"}, **spec) for n, spec in enumerate(theirs)]

        def come_and_go():
            for stranger in strangers:
                neighbours.update(None, stranger)
                neighbours.update(stranger, None)

        counts = []
        for number in range(30):
            world.add_pod(f"web-{number}", labels={"app": f"web-{number}"}, **apart(f"web-{number}"))
            if number in (0, 29):
                await world.until(lambda number=number: len(templates) == number + 1)
                come_and_go()
                counts.append(calls_of(come_and_go))
        assert counts[0] == counts[1]


async def test_by_which_labels_another_namespace_keeps_pods_away_concerns_nobody_else(tmp_path):
    """Whoever may make one pod may make one each second that asks for a label that was never asked for."""
    world = World()
    world.add_node(1, cpu="0")
    operator = {"metadata": {"name": "operator", "namespace": "kube-system"}}
    world.put("pods", operator | {"spec": {"nodeName": "node-1", **apart_from(app="operator")}})
    async with leading(world, tmp_path):
        world.add_pod(labels={"app": "web"}, **apart_from(app="web"))
        world.add_pod("plain")
        await world.until(
            lambda: len(list(world.term._ledger)) == 2 and all(each.grounds.avoided for each in world.term._ledger)
        )
        before = {each.id: each.grounds.avoided for each in world.term._ledger}
        neighbours, cluster = world.term._cluster.neighbours, world.term._cluster
        for number in range(3):
            odd = make(f"odd-{number}", namespace="tenant", node="node-1", **apart_from(**{f"label-{number}": "x"}))
            neighbours.update(None, odd)
            assert all(cluster.avoid_as_before(each) for found in before.values() for each in found)
            neighbours.update(odd, None)
        assert not [label for found in neighbours._asked.values() for label in found if label.startswith("label-")]
        everybody = make("everybody", namespace="tenant", node="node-1", **everywhere(tier="x"))
        neighbours.update(None, everybody)
        assert not any(cluster.avoid_as_before(each) for found in before.values() for each in found)


def test_a_hundred_terms_of_node_affinity_cost_three_calls_for_each_node():
    """The whole is judged in one turn of the loop."""
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"none-{n}"]}]} for n in range(100)]
    spec = make(
        "mine",
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
    ).spec
    node = make_node("n1", labels={HOST: "n1"})
    assert calls_of(lambda: matching.matches_affinity(node, spec)) < 3.2 * len(terms)
