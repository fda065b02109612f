"""PodCliqueSets of Grove: what must start together is one gang, and each further replica of a scaling group another."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest
import yaml

from sunkpy.core.gang.actions import Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, grove
from sunkpy.core.gang.gang import extra_unit
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import SchedulingGate
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.families.expected import asked, problems, template_of
from tests.unit.core.gang.families.workload import gang, owner, pod, seats

EXAMPLE = Path(__file__).resolve().parents[5] / "docs" / "examples" / "grove.yaml"
BASE, BEYOND = "chat-0", "chat-0-prefill-0"
GATE = SchedulingGate(name="grove.io/podgang-pending-creation")


# ------------------------------------------------------------- what Grove makes of a PodCliqueSet


def below(maker, kind, name, version="grove.io/v1alpha1", **spec):
    reference = {"apiVersion": maker.api_version, "kind": maker.kind, "name": maker.name, "uid": maker.uid}
    meta = {"name": name, "uid": f"uid-of-{kind}-{name}", "annotations": {}}
    meta["ownerReferences"] = [reference | {"controller": True}]
    return owner({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})


class World:
    """The objects below a PodCliqueSet: `pods` by PodGang, and what stands above each of them."""

    def __init__(self, document, *, number_label=True, **topology):
        self.top = owner(document)
        self._number_label, self._topology = number_label, topology
        self.pods, self._above, self._groups = {}, {}, {}
        template = document["spec"]["template"]
        self._cliques = {clique["name"]: clique for clique in template["cliques"]}
        scaled = template.get("podCliqueScalingGroups", [])
        grouped = {name for group in scaled for name in group["cliqueNames"]}
        for replica in range(document["spec"]["replicas"]):
            base = f"{self.top.name}-{replica}"
            for name in self._cliques.keys() - grouped:
                self._clique(self.top, base, name, gang=base)
            for group in scaled:
                self._scaling_group(base, group)
        self.gangs = {name: self._pod_gang(name) for name in self._groups}

    def _scaling_group(self, base, group):
        made = below(self.top, "PodCliqueScalingGroup", f"{base}-{group['name']}")
        least = group.get("minAvailable", 1)
        for replica in range(group.get("replicas", 1)):
            gang = base if replica < least else f"{made.name}-{replica - least}"
            for name in group["cliqueNames"]:
                self._clique(made, f"{made.name}-{replica}", name, gang=gang, base=base, above=(made,))

    def _clique(self, maker, prefix, name, *, gang, base="", above=()):
        template = self._cliques[name]["spec"]
        clique = below(maker, "PodClique", f"{prefix}-{name}")
        least = template.get("minAvailable", template["replicas"])
        self._groups.setdefault(gang, []).append({"name": clique.name, "minReplicas": least, "podReferences": []})
        labels = {grove.GANG: gang, grove.CLIQUE: clique.name, "app.kubernetes.io/part-of": self.top.name}
        labels |= {"grove.io/base-podgang": base} if base not in ("", gang) else {}
        for index in range(template["replicas"]):
            number = {grove.INDEX: str(index)} if self._number_label else {}
            made = pod(
                f"{clique.name}-x{index}",
                owned_by=[clique],
                template={"spec": template_of(template["podSpec"])},
                labels=labels | number,
                creationTimestamp=f"2026-11-21T00:00:{index:02}Z",
            )
            self.pods.setdefault(gang, []).append(made)
            self._above[made.uid] = (clique, *above, self.top)

    def _pod_gang(self, name):
        spec = {"podgroups": self._groups[name], **self._topology}
        return below(self.top, "PodGang", name, "scheduler.grove.io/v1alpha1", **spec)

    def owners(self, made):
        return (*self._above[made.uid], self.gangs[made.labels[grove.GANG]])

    def gang(self, name, pods=None):
        """The gang of the pods of a PodGang, as the shell asks for it: with the owners of the first of them."""
        pods = self.pods[name] if pods is None else pods
        return gang(pods, self.owners(pods[0]))


def chat(**more):
    return World(yaml.safe_load(EXAMPLE.read_text()), **more)


def left_out(world, name):
    members = {each.uid for each in world.gang(name).members}
    return [each for each in world.pods[name] if each.uid not in members]


# ------------------------------------------------------------------------------------ its gangs


def test_the_example_is_a_job_of_what_must_start_together_and_one_of_each_more():
    world = chat()
    assert sorted(world.pods) == [BASE, BEYOND]
    base, beyond = world.gang(BASE), world.gang(BEYOND)
    assert asked(base) == (7, 50, (4 + 6 * 64) * 1024, 48)
    assert asked(beyond) == (2, 16, 2 * 64 * 1024, 16)
    assert [each.name for each in left_out(world, BASE)] == ["chat-0-frontend-x1"]
    assert left_out(world, BEYOND) == []
    assert [(each.is_complete, each.refused, each.final_because, each.suspension) for each in (base, beyond)] == [
        (True, "", "", None)
    ] * 2
    assert base.options.partition == "low"


def test_each_podclique_is_a_role_and_its_pods_stand_by_number():
    assert seats(chat().gang(BASE)) == {
        "chat-0-frontend": (1, 1, [("chat-0-frontend-x0", 0)]),
        "chat-0-prefill-0-pleader": (1, 1, [("chat-0-prefill-0-pleader-x0", 0)]),
        "chat-0-prefill-0-pworker": (1, 1, [("chat-0-prefill-0-pworker-x0", 0)]),
        "chat-0-decode-0-dleader": (1, 1, [("chat-0-decode-0-dleader-x0", 0)]),
        "chat-0-decode-0-dworker": (3, 3, [(f"chat-0-decode-0-dworker-x{index}", index) for index in range(3)]),
    }


def test_a_further_replica_of_a_scaling_group_is_named_as_grove_names_it():
    one = chat().gang(BEYOND)
    assert one.kind == "PodCliqueSet default/chat, PodGang chat-0-prefill-0"
    assert [role.name for role in one.roles] == ["chat-0-prefill-1-pleader", "chat-0-prefill-1-pworker"]


def test_all_pods_of_a_podgang_are_one_gang_whoever_is_between_them_and_their_set():
    world = chat()
    ids = {grove.FAMILY.identify(each, world.owners(each)) for each in world.pods[BASE]}
    (id,) = ids
    assert (id.namespace, id.name, id.uid, id.unit, id.generation) == ("default", BASE, "uid-of-chat", "", "")
    assert grove.FAMILY.identify(world.pods[BEYOND][0], world.owners(world.pods[BEYOND][0])) not in ids


def test_a_replica_of_the_set_is_a_gang_by_itself():
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["replicas"] = 2
    world = World(document)
    assert sorted(world.pods) == ["chat-0", "chat-0-prefill-0", "chat-1", "chat-1-prefill-0"]
    assert [world.gang(name).seats for name in sorted(world.pods)] == [7, 2, 7, 2]


def test_pods_that_bear_no_number_have_places_by_age():
    world = chat(number_label=False)
    assert asked(world.gang(BASE)) == asked(chat().gang(BASE))
    assert [each.name for each in left_out(world, BASE)] == ["chat-0-frontend-x1"]


def test_a_podclique_that_is_made_anew_in_an_update_has_the_places_of_the_one_before():
    world = chat()
    old = [each for each in world.pods[BASE] if "dleader" in each.name]
    (new,) = [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, uid="new", name="new"))
        for each in old
    ]
    rest = [each for each in world.pods[BASE] if each not in old]
    assert grove.FAMILY.identify(new, world.owners(old[0])) == world.gang(BASE).id
    assert seats(world.gang(BASE, [*rest, new]))["chat-0-decode-0-dleader"] == (1, 1, [("new", 0)])


# ------------------------------------------------------------------------------------ the gates


def gated(pods):
    return [
        msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, scheduling_gates=(GATE,)))
        for each in pods
    ]


def submitted(world, pods):
    one = world.gang(BASE, pods)
    snapshot = Snapshot(
        id=one.id, gang=one, eligibility=Eligibility(eligible=tuple(f"n{number}" for number in range(9)))
    )
    actions = decide_gang(snapshot, Policy(gpu_resources={"nvidia.com/gpu": "gpu"}))
    return [len(action.pods) for action in actions if isinstance(action, Submit)]


def test_a_gang_is_submitted_when_grove_has_let_go_of_all_that_must_start():
    world = chat()
    elastic, members = left_out(world, BASE), list(world.gang(BASE).members)
    assert submitted(world, gated(members) + elastic) == []
    for held in members:
        assert submitted(world, gated([held]) + [each for each in members if each is not held] + elastic) == []
    assert submitted(world, members[:-1]) == []
    assert submitted(world, members + gated(elastic)) == [7]


def test_a_pod_beyond_the_minimum_is_a_job_of_its_own():
    world = chat()
    (elastic,) = left_out(world, BASE)
    id = msgspec.structs.replace(world.gang(BASE).id, unit=extra_unit(elastic))
    one = assemble(id, [elastic], world.owners(elastic))
    assert asked(one) == (1, 2, 4096, 0)
    assert one.kind == "PodCliqueSet default/chat, pod chat-0-frontend-x1"


# ------------------------------------------------------------------------- topology, ends, refusals


def required(label):
    return {"packConstraint": {"required": label, "preferred": "kubernetes.io/hostname"}}


PREFILL = {"podGroupNames": ["chat-0-prefill-0-pleader", "chat-0-prefill-0-pworker"]}
WITHIN = "chat-0-prefill-0-pleader, chat-0-prefill-0-pworker"


@pytest.mark.parametrize(
    ("topology", "domain", "refused"),
    [
        ({}, "", ""),
        ({"topologyConstraint": required("rack")}, "rack", ""),
        ({"topologyConstraint": {"packConstraint": {"preferred": "rack"}}}, "", ""),
        ({"topologyConstraint": None, "topologyConstraintGroupConfigs": None}, "", ""),
        (
            {
                "topologyConstraint": required("rack"),
                "topologyConstraintGroupConfigs": [{**PREFILL, "topologyConstraint": required("rack")}],
            },
            "rack",
            "",
        ),
        (
            {"topologyConstraintGroupConfigs": [{**PREFILL, "topologyConstraint": required("rack")}]},
            "",
            f"its PodCliques {WITHIN} must be within one rack: "
            "Slurm can keep the whole job within one, and no part of it",
        ),
    ],
)
def test_a_gang_is_kept_within_a_domain_and_one_for_a_part_of_it_is_refused_by_name(topology, domain, refused):
    one = chat(**topology).gang(BASE)
    assert (one.one_domain, one.refused) == (domain, refused)


def test_a_domain_for_the_only_podclique_is_one_for_the_gang():
    template = {"spec": {"containers": [{}]}}["spec"]
    clique = {"name": "w", "spec": {"replicas": 2, "podSpec": template}}
    world = World({"kind": "PodCliqueSet", "apiVersion": "grove.io/v1alpha1", "metadata": {"name": "one"},
                   "spec": {"replicas": 1, "template": {"cliques": [clique]}}})  # fmt: skip
    spec = msgspec.json.decode(world.gangs["one-0"].spec)
    spec["topologyConstraint"] = required("zone")
    spec["podgroups"][0]["topologyConstraint"] = required("rack")
    raw = msgspec.Raw(msgspec.json.encode(spec))
    world.gangs["one-0"] = msgspec.structs.replace(world.gangs["one-0"], spec=raw)
    assert (world.gang("one-0").one_domain, world.gang("one-0").refused) == ("rack", "")


def going(each):
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, deletion_timestamp="2026"))


@pytest.mark.parametrize(
    ("ends", "expects"), [((), True), (("PodClique",), True), (("PodGang",), False), (("PodCliqueSet",), False)]
)
def test_pods_are_made_again_while_their_podgang_and_their_set_are_wanted(ends, expects):
    world = chat()
    pods = world.pods[BASE]
    owners = [going(each) if each.kind in ends else each for each in world.owners(pods[0])]
    assert gang(pods, owners).expects_more is expects


def declaring(*groups):
    return [{"name": name, "minReplicas": least, "podReferences": []} for name, least in groups]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([], "PodCliqueSet default/chat, PodGang chat-0 declares 0 pods, and a gang has at least 1"),
        (
            declaring(("chat-0-frontend", -1)),
            "PodGang default/chat-0: spec.podgroups[chat-0-frontend].minReplicas is -1, and must be at least 0",
        ),
        (
            declaring(("chat-0-frontend", 1), ("chat-0-frontend", 1)),
            "PodGang default/chat-0: spec.podgroups names a PodClique twice",
        ),
    ],
)
def test_what_makes_no_gang_is_told_and_not_submitted(groups, said):
    assert problems(chat(podgroups=groups).gang(BASE)) == [said]


def test_a_podgang_that_is_not_there_is_told_with_the_same_identity():
    world = chat()
    pods = world.pods[BASE]
    one = gang(pods, world.owners(pods[0])[:-1])
    assert one.id == world.gang(BASE).id
    assert problems(one) == ["PodGang default/chat-0 could not be read, and only it says how many pods there will be"]


def test_a_pod_names_its_podgang_and_labels_alone_make_no_member():
    world = chat()
    for made in itertools.chain(*world.pods.values()):
        (reference,) = grove.FAMILY.refers(made)
        assert (reference.kind, reference.key) == (grove.POD_GANG, ("default", made.labels[grove.GANG]))
    made = world.pods[BASE][0]
    bare = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=()))
    assert grove.FAMILY.identify(bare, ()) is None
    assert grove.FAMILY.refers(bare) == grove.FAMILY.refers(pod("other")) == ()


def test_the_annotation_that_grove_writes_for_volcano_does_not_make_it_a_group_of_volcano():
    world = chat()
    made = world.pods[BASE][0]
    said = {"scheduling.k8s.io/group-name": BASE}
    marked = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=said))
    assert gang([marked], world.owners(made)).id == world.gang(BASE).id
