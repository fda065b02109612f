"""Starts and stops the process that enforces NetworkPolicies."""

import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster import pki
from devcluster.errors import DevclusterError
from devcluster.layout import Layout, NodeLayout
from devcluster.policies.rules import TABLE
from devcluster.process import Daemon, Daemons
from devcluster.shell import run, succeeds
from devcluster.waiting import wait_until

PROGRAM = "policies"
PACKAGES = {"nft": "nftables"}


def start(layout: Layout, nodes: Sequence[NodeLayout], daemons: Daemons) -> None:
    """Start the enforcement of NetworkPolicies, and return when all nodes have their rules."""
    argv = [sys.executable, "-m", "devcluster.policies", str(pki.kubeconfig_path(layout, PROGRAM))]
    daemons.start(
        Daemon(
            name=PROGRAM,
            argv=[*argv, *(f"{each.name}={each.netns}" for each in nodes)],
            env={"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PYTHONUNBUFFERED": "1"},
        )
    )

    def has_rules() -> bool:
        daemons.require(PROGRAM)
        return all(succeeds(["nft", "list", "table", *TABLE.split()], netns=each.netns) for each in nodes)

    if not wait_until(has_rules, timeout_s=30, every_s=0.2):
        raise DevclusterError(f"no rules on all nodes after 30 s; it says:\n{daemons.tail(PROGRAM)}")


def stop(nodes: Sequence[NodeLayout], daemons: Daemons) -> None:
    """Stop the enforcement, and remove the rules of all nodes."""
    daemons.stop(PROGRAM)
    for each in nodes:
        run(["nft", "-f", "-"], stdin=f"table {TABLE}\ndelete table {TABLE}\n", netns=each.netns)
