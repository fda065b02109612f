"""Nodes come and go with the real Karpenter, on a real apiserver: 0 → 3 → 0.

As in test_cluster_autoscaler, the test writes what a kubelet, kube-scheduler and the syncer would write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apiserver import Apiserver
from tests.integration.karpenter import NODE_POOLS, scale
from tests.integration.test_cluster_autoscaler import NODESETS, World, from_zero_and_back, growing, with_operator

pytestmark = [pytest.mark.integration, pytest.mark.long]

NOT_READY = "node.kubernetes.io/not-ready"


class Scaled(World):
    """A cluster whose Nodes have Karpenter's taints and finalizer."""

    def boot(self) -> dict[str, dict[str, Any]]:
        """Nodes that are new become ready; all nodes."""
        nodes = self.nodes
        for name, node in nodes.items():
            path = f"/api/v1/nodes/{name}"
            if name not in self.bought:
                self.bought[name] = None
                address = {"type": "InternalIP", "address": f"10.0.12.{len(self.bought)}"}
                ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
                self.patch(f"{path}/status", {"status": {"addresses": [address], "conditions": [ready]}})
            taints = node["spec"].get("taints", [])
            left = [taint for taint in taints if taint["key"] != NOT_READY]
            if taints != left:  # the version: Karpenter takes off its own taint
                version = node["metadata"]["resourceVersion"]
                self.patch(path, {"metadata": {"resourceVersion": version}, "spec": {"taints": left}})
        return nodes


@pytest.fixture
def apiserver(tmp_path: Path) -> Iterator[Apiserver]:
    """An apiserver with Karpenter at work on it."""
    with with_operator(tmp_path) as apiserver:
        scale(apiserver)
        yield apiserver


@pytest.fixture
async def world(apiserver: Apiserver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A NodeSet without nodes, and the operator, with the rights of its chart."""
    async with growing(Scaled(apiserver), monkeypatch) as world:
        yield world


@pytest.mark.parametrize("ask", ["placeholders", "capacityBuffer"])
async def test_nodes_come_for_jobs_and_go_when_nothing_runs_there(world: World, ask: str) -> None:
    await asyncio.to_thread(from_zero_and_back, world, ask)


def a_pool_that_does_not_fit(world: World, ask: str) -> None:
    world.patch(f"{NODE_POOLS}/pool", {"spec": {"template": {"metadata": {"labels": {"pool": "other"}}}}})
    world.patch(f"{NODESETS}/compute", {"spec": {"growth": {"ask": ask}}})
    world.jobs_want = 2
    world.until(lambda: any(reason == "NodesRefused" for reason, _ in world.events), timeout_s=90)
    note = next(note for reason, note in world.events if reason == "NodesRefused")
    assert "FailedScheduling: " in note
    assert world.asked == 2
    assert not world.bought


@pytest.mark.parametrize("ask", ["placeholders", "capacityBuffer"])
async def test_a_karpenter_whose_pool_does_not_fit_is_heard_within_a_minute(world: World, ask: str) -> None:
    await asyncio.to_thread(a_pool_that_does_not_fit, world, ask)
