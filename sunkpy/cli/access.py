"""The options that say how a command of a person reaches the apiserver and Slurm."""

from __future__ import annotations

from pathlib import Path

import msgspec

NOT_ASKED = "Slurm's side: not asked"
"""The text that commands print if they have no way to Slurm; the reason follows it."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The options by which a command reaches the apiserver and Slurm. `namespace`: the value of `-n`. `slurmrestd`: the
    URL of slurmrestd.

    `config`: the settings file of the scheduler, which also says how to reach Slurm. Without it and without
    `slurmrestd`, the command asks Slurm through the scheduler's pod.
    """

    namespace: str = ""
    kubeconfig: Path | None = None
    config: Path | None = None
    slurmrestd: str = ""
    slurm_token_file: str = ""
