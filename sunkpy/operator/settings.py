"""The settings file of the operator, as chart `sunkpy` writes it."""

from __future__ import annotations

from sunkpy.runtime.settings import ProcessSettings


class OperatorSettings(ProcessSettings, frozen=True, kw_only=True):
    """How the operator runs. One operator serves all NodeSets of the cluster.

    `resync_seconds` is how often every NodeSet and Node is looked at although nothing has changed.
    """

    resync_seconds: int = 60
    workers: int = 4
