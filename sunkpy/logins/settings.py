"""Settings of `sunkpy logins`, the process for personal login pods."""

from __future__ import annotations

from sunkpy.runtime.settings import ProcessSettings, Settings


class PersonSettings(Settings, frozen=True, kw_only=True):
    """The StatefulSet of a person's login pod, and whether it is stopped while the pod is unused."""

    stateful_set: str
    stops: bool = True


class LoginsSettings(ProcessSettings, frozen=True, kw_only=True):
    """The settings of `sunkpy logins`: one process serves one Slurm cluster. `people`: name of the person → their login
    pod. `selector`: the labels of these pods.

    `my-login` sends its requests to `requests_port`; people then connect to `ssh_port` of their pod.
    """

    people: dict[str, PersonSettings]
    selector: str
    requests_port: int = 8000
    ssh_port: int = 2222
