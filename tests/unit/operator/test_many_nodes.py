"""What one event costs does not grow with the number of nodes, in a cluster that the operator takes for real."""

import cProfile

import pytest

from tests.unit.operator.dry_cluster import DryOperator

SIZE = 12


async def test_a_cluster_that_has_all_its_pods_is_left_alone():
    running = await DryOperator.start(SIZE, has_pods=True)
    await running.nodeset_pass()
    assert running.connection.nodeset.status.number_ready == SIZE
    sent = running.connection.sent.copy()
    for number in range(SIZE):
        await running.node_pass(number)()
    await running.nodeset_pass()
    assert running.connection.sent - sent == {"GET": 1}
    assert running.connection.created == 0
    await running.stop()


async def test_an_event_is_seen():
    running = await DryOperator.start(SIZE, has_pods=True)
    await running.pod_event(3)()
    assert running.connection.nodeset.status.number_running == 1
    before = running.connection.sent["PATCH"]
    await running.node_event(4)()
    await running.node_pass(4)()
    assert running.connection.sent["PATCH"] == before + 1, "the pod is told that its Node is cordoned"
    await running.stop()


async def test_a_cluster_without_pods_gets_one_for_each_node():
    running = await DryOperator.start(SIZE, has_pods=False)
    await running.nodeset_pass()
    assert running.connection.created == SIZE
    await running.stop()


@pytest.mark.parametrize("event", [DryOperator.pod_event, DryOperator.node_event], ids=["pod", "node"])
async def test_an_event_is_as_much_work_among_many_nodes_as_among_few(event):
    few, many = [await calls_of_an_event(event, size) for size in (SIZE, 20 * SIZE)]
    assert many < 1.2 * few, f"{few} function calls among {SIZE} nodes, {many} among {20 * SIZE}"


async def calls_of_an_event(event, size):
    """Function calls until an event has been followed, the fewest of three."""
    running = await DryOperator.start(size, has_pods=True)
    await running.nodeset_pass()
    counts = []
    for number in range(3):
        happen, profile = event(running, number), cProfile.Profile()
        with profile:
            await happen()
        counts.append(sum(entry.callcount for entry in profile.getstats()))
    await running.stop()
    return min(counts)
