"""Leader first, one topology domain each: as JobSet and LeaderWorkerSet make such pods, through the whole scheduler.

Both operators write the same onto a leader: required affinity to its own group, required anti-affinity to all other
groups, by the topology label. The others of a group appear when its leader has a node, with a nodeSelector for the
domain in which that node is: of JobSet they are refused at admission before, of LeaderWorkerSet not made.

Sources: jobset v0.10.1 pkg/webhooks/pod_mutating_webhook.go (setExclusiveAffinities, setNodeSelector),
pod_admission_webhook.go; lws v0.7.0 pkg/webhooks/pod_webhook.go (SetExclusiveAffinities),
pkg/controllers/pod_controller.go (setNodeSelectorForWorkerPods).
"""

import asyncio

import pytest

from sunkpy.core.gang.families import jobset, lws
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

RACK, HOST = "topology.kubernetes.io/rack", "kubernetes.io/hostname"
RACKS = {1: "a", 2: "b", 3: "c", 4: "c"}
SIZE = 3


@pytest.fixture
def world():
    world = World()
    world.hasten(other_pods_again_s=0.05)
    for number, rack in RACKS.items():
        world.add_node(number, cpu="16")
        name = f"node-{number}"
        metadata = {"name": name, "labels": {RACK: rack, HOST: name}}
        world.put("nodes", world.api.objects["nodes", "", name] | {"metadata": metadata})
    for api_version, kind, plural in (
        ("batch/v1", "Job", "jobs"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
        ("apps/v1", "StatefulSet", "statefulsets"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    ):
        world.api.define(api_version, kind, plural)
    return world


def owner(world, plural, api_version, kind, name, *, made_by=None, annotations=None, **spec):
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
    if made_by is not None:
        metadata["ownerReferences"] = [
            {key: made_by[key] for key in ("apiVersion", "kind")}
            | {key: made_by["metadata"][key] for key in ("name", "uid")}
            | {"controller": True}
        ]
    return world.put(plural, {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})


def exclusive(key, group, topology):
    """What the webhooks of both operators add to a leader."""
    own = {"key": key, "operator": "In", "values": [group]}
    others = [{"key": key, "operator": "Exists"}, {"key": key, "operator": "NotIn", "values": [group]}]

    def term(*lines):
        only = {"labelSelector": {"matchExpressions": list(lines)}, "topologyKey": topology, "namespaceSelector": {}}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [only]}

    return {"podAffinity": term(own), "podAntiAffinity": term(*others)}


class JobSets:
    """JobSet and the Job controller: one JobSet with some child Jobs of three pods."""

    def __init__(self, world, *, jobs=3, topology=RACK):
        self.world, self.topology = world, topology
        workers = {"name": "w", "replicas": jobs, "template": {"spec": {"parallelism": SIZE, "completions": SIZE}}}
        self.top = owner(
            world,
            "jobsets",
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "it",
            annotations={jobset.EXCLUSIVE: topology},
            replicatedJobs=[workers],
            failurePolicy={"maxRestarts": 3},
        )
        self.jobs = [owner(world, "jobs", "batch/v1", "Job", f"it-w-{n}", made_by=self.top) for n in range(jobs)]

    def leader(self, group, name=""):
        affinity = exclusive("jobset.sigs.k8s.io/job-key", f"key-{group}", self.topology)
        self._pod(group, 0, name, affinity=affinity)

    def followers(self, group):
        for index in range(1, SIZE):
            self.follower(group, index)

    def follower(self, group, index, *, domain=""):
        found = domain or domain_of(self.world, f"it-w-{group}-0", self.topology)
        self._pod(group, index, nodeSelector={self.topology: found})

    def _pod(self, group, index, name="", **spec):
        keys = {jobset.NAME: "it", jobset.UID: self.top["metadata"]["uid"], jobset.REPLICATED_JOB: "w"}
        keys |= {jobset.JOB_INDEX: str(group), jobset.ATTEMPT: "0", jobset.POD_INDEX: str(index)}
        self.world.add_pod(
            name or f"it-w-{group}-{index}",
            labels=keys | {"jobset.sigs.k8s.io/job-key": f"key-{group}"},
            annotations={jobset.EXCLUSIVE: self.topology},
            owner=self.jobs[group],
            **spec,
        )


class Groups:
    """LeaderWorkerSet and the StatefulSets that it makes: groups of three pods."""

    def __init__(self, world, *, jobs=3, topology=RACK, startup="LeaderCreated", workers_on=None):
        self.world, self.topology = world, topology
        workers = {"spec": {"nodeSelector": workers_on or {}, "containers": [{"name": "c"}]}}
        self.top = owner(
            world,
            "leaderworkersets",
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "it",
            annotations={lws.EXCLUSIVE: topology} if topology else {},
            replicas=jobs,
            startupPolicy=startup,
            leaderWorkerTemplate={"size": SIZE, "workerTemplate": workers},
        )
        self.leaders = owner(world, "statefulsets", "apps/v1", "StatefulSet", "it", made_by=self.top)

    def leader(self, group):
        only = {"affinity": exclusive(lws.GROUP_KEY, f"key-{group}", self.topology)} if self.topology else {}
        self._pod(group, 0, self.leaders, **only)

    def followers(self, group):
        leader = self.world.pod(f"it-w-{group}-0") | {"apiVersion": "v1", "kind": "Pod"}
        workers = owner(self.world, "statefulsets", "apps/v1", "StatefulSet", f"it-w-{group}", made_by=leader)
        topology = self.topology
        only = {topology: domain_of(self.world, f"it-w-{group}-0", topology)} if topology else {}
        for index in range(1, SIZE):
            self._pod(group, index, workers, nodeSelector=only)

    def _pod(self, group, index, made_by, **spec):
        labels = {lws.NAME: "it", lws.GROUP: str(group), lws.GROUP_KEY: f"key-{group}", lws.WORKER: str(index)}
        annotations = {lws.SIZE: str(SIZE)} | ({lws.EXCLUSIVE: self.topology} if self.topology else {})
        self.world.add_pod(f"it-w-{group}-{index}", labels=labels, annotations=annotations, owner=made_by, **spec)


def domain_of(world, leader, topology):
    node = world.pod(leader)["spec"]["nodeName"]
    return world.api.objects["nodes", "", node]["metadata"]["labels"][topology]


def allowed(world, job):
    """The nodes on which Slurm may start it."""
    excluded = job.get("excluded_nodes") or []
    excluded = excluded.split(",") if isinstance(excluded, str) else excluded
    return [f"n{number}" for number in RACKS if f"n{number}" not in excluded]


def unit(job):
    """`1` of the comment `…/job-w-1@0` or `…/group-1@…`."""
    return int(job["comment"].split("/")[-1].split("@")[0].rpartition("-")[2])


async def begin(world, call, job_id, nodes):
    """Slurm starts a job and its prologs call."""
    world.set_job(job_id, "RUNNING", "CONFIGURING", nodes=",".join(nodes))
    answers = await asyncio.gather(*(call("prolog", job_id, node=int(name[1:])) for name in nodes))
    assert answers == [(200, {"done": True})] * len(nodes)
    world.set_job(job_id, "RUNNING", nodes=",".join(nodes))


def racks_of(world):
    """Group → the racks on which its pods are."""
    found = {}
    for name, node in world.bindings:
        found.setdefault(int(name.split("-")[2]), set()).add(RACKS[int(node.rpartition("-")[2])])
    return found


@pytest.mark.parametrize("made_by", [JobSets, Groups])
async def test_each_group_gets_a_domain_of_its_own_and_no_job_is_given_back(world, tmp_path, made_by):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        operator = made_by(world)
        for group in range(3):
            operator.leader(group)
        await world.until(lambda: len(world.submissions) == 3)
        domains = [tuple(RACKS[int(name[1:])] for name in allowed(world, job)) for job in world.submissions]
        assert sorted(domains) == [("a",), ("b",), ("c", "c")]
        assert all(job["tasks"] == SIZE for job in world.submissions)
        # Slurm starts all at the same time, the larger rack's on both of its nodes.
        await asyncio.gather(*(begin(world, call, id, allowed(world, job)) for id, job in sorted(world.jobs.items())))
        await world.until(lambda: len(world.bindings) == 3)
        for group in range(3):
            operator.followers(group)
        await world.until(lambda: len(world.bindings) == 9)
        assert sorted(racks_of(world).values(), key=sorted) == [{"a"}, {"b"}, {"c"}]
        assert (world.cancelled, len(world.submissions), world.notes("FailedScheduling")) == ([], 3, [])


async def test_a_node_each_is_chosen_too(world, tmp_path):
    async with leading(world, tmp_path):
        operator = JobSets(world, jobs=4, topology=HOST)
        for group in range(4):
            operator.leader(group)
        await world.until(lambda: len(world.submissions) == 4)
        assert sorted(allowed(world, job) for job in world.submissions) == [["n1"], ["n2"], ["n3"], ["n4"]]
        assert all((job["tasks"], job["maximum_nodes"]) == (SIZE, 1) for job in world.submissions)


async def test_a_new_leader_leaves_each_in_its_domain(world, tmp_path):
    operator = JobSets(world)
    async with leading(world, tmp_path):
        operator.leader(1)
        await world.until(lambda: len(world.submissions) == 1)
    operator.leader(0)
    async with leading(world, tmp_path):
        await world.until(lambda: len(world.submissions) == 2)
        assert [allowed(world, job) for job in world.submissions] == [["n1"], ["n3", "n4"]]


async def test_one_more_than_there_are_domains_queues_and_never_shares(world, tmp_path):
    """Of the two, the one with the higher priority starts first; the other's condition says who is there."""
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        operator = JobSets(world, jobs=4)
        for group in range(4):
            operator.leader(group)
        await world.until(lambda: len(world.submissions) == 4)
        assert len({unit(job) for job in world.submissions}) == 4
        await asyncio.gather(*(begin(world, call, id, allowed(world, job)[:1]) for id, job in world.jobs.items()))
        await world.until(lambda: len(world.cancelled) == 1)
        assert len(world.bindings) == 3
        assert len({RACKS[int(node[-1])] for _, node in world.bindings}) == 3
        (note,) = await world.until(
            lambda: [note for note in world.notes("FailedScheduling") if "must be avoided" in note]
        )
        assert "which its anti-affinity avoids; Slurm job" in note


async def test_two_that_start_in_one_domain_at_the_same_moment_are_not_both_bound(world, tmp_path):
    """On different nodes of it, before the watch has shown either binding."""
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        operator = JobSets(world, jobs=2)
        operator.leader(0)
        operator.leader(1)
        await world.until(lambda: len(world.submissions) == 2)
        world.api.watches_lag = True
        ids = sorted(world.jobs)
        await asyncio.gather(begin(world, call, ids[0], ["n3"]), begin(world, call, ids[1], ["n4"]))
        await world.until(lambda: len(world.cancelled) == 1)
        assert len(world.bindings) == 1
        world.api.watches_lag = False
        world.note_change()


async def test_a_follower_that_was_made_for_another_domain_does_not_say_where_the_leader_goes(world, tmp_path):
    """Made while the leader before this one was not quite gone; JobSet deletes it when the leader is bound."""
    there = {"metadata": {"name": "other", "namespace": "x", "labels": {"jobset.sigs.k8s.io/job-key": "another"}}}
    world.put("pods", there | {"spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}})
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        operator = JobSets(world, jobs=1)
        operator.follower(0, 1, domain="a")
        operator.leader(0)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        assert allowed(world, world.jobs[job_id]) == ["n3", "n4"]
        await begin(world, call, job_id, ["n3", "n4"])
        await world.until(lambda: world.bindings == [("it-w-0-0", "node-3")])
        assert world.cancelled == []
        await world.until(lambda: any("nodeSelector" in note for note in world.notes("FailedScheduling")))
        world.pod_is_gone("it-w-0-1")
        operator.followers(0)
        await world.until(lambda: len(world.bindings) == 3)
        assert (world.cancelled, len(world.submissions)) == ([], 1)


async def test_workers_that_are_made_when_the_leader_is_ready_find_their_places(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        operator = Groups(world, jobs=1, topology="", startup="LeaderReady", workers_on={RACK: "c"})
        operator.leader(0)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        assert allowed(world, world.jobs[job_id]) == ["n3", "n4"]  # where its workers may be, too
        await begin(world, call, job_id, ["n3", "n4"])
        await world.until(lambda: world.bindings == [("it-w-0-0", "node-3")])
        world.pod_runs("it-w-0-0")
        operator.followers(0)
        await world.until(lambda: len(world.bindings) == 3)
        assert (world.cancelled, len(world.submissions)) == ([], 1)
