"""How a person's command reaches the apiserver, and Slurm if it may ask it: as the command line says it."""

from __future__ import annotations

from pathlib import Path

import msgspec

NOT_ASKED = "Slurm's side: not asked"
"""What a person reads who cannot reach Slurm; the reason follows."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says of both.

    `config`: the settings of the scheduler, which also say how to ask Slurm; without them and without `slurmrestd`
    Slurm is asked in the scheduler's pod.
    """

    namespace: str = ""
    kubeconfig: Path | None = None
    config: Path | None = None
    slurmrestd: str = ""
    slurm_token_file: str = ""
