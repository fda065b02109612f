"""Debian's Chromium without a screen, driven over its DevTools protocol: a page, and what it loads, draws and says."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from devcluster.packages import ensure

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip


class Page:
    """One tab. `heard`: parameters of each event of the protocol, by name."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.heard: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    async def listen(self) -> None:
        """Read messages until the tab is closed."""
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if not answer.cancelled():
                    answer.set_result(told)
            else:
                self.heard[told["method"]].append(told["params"])

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the browser for something; its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        told = await asyncio.wait_for(answer, 60)
        assert "error" not in told, told
        return told["result"]

    async def open(self, url: str, *, width: int = 1440, height: int = 900, dark: bool = False) -> None:
        """Go there, with an empty cache, on a screen of that size."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.send(f"{domain}.enable")
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.heard.clear()
        await self.send("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        found = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true: the page itself looks again and again."""
        look = f"const look = () => ({script}) ? done() : setTimeout(look, 20); look();"
        await self.run(f"new Promise((done) => {{ {look} }})")

    async def text(self, selector: str) -> str:
        """What stands in an element."""
        return await self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    async def picture(self) -> bytes:
        """What is seen, as PNG."""
        found = await self.send("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    async def busy_s(self) -> float:
        """Processor time of the page's main thread, since it was asked for the first time."""
        await self.send("Performance.enable", timeDomain="threadTicks")
        metrics = (await self.send("Performance.getMetrics"))["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    @property
    def received(self) -> int:
        """Bytes over the wire until now."""
        return sum(each["encodedDataLength"] for each in self.heard["Network.dataReceived"])


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """A browser with one empty tab, which keeps what it has to in a folder."""
    await asyncio.to_thread(ensure, {"chromium": "chromium"}, progress=print)
    # A folder for its socket, whose path must be short, would outlive it.
    own = tempfile.mkdtemp(prefix="chromium-")
    process = await asyncio.create_subprocess_exec(
        "chromium", *_FLAGS, f"--user-data-dir={folder}", "about:blank", env=os.environ | {"TMPDIR": own},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        port = await asyncio.wait_for(_port(process.stderr), 60)
        log = asyncio.ensure_future(process.stderr.read())
        async with aiohttp.ClientSession() as session:
            url = await asyncio.wait_for(_tab(session, port), 60)
            async with session.ws_connect(url, max_msg_size=0) as socket:
                page = Page(socket)
                listener = asyncio.ensure_future(page.listen())
                yield page
                listener.cancel()
                log.cancel()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        shutil.rmtree(own, ignore_errors=True)


async def _tab(session: aiohttp.ClientSession, port: int) -> str:
    """The address of its tab, which is there a moment after it listens."""
    while True:
        async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            for tab in await answer.json():
                if tab["type"] == "page":
                    return tab["webSocketDebuggerUrl"]
        await asyncio.sleep(0.1)


async def _port(log: asyncio.StreamReader) -> int:
    """Where it listens, as it says itself."""
    async for line in log:
        if found := re.search(rb"DevTools listening on ws://127.0.0.1:(\d+)/", line):
            return int(found[1])
    raise AssertionError("Chromium has ended")
