"""A node that is a machine of its own: it is switched off like one, and leaves nothing behind."""

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from tests.integration.devcluster.pods import ROOT, kubectl_of
from tests.integration.devcluster.traces import traces

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.machines]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster("vm", root=ROOT, progress=print)
    made.down()
    try:
        made.up(1, vms=1, labels={"vm-1": {"zone": "b"}})
        yield made
    finally:
        made.down()


def test_a_machine_comes_back_as_the_same_node_with_another_boot(cluster: Cluster):
    boot = "jsonpath={.status.nodeInfo.bootID} {.metadata.uid} {.metadata.labels.zone}"
    kubectl = kubectl_of(cluster)
    before, uid, zone = kubectl("get", "node", "vm-1", "-o", boot).split()
    assert zone == "b"
    cluster.fault.power_off("vm-1")
    assert cluster.processes()["vm-1-machine"] is None
    kubectl("wait", "--for=condition=Ready=Unknown", "node/vm-1", "--timeout=60s")
    cluster.fault.power_on("vm-1")
    after, same, _ = kubectl("get", "node", "vm-1", "-o", boot).split()
    assert same == uid
    assert after != before
    home, bridge = cluster.layout.home, cluster.layout.bridge
    cluster.down()
    assert traces(home, bridge) == set()
