"""Starts health checks of idle machines, as Slurm jobs. It uses the reads of Slurm for the metrics (`syncer.figures`).

The end of each check is read with a request for its job. A new leader goes on where the last one was: Slurm has the
running checks, and annotations of slurmd pods have the ended ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.health.idle_check import IdleCheck, Outcome, read_idle_check
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.states import JobId
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.idle_checks import (
    IdleRule,
    IdleView,
    make_job,
    oldest_checks,
    plan_idle_checks,
    read_end,
    record_of,
    refused,
)
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.windows import is_open
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import AlreadyDone, NotFound, Rejected, SlurmError
from sunkpy.syncer.figures import Read
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.settings import IdleCheckSettings

_USER = "root"
"""The Slurm user of the checks' jobs. The health check before slurmd also runs as root."""


class IdleChecks:
    """Runs health checks of idle machines as Slurm jobs: with each read of Slurm, checks begin, are cancelled, or have
    ended. `read_soon` is called while a check runs, because a failure must be noticed quickly.
    """

    def __init__(
        self,
        kube: Kube,
        slurm: Slurm,
        events: EventRecorder,
        metrics: SyncerMetrics,
        settings: IdleCheckSettings,
        *,
        pods: Informer[Pod],
        nodesets: Informer[NodeSet],
        read_soon: Callable[[], None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._events = events
        self._metrics = metrics
        self._settings = settings
        self._pods = pods
        self._nodesets = nodesets
        self._read_soon = read_soon
        self._now = now
        self._log = structlog.get_logger("syncer")

    async def check(self, read: Read) -> None:
        """With one more read of Slurm, note how checks have ended, cancel checks, and begin new ones."""
        rules = self._settings.node_sets
        if not rules or read.jobs is None:
            return
        pods = {slurm_node_of(pod): pod for pod in self._pods.values() if is_slurmd(pod)}
        view = IdleView(
            partition=self._settings.partition,
            rules=self._open_rules(),
            pods=pods,
            nodes=read.nodes,
            jobs=read.jobs,
            are_all_read=not read.unread_jobs,
            partitions=read.partitions,
            now=self._now(),
        )
        plan = await asyncio.to_thread(plan_idle_checks, view)
        if plan.begin or plan.read:
            self._read_soon()
        for nodeset, at_s in oldest_checks(pods.values(), rules).items():
            self._metrics.oldest_check.labels(nodeset).set(at_s)
        for nodeset in view.rules:
            self._metrics.idle_checks_halted.labels(nodeset).set(nodeset in plan.halted)
        if plan.halted:
            self._log.warning("too many checks of idle nodes have failed, so none begins", nodesets=plan.halted)
        for name, job in plan.read:
            await self._read(pods[name], job)
        for job in plan.end:
            await self._end(job)
        for name in plan.told:
            check = read_idle_check(pods[name])
            if check is not None:
                await self._write(pods[name], msgspec.structs.replace(check, is_told=True))
        for name in plan.begin:
            await self._begin(name, pods[name], read)

    def _open_rules(self) -> Mapping[str, IdleRule]:
        """Return the rules of NodeSets that exist and whose maintenance window is open now."""
        now = self._now()
        known = {each.name: each for each in self._nodesets.values() if not each.is_deleting}
        return {
            name: rule
            for name, rule in self._settings.node_sets.items()
            if name in known and is_open(known[name].spec.update_strategy.rolling_update.windows, now)
        }

    async def _begin(self, name: str, pod: Pod, read: Read) -> None:
        """Submit the check of one node as a Slurm job. If Slurm does not answer, the next read shows whether the job
        exists.
        """
        settings = self._settings
        qos = settings.node_sets[pod.labels[names.LABEL_NODESET]].qos
        job = make_job(pod, read.nodes[name], partition=settings.partition, qos=qos)
        try:
            submitted = await self._slurm.submit_job(job, user=_USER)
        except Rejected as error:
            note = f"Slurm refuses the job that would check node {name}; it is tried again within an hour: {error}"
            await self._events.warning(pod, "Pod", reason="IdleCheckRefused", action="Check", note=note)
            await self._write(pod, record_of(pod, refused(pod, str(error), self._now())))
        except SlurmError as error:
            self._log.warning("the check of an idle node may not have begun", node=name, error=str(error))
        else:
            self._log.info("the check of an idle node begins", node=name, job=submitted.job_id)

    async def _read(self, pod: Pod, job: JobId) -> None:
        try:
            check = read_end(await self._slurm.job(job), pod, self._now())
        except SlurmError as error:
            self._log.warning("the check of an idle node cannot be read", node=pod.name, job=job, error=str(error))
            return
        if check is not None and await self._write(pod, record_of(pod, check)):
            self._metrics.idle_checks.labels(pod.labels.get(names.LABEL_NODESET, ""), check.outcome).inc()
            write = self._log.error if check.outcome is Outcome.FAILED else self._log.info
            write("the check of an idle node has ended", node=pod.name, job=job, outcome=check.outcome, why=check.text)

    async def _end(self, job: JobId) -> None:
        try:
            await self._slurm.cancel_job(job, user=_USER)
        except (AlreadyDone, NotFound):
            return
        except SlurmError as error:
            self._log.warning("the check of a node could not be cancelled", job=job, error=str(error))

    async def _write(self, pod: Pod, check: IdleCheck) -> bool:
        """Write the outcome of a check on its slurmd pod. Return whether that succeeded."""
        body = {"metadata": {"uid": pod.uid, "annotations": {names.ANNOTATION_IDLE_CHECK: check.encode()}}}
        try:
            await self._kube.patch(paths.status(paths.pod(*pod.key)), body)
        except errors.KubeError as error:
            self._log.warning("the outcome of a check could not be written", node=pod.name, error=str(error))
            return False
        return True
