"""Nodes of the demo's cluster made sick, and the site's check that fails or hangs as a file says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Final

import yaml

from demo import story
from demo.stack import OPERATOR_NAMESPACE, ROOT, USER, Stack
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.health import Record, State, read_record
from sunkpy.core.model.objects import Node

LABEL: Final = "example.com/gpu"
BAD: Final = "fell-off"
HEALTH: Final[Mapping[str, object]] = {
    "settleSeconds": 3,
    "mostReturnsADay": 1000,
    "signals": {"gpu": {"label": LABEL, "bad": [BAD]}},
}
CHECK_S: Final = 10
CHECK: Final = f"""#!/bin/bash
echo "looking at $SUNKPY_SLURM_NODE"
[ ! -e "/home/{USER}/hangs-$SUNKPY_SLURM_NODE" ] || sleep 1000
[ ! -e "/home/{USER}/fails-$SUNKPY_SLURM_NODE" ] || {{ echo link is down; exit 3; }}
date +%s >> "/home/{USER}/passed-$SUNKPY_SLURM_NODE"
"""
_ROLLED_S: Final = 360.0
"""All slurmd pods, one after the other: drained, deleted, made, registered, opened again."""
_SETTLE_S: Final = 90.0


@contextlib.contextmanager
def known(stack: Stack, health: Mapping[str, object] = HEALTH) -> Iterator[None]:
    """The operator knows these signals meanwhile."""
    with _upgraded(stack, "sunkpy", OPERATOR_NAMESPACE, {"health": dict(health)}):
        yield


@contextlib.contextmanager
def checked(stack: Stack) -> Iterator[None]:
    """All slurmd pods have a check meanwhile."""
    values = {"compute": {"verify": {"script": CHECK, "timeoutSeconds": CHECK_S}}}
    try:
        with _upgraded(stack, stack.release, stack.namespace, values, chart="slurm"):
            wait(lambda: _have_check(stack, True), timeout_s=_ROLLED_S, what="a check in each slurmd pod")
            yield
    finally:
        wait(lambda: _have_check(stack, False), timeout_s=_ROLLED_S, what="slurmd pods without a check")
        stack.login("rm -f passed-* fails-* hangs-*")


@contextlib.contextmanager
def _upgraded(
    stack: Stack, release: str, namespace: str, values: Mapping[str, object], *, chart: str = "sunkpy"
) -> Iterator[None]:
    where = ("-n", namespace)
    before: int = json.loads(stack.helm("status", release, *where, "-o", "json"))["version"]
    path = str(ROOT / "charts" / chart)
    text = yaml.safe_dump(dict(values))
    try:
        stack.helm("upgrade", release, path, *where, "--reuse-values", "--values=-", "--wait", stdin=text)
        yield
    finally:
        stack.helm("rollback", release, str(before), *where, "--wait")


def _have_check(stack: Stack, wanted: bool) -> bool:
    pods, slurm = stack.slurmd_pods(), stack.slurm_nodes()
    wrong = [pod.name for pod in pods if (names.ANNOTATION_VERIFY_SECONDS in pod.annotations) is not wanted]
    wrong += [pod.name for pod in pods if not pod.is_condition_true("Ready") or not story.is_idle(slurm[pod.name])]
    if wrong or len(pods) != len(stack.nodes()):
        raise NotYet(f"not yet: {wrong}, {len(pods)} pods")
    return True


def mark(stack: Stack, node: str, value: str | None = BAD) -> None:
    """The label of the signal; None takes it away."""
    stack.kubectl("label", "node", node, f"{LABEL}={value}" if value else f"{LABEL}-", "--overwrite")


def ask_for_check(stack: Stack, node: str) -> None:
    """As `sunkpy verify` does."""
    stack.kubectl("annotate", "node", node, f"{names.ANNOTATION_VERIFY}=e2e")


def fail_checks(stack: Stack, slurm_node: str, *, fails: bool = True, how: str = "fails") -> None:
    """From now on its check fails, or `hangs`; or no longer."""
    stack.login(f"{'touch' if fails else 'rm -f'} {how}-{slurm_node}")


def forget(stack: Stack, node: str) -> None:
    """Take away all that made the Node sick, and what is remembered."""
    keys = (names.ANNOTATION_HEALTH, names.ANNOTATION_VERIFY)
    stack.kubectl("label", "node", node, f"{LABEL}-")
    stack.kubectl("annotate", "node", node, *(f"{key}-" for key in keys))


def record_of(stack: Stack, node: str) -> Record | None:
    """Where a Node stands."""
    return read_record(stack.kubectl.get(Node, "node", node))


def wait_for(stack: Stack, node: str, *states: State, timeout_s: float = _SETTLE_S) -> Record:
    """The record, once the Node has come to one of these states.

    Raises:
        NeverSo: it has not.
    """

    def found() -> Record:
        record = record_of(stack, node)
        if record is None or record.state not in states:
            raise NotYet(f"{record.state}: {record.why or record.text}" if record is not None else "no record")
        return record

    return wait(found, timeout_s=timeout_s, what=f"node {node} is {' or '.join(states)}")
