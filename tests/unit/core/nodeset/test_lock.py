"""When a Node is locked, by what its slurmd pod says, and what is left alone."""

import pytest

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Condition, Taint, Toleration
from sunkpy.core.nodeset.feasibility import OUR_TOLERATIONS, STAYS
from sunkpy.core.nodeset.lock import Lock
from sunkpy.core.nodeset.node_mark import DRAIN_TAINT, DrainPolicy, MarkLimit
from sunkpy.core.nodeset.node_side import decide_node
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod

NODESET = make_nodeset()
KEY = "sunkpy.dev/lock"
LOCK, DRY, OFF = Lock(key=KEY), Lock(key=KEY, is_dry_run=True), Lock()
LOCKED = Taint(key=KEY, value="slurm-jobs", effect="NoSchedule")
OTHER_KEY = Taint(key="example.com/busy", value="slurm-jobs", effect="NoSchedule")
A_PERSONS = Taint(key=KEY, value="mine", effect="NoSchedule")
FOREIGN = Taint(key="team", value="red", effect="NoSchedule")
NOTED = {names.ANNOTATION_WOULD_LOCK: f"{KEY}:NoSchedule"}


def decided(running, *, lock=LOCK, taints=(), annotations=None, has_jobs=False, **marking):
    """Taints of the Node afterwards, and what becomes of the note of a dry run."""
    node = make_node(1, taints=taints, annotations=annotations)
    pod = make_pod(NODESET, 1, running=running) if running != "no pod" else None
    patch = decide_node(node, pod, MarkLimit(**marking), lock, has_jobs=has_jobs)
    noted = {key: text for key, text in patch.annotations.items() if key == names.ANNOTATION_WOULD_LOCK}
    return (node.spec.taints if patch.taints is None else patch.taints), noted


@pytest.mark.parametrize(
    ("running", "before", "lock", "after"),
    [
        pytest.param("True", (FOREIGN,), LOCK, (FOREIGN, LOCKED), id="a job starts"),
        pytest.param("True", (LOCKED,), LOCK, (LOCKED,), id="locked already"),
        pytest.param("False", (FOREIGN, LOCKED), LOCK, (FOREIGN,), id="the last job has ended"),
        pytest.param("Unknown", (LOCKED,), LOCK, (LOCKED,), id="nobody can tell: as it is"),
        pytest.param("Unknown", (), LOCK, (), id="nobody can tell: open as it is"),
        pytest.param(None, (LOCKED,), LOCK, (LOCKED,), id="a new slurmd pod has not reported"),
        pytest.param("no pod", (LOCKED,), LOCK, (), id="without a slurmd pod there are no jobs"),
        pytest.param("True", (A_PERSONS,), LOCK, (A_PERSONS,), id="a person has locked it"),
        pytest.param("False", (A_PERSONS,), LOCK, (A_PERSONS,), id="what a person has locked stays locked"),
        pytest.param("True", (LOCKED,), OFF, (), id="turned off"),
        pytest.param("Unknown", (LOCKED,), OFF, (), id="turned off while nobody can tell"),
        pytest.param("True", (LOCKED,), DRY, (), id="turned to a dry run"),
        pytest.param("True", (OTHER_KEY,), LOCK, (LOCKED,), id="another key in the values"),
        pytest.param("True", (), OFF, (), id="off"),
    ],
)
def test_a_node_is_locked_while_slurm_jobs_run_there(running, before, lock, after):
    taints, _ = decided(running, taints=before, lock=lock)
    assert taints == after


@pytest.mark.parametrize(
    ("running", "has_jobs", "after"),
    [
        pytest.param("no pod", True, (LOCKED,), id="a roll replaces it under services"),
        pytest.param("False", True, (LOCKED,), id="the Slurm node of the new one is not back"),
        pytest.param("no pod", False, (), id="the services have ended"),
        pytest.param("True", True, (LOCKED,), id="it says so itself"),
    ],
)
def test_a_locked_node_stays_so_while_pods_of_jobs_are_there(running, has_jobs, after):
    """Whoever may only annotate pods locks none."""
    assert decided(running, taints=(LOCKED,), has_jobs=has_jobs)[0] == after
    assert decided(running, has_jobs=has_jobs)[0] == ((LOCKED,) if running == "True" else ())


@pytest.mark.parametrize(
    ("running", "lock", "before", "changes"),
    [
        ("True", DRY, {}, NOTED),
        ("True", DRY, NOTED, {}),
        ("Unknown", DRY, NOTED, {}),
        ("False", DRY, NOTED, dict.fromkeys(NOTED)),
        ("True", LOCK, NOTED, dict.fromkeys(NOTED)),
        ("True", LOCK, {}, {}),
    ],
)
def test_a_dry_run_notes_what_would_be_done(running, lock, before, changes):
    taints, noted = decided(running, lock=lock, annotations=before)
    assert noted == changes
    assert (LOCKED in taints) is (lock is LOCK)


def test_lock_and_drain_are_two_taints_and_only_the_drain_counts_towards_the_cap():
    drained = make_pod(
        NODESET, 1, running="True", cordon=Condition(type=names.CONDITION_CORDON, status="True", message="bad gpu")
    )
    marking = MarkLimit(policy=DrainPolicy.TAINT)
    both = decide_node(make_node(1), drained, marking, LOCK)
    assert (both.taints, both.marks) == ((DRAIN_TAINT, LOCKED), True)
    settled = decide_node(make_node(1, taints=both.taints), drained, marking, LOCK)
    assert settled.taints is None
    assert not decide_node(make_node(1), make_pod(NODESET, 1, running="True"), marking, LOCK).marks


@pytest.mark.parametrize("key", [KEY, "example.com/busy"])
def test_no_pod_of_ours_minds_the_lock_whatever_its_key(key):
    """A slurmd pod whose Node does not fit any more would be drained, and a workload pod would not be bound."""
    lock = Taint(key=key, value="slurm-jobs", effect="NoSchedule")
    assert matching.untolerated((lock,), ()) == ()
    evicts = Taint(key=key, value="slurm-jobs", effect="NoExecute")
    assert matching.untolerated((evicts,), (Toleration(key="x", operator="Exists"),)) == (evicts,)
    assert matching.untolerated((evicts,), (*OUR_TOLERATIONS, STAYS)) == ()
