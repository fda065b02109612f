"""Settings of the process for login pods of one's own."""

from __future__ import annotations

from sunkpy.runtime.settings import ProcessSettings, Settings


class PersonSettings(Settings, frozen=True, kw_only=True):
    """The StatefulSet of somebody, and whether it is stopped while nobody uses its pod."""

    stateful_set: str
    stops: bool = True


class LoginsSettings(ProcessSettings, frozen=True, kw_only=True):
    """One of them serves one Slurm cluster: the `people` by name, whose pods have the labels of `selector`.

    Requests come to `requests_port`; people are told to go on to `ssh_port` of their pod.
    """

    people: dict[str, PersonSettings]
    selector: str
    requests_port: int = 8000
    ssh_port: int = 2222
