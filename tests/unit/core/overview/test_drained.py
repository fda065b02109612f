import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.explain.explanation import render
from sunkpy.core.health import State
from sunkpy.core.model.objects import Condition, PodStatus, Taint
from sunkpy.core.overview.drained import explain_held, find_held, find_holds, held_table
from sunkpy.core.overview.pool import PoolFacts
from sunkpy.core.overview.table import render_table
from tests.unit.core.health.build import record
from tests.unit.core.overview.test_pool import FACTS, node, slurm_node, slurmd

AT_S, AT = 1_795_000_000, "2026-11-18T11:06:40Z"


def noted(object, **annotations):
    metadata = msgspec.structs.replace(object.metadata, annotations=annotations)
    return msgspec.structs.replace(object, metadata=metadata)


def in_slurm(*state, reason="", by=""):
    return msgspec.structs.replace(
        slurm_node(1, *state), reason=reason, reason_by=by, reason_since_s=AT_S if reason else 0
    )


def cordoned(**annotations):
    taint = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule", time_added="2026-11-20T08:00:00Z")
    found = noted(node(1, cordoned=True), **{f"sunkpy.dev/{k.replace('_', '-')}": v for k, v in annotations.items()})
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, taints=(taint,)))


def sick(state):
    return noted(node(1), **{names.ANNOTATION_HEALTH: record(state, "label").encode()})


def pod(**annotations):
    return noted(slurmd(1), **{f"sunkpy.dev/{k.replace('_', '-')}": v for k, v in annotations.items()})


RESUME = "in slurmctld's pod: scontrol update nodename=n1 state=resume, once what the reason names is mended"

SITUATIONS = {
    "nobody": (node(1), pod(), in_slurm("IDLE"), []),
    "a job runs": (node(1), pod(), in_slurm("ALLOCATED"), []),
    "drained in Slurm by a person": (
        cordoned(cordoned_by="slurm", slurm_drain="bad fan", drain="bad fan"),
        pod(),
        in_slurm("IDLE", "DRAIN", reason="bad fan", by="ann"),
        [("Slurm", "ann", "bad fan", AT, RESUME)],
    ),
    "drained in Slurm by itself": (
        node(1),
        pod(),
        in_slurm("IDLE", "DRAIN", reason="Kill task failed", by="root"),
        [("Slurm itself", "", "Kill task failed", AT, RESUME)],
    ),
    "full": (
        node(1),
        pod(),
        in_slurm("MIXED", "DRAIN", reason="SlurmdSpoolDir is full", by="root"),
        [
            (
                "Slurm itself", "", "SlurmdSpoolDir is full", AT,
                "the drain is lifted when the disk has room again; if it stays, ask who else drained the node, then "
                "resume it",
            )
        ],
    ),
    "a check on the node has failed": (
        node(1),
        pod(),
        in_slurm("IDLE", "DRAIN", reason="sunkpy check: gpus: /dev/nvidia3 has gone", by="root"),
        [
            (
                "Slurm itself", "", "sunkpy check: gpus: /dev/nvidia3 has gone", AT,
                "the drain is lifted when check-node finds all well twice in a row: mend what the reason names",
            )
        ],
    ),
    "cordoned by a person": (
        cordoned(),
        pod(cordon="node cordoned"),
        in_slurm("MIXED", "DRAIN", reason="k8s: cordon: node cordoned", by="slurm"),
        [("Kubernetes", "", "cordon: node cordoned", "2026-11-20T08:00:00Z", "kubectl uncordon node-1")],
    ),
    "cordoned with a reason": (
        cordoned(drain="new dimm"),
        pod(cordon="new dimm"),
        in_slurm("IDLE", "DRAIN", reason="k8s: cordon: new dimm", by="slurm"),
        [
            (
                "Kubernetes", "", "cordon: new dimm", "2026-11-20T08:00:00Z",
                "kubectl uncordon node-1; kubectl annotate node node-1 sunkpy.dev/drain-",
            )
        ],
    ),
    "at both doors": (
        cordoned(),
        pod(cordon="node cordoned"),
        in_slurm("IDLE", "DRAIN", reason="bad fan", by="ann"),
        [
            ("Kubernetes", "", "cordon: node cordoned", "2026-11-20T08:00:00Z", "kubectl uncordon node-1"),
            ("Slurm", "ann", "bad fan", AT, RESUME),
        ],
    ),
    "uncordoned a moment ago": (
        node(1),
        pod(),
        in_slurm("IDLE", "DRAIN", reason="k8s: cordon", by="slurm"),
        [
            (
                "sunkpy", "", "cordon", AT,
                "nothing to do: the cordon is gone, and the syncer lifts the drain in a moment",
            )
        ],
    ),
    "sick": (
        sick(State.DRAINED),
        pod(health_drain="label: evidence"),
        in_slurm("IDLE", "DRAIN", reason="k8s: health: label: evidence", by="slurm"),
        [
            (
                "sunkpy", "", "health: label: evidence", "2026-11-28T12:00:00Z",
                "the node comes back when the signal has ended",
            )
        ],
    ),
    "sick, and drained by a person": (
        sick(State.PERSON),
        pod(health_drain="label: evidence"),
        in_slurm("IDLE", "DRAIN", reason="bad fan", by="ann"),
        [
            (
                "sunkpy", "", "health: label: evidence", "2026-11-28T12:00:00Z",
                "mend the node, then: kubectl annotate node node-1 sunkpy.dev/health-",
            ),
            ("Slurm", "ann", "bad fan", AT, RESUME),
        ],
    ),
    "cured a moment ago": (
        node(1),
        pod(),
        in_slurm("IDLE", "DRAIN", reason="k8s: health: label: evidence", by="slurm"),
        [
            (
                "sunkpy", "", "health: label: evidence", AT,
                "nothing to do: the signal has ended, and the syncer lifts the drain in a moment",
            )
        ],
    ),
    "to be removed": (
        node(1),
        pod(pending_deletion="2026-11-21T00:00:00+00:00/scale-down"),
        in_slurm("MIXED", "DRAIN", reason="k8s: pod pending deletion: scale-down", by="slurm"),
        [
            (
                "sunkpy", "", "the slurmd pod is to be removed: scale-down", "2026-11-21T00:00:00Z",
                "nothing to do: the pod is removed when the jobs on its node have ended",
            )
        ],
    ),
    "a pod that came after one that had to go": (
        node(1),
        pod(),
        in_slurm("IDLE", "DRAIN", reason="k8s: pod pending deletion: rollout", by="slurm"),
        [
            (
                "sunkpy", "", "pod pending deletion: rollout", AT,
                "an earlier slurmd pod was removed; the drain is lifted when the slurmd of the new pod registers: "
                "kubectl logs of the new pod",
            )
        ],
    ),
    "slurmd is not ready": (
        node(1),
        pod(),
        in_slurm("IDLE", "DRAIN", reason="k8s: pod not ready", by="slurm"),
        [
            (
                "sunkpy", "", "pod not ready", AT,
                "the drain is lifted when the containers of the slurmd pod are ready: kubectl describe the pod",
            )
        ],
    ),
    "slurmd does not answer": (
        node(1),
        pod(),
        in_slurm("DOWN", "NOT_RESPONDING", reason="Not responding", by="slurm"),
        [
            (
                "Slurm itself", "", "Not responding", AT,
                "the node comes back when its slurmd answers: kubectl describe the slurmd pod",
            )
        ],
    ),
    "Slurm refuses the machine": (
        node(1),
        pod(),
        in_slurm("IDLE", "DRAIN", "INVALID_REG", reason="gres/gpu count reported lower", by="slurm"),
        [
            (
                "Slurm itself", "", "gres/gpu count reported lower", AT,
                "mend what the reason names; if the node is right, in slurmctld's pod: scontrol delete nodename=n1; "
                "then delete the slurmd pod once no job runs there",
            )
        ],
    ),
    "no Slurm node": (
        node(1),
        pod(),
        in_slurm(),
        [
            (
                "Slurm itself", "", "Slurm has no node of this name", "",
                "its slurmd has to register; to see why it does not: kubectl logs of the slurmd pod",
            )
        ],
    ),
    "a drain that is remembered": (
        cordoned(cordoned_by="slurm", slurm_drain="bad fan", drain="bad fan"),
        None,
        None,
        [
            (
                "Slurm", "", "bad fan (the node has no slurmd pod now)", "",
                "kubectl uncordon node-1; otherwise the next slurmd there is drained, until you resume it",
            )
        ],
    ),
    "an autoscaler takes the node": (
        msgspec.structs.replace(
            node(1),
            spec=msgspec.structs.replace(
                node(1).spec, taints=(Taint(key="karpenter.sh/disrupted", effect="NoSchedule"),)
            ),
        ),
        pod(cordon="taint karpenter.sh/disrupted"),
        in_slurm("IDLE", "DRAIN", reason="k8s: cordon: taint karpenter.sh/disrupted", by="slurm"),
        [("Kubernetes", "", "taint karpenter.sh/disrupted", "", "nothing: the Node is about to be removed")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_who_holds_a_node_since_when_and_what_lifts_it(situation):
    node, pod, slurm, expected = SITUATIONS[situation]
    found = find_holds(node, pod, slurm)
    assert [(hold.door, hold.who, hold.reason, hold.since, hold.lifted_by) for hold in found] == expected


def test_without_slurm_the_slurmd_pod_says_it_and_since_when():
    shows = Condition(type=names.CONDITION_DRAIN, status="True", last_transition_time="2026-11-21T10:00:00Z")
    found = msgspec.structs.replace(
        pod(slurm_state="IDLE+DRAIN", drain="bad fan"), status=PodStatus(conditions=(shows,))
    )
    labelled = msgspec.structs.replace(found.metadata, labels=slurmd(1).labels)
    facts = PoolFacts(nodes=(node(1),), slurmd_pods=(msgspec.structs.replace(found, metadata=labelled),))
    (held,) = find_held(facts)
    assert [(hold.door, hold.who, hold.reason, hold.since) for hold in held.holds] == [
        ("Slurm", "", "bad fan", "2026-11-21T10:00:00Z")
    ]


def held_pool():
    drained = msgspec.structs.replace(slurm_node(1, "MIXED", "DRAIN"), reason="bad\x1b fan", reason_by="ann")
    nodes = (*FACTS.nodes[:2], cordoned())
    third = msgspec.structs.replace(nodes[2], metadata=FACTS.nodes[2].metadata)
    slurm = {"n1": drained, "n2": slurm_node(2, "MIXED"), "n3": slurm_node(3, "IDLE", "DRAIN")}
    slurm["n3"] = msgspec.structs.replace(slurm["n3"], reason="bad fan")
    return find_held(msgspec.structs.replace(FACTS, nodes=(*nodes[:2], third), slurm_nodes=slurm))


def test_each_hold_is_a_row_and_what_is_still_there_is_told_once():
    lines = list(render_table(held_table(held_pool()), is_wide=True))
    assert [line.split()[0] for line in lines[1:]] == ["node-1", "node-3", "node-3"]
    assert "Slurm: ann" in lines[1]
    assert "bad? fan" in lines[1]
    assert "1 job 12" in lines[1]


def test_one_node_is_explained_with_what_lifts_each_hold():
    first, third = held_pool()
    assert render(explain_held(first)).splitlines() == [
        "Node node-1 (Slurm node n1, MIXED+DRAIN) takes no new jobs",
        "",
        "held by         Slurm, by ann, since when is not recorded: bad? fan",
        "still there     1 job 12",
        "",
        f"what to do      {RESUME}",
    ]
    text = render(explain_held(third))
    assert "Kubernetes, by whom is not recorded, since 2026-11-20T08:00:00Z: cordon: node cordoned" in text
    assert text.endswith("kubectl uncordon node-3; then " + RESUME.replace("n1", "n3"))
