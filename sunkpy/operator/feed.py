"""Follows NodeSets with kopf, which calls a function at each change and writes nothing on the objects.

kopf runs in a thread with an event loop of its own, because at its end it cancels every task of its loop, and because
its start-up work must not delay the informers. The registry that it gets has only this module's login handler: the
default registry would import the official client's models, 60 MB that nothing here uses.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping

import kopf
import msgspec

from sunkpy.core import names
from sunkpy.core.nodeset.spec import NodeSet

OnNodeSet = Callable[[NodeSet, bool], None]
"""A function that is called in the caller's event loop with a NodeSet, and True if the NodeSet is gone."""

_STOP_S = 3.0


async def follow_nodesets(seen: OnNodeSet) -> None:
    """Call `seen` with each NodeSet at the start and at each change, until cancelled.

    Raises:
        RuntimeError: kopf has ended without an error, so no change would be reported any more.
        Exception: kopf has ended with this error.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    def report_change(nodeset: NodeSet, is_gone: bool) -> None:
        loop.call_soon_threadsafe(seen, nodeset, is_gone)

    registry = _registry(report_change)
    kopf_thread = asyncio.ensure_future(asyncio.to_thread(asyncio.run, _run_kopf(registry, stop)))
    try:
        await asyncio.shield(kopf_thread)
    finally:
        stop.set()
        await asyncio.wait({kopf_thread}, timeout=_STOP_S)
    raise RuntimeError("the watch of NodeSets has ended; see the log lines of kopf")


def _registry(report_change: OnNodeSet) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    def login(*, settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)

    @kopf.on.startup(registry=registry)
    def configure(*, settings: kopf.OperatorSettings, **_: object) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.networking.request_timeout = 10
        settings.queueing.idle_timeout = 0.1  # nothing is batched, and the process must end at once

    @kopf.on.event(names.API_GROUP, names.API_VERSION, names.NODESET_PLURAL, registry=registry)
    async def changed(*, type: str | None, body: Mapping[str, object], **_: object) -> None:
        report_change(msgspec.convert(dict(body), NodeSet), type == "DELETED")

    return registry


async def _run_kopf(registry: kopf.OperatorRegistry, stop: threading.Event) -> None:
    await kopf.operator(
        registry=registry,
        clusterwide=True,
        standalone=True,
        stop_flag=stop,
        # Otherwise kopf makes one of user and host, and fails where the user id has no name, as in our image.
        identity="sunkpy",  # type: ignore[arg-type]
    )
