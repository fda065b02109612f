"""Ready-made health rules for signals of other programs on Nodes, and for Slurm's own drains. The chart's values choose
which of them apply.

Sources, as read in November 2026: node-problem-detector (config/*.json) and its variant on AKS
(learn.microsoft.com/azure/aks, node-problem-detector), where True is bad; the node monitoring agent of EKS, by whose
conditions Karpenter repairs nodes (docs.aws.amazon.com/eks, node-health; karpenter.sh, node auto repair), where False
is bad; NVSentinel (docs, node labels); SageMaker HyperPod (docs.aws.amazon.com/sagemaker, resilience labels); the drain
reasons that slurmctld and slurmd of Slurm 24.11 and 26.05 write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sunkpy.core.health.rules import Cure, Rule

_MINUTES: Final = 60


def _detected(*conditions: str) -> dict[str, Rule]:
    return {condition: Rule(condition=condition, patience_seconds=_MINUTES) for condition in conditions}


def _monitored(condition: str, minutes: int) -> dict[str, Rule]:
    """Return the health rule for a Node condition that EKS sets. `minutes`: how long Karpenter waits before it replaces
    such a node; the rule waits as long.
    """
    return {condition: Rule(condition=condition, bad=("False",), patience_seconds=minutes * _MINUTES)}


KNOWN: Final[Mapping[str, Mapping[str, Rule]]] = {
    "nodeProblemDetector": _detected(
        "KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "CperHardwareErrorFatal", "DiskBadBlock",
        "FrequentKubeletRestart", "FrequentDockerRestart", "FrequentContainerdRestart", "FrequentUnregisterNetDevice",
        "KubeletUnhealthy", "ContainerRuntimeUnhealthy", "NTPProblem",
    ),
    "eks": {
        **_monitored("AcceleratedHardwareReady", 10),
        **_monitored("ContainerRuntimeReady", 30),
        **_monitored("KernelReady", 30),
        **_monitored("NetworkingReady", 30),
        **_monitored("StorageReady", 30),
    },
    "aks": _detected(
        "FilesystemCorruptionProblem", "KubeletProblem", "ContainerRuntimeProblem", "GPUMissing",
        "NVLinkStatusInactive", "XIDErrors", "IBLinkFlapping",
    ) | {"VMEventScheduled": Rule(condition="VMEventScheduled")},
    "nvsentinel": {
        "NVSentinel": Rule(
            label="dgxc.nvidia.com/nvsentinel-state",
            bad=(
                "quarantined", "draining", "drain-succeeded", "drain-failed", "remediating", "remediation-succeeded",
                "remediation-failed",
            ),
        ),
    },
    "hyperpod": {
        "HyperPod": Rule(
            label="sagemaker.amazonaws.com/node-health-status",
            bad=("Unschedulable", "UnschedulablePendingReplacement", "UnschedulablePendingReboot"),
        ),
        "HyperPodDeepCheck": Rule(
            label="sagemaker.amazonaws.com/deep-health-check-status", bad=("InProgress", "Failed")
        ),
    },
    "slurm": {
        "KillTaskFailed": Rule(slurm_reason="Kill task failed", cure=Cure.REBOOT),
        "PrologFailed": Rule(slurm_reason="Prolog error"),
        "EpilogFailed": Rule(slurm_reason="Epilog error"),
        "HookOfProlog": Rule(slurm_reason="sunkpy prolog: "),
        "HookOfEpilog": Rule(slurm_reason="sunkpy epilog: "),
        "CheckNode": Rule(slurm_reason="sunkpy check: "),
        "DuplicateJobid": Rule(slurm_reason="Duplicate jobid"),
        "SlurmdFails": Rule(failed_starts=5),
    },
}  # fmt: skip
