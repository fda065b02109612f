"""Owners of pods through the whole scheduler: it finds them, waits for them, follows them, and reports those that it
cannot read."""

import asyncio
import contextlib

import msgspec
import pytest
from structlog.testing import capture_logs

from sunkpy.core.gang import families
from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.gang import Family, Gang, Link, Role, by_seniority
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.options import read_options
from sunkpy.core.model.objects import Kind, Pod
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Together
from sunkpy.kube.kinds import KIND_TIMES
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.owners import wholes
from sunkpy.scheduler.owners.index import OwnerIndex
from sunkpy.scheduler.owners.watch import OwnerWatches
from sunkpy.scheduler.pods import index as members
from sunkpy.scheduler.settings import SchedulerSettings
from tests.doubles.apiserver import refusal
from tests.doubles.serving import answering
from tests.unit.scheduler.counting import lines_of
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading, reference

CREW = Kind(group="example.com", kind="Crew")
GROUP = Kind(group="groups.example.com", kind="Group")


class CrewSpec(msgspec.Struct):
    """As many pods as `size`."""

    size: int = 1


def identify(pod, owners):
    crew = next((owner for owner in owners if owner.is_a in (CREW, GROUP)), None)
    return GangId(namespace=pod.metadata.namespace, name=crew.name, uid=crew.uid) if crew else None


def assemble(id, pods, owners):
    crew = next(owner for owner in owners if owner.is_a in (CREW, GROUP))
    size = crew.spec_as(CrewSpec).size
    options, problems = read_options([(pods[0].name, pods[0].annotations)], [owner.annotations for owner in owners])
    role = Role(name="worker", seats=size, first=size, members=by_seniority(pods, size))
    return Gang(id=id, roles=(role,), options=options, problems=problems)


def refers(pod):
    name = pod.labels.get("example.com/group")
    return (Link(kind=GROUP, namespace=pod.metadata.namespace, name=name),) if name else ()


KNOWN = (
    Family(name="crew", known_by="", identify=identify, assemble=assemble, reads=(CREW, GROUP), refers=refers),
    *FAMILIES,
)


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(members, "LEFT_OUT_S", 0.05)
    world = World()
    world.hasten(kinds=msgspec.structs.replace(world.times.kinds, patience_s=0.05), unidentified_told_after_s=0.05)
    for number in (1, 2, 3):
        world.add_node(number)
    world.api.define("example.com/v1", "Crew", "crews")
    world.api.define("apps/v1", "ReplicaSet", "replicasets")
    world.api.define("apps/v1", "Deployment", "deployments")
    return world


def add(world, plural, kind, api_version, name, *, spec=None, annotations=None, owner=None, **metadata):
    meta = {"name": name, "namespace": "default", "annotations": annotations or {}, **metadata}
    if owner is not None:
        meta["ownerReferences"] = [reference(owner)]
    body = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec or {}}
    return world.put(plural, body)


def add_crew(world, size=2, **fields):
    return add(world, "crews", "Crew", "example.com/v1", "band", spec={"size": size}, **fields)


def comments(world):
    return [job["comment"] for job in world.submissions]


@pytest.mark.parametrize(("uid", "is_bound"), [("daemons-1", True), ("another", False)])
async def test_only_a_daemon_set_that_is_there_spares_its_pods_the_queue(world, tmp_path, uid, is_bound):
    world.api.define("apps/v1", "DaemonSet", "daemonsets")
    slurm = SlurmSettings(url="http://127.0.0.1:1", token_file="unused")
    known = SchedulerSettings(cluster="test", slurm=slurm, daemon_set_namespaces=("default",)).families
    made = add(world, "daemonsets", "DaemonSet", "apps/v1", "agent", uid="daemons-1")
    claimed = made | {"metadata": made["metadata"] | {"uid": uid}}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    async with leading(world, tmp_path, families=known):
        world.add_pod("agent-x", owner=claimed, affinity=affinity)
        await world.until(lambda: world.bindings or world.submissions)
        assert world.bindings == ([("agent-x", "node-2")] if is_bound else [])
        assert [job["excluded_nodes"] for job in world.submissions] == ([] if is_bound else [["n1", "n3"]])


async def test_a_pod_that_is_seen_before_its_owner_waits_for_it(world, tmp_path):
    crew = {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": "band", "uid": "crew-1"}}
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", owner=crew)
        world.add_pod("b", owner=crew)
        add_crew(world, uid="crew-1")
        await world.until(lambda: world.submissions)
        assert comments(world) == ["k8s:default/band:crew-1"]
        assert world.submissions[0]["tasks"] == 2


async def test_an_owner_that_is_gone_ends_the_chain(world, tmp_path):
    crew = {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": "band", "uid": "gone"}}
    add_crew(world)  # the same name, but not the object that made the pod
    async with leading(world, tmp_path, families=KNOWN):
        pod = world.add_pod("a", owner=crew)
        await world.until(lambda: world.submissions)
        assert comments(world) == [f"k8s:default/a:{pod['metadata']['uid']}"]


async def test_annotations_are_read_from_all_controllers_above(world, tmp_path):
    note = {"sunkpy.dev/partition": "high"}
    deployment = add(world, "deployments", "Deployment", "apps/v1", "web", annotations=note)
    replicas = add(world, "replicasets", "ReplicaSet", "apps/v1", "web-1", owner=deployment)
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("web-1-x", owner=replicas)
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["partition"] == "high"


async def test_what_is_changed_on_a_pod_above_others_reaches_their_job(world, tmp_path):
    async with leading(world, tmp_path, families=KNOWN):
        driver = {"apiVersion": "v1", "kind": "Pod", **world.add_pod("driver")}
        world.add_pod("executor", owner=driver)
        await world.until(lambda: len(world.submissions) == 2)
        world.api.change("pods", "default", "driver", {"metadata": {"annotations": {"sunkpy.dev/partition": "high"}}})
        await world.until(lambda: len(world.slurm.updates) == 2)


async def test_a_kind_that_may_not_be_read_costs_its_annotations_and_no_more(world, tmp_path):
    world.api.forbidden.add("replicasets")
    replicas = add(world, "replicasets", "ReplicaSet", "apps/v1", "web-1", annotations={"sunkpy.dev/partition": "high"})
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("web-1-x", owner=replicas)
        await world.until(lambda: world.submissions)
        assert "partition" not in world.submissions[0]


async def test_a_pod_waits_for_a_kind_that_its_family_needs_and_says_which_right_is_missing(world, tmp_path):
    world.api.forbidden.add("crews")
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", owner=add_crew(world, size=1))
        forbidden = (
            "not scheduled yet: it belongs to Crew default/band, and the scheduler may not read crews.example.com: "
            'crews.example.com is forbidden: User "ann" cannot list resource "crews" in API group "example.com" '
            "at the cluster scope"
        )
        await world.until(lambda: forbidden in world.notes("OwnerUnknown"))
        assert world.submissions == []


@pytest.fixture
def soon(world):
    """Kinds are looked for often."""
    world.hasten(kinds=msgspec.structs.replace(world.times.kinds, again_s=0.1, sure_after_s=0.05, apart_s=0.01))


@pytest.mark.usefixtures("soon")
async def test_a_kind_whose_definition_comes_later_is_found_later(world, tmp_path):
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", labels={"example.com/group": "band"})
        absent = (
            "not scheduled yet: it belongs to Group default/band, and the apiserver knows no kind Group of "
            "groups.example.com: its CRD is not installed"
        )
        await world.until(lambda: absent in world.notes("OwnerUnknown"))
        world.api.define("groups.example.com/v1", "Group", "groups")
        add(world, "groups", "Group", "groups.example.com/v1", "band", spec={"size": 1}, uid="group-1")
        await world.until(lambda: world.submissions)
        assert comments(world) == ["k8s:default/band:group-1"]


@pytest.mark.usefixtures("soon")
async def test_a_kind_that_comes_back_in_another_version_is_found_without_a_restart(world, tmp_path):
    with capture_logs() as logs:
        async with leading(world, tmp_path, families=KNOWN):
            world.add_pod("a", owner=add_crew(world, size=1))
            await world.until(lambda: len(world.submissions) == 1)
            world.api.undefine("crews")
            absent = "the apiserver knows no kind Crew of example.com: its CRD is not installed"
            await world.until(lambda: [log for log in logs if log.get("problem") == absent])
            asked = world.api.asked["/apis/example.com/v1/crews"]
            world.api.define("example.com/v2", "Crew", "crews")
            crew = add(world, "crews", "Crew", "example.com/v2", "choir", spec={"size": 1})
            world.add_pod("b", owner=crew)
            await world.until(lambda: len(world.submissions) == 2)
            assert comments(world)[1] == f"k8s:default/choir:{crew['metadata']['uid']}"
            assert world.api.asked["/apis/example.com/v1/crews"] == asked
    volcano = "scheduling.volcano.sh"  # is not installed here
    warnings = [log for log in logs if log["log_level"] == "warning" and log.get("group") != volcano]
    assert [log["event"] for log in warnings] == ["kind cannot be read"], warnings
    assert world.cancelled == []


async def test_while_an_apiserver_that_has_just_started_does_not_know_a_kind_no_pod_below_it_is_taken_for_its_own(
    world, tmp_path
):
    world.hasten(kinds=msgspec.structs.replace(world.times.kinds, again_s=0.1, apart_s=0.01))
    crew = add_crew(world, size=2)
    unneeded = add(world, "deployments", "Deployment", "apps/v1", "web", annotations={"sunkpy.dev/partition": "high"})
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", owner=crew)
        await world.until(lambda: world.api.watched >= {"crews"})
        world.api.is_starting = True
        world.note_change()
        asked = world.api.asked["/apis"]
        await world.until(lambda: world.api.asked["/apis"] > asked)
        world.remove("crews", "default", "band")
        crew = add_crew(world, size=2)
        for name in ("c", "d"):
            world.add_pod(name, owner=crew)
        world.add_pod("web", owner=unneeded)
        asked = world.api.asked["/apis"]
        await world.until(lambda: world.api.asked["/apis"] > asked + 3)
        assert world.submissions == []
        world.api.is_starting = False
        await world.until(lambda: len(world.submissions) == 2)
        by_name = {job["name"]: job for job in world.submissions}
        assert by_name["web"]["partition"] == "high"
        assert by_name["band"]["tasks"] == 2
        assert by_name["band"]["comment"] == f"k8s:default/band:{crew['metadata']['uid']}"


async def test_a_named_object_that_does_not_exist_is_waited_for(world, tmp_path):
    world.api.define("groups.example.com/v1", "Group", "groups")
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", labels={"example.com/group": "band"})
        gone = "not scheduled yet: it belongs to Group default/band, which does not exist"
        await world.until(lambda: gone in world.notes("OwnerUnknown"))
        add(world, "groups", "Group", "groups.example.com/v1", "band", spec={"size": 1}, uid="group-1")
        await world.until(lambda: world.submissions)


async def test_a_change_of_the_owner_wakes_the_gang(world, tmp_path):
    crew = add_crew(world, size=3)
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", owner=crew)
        world.add_pod("b", owner=crew)
        await world.until(lambda: world.api.watched >= {"crews"})
        assert world.submissions == []
        world.api.change("crews", "default", "band", {"spec": {"size": 2}})
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["tasks"] == 2


async def test_a_pod_beyond_the_places_becomes_a_gang_of_its_own_and_a_new_leader_knows(world, tmp_path):
    crew = add_crew(world, size=1)
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", owner=crew)
        await world.until(lambda: len(world.submissions) == 1)
        extra = world.add_pod("b", owner=crew)
        await world.until(lambda: len(world.submissions) == 2)
        uid = crew["metadata"]["uid"]
        assert comments(world)[1] == f"k8s:default/band:{uid}/extra-{extra['metadata']['uid']}"
    async with leading(world, tmp_path, families=KNOWN) as server, hook_client(server) as call:
        world.pod_is_gone("a")
        world.set_job(max(world.jobs), "RUNNING", nodes="n2")
        assert await call("prolog", max(world.jobs), node=2) == (200, {"done": True})
        await world.until(lambda: world.bindings == [("b", "node-2")])
    assert len(world.submissions) == 2


async def test_a_pod_whose_place_is_another_ones_who_was_set_apart_becomes_a_gang_of_its_own(world, tmp_path):
    """Its gang has no member left and no job, and is not forgotten before that."""
    crew = add_crew(world, size=2)
    async with leading(world, tmp_path, families=KNOWN) as server, hook_client(server) as call:
        for name in ("a", "b"):
            world.add_pod(name, owner=crew)
        await world.until(lambda: len(world.submissions) == 1)
        (job,) = world.jobs
        world.set_job(job, "RUNNING", "CONFIGURING", nodes="n[1-2]", tasks={"set": True, "number": 2})
        await asyncio.gather(*(call("prolog", job, node=node) for node in (1, 2)))
        await world.until(lambda: len(world.bindings) == 2)
        on = {node: name for name, node in world.bindings}
        world.set_job(job, "RUNNING", nodes="n1", tasks={"set": True, "number": 1})
        await call("epilog", job, node=2)
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["comment"].endswith(f"/apart-{world.pod(on['node-2'])['metadata']['uid']} +whole")
        world.set_job(max(world.jobs), "RUNNING", nodes="n2", required_nodes="n2")
        world.add_pod("c", owner=crew)
        await world.until(lambda: len(world.submissions) == 3)
        assert world.submissions[2]["comment"].endswith(f"/apart-{world.pod('c')['metadata']['uid']}")
        world.set_job(job, "PREEMPTED")
        await world.until(lambda: on["node-1"] in world.deleted)
        world.pod_is_gone(on["node-1"])
        world.add_pod("d", owner=crew)
        await world.until(lambda: len(world.submissions) == 4)
        assert world.submissions[3]["comment"].endswith(f"/extra-{world.pod('d')['metadata']['uid']}")


async def test_an_extra_whose_job_slurm_forgot_while_nobody_led_is_covered_and_not_taken_for_a_member(world, tmp_path):
    crew = add_crew(world, size=2)
    async with leading(world, tmp_path, families=KNOWN) as server, hook_client(server) as call:
        for name in ("a", "b", "c"):
            world.add_pod(name, owner=crew)
        await world.until(lambda: len(world.submissions) == 2)
        first, extra = sorted(world.jobs)
        for job_id, node in ((first, 1), (extra, 2)):
            world.set_job(job_id, "RUNNING", "CONFIGURING", nodes=f"n{node}")
            assert await call("prolog", job_id, node=node) == (200, {"done": True})
            world.set_job(job_id, "RUNNING", nodes=f"n{node}")
        await world.until(lambda: len(world.bindings) == 3)
    del world.jobs[extra]
    async with leading(world, tmp_path, families=KNOWN):
        await world.until(lambda: len(world.submissions) == 3)
        uid = next(world.pod(name)["metadata"]["uid"] for name, node in world.bindings if node == "node-2")
        cover = world.submissions[2]
        assert cover["comment"].endswith(f"/extra-{uid} +whole")
        assert cover["required_nodes"] == ["n2"]
        world.set_job(max(world.jobs), "RUNNING", nodes="n2", required_nodes="n2")
        noted = lambda: [  # noqa: E731
            name for name in "abc"
            if world.pod(name)["metadata"]["annotations"]["sunkpy.dev/job-id"] == str(max(world.jobs))
        ]  # fmt: skip
        await world.until(noted)
        assert (len(noted()), world.deleted, world.cancelled) == (1, [], [])


async def test_the_only_pod_of_a_gang_that_is_made_again_waits_while_its_job_ends_and_that_is_no_surprise(
    world, tmp_path
):
    crew = add_crew(world, size=1)
    with capture_logs() as logs:
        states = lambda: [log["state"] for log in logs if log["event"] == "gang"]  # noqa: E731
        async with leading(world, tmp_path, families=KNOWN):
            world.add_pod("a", owner=crew)
            await world.until(lambda: world.submissions)
            (job,) = world.jobs
            world.set_job(job, "RUNNING", nodes="n1")
            await world.until(lambda: world.bindings == [("a", "node-1")])
            world.set_job(job, "PREEMPTED", "COMPLETING", nodes="n1")
            await world.until(lambda: "a" in world.deleted)
            world.pod_is_gone("a")
            await world.until(lambda: states()[-1] == "ending")
            world.add_pod("b", owner=crew)
            await world.until(lambda: len(world.submissions) == 2)
    assert states()[states().index("ending") :] in (["ending", "waiting"], ["ending", "waiting", "submitted"])
    assert [log for log in logs if log["log_level"] == "error"] == []


class Climbing:
    """What stands above pods, by watches of their own; the test says what time it is."""

    def __init__(self, kube, times):
        self.now = 0.0
        self.watches = OwnerWatches(
            kube, reads=(CREW,), pods=Together([]), clock=lambda: self.now, on_unreadable=lambda *_: None, times=times
        )
        self.owners = OwnerIndex(self.watches, KNOWN)

    async def find(self, world, pod):
        """What stands above a pod, once that is known."""
        found = msgspec.convert(pod, Pod)
        await world.until(lambda: self.owners.of(found) is not None)
        return [owner.spec_as(CrewSpec).size for owner in self.owners.of(found)]

    def forget(self, pod):
        self.owners.forget(pod["metadata"]["uid"])


@contextlib.asynccontextmanager
async def climbing(world, folder):
    async with answering(world.api.handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        climbing = Climbing(kube, world.times.kinds)
        running = asyncio.ensure_future(climbing.watches.run())
        yield climbing
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def often(world):
    """It is looked often whether kinds are needed."""
    world.hasten(kinds=msgspec.structs.replace(world.times.kinds, dropped_each_s=0.01))


@pytest.mark.usefixtures("often", "soon")
async def test_a_kind_that_no_pod_needs_for_a_while_is_not_watched_any_more_and_the_next_pod_is_read_as_the_first_was(
    world, tmp_path
):
    crew = add_crew(world, size=2)
    async with climbing(world, tmp_path) as above:
        pod = world.add_pod("a", owner=crew)
        assert await above.find(world, pod) == [2]
        await world.until(lambda: world.api.watches_of("crews") == 1)
        above.now += 10 * KIND_TIMES.unneeded_s
        await asyncio.sleep(0.1)
        assert world.api.watches_of("crews") == 1
        above.forget(pod)
        await asyncio.sleep(0.1)
        above.now += 0.9 * KIND_TIMES.unneeded_s
        await asyncio.sleep(0.1)
        assert world.api.watches_of("crews") == 1
        copy = above.watches._watches[CREW].informer
        assert len(copy) == 1
        above.now += 0.2 * KIND_TIMES.unneeded_s
        await world.until(lambda: not world.api.watches_of("crews"))
        assert len(copy) == 0
        link = Link(kind=CREW, namespace="default", name="band", uid=crew["metadata"]["uid"])
        assert above.watches.seen(link) is None
        world.api.change("crews", "default", "band", {"spec": {"size": 3}})
        pod = world.add_pod("b", owner=crew)
        assert above.owners.of(msgspec.convert(pod, Pod)) is None
        assert await above.find(world, pod) == [3]
        await world.until(lambda: world.api.watches_of("crews") == 1)


@pytest.mark.usefixtures("soon")
async def test_an_owner_that_cannot_be_read_is_not_asked_for_any_more_when_its_pod_is_gone(world, tmp_path):
    """The apiserver refuses some names, and whoever makes pods may write any text there."""
    handle, path = world.api.handle, "/apis/example.com/v1/namespaces/default/crews/a"

    async def refusing(request):
        if request.path == path:
            world.api.asked[path] += 1
            world.note_change()
            return refusal(403, "Forbidden")
        return await handle(request)

    world.api.handle = refusing
    async with climbing(world, tmp_path) as above:
        crew = {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": "a", "uid": "crew-1"}}
        pod = world.add_pod("p", owner=crew)
        assert above.owners.of(msgspec.convert(pod, Pod)) is None
        await world.until(lambda: world.api.asked[path] > 1)
        above.forget(pod)
        await asyncio.sleep(0.2)  # whatever was asked before has its answer
        asked = world.api.asked[path]
        await asyncio.sleep(1.0)
        assert world.api.asked[path] == asked


@pytest.mark.usefixtures("soon")
async def test_of_objects_of_others_only_metadata_is_kept_and_all_of_one_is_asked_for_when_a_pod_needs_it(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr(wholes, "_LATELY_BYTES", 20_000)
    path = "/apis/example.com/v1/namespaces/default/crews/band"
    crew = add(world, "crews", "Crew", "example.com/v1", "band", spec={"size": 2, "steps": "x" * 9000})
    for number in range(50):
        add(world, "crews", "Crew", "example.com/v1", f"others-{number}", spec={"steps": "x" * 9000})
    async with climbing(world, tmp_path) as above:
        above.watches.follow(CREW)
        await world.until(lambda: world.api.watches_of("crews") == 1)
        pod = world.add_pod("a", owner=crew)
        assert await above.find(world, pod) == [2]
        assert world.api.asked[path] == 1
        informer, kept = above.watches._watches[CREW].informer, above.watches._wholes
        assert len(informer) == 51
        assert all(len(bytes(each.spec)) == 2 for each in informer.values())
        world.api.change("crews", "default", "band", {"spec": {"size": 3}})
        world.api.change("crews", "default", "others-1", {"spec": {"size": 3}})
        changed = msgspec.convert(pod, Pod)
        await world.until(lambda: above.owners.of(changed)[0].spec_as(CrewSpec).size == 3)
        await world.until(lambda: len(kept._needed) == 1 and len(kept._lately) == 1)
        for number in range(50):
            world.api.change("crews", "default", f"others-{number}", {"status": {"log": "x" * 9000}})
        last = world.api.objects["crews", "default", "others-49"]["metadata"]["resourceVersion"]
        await world.until(lambda: above.watches.shown(link_to("others-49")).metadata.resource_version == last)
        assert kept._lately.currsize <= 20_000
        assert await above.find(world, pod) == [3]
        assert world.api.asked[path] == 1, "the watch tells of its changes"
        above.forget(pod)
        assert not kept._needed


def link_to(name):
    return Link(kind=CREW, namespace="default", name=name)


@pytest.mark.usefixtures("soon")
async def test_an_object_that_is_made_right_before_its_pods_is_not_asked_for(world, tmp_path):
    async with climbing(world, tmp_path) as above:
        above.watches.follow(CREW)
        await world.until(lambda: world.api.watches_of("crews") == 1)
        crew = add_crew(world, size=2)
        await world.until(lambda: above.watches.shown(link_to("band")))
        assert await above.find(world, world.add_pod("a", owner=crew)) == [2]
        assert world.api.asked["/apis/example.com/v1/namespaces/default/crews/band"] == 0


@pytest.mark.usefixtures("often", "soon")
async def test_kinds_that_pods_invented_are_not_looked_for_when_the_pods_are_gone(world, tmp_path):
    async with climbing(world, tmp_path) as above:
        ghosts = [
            {"apiVersion": "ghosts.example.com/v1", "kind": f"Ghost{n}", "metadata": {"name": "x", "uid": f"g{n}"}}
            for n in range(3)
        ]
        for number, ghost in enumerate(ghosts):
            pod = msgspec.convert(world.add_pod(f"p{number}", owner=ghost), Pod)
            assert above.owners.of(pod) is None
        await world.until(lambda: world.api.asked["/apis"] > 3)
        above.now += 20.0
        for name in ("p0", "p1", "p2"):
            assert await above.find(world, world.pod(name)) == []
            above.forget(world.pod(name))
        above.now += 1.1 * KIND_TIMES.unneeded_s
        unknown = [
            Link(kind=Kind(group="ghosts.example.com", kind=f"Ghost{n}"), namespace="", name="") for n in (0, 1, 2)
        ]
        await world.until(lambda: not any(above.watches.why_unreadable(link) for link in unknown))
        await asyncio.sleep(0.3)  # whatever was asked before has its answer
        asked = world.api.asked["/apis"]
        await asyncio.sleep(0.5)
        assert world.api.asked["/apis"] == asked


async def test_a_kind_that_changes_costs_as_much_among_many_kinds_that_pods_invented_as_among_few(world, tmp_path):
    costs = []
    for count in (3, 300):
        async with climbing(world, tmp_path) as above:
            for number in range(count):
                ghost = {"apiVersion": "ghosts.example.com/v1", "kind": f"Ghost{number}"}
                meta = {"name": "x", "uid": f"g{number}"}
                pod = world.add_pod(f"p{count}-{number}", owner=ghost | {"metadata": meta})
                assert above.owners.of(msgspec.convert(pod, Pod)) is None
            kind = Kind(group="ghosts.example.com", kind="Ghost1")
            costs.append(lines_of(lambda: above.watches._tell(kind, None)))  # noqa: B023
    assert costs[0] == costs[1]


@pytest.mark.usefixtures("often", "soon")
async def test_a_kind_that_is_followed_for_itself_is_watched_though_no_pod_needs_it(world, tmp_path):
    async with climbing(world, tmp_path) as above:
        above.watches.follow(CREW)
        pod = world.add_pod("a", owner=add_crew(world, size=2))
        assert await above.find(world, pod) == [2]
        await world.until(lambda: world.api.watches_of("crews") == 1)
        above.forget(pod)
        above.now += 10 * KIND_TIMES.unneeded_s
        await asyncio.sleep(0.1)
        assert world.api.watches_of("crews") == 1


@pytest.mark.usefixtures("often", "soon")
async def test_a_kind_that_is_forgotten_at_any_moment_costs_no_other_pod_its_owner(world, tmp_path):
    """While it is asked for, listed, watched, or the object itself is read: the next pod finds what is there."""
    crew = add_crew(world, size=2)
    async with climbing(world, tmp_path) as above:
        for number in range(30):
            pod = world.add_pod(f"a{number}", owner=crew)
            above.owners.of(msgspec.convert(pod, Pod))
            await asyncio.sleep(0.003 * (number % 10))
            above.forget(pod)
            above.now += 10 * KIND_TIMES.unneeded_s
            await asyncio.sleep(0.004 * (number % 7))
        assert await above.find(world, world.add_pod("last", owner=crew)) == [2]


@pytest.mark.usefixtures("often", "soon")
async def test_a_pod_of_a_kind_whose_watch_was_dropped_is_submitted_with_what_its_owner_says_now(world, tmp_path):
    world.hasten(kinds=msgspec.structs.replace(world.times.kinds, unneeded_s=0.2))
    crew = add_crew(world, size=1, annotations={"sunkpy.dev/qos": "first"})
    async with leading(world, tmp_path, families=KNOWN, suspend_owners=False):
        world.add_pod("a", owner=crew)
        await world.until(lambda: len(world.submissions) == 1 and world.api.watches_of("crews"))
        world.pod_is_gone("a")
        await world.until(lambda: not world.api.watches_of("crews"))
        world.api.change("crews", "default", "band", {"metadata": {"annotations": {"sunkpy.dev/qos": "second"}}})
        world.add_pod("b", owner=crew)
        await world.until(lambda: len(world.submissions) == 2)
        assert [job["qos"] for job in world.submissions] == ["first", "second"]


async def test_a_pod_waits_for_the_place_of_a_member_that_is_being_deleted(world, tmp_path):
    crew = add_crew(world, size=1)
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("a", owner=crew)
        await world.until(lambda: world.submissions)
        world.api.change("pods", "default", "a", {"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}})
        world.add_pod("b", owner=crew)
        await world.until(lambda: world.cancelled == [] and world.pod("b"))
        world.pod_is_gone("a")
        await world.until(lambda: world.submissions)
        assert not [comment for comment in comments(world) if "extra" in comment]


async def test_a_bound_pod_whose_owner_cannot_be_read_keeps_its_job_by_the_comment(world, tmp_path):
    crew = add_crew(world, size=1)
    world.api.forbidden.add("crews")
    comment = f"k8s:default/band:{crew['metadata']['uid']}"
    job = world.slurm.add_job("RUNNING", user="k8s", comment=comment, nodes="n1")
    note = {"sunkpy.dev/job-id": str(job), "sunkpy.dev/gang-id": comment}
    world.add_pod("a", owner=crew, node="node-1", running=True, annotations=note)
    async with leading(world, tmp_path, families=KNOWN):
        world.pod_ends("Succeeded", "a")
        await world.until(lambda: world.signals == [(job, "USR1")])
    assert world.cancelled == []


async def test_a_unit_that_imitates_an_extra_takes_no_pod_of_another_gang(world, tmp_path):
    """Whoever names a unit after somebody else's pod would get that pod into his gang when the leader changes."""
    victim = world.add_pod("victim", node="node-1", running=True)
    own = world.add_job(victim, "RUNNING", nodes="n1")
    comment = f"k8s:attacker/band:uid-a/extra-{victim['metadata']['uid']}"
    world.slurm.add_job("RUNNING", user="k8s", comment=comment, nodes="n2")
    async with leading(world, tmp_path):
        world.pod_ends("Succeeded", "victim")
        await world.until(lambda: world.signals == [(own, "USR1")])
        assert world.deleted == []


def test_an_extra_is_a_gang_of_one_whatever_its_family():
    from tests.unit.core.gang.pods import make_pod

    pod = make_pod()
    gang = families.assemble(GangId(namespace="d", name="band", uid="u", unit=f"extra-{pod.uid}"), [pod])
    assert (gang.seats, gang.members) == (1, (pod,))


async def test_pods_that_call_the_scheduler_by_another_name_are_ours_too(world, tmp_path):
    async with leading(world, tmp_path, aliases=("sunk-scheduler",)):
        world.add_pod("a")
        world.add_pod("b", schedulerName="sunk-scheduler")
        world.add_pod("c", schedulerName="default-scheduler")
        await world.until(lambda: len(world.submissions) == 2)
        assert sorted(job["name"] for job in world.submissions) == ["a", "b"]


async def test_a_wish_of_the_owner_ends_the_wait_after_a_refusal_and_its_status_does_not(world, tmp_path):
    world.reject_submit = 2066
    async with leading(world, tmp_path, families=KNOWN):
        crew = add_crew(world, 1)
        world.add_pod("solo", owner=crew)
        await world.until(lambda: world.notes("FailedScheduling"))
        world.reject_submit = None
        world.put("crews", crew | {"status": {"ready": 0}})
        add_crew(world, 1, annotations={"sunkpy.dev/qos": "other"}, uid=crew["metadata"]["uid"])
        await world.until(lambda: world.submissions)
        assert [job.get("qos") for job in world.submissions] == ["other"]
