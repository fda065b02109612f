"""A small apiserver over real HTTP: objects with versions, preconditions, merge patches, watches, discovery."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

GROUP = "/apis/sunkpy.dev/v1alpha1"
COLLECTIONS = ("pods", "nodes", "nodesets", "leases", "events", "poddisruptionbudgets")
Body = dict[str, Any]


class Apiserver:
    """What a test sees and changes of the cluster; `objects` is keyed by (collection, namespace, name)."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Body] = {}
        self.watched: set[str] = set()
        self.refuse_pods = ""
        self._log: list[tuple[int, str, str, Body]] = []
        self._version = 0
        self._changed = asyncio.Condition()

    # ----------------------------------------------------- what tests use

    async def put(self, collection: str, body: Body) -> None:
        """Create or replace, as another client would."""
        meta = body.setdefault("metadata", {})
        key = (collection, meta.get("namespace", ""), meta["name"])
        meta.setdefault("uid", f"uid-{self._version}")
        await self._store(key, body, "MODIFIED" if key in self.objects else "ADDED")

    async def change(self, collection: str, namespace: str, name: str, patch: Body) -> None:
        """Merge a patch, as another client would."""
        key = (collection, namespace, name)
        await self._store(key, merged(self.objects[key], patch), "MODIFIED")

    def find(self, collection: str, name: str) -> Body | None:
        """By name, in whatever namespace."""
        return next((o for (c, _, n), o in self.objects.items() if (c, n) == (collection, name)), None)

    def names(self, collection: str) -> list[str]:
        """Names of a collection."""
        return sorted(n for c, _, n in self.objects if c == collection)

    def notes(self) -> list[str]:
        """Reasons of all Events."""
        return [o["reason"] for (c, _, _), o in self.objects.items() if c == "events"]

    async def until(self, condition: Any) -> None:
        """Wait for a state of the cluster; fails after a while."""
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(condition)

    # ------------------------------------------------------------ storage

    async def _store(self, key: tuple[str, str, str], body: Body, kind: str) -> None:
        self._version += 1
        body = json.loads(json.dumps(body))
        body["metadata"] |= {"resourceVersion": str(self._version), "name": key[2]}
        if key[1]:
            body["metadata"]["namespace"] = key[1]
        body["metadata"].setdefault("creationTimestamp", "2026-11-20T12:00:00Z")
        if kind == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = body
        self._log.append((self._version, key[0], kind, body))
        async with self._changed:
            self._changed.notify_all()

    # --------------------------------------------------------------- HTTP

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if found := discovery(path):
            return web.json_response(found)
        collection, namespace, name, sub = parsed(path)
        key = (collection, namespace, name)
        if request.method == "GET" and not name:
            if "watch" in request.query:
                return await self._watch(request, collection)
            items = [o for (c, n, _), o in self.objects.items() if c == collection and namespace in ("", n)]
            return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})
        if request.method == "POST":
            return await self._create(request, collection, namespace)
        if "fieldManager" in request.query:
            await self.put(collection, await request.json())
            return web.json_response(self.objects[key])
        if key not in self.objects:
            return refusal(404, "NotFound")
        if request.method == "GET":
            return web.json_response(self.objects[key])
        body = await request.json()
        return await (self._delete if request.method == "DELETE" else self._patch)(key, body, sub)

    async def _create(self, request: web.Request, collection: str, namespace: str) -> web.Response:
        body = await request.json()
        key = (collection, namespace, body["metadata"]["name"])
        if collection == "pods" and self.refuse_pods:
            return refusal(422, "Invalid", self.refuse_pods)
        if key in self.objects:
            return refusal(409, "AlreadyExists")
        if "dryRun" not in request.query:
            body["metadata"].setdefault("uid", f"uid-{self._version}")
            await self._store(key, body, "ADDED")
            body = self.objects[key]
        return web.json_response(body, status=201)

    async def _patch(self, key: tuple[str, str, str], body: Body, sub: str) -> web.Response:
        old, meta = self.objects[key], body.get("metadata", {})
        known = old["metadata"]
        if any(meta.get(field, known[field]) != known[field] for field in ("uid", "resourceVersion")):
            return refusal(409, "Conflict")
        body = {"status": body["status"]} if sub == "status" else {k: v for k, v in body.items() if k != "status"}
        if sub == "status" and key[0] == "nodes":
            body = {"status": {"conditions": merged_conditions(old, body)}}
        new = merged(old, body)
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            await self._store(key, new, "DELETED")
        else:
            await self._store(key, new, "MODIFIED")
        return web.json_response(new)

    async def _delete(self, key: tuple[str, str, str], body: Body, sub: str) -> web.Response:
        old = self.objects[key]
        if any(old["metadata"][field] != value for field, value in body.get("preconditions", {}).items()):
            return refusal(409, "Conflict")
        await self._store(key, old, "DELETED")
        return web.json_response({})

    async def _watch(self, request: web.Request, collection: str) -> web.StreamResponse:
        position = 0
        since = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        self.watched.add(collection)
        async with self._changed:
            self._changed.notify_all()
        while True:
            while position < len(self._log):
                version, changed, kind, body = self._log[position]
                position += 1
                if changed == collection and version > since:
                    await response.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")
            async with self._changed:
                await self._changed.wait()


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    result = {**old, **{k: merged(old.get(k, {}) if isinstance(v, dict) else None, v) for k, v in patch.items()}}
    return {k: v for k, v in result.items() if v is not None}


def merged_conditions(old: Body, patch: Body) -> list[Body]:
    """The strategic merge of conditions: by type."""
    found = {c["type"]: c for c in old.get("status", {}).get("conditions", [])}
    for condition in patch["status"]["conditions"]:
        if condition.get("$patch") == "delete":
            found.pop(condition["type"], None)
        else:
            found[condition["type"]] = condition
    return list(found.values())


def parsed(path: str) -> tuple[str, str, str, str]:
    """Collection, namespace, name, subresource."""
    parts = path.strip("/").split("/")
    namespace = ""
    if "namespaces" in parts:
        at = parts.index("namespaces")
        namespace = parts[at + 1]
        parts = parts[:at] + parts[at + 2 :]
    at = next(i for i, part in enumerate(parts) if part in COLLECTIONS)
    rest = [*parts[at + 1 :], "", ""]
    return parts[at], namespace, rest[0], rest[1]


def refusal(status: int, reason: str, message: str = "") -> web.Response:
    """A Status object."""
    return web.json_response({"kind": "Status", "reason": reason, "message": message or reason}, status=status)


def discovery(path: str) -> Body | None:
    """What kopf asks for before it follows a resource."""
    version = {"groupVersion": "sunkpy.dev/v1alpha1", "version": "v1alpha1"}
    resource = {
        "name": "nodesets", "singularName": "nodeset", "namespaced": True, "kind": "NodeSet",
        "verbs": ["get", "list", "watch", "patch"],
    }  # fmt: skip
    core = [resource | {"name": "namespaces", "kind": "Namespace"}, resource | {"name": "events", "kind": "Event"}]
    crds = [resource | {"name": "customresourcedefinitions", "kind": "CustomResourceDefinition"}]
    extensions = {"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}
    groups = [("sunkpy.dev", version), ("apiextensions.k8s.io", extensions)]
    return {
        "/api": {"versions": ["v1"]},
        "/api/v1": {"resources": core},
        "/apis": {"groups": [{"name": n, "versions": [v], "preferredVersion": v} for n, v in groups]},
        "/apis/apiextensions.k8s.io/v1": {"resources": crds},
        GROUP: {"groupVersion": "sunkpy.dev/v1alpha1", "resources": [resource]},
    }.get(path.rstrip("/"))


@asynccontextmanager
async def serving(api: Apiserver, folder: Path) -> Any:
    """Serve, and yield a kubeconfig for it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    kubeconfig = folder / "kubeconfig"
    cluster = {"server": str(server.make_url("")).rstrip("/")}
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    try:
        yield kubeconfig
    finally:
        await server.close()
