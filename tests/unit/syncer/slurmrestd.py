"""A small slurmrestd: nodes that can be drained, undrained, commented and deleted, with If-Modified-Since."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from pytest_httpx import HTTPXMock


class FakeSlurmrestd:
    """`nodes` is what Slurm has; `writes` what was asked of it; `is_down` answers 502, `refuse` refuses writes."""

    def __init__(self, httpx_mock: HTTPXMock, *, cluster: str = "c1") -> None:
        self.cluster = cluster
        self.nodes: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.is_down = False
        self.refuse = ""
        self.refused = asyncio.Event()
        self._version = 100
        httpx_mock.add_callback(self.handle, is_reusable=True, is_optional=True)

    def put(self, name: str, *state: str, **fields: Any) -> None:
        """Create or change a node, as slurmd or an admin would."""
        old = self.nodes.get(name, {"name": name, "state": ["IDLE"], "reason": "", "comment": ""})
        self.nodes[name] = old | fields | ({"state": list(state)} if state else {})
        self._version += 1

    def lose_state(self) -> None:
        """Everything is gone."""
        self.nodes.clear()
        self._version += 1

    def forget(self, name: str) -> None:
        """slurmctld has lost its record of one node, or somebody deleted it."""
        del self.nodes[name]
        self._version += 1

    def state(self, name: str) -> str:
        """As scontrol prints it."""
        return "+".join(self.nodes[name]["state"])

    def handle(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            self.refused.set()
            return httpx.Response(502, text="slurmctld is down")
        _, _, endpoint = request.url.path.removeprefix("/slurm/").partition("/")
        kind, _, name = endpoint.partition("/")
        if kind == "ping":
            return self.reply(pings=[{"responding": True}])
        if kind == "nodes":
            if int(request.url.params.get("update_time", 0)) >= self._version:
                return httpx.Response(304)
            return self.reply(nodes=list(self.nodes.values()), last_update={"set": True, "number": self._version})
        if request.method == "GET" and name in self.nodes:
            return self.reply(nodes=[self.nodes[name]])
        if request.method == "GET":
            return httpx.Response(404, json={"errors": [{"error_number": 2018, "error": "Invalid node name"}]})
        self.writes.append(f"{request.method} {name} {request.content.decode()}".strip())
        if name not in self.nodes:
            return httpx.Response(
                500, json={"errors": [{"error_number": 2018, "error": "Invalid node name specified"}]}
            )
        if self.refuse:
            return httpx.Response(500, json={"errors": [{"error_number": 2058, "error": self.refuse}]})
        if request.method == "DELETE":
            del self.nodes[name]  # the version does not change: 24.11 and 26.05 answer 304 afterwards
            return self.reply()
        self._update(name, json.loads(request.content))
        return self.reply()

    def _update(self, name: str, change: dict[str, Any]) -> None:
        state = set(self.nodes[name]["state"])
        state |= {"DRAIN"} & set(change.get("state", ()))
        state -= {"DRAIN"} if "UNDRAIN" in change.get("state", ()) else set()
        self.put(name, *sorted(state), **{key: change[key].strip() for key in ("reason", "comment") if key in change})

    def reply(self, **body: Any) -> httpx.Response:
        meta = {"slurm": {"cluster": self.cluster, "release": "26.05.5"}}
        return httpx.Response(200, json=body | {"meta": meta, "errors": [], "warnings": []})
