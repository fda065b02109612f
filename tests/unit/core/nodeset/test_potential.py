from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model.states import SlurmNode
from sunkpy.core.nodeset.naming import host_name
from sunkpy.core.nodeset.potential import Has, Records, find_potential, read_offers, why_none, write
from sunkpy.core.nodeset.spec import Growth, NodeSet, NodeShape
from tests.unit.core.nodeset.build import make_nodeset

SHAPE = NodeShape(cpus=96, memory="900Gi", gres="gpu:h100:8,nic:4")
CORES = "CPUs=96 Boards=1 SocketsPerBoard=1 CoresPerSocket=96 ThreadsPerCore=1"


def nodeset(potential: int = 100, *, shape: NodeShape | None = None, deleting: bool = False, **fields) -> NodeSet:
    made = make_nodeset(deleting=deleting, features=("ib",))
    growth = Growth(potential=potential, shape=shape)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, growth=growth, **fields))


def node(number: int, **fields) -> SlurmNode:
    fields = {"cpus": 8, "memory_mib": 32000, "features": frozenset({"gpu", "ib", f"k8s/n={number}"})} | fields
    return SlurmNode(name=f"gpu-000-{number:03d}", state=frozenset({"IDLE", "DYNAMIC_NORM"}), **fields)


def only(nodeset: NodeSet, *nodes: SlurmNode, going: int = 0, last: str = "") -> Records:
    has = {nodeset.name: Has(nodes=nodes, going=going)}
    (found,) = find_potential([nodeset], has, {nodeset.name: last} if last else {})
    return found


@pytest.mark.parametrize(
    ("wanted", "has", "going", "count"),
    [
        pytest.param({"potential": 100}, 10, 0, 90, id="those that are there count"),
        pytest.param({"potential": 10}, 10, 0, 0, id="all are there"),
        pytest.param({"potential": 5}, 10, 0, 0, id="more are there"),
        pytest.param({"potential": 100}, 10, 2, 92, id="one that is about to go may come again"),
        pytest.param({"potential": 100, "replicas": 12}, 10, 0, 2, id="never more than replicas"),
    ],
)
def test_so_many_records_as_nodes_are_missing(wanted, has, going, count):
    assert only(nodeset(**wanted), *map(node, range(has)), going=going).count == count


@pytest.mark.parametrize(
    "wanted",
    [nodeset(0), nodeset(100, replicas=0), nodeset(100, deleting=True)],
    ids=["default", "replicas", "deleted"],
)
def test_none_are_wanted_and_nothing_is_told(wanted):
    assert find_potential([wanted], {"gpu": Has(nodes=(node(1),))}, {}) == []
    assert why_none(wanted, []) == ""


def test_a_record_offers_what_most_nodes_do_and_the_features_that_these_share():
    small = {"cpus": 4, "memory_mib": 16000}
    large = {"gres": "gpu:h100:8(S:0-1),nic:4", "sockets": 2, "cores": 2, "threads": 2, "special_cores": 1}
    found = only(nodeset(), node(1, **small), node(2, **large), node(3, **large))
    cores = "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 CoreSpecCount=1"
    assert found.offer == f"{cores} RealMemory=32000 Gres=gpu:h100:8,nic:4 Feature=gpu,ib"


def test_a_shape_counts_before_what_nodes_offer_and_where_there_are_none():
    offer = f"{CORES} RealMemory=921600 Gres=gpu:h100:8,nic:4 Feature=gpu,ib"
    assert only(nodeset(shape=SHAPE)).offer == offer
    assert only(nodeset(shape=SHAPE), node(1)).offer == offer
    assert only(nodeset(shape=NodeShape(cpus=96, memory=1024))).offer == f"{CORES} RealMemory=1 Feature=gpu,ib"


def test_what_nodes_offered_counts_when_the_last_has_gone_and_not_what_an_invalid_one_says():
    offered = only(nodeset(1), node(1))
    last = read_offers(write([offered]))[offered.nodeset]
    assert offered.count == 0
    assert only(nodeset(1), last=last).offer == offered.offer
    invalid = node(1, cpus=2)
    invalid = msgspec.structs.replace(invalid, state=frozenset({"IDLE", "INVALID_REG"}))
    assert only(nodeset(), invalid, last=last).offer == offered.offer


@pytest.mark.parametrize(
    ("last", "there", "wanted"),
    [
        pytest.param(31990, (31990, 32000, 32000), 31990, id="a node has it"),
        pytest.param(31990, (31995, 31995, 32000), 31995, id="no node has it any more"),
        pytest.param(16000, (16000, 32000, 32000), 32000, id="most have another memory"),
        pytest.param(None, (31990, 31995), 31995, id="the first"),
    ],
)
def test_the_last_offer_stays_while_a_node_has_it_and_most_have_about_its_memory(last, there, wanted):
    offer = f"CPUs=8 RealMemory={wanted} Feature=gpu,ib"
    nodes = [node(n, memory_mib=memory) for n, memory in enumerate(there)]
    before = f"CPUs=8 RealMemory={last} Feature=gpu,ib,old" if last else ""
    assert only(nodeset(), *nodes, last=before).offer == offer


def test_an_offer_with_other_devices_is_given_up_for_that_of_most():
    broken = node(1, gres="gpu:h100:7")
    last = only(nodeset(), broken).offer
    most = [node(number, gres="gpu:h100:8") for number in (2, 3)]
    assert only(nodeset(), broken, *most, last=last).offer == only(nodeset(), *most).offer


def test_a_nodeset_that_never_had_a_node_is_told():
    wanted = nodeset()
    assert find_potential([wanted], {}, {}) == []
    assert why_none(wanted, []) == (
        "Slurm refuses jobs for nodes that it does not know, and no node of this NodeSet has ever shown what it "
        "offers: set spec.growth.shape"
    )


def test_the_text_has_a_line_for_each_and_another_offer_another_name():
    one, other = (Records(nodeset="gpu", count=2, offer=f"CPUs={cpus} Feature=gpu") for cpus in (8, 9))
    lines = write([one, other]).splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [one.offer, other.offer]
    assert [line.split()[0] for line in lines] == ["2", "2"]
    first, second = (line.split()[1] for line in lines)
    assert first != second
    assert {first[:14], second[:14]} == {"gpu_potential_"}


def test_a_record_stands_where_a_node_stands_of_which_nobody_has_said_it_and_that_is_no_offer():
    wanted = nodeset(shape=NodeShape(cpus=2, memory="1Gi"))
    (flat,), (placed,) = (find_potential([wanted], {}, {}, topology=text) for text in ("", "tree:all:unknown"))
    assert placed.line.endswith(" Feature=gpu,ib Topology=tree:all:unknown")
    assert placed.line.split()[1] != flat.line.split()[1]
    assert read_offers(write([placed])) == read_offers(write([flat])) == {"gpu": flat.offer}


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True), st.text(max_size=80))
def test_no_pod_has_the_name_of_a_record(prefix, part):
    record = Records(nodeset=prefix, count=1, offer="CPUs=1").line.split()[1]
    assert not host_name(prefix, part).startswith(record)
    assert "_" not in host_name(prefix, part)


@given(
    st.integers(0, 200),
    st.none() | st.integers(0, 200),
    st.integers(0, 50).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
)
def test_nodes_and_records_together_are_never_more_than_the_potential_unless_the_nodes_are(potential, replicas, has):
    count, going = has
    wanted = nodeset(potential, replicas=replicas)
    nodes = tuple(map(node, range(count)))
    found = find_potential([wanted], {"gpu": Has(nodes=nodes, going=going)}, {"gpu": "CPUs=1 Feature=gpu"})
    records = sum(each.count for each in found)
    most = potential if replicas is None else min(potential, replicas)
    assert count - going + records <= max(most, count - going)
    assert read_offers(write(found)) == {each.nodeset: each.offer for each in found}
