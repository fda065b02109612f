"""Rules for signals that other programs write on Nodes, and for Slurm's own drains. Values name the rules that count.

Sources, as read in November 2026: node-problem-detector (config/*.json) and what AKS makes of it
(learn.microsoft.com/azure/aks, node-problem-detector), where True is bad; the node monitoring agent of EKS, whose
conditions Karpenter repairs by (docs.aws.amazon.com/eks, node-health; karpenter.sh, node auto repair), where False is
bad; NVSentinel (docs, node labels); SageMaker HyperPod (docs.aws.amazon.com/sagemaker, resilience labels); slurmctld
and slurmd of Slurm 24.11 and 26.05, which begin the reasons of their drains so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sunkpy.core.health.rules import Cure, Rule

_MINUTES: Final = 60


def _detected(*conditions: str) -> dict[str, Rule]:
    """Conditions of node-problem-detector."""
    return {condition: Rule(condition=condition, patience_seconds=_MINUTES) for condition in conditions}


def _monitored(condition: str, minutes: int) -> dict[str, Rule]:
    """A condition of EKS, with the patience that Karpenter has before it replaces the node."""
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
