"""The door for families: a family of three pods in two roles passes through decisions and hooks untouched by them."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pkgutil import iter_modules

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core.gang import families
from sunkpy.core.gang.actions import Bind, Cancel, Evict, Finish, IfRefused, MakeSolo, Report, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import FAMILIES, assemble, assemble_beside, family_of, identify
from sunkpy.core.gang.gang import Family, Member, Role
from sunkpy.core.gang.hooks import epilog_waits_for, gate_waits_for, prologs_wait_for
from sunkpy.core.gang.identity import GangId, parse_comment
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.limits import within_limits
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import OddOwner, Owner, OwnerReference, Pod, SchedulingGroup, WorkloadReference
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.kube.decoding import Decoder, Unreadable
from tests.unit.core.gang.families.ensembles import ALONE_OR_ABOVE, ENSEMBLES
from tests.unit.core.gang.jobs import change_job, make_job
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.trio import WITH_BAND, WITH_TRIO, band_labels, labels

FIELDS = [
    *("x", "name", "templates", "nodes", "retryStrategy", "retryPolicy", "parallelism", "backoffLimit", "failed"),
    *("podFailurePolicy", "rules", "onPodConditions", "type", "conditions", "minMember", "podGroups", "policy", "gang"),
    *("minCount", "schedulingPolicy", "basic", "schedulingConstraints", "topology", "key"),
]
ANNOTATIONS = [
    *("sunkpy.dev/gang", "sunkpy.dev/gang-size", "sunkpy.dev/gang-roles", "sunkpy.dev/gang-role"),
    *("armadaproject.io/gangId", "armadaproject.io/gangCardinality", "armadaproject.io/gangNodeUniformityLabel"),
    *("yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name", "yunikorn.apache.org/app-id"),
]

POLICY = Policy(gpu_resources={})
FITS = Eligibility(eligible=("n1", "n2", "n3"))
ALL_NODES = ("n1", "n2", "n3")


def member(role, number, **pod):
    made = make_pod(f"{role}-{number}", uid=f"{role}-{number}", **pod)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels(role)))


def trio(**pod):
    return [member("worker", 2, **pod), member("leader", 1, **pod), member("worker", 1, **pod)]


def snapshot(pods, *jobs, placed=None, **fields):
    id = identify(pods[0], families=WITH_TRIO)
    gang = assemble(id, pods, families=WITH_TRIO)
    return Snapshot(id=id, gang=gang, jobs=jobs, placed=placed or {}, eligibility=FITS, **fields)


def bound(**pod):
    pods = trio(node="k", **pod)
    return pods, {"leader-1": "n1", "worker-1": "n2", "worker-2": "n3"}


def test_every_pod_has_a_family_and_the_first_that_knows_it_has_it():
    assert {identify(pod, families=WITH_TRIO) for pod in trio()} == {
        GangId(namespace="default", name="band", uid="uid-of-band")
    }
    assert identify(make_pod(), families=WITH_TRIO) == GangId(namespace="default", name="web-1", uid="uid-1")
    with pytest.raises(LookupError, match="no family takes pod default/web-1"):
        identify(make_pod(), families=WITH_TRIO[:1])
    assert FAMILIES[-1].name == "plain pod"


def test_every_family_that_was_written_is_asked():
    written = [each for module in MODULES for each in vars(module).values() if isinstance(each, Family)]
    assert sorted(family.name for family in written) == sorted(family.name for family in FAMILIES)


def test_pods_of_every_family_that_reads_an_owner_go_through_the_invariants():
    ensembles = (ENSEMBLES | ALONE_OR_ABOVE).values()
    known = {family_of(makers[0](0), owners).name for owners, makers in ensembles}
    assert {family.name for family in FAMILIES if family.reads} <= known


TEXTS = st.text(max_size=20) | st.sampled_from(["", "0", "-1", "3", "a=1,b=2", "[]", "[{}]", "9" * 5000, "[" * 100_000])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
KINDS = [
    ("batch/v1", "Job"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    ("scheduling.k8s.io/v1alpha1", "Workload"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
]


@given(
    annotations=st.dictionaries(st.sampled_from(ANNOTATIONS), TEXTS),
    spec=JSON,
    status=JSON,
    kind=st.sampled_from(KINDS),
)
def test_nothing_that_people_write_breaks_the_door(annotations, spec, status, kind):
    version, name = kind
    meta = {"name": "x", "namespace": "default", "uid": "uid-of-x"}
    body = {"apiVersion": version, "kind": name, "metadata": meta, "spec": spec, "status": status}
    above = msgspec.json.decode(msgspec.json.encode(body), type=Owner)
    reference = OwnerReference(api_version=version, kind=name, name="x", uid="uid-of-x", controller=True)
    made = make_pod(annotations=annotations)
    labels = {"scheduling.x-k8s.io/pod-group": "x"} if version.startswith("scheduling.x") else {"applicationId": "x"}
    meta = msgspec.structs.replace(made.metadata, owner_references=(reference,), labels=labels)
    groups = {
        "scheduling.k8s.io/v1alpha1": {"workload_ref": WorkloadReference(name="x", pod_group="x")},
        "scheduling.k8s.io/v1alpha2": {"scheduling_group": SchedulingGroup(pod_group_name="x")},
    }
    pod = Pod(metadata=meta, spec=msgspec.structs.replace(made.spec, **groups.get(version, {})))
    id = identify(pod, [above])
    gang = assemble(id, [pod], [above])
    assert gang.members in ((pod,), ())
    assert parse_comment(id.comment()) == id


def _names(module):
    """Fields of objects, as they stand on the wire, that a family reads."""
    found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    return {name for each in found for name in each.__struct_encode_fields__}


MODULES = [import_module(f"{families.__name__}.{name}") for _, name, _ in iter_modules(families.__path__)]
WIRE_FIELDS = sorted({name for module in MODULES for name in _names(module)} | {"Worker", "Master", "Launcher"})
DEEP = "<as deep as an apiserver takes it>"
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "it", "w", "g", "lead", "work", "1", "-1", "512m", "9" * 400, DEEP])
)
ODD = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WIRE_FIELDS), inner, max_size=4),
    max_leaves=8,
)
WITH_OWNERS = {name: each for name, each in (ENSEMBLES | ALONE_OR_ABOVE).items() if each[0]}


def places_in(tree, path=()):
    """Paths of everything in a tree, itself included."""
    yield path
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, each in pairs:
        yield from places_in(each, (*path, key))


def replaced(tree, path, value):
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


def arrives(owner, part, value):
    """An owner with another spec or status, as a watch brings it."""
    body = json.loads(msgspec.json.encode(owner)) | {part: value}
    text = json.dumps(body).replace(json.dumps(DEEP), '{"a":' * 3000 + "1" + "}" * 3000)
    found = Decoder(Owner).read(text.encode())
    if isinstance(found, Unreadable):
        kind = {"api_version": owner.api_version, "kind": owner.kind}
        return OddOwner(metadata=found.object.metadata, why=found.why, **kind)
    return found


@settings(max_examples=40)
@pytest.mark.parametrize("name", WITH_OWNERS)
@given(data=st.data())
def test_no_owner_of_whatever_form_breaks_a_family(name, data):
    owners, makers = WITH_OWNERS[name]
    pods = [make(number) for number, make in enumerate(makers)]
    at = data.draw(st.integers(0, len(owners) - 1))
    spec = json.loads(bytes(owners[at].spec))
    part = data.draw(st.sampled_from(["spec", "spec", "status"]))
    path = data.draw(st.sampled_from(list(places_in(spec)))) if part == "spec" else ()
    value = replaced(spec, path, data.draw(ODD)) if part == "spec" else data.draw(ODD)
    odd = arrives(owners[at], part, value)
    above = [odd if each is owners[at] else each for each in owners]
    id = identify(pods[0], above)
    gang = within_limits(assemble(id, pods, above), gpu_resources={})
    assert parse_comment(id.comment()) == id
    assert {pod.uid for pod in gang.members} <= {pod.uid for pod in pods}
    assert gang.refused if not gang.is_sized or isinstance(odd, OddOwner) else gang.seats >= 0
    actions = decide_gang(Snapshot(id=id, gang=gang, eligibility=FITS), POLICY)
    assert not gang.refused or not any(isinstance(action, Submit) for action in actions)


def test_members_stand_in_rank_order():
    assert [pod.name for pod in snapshot(trio()).pods] == ["leader-1", "worker-1", "worker-2"]


def test_nothing_is_submitted_before_all_are_there():
    actions = decide_gang(snapshot(trio()[:2]), POLICY)
    assert [(type(a), a.message, a.is_problem) for a in actions] == [
        (Report, "waits for 1 of 3 pods (worker 1 of 2)", False)
    ] * 2
    (submit,) = decide_gang(snapshot(trio()), POLICY)
    assert isinstance(submit, Submit)
    assert (submit.request.minimum_nodes, submit.request.comment) == (3, "k8s:default/band:uid-of-band +whole")
    assert len(submit.pods) == 3


def test_nobody_is_bound_before_the_job_has_all_its_nodes():
    begun = make_job("RUNNING", "CONFIGURING", nodes=ALL_NODES, prologs=frozenset({"n1", "n2"}))
    assert decide_gang(snapshot(trio(), begun), POLICY) == []
    started = make_job("RUNNING", nodes=ALL_NODES, prologs=frozenset(ALL_NODES))
    (bind,) = decide_gang(snapshot(trio(), started), POLICY)
    placed = {binding.pod.name: (binding.note.slurm_node, binding.note.seat) for binding in bind.bindings}
    assert placed == {"leader-1": ("n1", "leader/0"), "worker-1": ("n2", "worker/0"), "worker-2": ("n3", "worker/1")}


def test_rank_goes_along_the_nodes_in_the_order_of_the_job():
    started = make_job("RUNNING", nodes=("n3", "n1", "n2"), prologs=frozenset(ALL_NODES))
    (bind,) = decide_gang(snapshot(trio(), started), POLICY)
    assert [binding.note.slurm_node for binding in bind.bindings] == ["n3", "n1", "n2"]


def test_a_gang_that_was_bound_in_part_gets_its_other_nodes():
    pods = [member("leader", 1, node="k"), member("worker", 1), member("worker", 2, node="k")]
    running = make_job("RUNNING", nodes=ALL_NODES, prologs=frozenset(ALL_NODES))
    seen = snapshot(pods, running, placed={"leader-1": "n2", "worker-2": "n1"}, bound_to=7)
    (bind,) = decide_gang(seen, POLICY)
    assert isinstance(bind, Bind)
    (binding,) = bind.bindings
    assert (binding.pod.name, binding.note.slurm_node) == ("worker-1", "n3")


def test_a_prolog_waits_for_the_members_that_go_to_its_node():
    started = make_job("RUNNING", nodes=ALL_NODES, prologs=frozenset(ALL_NODES))
    pods, placed = bound()
    seen = snapshot([*pods[:2], member("worker", 1)], started, placed=placed, bound_to=7)
    assert prologs_wait_for(seen, 7).get("n2") == "pod default/worker-1 is not bound yet"
    assert prologs_wait_for(seen, 7).get("n1") is None
    assert prologs_wait_for(snapshot(pods, started, placed=placed, bound_to=7), 7).get("n2") is None


def many(size, **pod):
    """A gang of `size` pods, each on a node of its own, and its running job."""
    notes = {"sunkpy.dev/gang": "solver", "sunkpy.dev/gang-size": str(size)}
    pods = [make_pod(f"p-{number}", uid=f"p-{number}", annotations=notes, **pod) for number in range(size)]
    nodes = tuple(f"n{number}" for number in range(size))
    layout = tuple((node, 1) for node in nodes)
    runs = make_job("RUNNING", nodes=nodes, tasks=size, layout=layout)
    placed = {pod.uid: node for pod, node in zip(pods, nodes, strict=True) if pod.spec.node_name}
    id = identify(pods[0])
    return Snapshot(id=id, gang=assemble(id, pods), jobs=(runs,), placed=placed, bound_to=7 if placed else None)


def steps_of(work):
    """How many functions were called."""
    counted = [0]

    def count(_frame, event, _argument):
        counted[0] += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted[0]


@pytest.mark.parametrize(
    ("work", "bound"),
    [
        (lambda seen: prologs_wait_for(seen, 7), False),
        (lambda seen: epilog_waits_for(seen, 7, "n1"), True),
        (lambda seen: decide_gang(seen, POLICY), False),
        (lambda seen: decide_gang(seen, POLICY), True),
        (lambda seen: decide_gang(msgspec.structs.replace(seen, jobs=()), POLICY), True),
    ],
)
def test_twice_as_large_a_gang_takes_about_twice_as_long(work, bound):
    once, twice = (many(size, node="k" if bound else "") for size in (100, 200))
    assert steps_of(lambda: work(twice)) < 3 * steps_of(lambda: work(once))


def test_a_gang_goes_as_one_and_each_epilog_waits_for_its_own_node():
    pods, placed = bound(running=True)
    preempted = make_job("PREEMPTED", "COMPLETING")
    seen = snapshot(pods, preempted, placed=placed, bound_to=7)
    actions = decide_gang(seen, POLICY)
    assert [type(action) for action in actions] == [Evict, Evict, Evict]
    assert epilog_waits_for(seen, 7, "n1") == "pod default/leader-1 is not gone yet"
    without_leader = snapshot([pod for pod in pods if pod.name != "leader-1"], preempted, placed=placed, bound_to=7)
    assert epilog_waits_for(without_leader, 7, "n1") is None
    assert epilog_waits_for(without_leader, 7, "n3") == "pod default/worker-2 is not gone yet"


@pytest.mark.parametrize(("phases", "exit_code"), [(("Succeeded",) * 3, 0), (("Succeeded", "Failed", "Succeeded"), 1)])
def test_the_job_ends_with_the_exit_code_of_all(phases, exit_code):
    names = (("leader", 1), ("worker", 1), ("worker", 2))
    pods = [member(*name, node="k", phase=phase) for name, phase in zip(names, phases, strict=True)]
    running = make_job("RUNNING")
    assert decide_gang(snapshot(pods, running, bound_to=7), POLICY) == [Finish(job=7, exit_code=exit_code)]
    still = [*pods[:2], member("worker", 2, node="k", phase="Running", running=True)]
    assert decide_gang(snapshot(still, running, bound_to=7), POLICY) == []


# --------------------------------------------------------------------- what becomes of seats without pods


def band(*pods, **fields):
    made = [msgspec.structs.replace(pod, metadata=_band_meta(pod, role, index)) for role, index, pod in pods]
    id = identify(made[0], families=WITH_BAND)
    gang = msgspec.structs.replace(assemble(id, made, families=WITH_BAND), **fields)
    return gang, made


def _band_meta(pod, role, index):
    return msgspec.structs.replace(pod.metadata, labels=band_labels(role, index))


def band_view(gang, *jobs, **fields):
    return Snapshot(id=gang.id, gang=gang, jobs=jobs, eligibility=FITS, **fields)


RUNS = make_job("RUNNING", nodes=("n1", "n2"), tasks=3, layout=(("n1", 2), ("n2", 1)))


@pytest.mark.parametrize(("idle_s", "expected"), [(0.0, []), (119.0, []), (120.0, [Finish(job=7, exit_code=0)])])
def test_a_job_is_kept_a_while_for_pods_that_its_owner_will_make(idle_s, expected):
    gang, _ = band(("leader", 0, make_pod(node="k1", phase="Succeeded")), expects_more=True)
    assert decide_gang(band_view(gang, RUNS, bound_to=7, idle_s=idle_s), POLICY) == expected


def test_a_pod_that_comes_while_the_job_is_kept_has_its_place():
    over, late = make_pod(node="k1", phase="Succeeded"), make_pod("late", uid="late")
    gang, _ = band(("leader", 0, over), ("worker", 1, late), expects_more=True)
    (bind,) = decide_gang(band_view(gang, RUNS, bound_to=7), POLICY)
    assert (bind.bindings[0].note.slurm_node, bind.if_refused) == ("n2", IfRefused.WAIT)


def test_a_pod_that_comes_when_the_job_was_told_to_end_waits_for_the_next():
    over, late = make_pod(node="k1", phase="Succeeded"), make_pod("late", uid="late")
    gang, _ = band(("leader", 0, over), ("worker", 1, late))
    told = change_job(RUNS, told_s_ago=1.0)
    assert decide_gang(band_view(gang, told, bound_to=7), POLICY) == []
    deaf = change_job(RUNS, told_s_ago=16.0)
    assert decide_gang(band_view(gang, deaf, bound_to=7), POLICY) == [
        Cancel(job=7, why="the placeholder job did not end after its signal")
    ]


@pytest.mark.parametrize(("idle_s", "kind"), [(1.0, Report), (120.0, Cancel)])
def test_nodes_are_not_held_for_ever_for_pods_that_do_not_come(idle_s, kind):
    gang, _ = band(("worker", 0, make_pod()))
    (action,) = decide_gang(band_view(gang, RUNS, idle_s=idle_s), POLICY)
    assert type(action) is kind
    assert "1 of 1 pods (leader 0 of 1)" in (action.why if kind is Cancel else action.message)


def test_a_gang_that_was_declared_anew_while_it_queued_is_submitted_anew():
    gang, _ = band(("leader", 0, make_pod()))
    queued = make_job("PENDING", tasks=5)
    assert decide_gang(band_view(gang, queued), POLICY) == [
        Cancel(job=7, why="its owner wants 3 pods now, and the job has 5 slots")
    ]
    assert decide_gang(band_view(gang, change_job(queued, tasks=3)), POLICY) == []


def test_what_slurm_cannot_give_is_said_on_every_pod_and_nothing_is_submitted():
    gang, _ = band(
        ("leader", 0, make_pod()),
        ("worker", 0, make_pod("b", uid="b")),
        problems=(Problem(text="no device classes", fatal=True),),
    )
    actions = decide_gang(band_view(gang), POLICY)
    assert [(type(a), a.message, a.is_problem) for a in actions] == [(Report, "no device classes", True)] * 2


def unsized(*pods):
    """A gang of which nobody can tell now how many pods it has."""
    gang, made = band(*pods)
    return families.unreadable(gang.id, made, why="Band default/band cannot be read")


def test_the_job_of_a_gang_whose_size_cannot_be_told_waits_on_in_the_queue():
    queued = make_job("PENDING", tasks=3, reason="Priority")
    gang = unsized(("leader", 0, make_pod()))
    (report,) = decide_gang(band_view(gang, queued), POLICY)
    assert (report.message, report.is_problem) == ("Band default/band cannot be read", True)


@pytest.mark.parametrize(("idle_s", "kind"), [(1.0, Report), (120.0, Cancel)])
def test_nobody_is_bound_while_it_cannot_be_told_who_belongs_where(idle_s, kind):
    gang = unsized(("leader", 0, make_pod()))
    (action,) = decide_gang(band_view(gang, RUNS, idle_s=idle_s), POLICY)
    assert type(action) is kind
    assert "Band default/band cannot be read" in (action.why if kind is Cancel else action.message)


def test_the_nodes_that_a_job_may_have_stay_as_they_are_while_it_cannot_be_told_what_keeps_the_gang_together():
    queued = make_job("PENDING", tasks=3, excluded=("n2", "n3"))
    gang = unsized(("leader", 0, make_pod()))
    assert {type(action) for action in decide_gang(band_view(gang, queued), POLICY)} == {Report}


@pytest.mark.parametrize(("idle_s", "kind"), [(1.0, Report), (120.0, Cancel)])
def test_nodes_that_pods_have_left_are_not_held_for_ever_for_those_that_cannot_be_placed(idle_s, kind):
    over, late = make_pod(node="k1", phase="Succeeded"), make_pod("late", uid="late")
    gang = unsized(("leader", 0, over), ("worker", 1, late))
    (action,) = decide_gang(band_view(gang, RUNS, bound_to=7, idle_s=idle_s), POLICY)
    assert type(action) is kind


def test_the_pods_that_run_run_on_and_others_wait_while_the_size_cannot_be_told():
    runs, late = make_pod(node="k1", running=True), make_pod("late", uid="late")
    gang = unsized(("leader", 0, runs), ("worker", 1, late))
    (report,) = decide_gang(band_view(gang, RUNS, bound_to=7, placed={runs.uid: "n1"}), POLICY)
    assert (report.pod.name, report.message) == ("late", "Band default/band cannot be read")


@pytest.mark.parametrize(("idle_s", "expected"), [(119.0, []), (120.0, [Finish(job=7, exit_code=0)])])
def test_a_job_is_kept_a_while_when_its_pods_have_ended_and_the_size_cannot_be_told(idle_s, expected):
    gang = unsized(("leader", 0, make_pod(node="k1", phase="Succeeded")))
    assert decide_gang(band_view(gang, RUNS, bound_to=7, idle_s=idle_s), POLICY) == expected


def test_a_gang_without_places_is_refused():
    gang, _ = band(("leader", 0, make_pod()), roles=())
    gang = msgspec.structs.replace(gang, roles=(Role(name="leader", seats=0, first=0, members=(_leader(),)),))
    (report,) = decide_gang(band_view(gang), POLICY)
    assert report.is_problem
    assert report.message == "its owner declares no pods"


def _leader():
    return Member(pod=make_pod(), index=0)


def test_members_of_a_lost_job_whose_nodes_hold_as_much_get_one_replacement():
    pods = [("leader", 0), ("worker", 0), ("worker", 1)]
    gang, _ = band(*((r, i, make_pod(f"{r}{i}", uid=f"{r}{i}", node="k", running=True)) for r, i in pods))
    placed = {"leader0": "n1", "worker0": "n2", "worker1": "n3"}
    lost = change_job(RUNS, missing=2)
    warn, submit = decide_gang(band_view(gang, lost, placed=placed, bound_to=7), POLICY)
    assert warn.note.endswith("a new job is submitted for n1, n2, n3")
    request = submit.request
    assert (request.tasks, request.cpus_per_task, request.required_nodes) == (3, 1, ("n1", "n2", "n3"))
    assert (request.minimum_nodes, request.maximum_nodes, request.memory_mib_per_node) == (3, 3, 128)


def test_members_of_a_lost_job_whose_nodes_hold_more_and_less_get_a_replacement_each():
    """All nodes of one job are asked for as much; the node of the least may not have it, and it would never start."""
    pods = [("leader", 0), ("worker", 0), ("worker", 1)]
    gang, _ = band(*((r, i, make_pod(f"{r}{i}", uid=f"{r}{i}", node="k", running=True)) for r, i in pods))
    placed = {"leader0": "n1", "worker0": "n1", "worker1": "n2"}
    actions = decide_gang(band_view(gang, change_job(RUNS, missing=2), placed=placed, bound_to=7), POLICY)
    assert actions == [MakeSolo(pod=pod) for pod in gang.members]


def test_a_pod_that_never_queues_must_name_its_node():
    gang, _ = band(("leader", 0, make_pod()), never_queues=True)
    (report,) = decide_gang(band_view(gang), POLICY)
    assert "names no node" in report.message
    assert gate_waits_for(band_view(gang), 99, "n1") is None


def test_a_cover_that_waits_for_a_node_without_pods_makes_room_for_another():
    pods = [("leader", 0, False), ("worker", 0, False), ("worker", 1, True)]
    made = ((r, i, make_pod(f"{r}{i}", uid=f"{r}{i}", node="k", running=True, deleting=going)) for r, i, going in pods)
    gang, _ = band(*made)
    placed = {"leader0": "n1", "worker0": "n2", "worker1": "n3"}
    lost = change_job(RUNS, missing=2)
    seen = band_view(gang, lost, placed=placed, bound_to=7)
    assert decide_gang(seen, POLICY)[1].request.required_nodes == ("n1", "n2")
    cover = make_job("PENDING", id=8, tasks=3, required=("n1", "n2", "n3"))
    (cancel,) = decide_gang(msgspec.structs.replace(seen, jobs=(lost, cover)), POLICY)
    assert (cancel.job, cancel.why) == (8, "it waits for a node on which no pod of the gang is any more")


def test_a_job_of_another_shape_than_the_gang_has_now_starts_nothing():
    gang, _ = band(("leader", 0, make_pod()))
    cover = change_job(RUNS, tasks=2, layout=(("n1", 1), ("n2", 1)))
    (cancel,) = decide_gang(band_view(gang, cover), POLICY)
    assert (cancel.job, cancel.why) == (7, "its owner wants 3 pods now, and the job has 2 slots")


COVER = make_job(
    "RUNNING",
    id=8,
    nodes=("n1",),
    tasks=1,
    layout=(("n1", 1),),
    required=("n1",),
    spec=JobSpec(comment="k8s:default/band:uid-of-band +replacement"),
)


def test_a_member_for_which_a_cover_has_no_room_is_set_apart_and_those_that_run_stay():
    gang, (_, late) = band(
        ("leader", 0, make_pod(node="k1", running=True)), ("worker", 1, make_pod("late", uid="late"))
    )
    assert decide_gang(band_view(gang, COVER, placed={"uid-1": "n1"}, bound_to=8), POLICY) == [MakeSolo(pod=late)]
    unread = change_job(COVER, tasks=0)
    (told,) = decide_gang(band_view(gang, unread, placed={"uid-1": "n1"}, bound_to=8), POLICY)
    assert isinstance(told, Report)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_member_for_which_the_job_has_no_slot_since_its_owner_wants_more_is_set_apart(leaves):
    """Or since the job was made smaller; while a pod is leaving, its place may be the one."""
    fewer = change_job(RUNS, tasks=2, layout=(("n1", 1), ("n2", 1)))
    runs = make_pod(node="k1", running=True)
    other = make_pod("other", uid="other", node="k2", running=True, deleting=leaves)
    late = make_pod("late", uid="late")
    gang, (_, _, late) = band(("leader", 0, runs), ("worker", 0, other), ("worker", 1, late), one_per_node=True)
    actions = decide_gang(band_view(gang, fewer, placed={"uid-1": "n1", "other": "n2"}, bound_to=7), POLICY)
    assert [type(action) for action in actions] == ([Report] if leaves else [MakeSolo])
    assert actions[0].pod == late


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_cover_whose_pods_have_ended_is_not_for_those_that_come(phase):
    late = make_pod("late", uid="late")
    gang, _ = band(("leader", 0, make_pod(node="k1", phase=phase)), ("worker", 1, late))
    cancel = Cancel(job=8, why="the pods that it was made for have ended, and it has no slots for others")
    assert decide_gang(band_view(gang, COVER, bound_to=8), POLICY) == [cancel]
    assert decide_gang(band_view(gang, COVER), POLICY) == [cancel]


@pytest.mark.parametrize(
    ("node", "state", "is_stray"),
    [("n2", "RUNNING", False), ("n3", "RUNNING", True), ("", "RUNNING", False), ("n3", "CONFIGURING", False)],
)
def test_a_pod_on_a_node_that_the_job_does_not_have_is_set_apart(node, state, is_stray):
    other = make_pod("stray", uid="stray", node="k", running=True)
    pods = ("leader", 0, make_pod(node="k1", running=True)), ("worker", 1, other)
    job = change_job(RUNS, state=frozenset({"RUNNING", state}))
    gang, (_, stray) = band(*pods)
    # Also while nobody can tell how large the gang is: no pod may run on a node that no job holds.
    for each in (gang, unsized(*pods), unsized(pods[1])):
        seen = band_view(each, job, placed={"uid-1": "n1", "stray": node}, bound_to=7)
        assert decide_gang(seen, POLICY) == ([MakeSolo(pod=stray)] if is_stray else [])


@pytest.mark.parametrize("bound_to", [8, None])
def test_while_the_size_cannot_be_told_a_cover_is_kept_and_who_waits_is_not_set_apart(bound_to):
    over, late = make_pod(node="k1", phase="Succeeded"), make_pod("late", uid="late")
    gang = unsized(("leader", 0, over), ("worker", 1, late))
    whole = change_job(COVER, spec=JobSpec(comment="k8s:default/band:uid-of-band +whole"))
    (told,) = decide_gang(band_view(gang, whole, bound_to=bound_to), POLICY)
    assert (type(told), told.pod.name) == (Report, "late")


def test_a_pod_that_was_set_apart_is_not_missing_and_never_a_member():
    pods = trio()
    id = identify(pods[0], families=WITH_TRIO)
    gang = assemble_beside(id, pods[:2], pods[2:], families=WITH_TRIO)
    assert ({pod.uid for pod in gang.members}, gang.is_complete) == ({"leader-1", "worker-2"}, True)
    assert gang.missing == ""
    assert [len(role.elsewhere) for role in gang.roles] == [0, 1]
    leaving = [msgspec.structs.replace(pods[2], status=msgspec.structs.replace(pods[2].status, phase="Failed"))]
    assert assemble_beside(id, pods[:2], leaving, families=WITH_TRIO).missing != ""
