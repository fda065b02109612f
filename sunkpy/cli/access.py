"""What the options of a command say about reaching the apiserver and Slurm."""

from __future__ import annotations

from pathlib import Path

import msgspec

NOT_ASKED = "Slurm's side: not asked"
"""The command prints this where it cannot reach Slurm. The reason follows."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says about reaching the apiserver and Slurm.

    `config`: the settings file of the scheduler, which also says how to ask Slurm. Without it and without `slurmrestd`,
    the command asks Slurm from inside the scheduler's pod.
    """

    namespace: str = ""
    kubeconfig: Path | None = None
    config: Path | None = None
    slurmrestd: str = ""
    slurm_token_file: str = ""
