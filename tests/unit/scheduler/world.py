"""A small apiserver and a small slurmrestd over HTTP, so that the whole scheduler runs against them unchanged.

They keep what they are sent and do nothing by themselves: a test moves the world on (`set_job`, `pod_is_gone`) and
waits with `until`.
"""

import asyncio
import contextlib
import copy
import json
import time

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.access import AccessRule
from sunkpy.core.gang.families import FAMILIES
from sunkpy.kube.client import Kube
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.hooks.server import HookServer
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.settings import TIMES, SchedulerSettings
from sunkpy.scheduler.term import Term
from sunkpy.slurm import Slurm
from tests.doubles.apiserver import KUBELET, Apiserver, token_of
from tests.doubles.serving import Changes, answering, serving
from tests.doubles.slurmrestd import Slurmrestd

__all__ = ["World", "connections", "leading", "serving"]

OPEN = AccessRule(
    namespaces=("*",), partitions=("*",), accounts=("*",), qos=("*",), reservations=("*",), licenses=("*",)
)


NODESET_REFERENCE = {
    "apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "nodeset-1", "controller": True,
}  # fmt: skip


def reference(owner):
    """How a pod or another object names the controller that made it."""
    meta = owner["metadata"]
    kind = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    return kind | {"name": meta["name"], "uid": meta["uid"], "controller": True}


def token_of_slurmd(number, **forged):
    """The token in the slurmd pod of that node."""
    return token_of(f"slurmd-{number}", **{"uid": f"uid-of-slurmd-{number}"} | forged)


SLURMD_STARTED, SLURMD_STARTED_S = "2026-11-21T00:00:00Z", 1795219200


class World:
    """Both servers, what they hold, and what was asked of them."""

    def __init__(self):
        self.changes = Changes()
        self.api = Apiserver(self.changes)
        self.slurm = Slurmrestd(self.changes)
        self.times = TIMES
        self.later_s = 0.0
        """By how many seconds the scheduler's clock is set forward."""
        self.term = None  # the latest

    # ------------------------------------------------------------ for tests

    def hasten(self, **times):
        """Have the next scheduler wait for other times."""
        self.times = msgspec.structs.replace(self.times, **times)

    async def until(self, condition, *, within_s=20.0):
        """Wait until `condition()` is true."""
        return await self.changes.until(condition, within_s=within_s)

    def note_change(self):
        self.changes.note()

    def put(self, kind, body):
        """Store an object and tell the watches."""
        return self.api.put(kind, body)

    def remove(self, kind, namespace, name):
        self.api.remove(kind, namespace, name)

    def add_node(self, number, *, registers=True, **allocatable):
        """A node with its slurmd pod and its Slurm node `n<number>`, unless that is still to come."""
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
                    "uid": f"uid-of-slurmd-{number}",
                    "labels": labels,
                    "ownerReferences": [NODESET_REFERENCE],
                },
                "spec": {"nodeName": f"node-{number}", "schedulerName": "default-scheduler"},
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{"name": "slurmd", "state": {"running": {"startedAt": SLURMD_STARTED}}}],
                },
            },
        )
        if registers:
            self.register(number)

    def list_gpus(self, number, *lines, made_s=SLURMD_STARTED_S, **fields):
        """The slurmd of a node publishes what is behind Slurm's indices."""
        listed = {"gpu": list(lines), "made": [f"uid-of-slurmd-{number}", str(made_s)]}
        self.slurm.put(f"n{number}", extra=json.dumps(listed), **fields)

    def register(self, number):
        """Slurm has the node, and the slurmd pod says so."""
        self.slurm.put(f"n{number}")
        is_ready = {"type": names.READINESS_GATE, "status": "True"}
        slurmd = self.api.objects["pods", "slurm", f"slurmd-{number}"]
        self.put("pods", {**slurmd, "status": {**slurmd["status"], "conditions": [is_ready]}})

    def add_pod(
        self,
        name="web",
        *,
        namespace="default",
        cpu="1",
        annotations=None,
        labels=None,
        node="",
        running=False,
        deleted=False,
        owner=None,
        **spec,
    ):
        """A pod whose exit code counts; with `restartPolicy="Always"` a service. One that is `deleted` is going."""
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        asked = {"schedulerName": "slurm", "restartPolicy": "Never", "containers": containers, "nodeName": node}
        status = {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
        metadata = {"name": name, "namespace": namespace, "finalizers": [KUBELET], "labels": dict(labels or {})}
        if owner is not None:
            metadata["ownerReferences"] = [reference(owner)]
        if deleted:
            metadata["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        return self.put(
            "pods",
            {
                "metadata": metadata | {"annotations": dict(annotations or {})},
                "spec": asked | spec,
                "status": status if running else {"phase": "Pending"},
            },
        )

    def pod(self, name="web"):
        return self.api.objects.get(("pods", "default", name))

    def pod_runs(self, name="web"):
        self._pod_is(name, "Running", "running")

    def pod_ends(self, phase, name="web"):
        self._pod_is(name, phase, "terminated")

    def _pod_is(self, name, phase, state):
        pod = copy.deepcopy(self.pod(name))
        pod["status"] |= {"phase": phase, "containerStatuses": [{"name": "c", "state": {state: {}}}]}
        self.put("pods", pod)

    def pod_is_gone(self, name="web"):
        """The kubelet reported the end of the pod's containers before the pod was removed."""
        if self.pod(name)["spec"].get("nodeName"):
            self.pod_ends("Failed", name)
        self.pod_vanishes(name)

    def pod_vanishes(self, name="web"):
        """As when it is deleted by force."""
        self.remove("pods", "default", name)

    def add_job(self, pod, *states, user="k8s", **fields):
        """A job that was there before the scheduler."""
        meta = pod["metadata"]
        comment = f"k8s:{meta['namespace']}/{meta['name']}:{meta['uid']}"
        return self.slurm.add_job(*states, user=user, **({"comment": comment} | fields))

    def set_job(self, job_id, *states, **fields):
        self.slurm.set_job(job_id, *states, **fields)

    def notes(self, reason):
        return [event["note"] for event in self.api.events() if event["reason"] == reason]

    # -------------------------------------------- what was asked of them

    @property
    def events(self):
        return self.api.events()

    @property
    def bindings(self):
        return self.api.bindings

    @property
    def deleted(self):
        return self.api.deleted

    @property
    def jobs(self):
        return self.slurm.jobs

    @property
    def submissions(self):
        return self.slurm.submissions

    @property
    def allocations(self):
        return self.slurm.allocations

    @property
    def signals(self):
        return self.slurm.signals

    @property
    def cancelled(self):
        return self.slurm.cancelled

    # ----------------------------------------------------- how Slurm fails

    @property
    def slurm_is_up(self):
        return not self.slurm.is_down

    @slurm_is_up.setter
    def slurm_is_up(self, is_up):
        self.slurm.is_down = not is_up

    @property
    def lose_next_answer(self):
        return self.slurm.lose_next_answer

    @lose_next_answer.setter
    def lose_next_answer(self, is_lost):
        self.slurm.lose_next_answer = is_lost

    @property
    def reject_submit(self):
        return self.slurm.reject_submit

    @reject_submit.setter
    def reject_submit(self, error_number):
        self.slurm.reject_submit = error_number


async def away_for_a_poll(world):
    """Slurm is away, and polled again since."""
    world.slurm_is_up = False
    await world.until(lambda: "refused jobs/state/" in world.slurm.requests)
    world.slurm_is_up = True
    read = world.slurm.states_read
    await world.until(lambda: world.slurm.states_read >= read + 2)


@contextlib.asynccontextmanager
async def connections(world, tmp_path):
    """Kube, Slurm and settings that lead to the world."""
    async with answering(world.api.handle, tmp_path) as kubeconfig, serving(world.slurm.app()) as slurm_port:
        (tmp_path / "key").write_bytes(b"k" * 32)
        slurm_settings = SlurmSettings(
            url=f"http://127.0.0.1:{slurm_port}", version="v0.0.42", user="k8s", jwt_key_file=str(tmp_path / "key")
        )
        settings = SchedulerSettings(
            cluster="test", namespace="slurm", slurm=slurm_settings, access=(OPEN,), times=world.times
        )
        slurm = Slurm.connect(slurm_settings)
        try:
            async with await Kube.connect(kubeconfig) as kube:
                yield kube, slurm, settings
        finally:
            await slurm.close()


@contextlib.asynccontextmanager
async def leading(world, tmp_path, *, poll_seconds=0.02, families=FAMILIES, **changes):
    """A scheduler that leads on the world, with changed settings; gives its hook server."""
    async with connections(world, tmp_path) as (kube, slurm, settings):
        settings = msgspec.structs.replace(settings, poll_seconds=poll_seconds, **changes)
        async with term(world, kube, slurm, settings, families=families) as server:
            yield server


@contextlib.asynccontextmanager
async def term(world, kube, slurm, settings, **parts):
    """One term of a scheduler between these two, whatever stands behind them; gives its hook server."""
    process = Process("scheduler", settings)
    metrics = SchedulerMetrics(process.registry)
    server = HookServer(port=0, metrics=metrics)
    parts |= {"kube": kube, "slurm": slurm, "settings": settings, "process": process, "metrics": metrics}
    world.term = Term(**{"families": FAMILIES, "clock": lambda: time.monotonic() + world.later_s} | parts)
    task = asyncio.ensure_future(world.term.run(server.answer_by))
    try:
        await world.until(lambda: server.hooks is not None or task.done())
        if task.done():
            task.result()
        yield server
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
