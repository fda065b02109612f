"""A small apiserver and a small slurmrestd over HTTP, so that the whole scheduler runs against them unchanged.

They keep what they are sent and do nothing by themselves: a test moves the world on (`start_job`, `pod_is_gone`) and
waits with `until`, which looks again after each change and each hundredth of a second.
"""

import asyncio
import contextlib
import copy
import itertools
import json
import re

import msgspec
from aiohttp import web

from sunkpy.core import names
from sunkpy.core.gang.access import Rule
from sunkpy.kube.client import Kube
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.hook_server import HookServer
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.term import Term
from sunkpy.slurm import Slurm

API = "/slurm/v0.0.42"
OPEN = Rule(namespaces=("*",), partitions=("*",), accounts=("*",), qos=("*",), reservations=("*",))


NODESET_REFERENCE = {
    "apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "nodeset-1", "controller": True,
}  # fmt: skip


class World:
    """Both servers, what they hold, and what was asked of them."""

    def __init__(self):
        self.objects = {"pods": {}, "nodes": {}}
        self.events = []
        self.deleted = []
        self.bindings = []
        self.jobs = {}
        self.submissions = []
        self.signals = []
        self.cancelled = []
        self.slurm_is_up = True
        self.lose_next_answer = False
        self.reject_submit = None
        self.refuse_bindings = False
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self._ids = itertools.count(100)
        self._watches = []
        self._changed = asyncio.Event()

    # ------------------------------------------------------------ for tests

    async def until(self, condition, *, within_s=5.0):
        """Wait until `condition()` is true; look after each change of the world, and every 10 ms."""
        async with asyncio.timeout(within_s):
            while not (result := condition()):
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({changed}, timeout=0.01)
                changed.cancel()
            return result

    def note_change(self):
        self._changed.set()
        self._changed = asyncio.Event()

    def put(self, kind, body):
        """Store an object and tell the watches."""
        meta = body["metadata"]
        meta.setdefault("uid", f"uid-{next(self._uids)}")
        key = (meta.get("namespace", ""), meta["name"])
        is_new = key not in self.objects[kind]
        meta["resourceVersion"] = str(next(self._versions))
        self.objects[kind][key] = body
        self._tell("ADDED" if is_new else "MODIFIED", kind, body)
        return body

    def remove(self, kind, namespace, name):
        body = self.objects[kind].pop((namespace, name))
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell("DELETED", kind, body)

    def add_node(self, number, **allocatable):
        """A node with its slurmd pod and its Slurm node `n<number>`."""
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} | allocatable
        self.put("nodes", {"metadata": {"name": f"node-{number}"}, "status": {"allocatable": amounts}})
        labels = {
            names.LABEL_ROLE: names.ROLE_COMPUTE,
            names.LABEL_CLUSTER: "test",
            names.LABEL_SLURM_NODE: f"n{number}",
        }
        self.put(
            "pods",
            {
                "metadata": {
                    "name": f"slurmd-{number}",
                    "namespace": "slurm",
                    "labels": labels,
                    "ownerReferences": [NODESET_REFERENCE],
                },
                "spec": {"nodeName": f"node-{number}", "schedulerName": "default-scheduler"},
                "status": {"phase": "Running"},
            },
        )

    def add_pod(self, name="web", *, cpu="1", annotations=None, node="", running=False, **spec):
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        status = {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
        return self.put(
            "pods",
            {
                "metadata": {"name": name, "namespace": "default", "annotations": dict(annotations or {})},
                "spec": {"schedulerName": "slurm", "containers": containers, "nodeName": node} | spec,
                "status": status if running else {"phase": "Pending"},
            },
        )

    def pod(self, name="web"):
        return self.objects["pods"].get(("default", name))

    def pod_runs(self, name="web"):
        pod = copy.deepcopy(self.pod(name))
        pod["status"] |= {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
        self.put("pods", pod)

    def pod_ends(self, phase, name="web"):
        pod = copy.deepcopy(self.pod(name))
        pod["status"] |= {"phase": phase, "containerStatuses": [{"name": "c", "state": {"terminated": {}}}]}
        self.put("pods", pod)

    def pod_is_gone(self, name="web"):
        self.remove("pods", "default", name)

    def add_job(self, pod, *states, user="k8s", **fields):
        """A job that was there before the scheduler."""
        job_id = next(self._ids)
        meta = pod["metadata"]
        comment = f"k8s:{meta['namespace']}/{meta['name']}:{meta['uid']}"
        self.jobs[job_id] = {
            "job_id": job_id,
            "job_state": list(states),
            "comment": comment,
            "user_name": user,
            "partition": "low",
            **fields,
        }
        return job_id

    def set_job(self, job_id, *states, **fields):
        self.jobs[job_id] |= {"job_state": list(states), **fields}
        self.note_change()

    def notes(self, reason):
        return [event["note"] for event in self.events if event["reason"] == reason]

    # ----------------------------------------------------------- apiserver

    def kube_app(self):
        app = web.Application()
        app.router.add_get("/api/v1/pods", self._list("pods"))
        app.router.add_get("/api/v1/nodes", self._list("nodes"))
        app.router.add_get("/api/v1/namespaces/{ns}/pods", self._list("pods"))
        app.router.add_get("/api/v1/namespaces/{ns}/pods/{name}", self._get)
        app.router.add_patch("/api/v1/namespaces/{ns}/pods/{name}", self._patch)
        app.router.add_patch("/api/v1/namespaces/{ns}/pods/{name}/status", self._patch)
        app.router.add_delete("/api/v1/namespaces/{ns}/pods/{name}", self._delete)
        app.router.add_post("/api/v1/namespaces/{ns}/pods/{name}/binding", self._bind)
        app.router.add_post("/apis/events.k8s.io/v1/namespaces/{ns}/events", self._event)
        app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self._review)
        return app

    def _tell(self, type_, kind, body):
        for watched, matches, queue in self._watches:
            if watched == kind and matches(body):
                queue.put_nowait({"type": type_, "object": copy.deepcopy(body)})
        self.note_change()

    def _list(self, kind):
        async def handler(request):
            matches = _matcher(request)
            if request.query.get("watch"):
                return await self._watch(request, kind, matches)
            items = [body for body in self.objects[kind].values() if matches(body)]
            return web.json_response({"metadata": {"resourceVersion": str(next(self._versions))}, "items": items})

        return handler

    async def _watch(self, request, kind, matches):
        queue = asyncio.Queue()
        since = int(request.query["resourceVersion"])
        for body in self.objects[kind].values():
            if int(body["metadata"]["resourceVersion"]) > since and matches(body):
                queue.put_nowait({"type": "ADDED", "object": body})
        entry = (kind, matches, queue)
        self._watches.append(entry)
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(json.dumps(await queue.get()).encode() + b"\n")
        finally:
            self._watches.remove(entry)

    async def _get(self, request):
        body = self._find(request)
        return web.json_response(body) if body else web.json_response({"message": "not found"}, status=404)

    async def _patch(self, request):
        body, patch = copy.deepcopy(self._find(request)), await request.json()
        if body is None:
            return web.json_response({"message": "not found"}, status=404)
        if patch.get("metadata", {}).get("uid", body["metadata"]["uid"]) != body["metadata"]["uid"]:
            return web.json_response({"message": "uid"}, status=409)
        body["metadata"].setdefault("annotations", {}).update(patch["metadata"].get("annotations", {}))
        for condition in patch.get("status", {}).get("conditions", ()):
            others = [c for c in body["status"].get("conditions", ()) if c["type"] != condition["type"]]
            body["status"]["conditions"] = [*others, condition]
        return web.json_response(self.put("pods", body))

    async def _delete(self, request):
        body, options = copy.deepcopy(self._find(request)), await request.json()
        if body is None:
            return web.json_response({"message": "not found"}, status=404)
        if options["preconditions"].get("uid") != body["metadata"]["uid"]:
            return web.json_response({"message": "uid"}, status=409)
        self.deleted.append(body["metadata"]["name"])
        body["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        return web.json_response(self.put("pods", body))

    async def _bind(self, request):
        body, binding = copy.deepcopy(self._find(request)), await request.json()
        if self.refuse_bindings:
            return web.json_response({"message": "no"}, status=403)
        if body is None or body["spec"].get("nodeName") or body["metadata"]["uid"] != binding["metadata"]["uid"]:
            return web.json_response({"message": "cannot bind"}, status=409)
        self.bindings.append((body["metadata"]["name"], binding["target"]["name"]))
        body["spec"]["nodeName"] = binding["target"]["name"]
        body["metadata"].setdefault("annotations", {}).update(binding["metadata"]["annotations"])
        self.put("pods", body)
        return web.json_response({"status": "Success"}, status=201)

    async def _event(self, request):
        self.events.append(await request.json())
        self.note_change()
        return web.json_response({}, status=201)

    async def _review(self, request):
        """The token `slurmd-1` is that of the pod of this name."""
        token = (await request.json())["spec"]["token"]
        pod = self.objects["pods"].get(("slurm", token))
        if pod is None:
            return web.json_response({"status": {"authenticated": False, "error": "unknown token"}})
        extra = {
            "authentication.kubernetes.io/pod-name": [token],
            "authentication.kubernetes.io/pod-uid": [pod["metadata"]["uid"]],
        }
        user = {"username": "system:serviceaccount:slurm:slurmd", "extra": extra}
        return web.json_response({"status": {"authenticated": True, "user": user}})

    def _find(self, request):
        return self.objects["pods"].get((request.match_info["ns"], request.match_info["name"]))

    # --------------------------------------------------------------- Slurm

    def slurm_app(self):
        app = web.Application(middlewares=[self._maybe_down])
        app.router.add_get(f"{API}/nodes/", self._nodes)
        app.router.add_get(f"{API}/partitions/", self._partitions)
        app.router.add_get(f"{API}/jobs/state/", self._states)
        app.router.add_get(f"{API}/jobs/", self._all_jobs)
        app.router.add_post(f"{API}/job/submit", self._submit)
        app.router.add_get(f"{API}/job/{{id}}", self._job)
        app.router.add_post(f"{API}/job/{{id}}", self._update)
        app.router.add_delete(f"{API}/job/{{id}}", self._kill)
        return app

    @web.middleware
    async def _maybe_down(self, request, handler):
        if not self.slurm_is_up:
            return web.json_response({"errors": [{"error_number": 1800}]}, status=502)
        return await handler(request)

    async def _nodes(self, _):
        pods = [
            pod for pod in self.objects["pods"].values() if names.LABEL_SLURM_NODE in pod["metadata"].get("labels", {})
        ]
        nodes = [{"name": pod["metadata"]["labels"][names.LABEL_SLURM_NODE], "state": ["IDLE"]} for pod in pods]
        return web.json_response({"nodes": nodes, "last_update": {"set": True, "number": 1}})

    async def _partitions(self, _):
        tiers = {"low": 1, "high": 10}
        return web.json_response(
            {"partitions": [{"name": name, "priority": {"tier": tier}} for name, tier in tiers.items()]}
        )

    async def _states(self, _):
        states = [{"job_id": str(id), "state": job["job_state"]} for id, job in self.jobs.items()]
        self.note_change()
        return web.json_response({"jobs": states})

    async def _all_jobs(self, _):
        return web.json_response({"jobs": list(self.jobs.values()), "last_update": {"set": True, "number": 1}})

    async def _submit(self, request):
        if self.reject_submit:
            errors = [{"error_number": self.reject_submit, "error": "no"}]
            self.note_change()
            return web.json_response({"errors": errors}, status=422)
        job = (await request.json())["job"]
        job_id = next(self._ids)
        excluded = ",".join(job.get("excluded_nodes", ()))
        self.jobs[job_id] = {
            "job_id": job_id,
            "job_state": ["PENDING"],
            "comment": job["comment"],
            "user_name": "k8s",
            "partition": "low",
            "excluded_nodes": excluded,
        }
        self.submissions.append(job)
        self.note_change()
        if self.lose_next_answer:
            self.lose_next_answer = False
            return web.json_response({"errors": [{"error_number": 1803}]}, status=504)
        return web.json_response({"job_id": job_id})

    async def _job(self, request):
        job = self.jobs.get(int(request.match_info["id"]))
        if job is None:
            return web.json_response({"jobs": [], "errors": [{"error_number": 2017}]}, status=404)
        return web.json_response({"jobs": [job]})

    async def _update(self, request):
        body = await request.json()
        self.jobs[int(request.match_info["id"])]["excluded_nodes"] = ",".join(body["excluded_nodes"])
        self.note_change()
        return web.json_response({})

    async def _kill(self, request):
        job_id = int(request.match_info["id"])
        if signal := request.query.get("signal"):
            self.signals.append((job_id, signal))
        else:
            self.cancelled.append(job_id)
            if job_id in self.jobs:
                self.jobs[job_id]["job_state"] = ["CANCELLED"]
        self.note_change()
        return web.json_response({})


def _matcher(request):
    fields = [term for term in request.query.get("fieldSelector", "").split(",") if term]
    labels = [term for term in request.query.get("labelSelector", "").split(",") if term]
    namespace = request.match_info.get("ns")

    def matches(body):
        own = body["metadata"].get("labels", {})
        return (
            (namespace is None or body["metadata"].get("namespace") == namespace)
            and all(_field(body, term) for term in fields)
            and all(own.get(term.split("=")[0]) == term.split("=")[1] for term in labels)
        )

    return matches


def _field(body, term):
    path, operator, value = re.match(r"([\w.]+)(!?=)(.*)", term).groups()
    found = body
    for part in path.split("."):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return ((found or "") == value) == (operator == "=")


@contextlib.asynccontextmanager
async def serving(app):
    """Serve an application on a free port; gives the port."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def connections(world, tmp_path):
    """Kube, Slurm and settings that lead to the world."""
    async with serving(world.kube_app()) as kube_port, serving(world.slurm_app()) as slurm_port:
        kubeconfig = tmp_path / "kubeconfig"
        cluster = {"server": f"http://127.0.0.1:{kube_port}"}
        kubeconfig.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        (tmp_path / "token").write_text("token")
        slurm_settings = SlurmSettings(
            url=f"http://127.0.0.1:{slurm_port}", version="v0.0.42", user="k8s", token_file=str(tmp_path / "token")
        )
        settings = SchedulerSettings(
            cluster="test", namespace="slurm", slurm=slurm_settings, poll_seconds=0.02, access=(OPEN,)
        )
        slurm = Slurm.connect(slurm_settings)
        try:
            async with await Kube.connect(kubeconfig) as kube:
                yield kube, slurm, settings
        finally:
            await slurm.close()


@contextlib.asynccontextmanager
async def leading(world, tmp_path, *, sweep_seconds=600.0, **term):
    """A scheduler that leads on the world; gives its hook server."""
    async with connections(world, tmp_path) as (kube, slurm, settings):
        settings = msgspec.structs.replace(settings, sweep_seconds=sweep_seconds)
        process = Process("scheduler", settings)
        metrics = SchedulerMetrics(process.registry)
        server = HookServer(port=0, metrics=metrics)
        parts = {"kube": kube, "slurm": slurm, "settings": settings, "process": process, "metrics": metrics}
        task = asyncio.ensure_future(Term(**parts, **term).run(server))
        try:
            await world.until(lambda: server.hooks is not None or task.done())
            if task.done():
                task.result()
            yield server
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
