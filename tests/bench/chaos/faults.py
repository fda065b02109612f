"""Carries out the faults of a plan, undoes each, and records when each was in effect.

An administrator's commands run beside slurmctld, and a person's with kubectl. Both work only while the apiserver and
slurmctld answer. So a step that fails is repeated for a while, as a person would repeat it, and the time of its success
is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from functools import partial

import click
import msgspec
import yaml

from demo.bring_up import install, read_images
from demo.stack import Stack
from devcluster import Cluster, DevclusterError
from devcluster.shell import CommandFailed
from devcluster.waiting import NeverSo, NotYet, persist, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.bench.chaos.record import Inflicted, reason_of
from tests.bench.chaos.schedule import ADMIN_STATES, Fault, PlannedFault
from tests.e2e import outage, processes

PATIENCE_S = 100.0
"""For how many seconds a step is repeated: longer than the longest fault, because slurmctld may be on the node that
is cut off.
"""
_UNDONE_ALREADY = ("Invalid node state specified", "Invalid node name specified")
_PROGRAMS = {"mariadb": "mariadbd"}
"""Part of the cluster → its program, where the two have different names."""
_ROLL = "chaos.sunkpy.dev/roll"


class Saboteur:
    """Carries out the faults of one run. `inflicted` has those done so far."""

    def __init__(self, stack: Stack, cluster: Cluster, slurm_nodes: Mapping[str, str]) -> None:
        self._done: dict[int, Inflicted] = {}
        self.deleted_pods: set[str] = set()
        self._replicas: dict[str, int] = {}
        self._stack = stack
        self._cluster = cluster
        self._slurm_nodes = slurm_nodes

    async def run(self, planned: PlannedFault, *, started_s: float) -> None:
        """Wait for the fault's time, begin it, wait for its end, undo it. A run cut short leaves that to `mend_all`."""
        await asyncio.sleep(max(started_s + planned.at_s - time.time(), 0.0))
        begun_s = time.time()
        said = await asyncio.to_thread(_patiently, lambda: self._begin(planned))
        done = Inflicted(
            planned=planned, begun_s=begun_s, held_s=time.time(), slurm_node=self._slurm_node(planned), said=said
        )
        self._done[planned.number] = done
        click.echo(f"{done.held_s - started_s:5.0f} s: {planned.text} for {planned.lasts_s:.0f} s {said}".rstrip())
        if not planned.lasts_s:
            return
        await asyncio.sleep(max(started_s + planned.ends_s - time.time(), 0.0))
        done = msgspec.structs.replace(done, mending_s=time.time())
        self._done[planned.number] = done
        more = await asyncio.to_thread(_patiently, lambda: self._end(planned))
        said = "; ".join(filter(None, (said, more)))
        self._done[planned.number] = msgspec.structs.replace(done, mended_s=time.time(), said=said)

    async def keep_controllers(self) -> None:
        """Restart processes of the control plane that end by themselves: on a development cluster nobody else does."""
        while True:
            await asyncio.sleep(5)
            with contextlib.suppress(DevclusterError):  # the apiserver is away: next time
                for name in await asyncio.to_thread(self._cluster.fault.revive_controllers):
                    click.echo(f"{name} had ended by itself and was started again")

    @property
    def inflicted(self) -> tuple[Inflicted, ...]:
        """The faults that were done so far, in the order of the plan."""
        return tuple(self._done[number] for number in sorted(self._done))

    def mend_all(self) -> None:
        """Undo every fault that may still be in effect. It is safe at any time, also after a run that was cut short."""
        for each in self._cluster.nodes():
            self._cluster.fault.mend(each.name)
        if not all(self._cluster.processes().values()):
            self._cluster.up()
        for part, replicas in self._replicas.items():
            outage.scale(self._stack, part, replicas)
        for node in self._stack.nodes():
            if node.spec.unschedulable and node.annotations.get(names.ANNOTATION_DRAIN, "").startswith("chaos"):
                self._uncordon(node.name)
        # A kubelet that has just started refuses every exec.
        nodes = wait(self._stack.slurm_nodes, timeout_s=PATIENCE_S, what="an answer of slurmctld")
        for name, slurm in nodes.items():
            if slurm.get("Reason", "").startswith("chaos"):
                _patiently(partial(self._stack.scontrol, "update", f"nodename={name}", "state=resume"))
        _patiently(lambda: self._patch_nodeset({"spec": {"replicas": None}}))

    def _slurm_node(self, planned: PlannedFault) -> str:
        return self._slurm_nodes.get(planned.target, "")

    def _begin(self, planned: PlannedFault) -> str:
        """Begin the fault. Return what is worth recording about it."""
        fault, target, faults = planned.fault, planned.target, self._cluster.fault
        match fault:
            case Fault.KILL:
                return self._kill(target)
            case Fault.KILL_SLURMD:
                return _kill_processes(self._slurmd_pod(target), program="slurmd")
            case Fault.DELETE_SLURMD:
                return self._delete_slurmd(target)
            case Fault.APISERVER:
                faults.kill_apiserver()
            case Fault.KUBELET:
                faults.kubelet_stop(target)
            case Fault.CUT:
                faults.cut(target)
            case Fault.DOWN | Fault.DRAIN | Fault.FAIL:
                return self._set_state(planned, ADMIN_STATES[fault])
            case Fault.DOWN_RESUME:
                self._set_state(planned, "down")
                return self._set_state(planned, "resume")
            case Fault.RECONFIGURE:
                return self._stack.scontrol("reconfigure")
            case Fault.CORDON:
                self._cordon(target, reason_of(planned))
            case Fault.SCALE:
                self._patch_nodeset({"spec": {"replicas": len(self._slurm_nodes) - 1}})
            case Fault.OUTAGE:
                self._replicas[target] = outage.replicas(self._stack, target)
                outage.scale(self._stack, target, 0)
            case Fault.UPGRADE:
                self._upgrade(target)
            case Fault.ROLL:
                self._patch_nodeset({"spec": {"template": {"metadata": {"annotations": {_ROLL: str(time.time())}}}}})
        return ""

    def _upgrade(self, suite: str) -> None:
        images = {key: image.ref for key, image in read_images(suite).items()}
        told = self._stack.helm("get", "values", self._stack.release, "-n", self._stack.namespace, "--output", "yaml")
        install(self._stack.with_images(images), print, slurm={**yaml.safe_load(told), "images": images})

    def _kill(self, part: str) -> str:
        pods = processes.pods_of(self._stack, part)
        return ", ".join(_kill_processes(pod, program=_PROGRAMS.get(part, part)) for pod in pods)

    def _slurmd_pod(self, node: str) -> Pod:
        found = [pod for pod in self._stack.slurmd_pods() if pod.spec.node_name == node]
        if not found:
            raise DevclusterError(f"there is no slurmd pod on {node} now")
        return found[0]

    def _delete_slurmd(self, node: str) -> str:
        pod = self._slurmd_pod(node)
        self.deleted_pods.add(pod.uid)
        how = ("--grace-period=0", "--force", "--wait=false")
        self._stack.kubectl("delete", "pod", pod.name, "-n", self._stack.namespace, *how)
        return f"pod {pod.name} uid {pod.uid}"

    def _set_state(self, planned: PlannedFault, state: str) -> str:
        why = () if state == "resume" else (f"reason={reason_of(planned)}",)
        try:
            return self._stack.scontrol("update", f"nodename={self._slurm_node(planned)}", f"state={state}", *why)
        except CommandFailed as error:
            # Somebody else has lifted the state, or the node does not exist: another try would fail, too. The judge
            # sees a state that somebody lifted; a state that Slurm refused to set was never in effect.
            if any(text in error.output for text in _UNDONE_ALREADY):
                refused = "" if state == "resume" else "NOT DONE: "
                return f"{refused}scontrol state={state}: {error.output}"
            raise

    def _cordon(self, node: str, reason: str) -> None:
        # One patch for the cordon and its reason, as a person's script would do it.
        patch = {"metadata": {"annotations": {names.ANNOTATION_DRAIN: reason}}, "spec": {"unschedulable": True}}
        self._stack.kubectl("patch", "node", node, "--type=merge", "-p", json.dumps(patch))

    def _patch_nodeset(self, patch: Mapping[str, object]) -> str:
        nodeset, namespace = f"nodeset/{self._stack.nodeset}", self._stack.namespace
        return self._stack.kubectl("patch", nodeset, "-n", namespace, "--type=merge", "-p", json.dumps(patch))

    def _end(self, planned: PlannedFault) -> str:
        fault, target, faults = planned.fault, planned.target, self._cluster.fault
        match fault:
            case Fault.APISERVER:
                faults.start_apiserver()
            case Fault.KUBELET:
                faults.kubelet_start(target)
            case Fault.CUT:
                faults.mend(target)
            case Fault.DOWN | Fault.DRAIN | Fault.FAIL:
                return self._set_state(planned, "resume")
            case Fault.CORDON:
                self._uncordon(target)
            case Fault.SCALE:
                self._patch_nodeset({"spec": {"replicas": None}})
            case Fault.OUTAGE:
                outage.scale(self._stack, target, self._replicas[target])
                del self._replicas[target]
        return ""

    def _uncordon(self, node: str) -> None:
        patch = {"metadata": {"annotations": {names.ANNOTATION_DRAIN: None}}, "spec": {"unschedulable": None}}
        self._stack.kubectl("patch", "node", node, "--type=merge", "-p", json.dumps(patch))


def _kill_processes(pod: Pod, *, program: str) -> str:
    return f"pod {pod.name} pids {processes.kill_program([pod], program)}"


def _patiently(step: Callable[[], str]) -> str:
    """Repeat a step while it fails. Return its output, or why it never worked."""

    def attempt() -> str:
        try:
            return step()
        except DevclusterError as error:
            raise NotYet(str(error)) from error

    try:
        return persist(attempt, timeout_s=PATIENCE_S, what="this step of the run").strip()
    except NeverSo as error:
        return f"NOT DONE: {error}"
