"""Settings of the accounts process."""

from __future__ import annotations

from sunkpy.core.accounts import WantedAccounts
from sunkpy.runtime.settings import ProcessSettings, SlurmSettings


class AccountsSettings(ProcessSettings, frozen=True, kw_only=True):
    """The settings of `sunkpy accounts`: one process serves one Slurm cluster. `cluster`: Slurm's ClusterName.
    `wanted`: the accounts, QoS and users that slurmdbd should have.

    Every `poll_seconds` slurmdbd is read again, because somebody may have changed it. `is_guest`: slurmdbd belongs to
    another release of the chart, which alone manages what all clusters share.
    """

    cluster: str
    slurm: SlurmSettings
    wanted: WantedAccounts = WantedAccounts()
    poll_seconds: float = 60.0
    is_guest: bool = False
