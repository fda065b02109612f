"""A small slurmrestd in memory: nodes that are drained, commented and deleted, jobs that are submitted and cancelled.

It keeps what it is sent and does nothing by itself: a test moves Slurm on with `put`, `add_job` and `set_job`. An
allocation is granted while `room` names its nodes. Reads of the nodes know If-Modified-Since, and a deleted node leaves
the version as it is, as 24.11 and 26.05 do.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
from aiohttp import web

from sunkpy.core.model import hostlist
from tests.doubles.serving import Changes

API = "/slurm/{version}"
Body = dict[str, Any]


class Slurmrestd:
    """What Slurm has, and what was asked of it. `is_down` makes it answer 502, `refuse` refuse writes to nodes."""

    def __init__(self, changes: Changes | None = None, *, cluster: str = "c1") -> None:
        self.changes = changes or Changes()
        self.cluster = cluster
        self.nodes: dict[str, Body] = {}
        self.jobs: dict[int, Body] = {}
        self.tiers = {"low": 1, "high": 10}
        self.statistics: Body = {}
        self.licenses: list[Body] = []
        self.reservations: list[Body] = []
        self.shares: list[Body] | None = None
        """None: it has no accounting."""
        self.configured: dict[str, str] = {}
        """The nodes of partitions, where a test names them."""
        self.writes: list[str] = []
        self.submissions: list[Body] = []
        self.allocations: list[Body] = []
        self.room = ""
        self.room_waits_for = "Prolog"  # the reason of an allocation that has just been granted
        self.updates: list[Body] = []
        self.signals: list[tuple[int, str]] = []
        self.cancelled: list[int] = []
        self.asked: list[str] = []
        self.states_read = 0
        self.before_states: Callable[[], None] = lambda: None
        """Called when the states of jobs are asked for."""
        self.tasks: dict[int, list[int]] = {}
        """Id of an array -> its tasks that have started, which are jobs too."""
        self.requests: list[str] = []
        """Each with its method, such as `GET job/7`; of those that were refused while it is down `refused job/7`."""
        self.looks: list[str] = []
        """Nodes that were asked for by themselves."""
        self.is_down = False
        self.refuse = ""
        self.refuse_as = 2058
        """Slurm's number for a change of a node that it refuses."""
        self.lacking: set[str] = set()
        """Switches and blocks that its topology file lacks."""
        self.refused = asyncio.Event()
        self.reject_submit: int | None = None
        self.reject_gres: int | None = None
        self.records: dict[int, Body] | None = None
        """What slurmdbd has of jobs; None: there is no slurmdbd."""
        self.records_read = 0
        self.before_list: Callable[[], None] = lambda: None
        """Called when a list of nodes is about to be changed: what happens between the check and the write."""
        self.keeps_reasons = True
        """A node that it opens keeps its reason, as with 24.11 without accounting."""
        self.before_change: Callable[[Body], None] = lambda _: None
        """Called with each change of one node or more that is about to be made."""
        self.unknown: dict[str, int] = {}
        """Accounts and partitions that are refused, and the number of the error."""
        self.reject_update: int | None = None
        self.lose_next_answer = False
        self.after_lost: Callable[[], None] = lambda: None
        """Called when the answer to a write that was carried out is lost: what happens before it may be sent again."""
        self.seals = True
        """slurmctld has the chart's job_submit.lua."""
        self.unknown_users: set[str] = set()
        self.ended_by: list[tuple[int, str]] = []
        """Jobs that were signalled to end, each with the user who did it."""
        self.jwt_key = b""
        """Where there is one, a token that is not signed with it is refused."""
        self.takes_jobs = asyncio.Event()
        """While it is not set, whoever submits a job waits for an answer."""
        self.takes_jobs.set()
        self.waiting_submits = self.most_waiting = 0
        self.may_update: asyncio.Semaphore | None = None
        """Where there is one, whoever changes a job waits for it."""
        self.waiting_updates = 0
        self.unreadable: set[int] = set()
        """Jobs whose details are held back: a request for one of them, or for all, waits until they are readable."""
        self.reading = self.most_reading = 0
        self._version = 100
        self._ids = itertools.count(100)

    # ----------------------------------------------------- what tests use

    def put(self, name: str, *state: str, **fields: Any) -> None:
        """Create or change a node, as slurmd or an admin would."""
        old = self.nodes.get(name, {"name": name, "state": ["IDLE"], "reason": "", "comment": ""})
        self.nodes[name] = old | fields | ({"state": list(state)} if state else {})
        self._version += 1
        self.changes.note()

    def state(self, name: str) -> str:
        """As scontrol prints it."""
        return "+".join(self.nodes[name]["state"])

    def forget(self, name: str) -> None:
        """slurmctld has lost its record of one node, or somebody deleted it."""
        del self.nodes[name]
        self._version += 1
        self.changes.note()

    def set_clock_back(self) -> None:
        """slurmctld's clock is set back: for slurmctld, later changes are older than its earlier answers."""
        self._version -= 50

    def lose_state(self) -> None:
        """Every node is gone."""
        self.nodes.clear()
        self._version += 1
        self.changes.note()

    def add_job(self, *states: str, comment: str, user: str = "k8s", **fields: Any) -> int:
        """A job that somebody has submitted; its id."""
        job_id = next(self._ids)
        known = {"job_id": job_id, "job_state": list(states), "comment": comment, "user_name": user, "partition": "low"}
        self.jobs[job_id] = known | fields
        self.changes.note()
        return job_id

    def set_job(self, job_id: int, *states: str, **fields: Any) -> None:
        """Slurm has moved the job on."""
        self.jobs[job_id] |= {"job_state": list(states), **fields}
        self.changes.note()

    # --------------------------------------------------------------- HTTP

    def app(self) -> web.Application:
        """All endpoints, in whatever version."""
        app = web.Application(middlewares=[self._gate])
        app.router.add_get(f"{API}/ping/", self._ping)
        app.router.add_get(f"{API}/nodes/", self._nodes)
        app.router.add_post(f"{API}/nodes/", self._update_nodes)
        app.router.add_get(f"{API}/node/{{name}}", self._node)
        app.router.add_post(f"{API}/node/{{name}}", self._update_node)
        app.router.add_delete(f"{API}/node/{{name}}", self._delete_node)
        app.router.add_get(f"{API}/partitions/", self._partitions)
        app.router.add_get(f"{API}/diag/", self._diag)
        app.router.add_get(f"{API}/licenses/", self._licenses)
        app.router.add_get(f"{API}/reservations/", self._reservations)
        app.router.add_get(f"{API}/shares", self._shares)
        app.router.add_get(f"{API}/jobs/state/", self._states)
        app.router.add_get(f"{API}/jobs/", self._all_jobs)
        app.router.add_post(f"{API}/job/submit", self._submit)
        app.router.add_post(f"{API}/job/allocate", self._allocate)
        app.router.add_get(f"{API}/job/{{id}}", self._job)
        app.router.add_get("/slurmdb/{version}/job/{id}", self._record)
        app.router.add_post(f"{API}/job/{{id}}", self._update_job)
        app.router.add_delete(f"{API}/job/{{id}}", self._kill)
        return app

    @web.middleware
    async def _gate(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.requests.append(f"{'refused' if self.is_down else request.method} {request.path.split('/', 3)[3]}")
        if self.is_down:
            self.refused.set()
            return failure(502, 1800)
        if self.jwt_key and not _is_signed(request, self.jwt_key):
            return failure(401, 1007)
        return await handler(request)

    async def _ping(self, _: web.Request) -> web.Response:
        return self._reply(pings=[{"responding": True}])

    async def _nodes(self, request: web.Request) -> web.Response:
        if int(request.query.get("update_time", 0)) >= self._version:
            return web.Response(status=304)
        return self._reply(nodes=list(self.nodes.values()), last_update={"set": True, "number": self._version})

    async def _node(self, request: web.Request) -> web.Response:
        self.looks.append(request.match_info["name"])
        self.changes.note()
        node = self.nodes.get(request.match_info["name"])
        return failure(404, 2018) if node is None else self._reply(nodes=[node])

    async def _update_node(self, request: web.Request) -> web.Response:
        name, change = request.match_info["name"], await request.json()
        self.writes.append(f"POST {name} {await request.text()}")
        if name not in self.nodes:
            return failure(500, 2018)
        if self.refuse:
            return failure(500, self.refuse_as)
        if any(unit in change.get("topology_str", "") for unit in self.lacking):
            return failure(422, 2178)
        self.before_change(change)
        self._change(name, change)
        return self._answer()

    async def _update_nodes(self, request: web.Request) -> web.Response:
        """As slurmctld does it: one by one, until it does not know one. It reports refused changes at the end."""
        change, error = await request.json(), 0
        self.before_list()
        self.before_change(change)
        self.writes.append(f"POST {','.join(change['name'])} {change.get('state')} {change.get('reason')}")
        for name in hostlist.expand(",".join(change["name"])):
            if name not in self.nodes:
                return failure(500, 2018)
            if "UNDRAIN" in change.get("state", ()) and "DRAIN" not in self.nodes[name]["state"]:
                error = 2028
            else:
                self._change(name, change)
        return failure(500, error) if error else self._answer()

    def _change(self, name: str, change: Body) -> None:
        state = set(self.nodes[name]["state"]) | {"DRAIN"} & set(change.get("state", ()))
        state -= {"DRAIN"} if "UNDRAIN" in change.get("state", ()) else set()
        if "RESUME" in change.get("state", ()):
            state = state - {"DRAIN", "FAIL", "DOWN"} | {"IDLE"}
        told = {"topology": change["topology_str"]} if "topology_str" in change else {}
        told |= {key: change[key].strip() for key in ("reason", "comment") if key in change}
        if {"UNDRAIN", "RESUME"} & {*change.get("state", ())} and not self.keeps_reasons and "DOWN" not in state:
            told["reason"] = ""
        self.put(name, *sorted(state), **told)

    async def _delete_node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.writes.append(f"DELETE {name}")
        if self.refuse:
            return failure(500, 2058)
        found = self.nodes.pop(name, None)
        self.changes.note()
        return failure(500, 2018) if found is None else self._answer()

    async def _partitions(self, _: web.Request) -> web.Response:
        self.asked.append("partitions")
        nodes = {name: {"configured": self.configured.get(name, "")} for name in self.tiers}
        told = [{"name": name, "priority": {"tier": tier}, "nodes": nodes[name]} for name, tier in self.tiers.items()]
        return self._reply(partitions=told)

    async def _diag(self, _: web.Request) -> web.Response:
        return self._reply(statistics=self.statistics)

    async def _licenses(self, _: web.Request) -> web.Response:
        return self._reply(licenses=self.licenses)

    async def _reservations(self, _: web.Request) -> web.Response:
        return self._reply(reservations=self.reservations)

    async def _shares(self, _: web.Request) -> web.Response:
        return failure(500, 1) if self.shares is None else self._reply(shares={"shares": self.shares})

    async def _states(self, request: web.Request) -> web.Response:
        self.states_read += 1
        self.before_states()
        wanted = [int(text) for text in request.query.getall("job_id", [])]
        jobs = {id_: self.jobs[id_] for id_ in wanted if id_ in self.jobs} if wanted else self.jobs
        return self._reply(jobs=[{"job_id": str(id_), "state": job["job_state"]} for id_, job in jobs.items()])

    async def _all_jobs(self, _: web.Request) -> web.Response:
        self.asked.append("all jobs")
        await self.changes.until(lambda: not self.unreadable)
        return self._reply(jobs=list(self.jobs.values()), last_update={"set": True, "number": 1})

    async def _submit(self, request: web.Request) -> web.Response:
        await self._until_jobs_are_taken()
        if self.reject_submit:
            return failure(422, self.reject_submit)
        job = (await request.json())["job"]
        if self.reject_gres and job.get("tres_per_node"):
            return failure(422, self.reject_gres)
        for name in (job.get("account"), job.get("partition")):
            if name in self.unknown:
                self.writes.append(f"refused {name}")
                return failure(422, self.unknown[name])
        if _user(request) in self.unknown_users:
            return failure(500, 6010)
        whose = self._whose(request, job)
        self.submissions.append(job)
        excluded = ",".join(job.get("excluded_nodes", ()))
        job_id = self.add_job("PENDING", **whose, excluded_nodes=excluded)
        if self.lose_next_answer:
            self.lose_next_answer = False
            return failure(504, 1803)
        return self._reply(job_id=job_id)

    async def _allocate(self, request: web.Request) -> web.Response:
        """A refusal stays on record, as in 24.11 and 26.05."""
        await self._until_jobs_are_taken()
        job = (await request.json())["job"]
        if _user(request) in self.unknown_users:
            return failure(500, 6010)
        whose = self._whose(request, job)
        self.allocations.append(job)
        if not self.room:
            self.add_job("FAILED", **whose, batch_flag=False)
            return failure(422, 2016)
        job_id = self.add_job("RUNNING", **whose, batch_flag=False, nodes=self.room, state_reason=self.room_waits_for)
        if self.lose_next_answer:
            self.lose_next_answer = False
            return failure(504, 1803)
        return self._reply(job_id=job_id)

    async def _until_jobs_are_taken(self) -> None:
        self.waiting_submits += 1
        self.most_waiting = max(self.most_waiting, self.waiting_submits)
        self.changes.note()
        await self.takes_jobs.wait()
        self.waiting_submits -= 1

    def _whose(self, request: web.Request, job: dict[str, Any]) -> dict[str, str]:
        """User and comments of a job that is made; the seal is taken off it, as by the script."""
        is_sealed = bool(job.pop("extra", "")) and self.seals
        admin_comment = job["comment"] if is_sealed else ""
        return {"user": _user(request), "comment": job["comment"], "admin_comment": admin_comment}

    async def _job(self, request: web.Request) -> web.Response:
        job_id = int(request.match_info["id"])
        self.asked.append(f"job {job_id}")
        self.changes.note()
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        await self.changes.until(lambda: job_id not in self.unreadable)
        self.reading -= 1
        job = self.jobs.get(job_id)
        tasks = [self.jobs[task] for task in self.tasks.get(job_id, ())]
        return failure(404, 2017) if job is None else self._reply(jobs=[job, *tasks])

    async def _record(self, request: web.Request) -> web.Response:
        self.records_read += 1
        if self.records is None:
            return web.Response(status=404, text="Unable find requested URL")
        id_ = int(request.match_info["id"])
        return self._reply(jobs=[{"job_id": id_} | self.records[id_]] if id_ in self.records else [])

    async def _update_job(self, request: web.Request) -> web.Response:
        change = await request.json()
        if self.may_update is not None:
            self.waiting_updates += 1
            self.changes.note()
            await self.may_update.acquire()
            self.waiting_updates -= 1
        job = self.jobs[int(request.match_info["id"])]
        if _user(request) != job["user_name"] or (job.get("admin_comment") and not change.pop("extra", "")):
            return failure(500, 2002)
        if "excluded_nodes" in change:
            change["excluded_nodes"] = ",".join(change["excluded_nodes"])
        elif self.reject_update:
            return failure(500, self.reject_update)
        else:
            self.updates.append(change)
        job |= change
        self.changes.note()
        return self._reply()

    async def _kill(self, request: web.Request) -> web.Response:
        job_id, user = int(request.match_info["id"]), _user(request)
        if user in self.unknown_users:
            return failure(500, 6010)
        if user not in ("slurm", self.jobs.get(job_id, {}).get("user_name", user)):
            return failure(500, 2010)
        self.ended_by.append((job_id, user))
        if signal := request.query.get("signal"):
            self.signals.append((job_id, signal))
        else:
            self.cancelled.append(job_id)
            if job_id in self.jobs:
                self.jobs[job_id]["job_state"] = ["CANCELLED"]
        self.changes.note()
        return self._reply()

    def _answer(self) -> web.Response:
        """A write of nodes was carried out; its answer may be lost."""
        if not self.lose_next_answer:
            return self._reply()
        self.lose_next_answer = False
        self.after_lost()
        return failure(504, 1803)

    def _reply(self, **body: Any) -> web.Response:
        meta = {"slurm": {"cluster": self.cluster, "release": "26.05.5"}}
        return web.json_response(body | {"meta": meta, "errors": [], "warnings": []})


def _user(request: web.Request) -> str:
    """Whose token it is; a token that is none is the scheduler's own."""
    try:
        claims = jwt.decode(request.headers["X-SLURM-USER-TOKEN"], options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return "k8s"
    return str(claims["sun"])


def _is_signed(request: web.Request, key: bytes) -> bool:
    try:
        return bool(jwt.decode(request.headers["X-SLURM-USER-TOKEN"], key, ["HS256"]))
    except jwt.InvalidTokenError:
        return False


def failure(status: int, number: int) -> web.Response:
    """An answer with one error of Slurm, by its number."""
    return web.json_response({"errors": [{"error_number": number, "error": "no"}]}, status=status)
