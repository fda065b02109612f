"""Collects what is known of one Slurm node and its slurmd pod, which have the same name, into one `View`: from the
watch of pods and the last answer of Slurm.

Each answer of Slurm is judged as a whole when it comes (`judge_answer`). If too many registered nodes are missing in
it, it is not trusted for any name.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from sunkpy.core import names
from sunkpy.core.mirror import (
    MirrorAction,
    MirrorMemory,
    ServiceQuestion,
    SlurmAnswer,
    View,
    after_asking,
    after_writing,
    find_vanished,
    is_expected,
    promises,
)
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.times import utc_now
from sunkpy.kube.informer import Informer
from sunkpy.slurm import NodeCache
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.topology import Topology


def pod_selector(cluster: str) -> str:
    """Return the label selector of the slurmd pods of a Slurm cluster."""
    return f"{names.LABEL_CLUSTER}={cluster},{names.LABEL_ROLE}={names.ROLE_COMPUTE}"


class Collector:
    """Makes a `View` of each Slurm node and its slurmd pod, which have the same name, and keeps what earlier decisions
    about them saw (`MirrorMemory`). A new leader starts without that, which is safe.
    """

    def __init__(
        self, *, namespace: str, pods: Informer[Pod], nodes: NodeCache, topology: Topology, metrics: SyncerMetrics
    ) -> None:
        self._namespace = namespace
        self._pods = pods
        self._nodes = nodes
        self._topology = topology
        self._metrics = metrics
        self._memories: dict[str, MirrorMemory] = {}
        self._is_trusted = True
        self._expected: dict[str, str] = {}
        self._promising: set[str] = set()
        self._expectations = 0
        self._judged: tuple[int, int] | None = None
        self._log = structlog.get_logger("syncer")
        pods.add_handler(self._pod_changed)

    def view(self, name: str) -> View:
        """Return what is known of a name: its slurmd pod, its Slurm node, and what earlier decisions about it saw."""
        answer = self._answer(name)
        topology, place = self._topology.wish(name, answer.node if answer is not None else None)
        return View(
            name=name,
            namespace=self._namespace,
            pod=self._pod(name),
            answer=answer,
            are_pods_known=self._pods.connected,
            memory=self._memories.get(name, MirrorMemory()),
            slurm_nodes=self.slurm_node_count,
            topology=topology,
            place=place,
            today=utc_now(),
        )

    def names(self) -> set[str]:
        """Return the names of all Slurm nodes and slurmd pods."""
        observation = self._nodes.observation
        return {pod.name for pod in filter(is_slurmd, self._pods.values())} | set(
            observation.nodes if observation else ()
        )

    def names_with_a_finding(self) -> list[str]:
        """Return the names about which something must be withdrawn when Slurm cannot be read: a receipt on the pod (its
        node is drained and idle), or the first of the two answers that a receipt or deletion needs.
        """
        noted = {name for name, memory in self._memories.items() if memory.drained or memory.deletable}
        return list(self._promising | noted)

    @property
    def slurm_node_count(self) -> int:
        """The number of nodes in Slurm's last answer."""
        observation = self._nodes.observation
        return len(observation.nodes) if observation else 0

    def remember(self, name: str, memory: MirrorMemory) -> None:
        """Keep what this decision saw, for the next view of the name; drop it if neither Slurm nor Kubernetes knows the
        name.
        """
        observation = self._nodes.observation
        is_known = observation is not None and name in observation.nodes
        if is_known or self._pod(name) is not None:
            self._memories[name] = memory
        else:
            self._memories.pop(name, None)

    def remember_writes(self, name: str, actions: Iterable[MirrorAction], now_s: float) -> None:
        """Note that the syncer has written to the Slurm node of this name: older answers of Slurm about it no longer
        count.
        """
        memory = self._memories.get(name, MirrorMemory())
        self._memories[name] = after_writing(memory, actions, now_s)

    def remember_jobs(self, name: str, question: ServiceQuestion, *, is_yes: bool, at_s: float) -> None:
        """Note Slurm's answer to a question about the jobs of a node. The question was sent at `at_s`."""
        memory = self._memories.get(name, MirrorMemory())
        self._memories[name] = after_asking(memory, question, is_yes=is_yes, at_s=at_s)

    def judge_answer(self) -> bool:
        """Decide whether Slurm's newest answer is trusted: it is not if too many registered nodes are missing. Return
        True if this differs from the last decision; then every name needs a new decision.

        The decision is made again only when Slurm lists other names, or when other pods than before should have a node
        in Slurm. Both are rare.
        """
        observation = self._nodes.observation
        judged = (observation.listing if observation else 0, self._expectations)
        if judged == self._judged:
            return False
        self._judged = judged
        vanished = find_vanished(self._expected.values(), observation.nodes) if observation else ()
        was_trusted, self._is_trusted = self._is_trusted, not vanished
        if self._is_trusted == was_trusted:
            return False
        self._metrics.believed.set(1 if self._is_trusted else 0)
        if self._is_trusted:
            self._log.info("Slurm lists the registered nodes again")
        else:
            self._log.error(
                "Slurm no longer lists registered nodes: did slurmctld lose its state? Until it lists them, "
                "the syncer changes nothing there",
                missing=len(vanished),
                first=vanished[:5],
            )
        return True

    @property
    def is_trusted(self) -> bool:
        """True if Slurm's newest answer is trusted, because it does not lack too many registered nodes."""
        return self._is_trusted

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Follow a change of a pod: keep the lists of pods that Slurm should list as nodes, and of pods with a receipt,
        the note that the node is drained and idle.
        """
        pod = new or old
        if pod is None:
            return
        before, after = self._expected.pop(pod.name, None), None
        self._promising.discard(pod.name)
        if new is not None and is_slurmd(new):
            if is_expected(new):
                after = self._expected[pod.name] = slurm_node_of(new)
            if promises(new):
                self._promising.add(new.name)
        self._expectations += before != after

    def _pod(self, name: str) -> Pod | None:
        """Return the slurmd pod of that name. A pod that only has the labels of a slurmd pod does not count."""
        pod = self._pods.get(self._namespace, name)
        return pod if pod is not None and is_slurmd(pod) else None

    def _answer(self, name: str) -> SlurmAnswer | None:
        observation = self._nodes.observation
        if observation is None:
            return None
        return SlurmAnswer(
            node=observation.nodes.get(name),
            number=observation.number,
            at_s=observation.at_s,
            turn_s=self._nodes.turn_s,
            is_trusted=self._is_trusted,
        )
