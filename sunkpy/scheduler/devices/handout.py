"""Chooses the annotation, written with the binding of a pod, that tells sunkpy's device plugin which GPUs the pod gets.

The kubelet asks the plugin for GPUs without saying for which pod. So a pod with GPUs is bound to a node only after the
kubelet has admitted all pods of other jobs there that have GPUs (`core.gang.devices.handout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sunkpy.core.gang.actions import Binding
from sunkpy.core.gang.devices.chosen import DeviceLack, lacking
from sunkpy.core.gang.devices.handout import gpus_asked, holds_up
from sunkpy.core.gang.devices.indices import noted_indices
from sunkpy.core.gang.identity import noted_job
from sunkpy.core.model.devices import read_extra
from sunkpy.core.model.gres import gres_name
from sunkpy.core.model.objects import Node, Pod, shown_to
from sunkpy.core.model.states import JobId, SlurmNode
from sunkpy.core.placement.admission import Admission, Verdict
from sunkpy.scheduler.pods.writer import PodWriter


class Handout:
    """Chooses the annotations for sunkpy's device plugin, which say which GPUs a pod gets. `resource` is the extended
    resource that the plugin serves, and `gres` is Slurm's name for it. If `resource` is empty, the plugin is not used,
    and nothing is chosen.
    """

    def __init__(self, pods: PodWriter, *, resource: str, gres: str) -> None:
        self._pods = pods
        self._resource = resource
        self._gres = gres

    def gives_to(self, pod: Pod) -> bool:
        """True if the pod asks for GPUs that the kubelet gets from sunkpy's device plugin."""
        return bool(self._resource) and bool(gpus_asked(pod.spec, self._resource))

    async def plan(
        self, job: JobId, placed: Sequence[tuple[Binding, Node]], listed: Mapping[str, SlurmNode]
    ) -> tuple[dict[str, str], dict[str, Admission]]:
        """Return two maps by pod uid: the value of the annotation that says which GPUs the pod gets, and for each pod
        that cannot be bound now, or cannot be bound to this node at all, the reason.

        Args:
            job: the Slurm job of these pods.
            placed: the pods, each with its Kubernetes node.
            listed: the Slurm nodes by name, as just read.

        Raises:
            KubeError: the pods of a node could not be listed.
        """
        notes: dict[str, str] = {}
        obstacles: dict[str, Admission] = {}
        for binding, node in placed:
            found = self._named(binding, node, listed[binding.note.slurm_node])
            if isinstance(found, Admission):
                obstacles[binding.pod.uid] = found
            else:
                notes[binding.pod.uid] = found
        for name in {node.name for _, node in placed}:
            others = [pod for pod in await self._pods.others_on(name) if noted_job(pod) != job]
            if ahead := next((pod for pod in others if holds_up(pod, self._resource)), None):
                whose = shown_to(placed[0][0].pod.metadata.namespace, ahead)
                why = f"the kubelet of node {name} has yet to admit {whose}, which has GPUs too"
                obstacles |= {
                    each.pod.uid: lacking(DeviceLack.AHEAD, why) for each, node in placed if node.name == name
                }
        return notes, obstacles

    def _named(self, binding: Binding, node: Node, slurm: SlurmNode) -> str | Admission:
        known = read_extra(slurm.extra).get(gres_name(self._gres), ())
        indices = noted_indices(binding.note.devices).get(self._gres, ())
        if len(indices) != sum(gpus_asked(binding.pod.spec, self._resource)):
            return lacking(DeviceLack.INDICES, f"Slurm has not said which {self._gres} of node {node.name} its job has")
        if max(indices) >= len(known):
            why = (
                f"Slurm gave {self._gres} {max(indices)} of node {node.name}, and its slurmd has published {len(known)}"
            )
            return lacking(DeviceLack.UNKNOWN, why, verdict=Verdict.REFUSE)
        return ",".join(f"{node.name}/{known[at].uuid or known[at].file}" for at in indices)
