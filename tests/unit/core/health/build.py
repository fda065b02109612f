"""Nodes with signals, and the slurmd pods on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.health import Cure, HealthRules, HealthView, Record, Remedy, Rule, State, decide_health
from sunkpy.core.model.objects import (
    Condition,
    ContainerState,
    ContainerStatus,
    Node,
    NodeInfo,
    Pod,
    Running,
    Taint,
    Terminated,
)
from sunkpy.core.model.slurmd import is_emptied
from sunkpy.core.model.times import rfc3339
from tests.unit.core.nodeset.build import EARLIER, make_node, make_nodeset, make_pod

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
LABEL = "example.com/health"
KILLED = "Kill task failed: job 7"
REBOOT = Taint(key="example.com/reboot", effect="NoSchedule")
DEADLOCK = Rule(condition="KernelDeadlock", patience_seconds=60)
KILL = Rule(slurm_reason="Kill task failed", cure=Cure.REBOOT)
MENDER = Remedy(api_version="example.com/v1", resource="mends", manifest={"kind": "Mend", "spec": {"node": "$(NODE)"}})
RULES = HealthRules(
    signals={
        "deadlock": DEADLOCK,
        "label": Rule(label=LABEL, bad=("bad",)),
        "kill": KILL,
        "prolog": Rule(slurm_reason="Prolog error"),
        "fan": Rule(label=LABEL, bad=("loud",), cure=Cure.PERSON),
        "reboot": Rule(taint="example.com/reboot", cure=Cure.REBOOT),
        "mend": Rule(label=LABEL, bad=("broken",), remedy="mender"),
    },
    remedies={"mender": MENDER},
)


def node(*, label: str = "", deadlock: str = "", boot: str = "one", record: Record | None = None, **changes) -> Node:
    """A Node with a Slurm node."""
    since = rfc3339(NOW - timedelta(seconds=10))
    condition = Condition(
        type="KernelDeadlock",
        status=deadlock,
        reason="TaskHung",
        message="task  dd\nblocked",
        last_transition_time=since,
    )
    annotations = {names.ANNOTATION_PLACED_ON: "gpu-012-001", **changes.pop("annotations", {})}
    made = make_node(
        1,
        labels={LABEL: label} if label else {},
        conditions=(condition,) if deadlock else (),
        annotations={**annotations, **({names.ANNOTATION_HEALTH: record.encode()} if record else {})},
        **changes,
    )
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, node_info=NodeInfo(boot_id=boot)))


def told(on: Pod, condition: str, status: str) -> Pod:
    """The pod with another condition of this type."""
    conditions = tuple(each for each in on.status.conditions if each.type != condition)
    conditions += (Condition(type=condition, status=status),)
    return msgspec.structs.replace(on, status=msgspec.structs.replace(on.status, conditions=conditions))


CHECK_FAILED = "looking\nlink mlx5_3 is down\nrun-services: verify failed with 3"
NEWER = "2026-11-28T11:00:00Z"
"""When a slurmd pod was made that replaces the first one."""


def pod(
    *,
    slurm: str | None = "",
    drain: bool = False,
    busy: bool = False,
    restarts: int = 0,
    words: str = "",
    check_s: int | None = None,
    ready: bool | None = None,
    created: str = EARLIER,
    started: str | None = None,
    since: str | None = None,
) -> Pod:
    """A slurmd pod; `slurm` is the reason of a drain by others, None: it is not known; `check_s`: it has a check.
    `started`: since when its container runs; `since`: the slurmd that Slurm knows.
    """
    is_ready = ready if ready is not None else not restarts
    is_drained = drain or bool(slurm)
    cordon = Condition(
        type=names.CONDITION_CORDON,
        status="Unknown" if slurm is None else "True" if slurm else "False",
        message=slurm or "",
    )
    notes = {names.ANNOTATION_VERIFY_SECONDS: str(check_s)} if check_s is not None else {}
    notes |= {names.ANNOTATION_SLURMD_SINCE: since} if since is not None else {}
    made = make_pod(
        make_nodeset(),
        1,
        cordon=cordon,
        drain=str(is_drained),
        running=str(busy),
        ready=is_ready,
        annotations=notes,
        created=created,
    )
    last = ContainerState(terminated=Terminated(message=words)) if words else ContainerState()
    state = ContainerState(running=Running(started_at=started))
    slurmd = ContainerStatus(name="slurmd", ready=is_ready, restart_count=restarts, state=state, last_state=last)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, container_statuses=(slurmd,)))


def record(state: State, signal: str, *, ago_s: float = 0, **changes) -> Record:
    """A record as a rule of RULES makes it."""
    rule = RULES.signals[signal]
    at = rfc3339(NOW - timedelta(seconds=ago_s))
    fields = {"cure": rule.cured_by, "closes": rule.closes, "boot": "one", "since": at, "text": "evidence", **changes}
    return Record(state=state, at=at, signal=signal, **fields)


def step(at: Node, on: Pod | None, *, after_s: float = 0, rules: HealthRules = RULES, **room: bool | datetime):
    """The next step; the syncer has just said what the pod shows, unless the test says otherwise."""
    now = NOW + timedelta(seconds=after_s)
    told = {"is_empty": on is None or is_emptied(on), **room}
    return decide_health(HealthView(node=at, pod=on, rules=rules, now=now, **told))


def stepped(at: Node, on: Pod | None, **asked) -> Node:
    """The Node after a step."""
    changes = step(at, on, **asked).changes
    kept = {key: text for key, text in {**at.annotations, **changes}.items() if text is not None}
    return msgspec.structs.replace(at, metadata=msgspec.structs.replace(at.metadata, annotations=kept))


NODES = st.builds(
    node,
    label=st.sampled_from(("", "bad", "loud", "broken")),
    deadlock=st.sampled_from(("", "True", "False", "Unknown")),
    boot=st.sampled_from(("", "one", "two")),
    taints=st.sampled_from(((), (REBOOT,))),
    annotations=st.sampled_from(({}, {names.ANNOTATION_VERIFY: "ann"})),
)
PODS = st.none() | st.builds(
    pod,
    slurm=st.sampled_from((None, "", KILLED, "Prolog error", "bad fan")),
    drain=st.booleans(),
    busy=st.booleans(),
    restarts=st.sampled_from((0, 9)),
    words=st.sampled_from(("", "no cgroups", CHECK_FAILED)),
    check_s=st.sampled_from((None, 600)),
    ready=st.sampled_from((None, True, False)),
    created=st.sampled_from((EARLIER, NEWER)),
)
