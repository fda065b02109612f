"""Reads the settings of a process from one YAML file into frozen values. An unknown key is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from sunkpy.core.topology.pace import Pace

S = TypeVar("S")


class BadSettings(Exception):
    """The settings file cannot be used; the text says which key and why."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A section of a settings file: its keys are camelCase, and unknown ones are refused."""


class LogSettings(Settings, frozen=True, kw_only=True):
    """How the process logs. `format` is `json` for a cluster's log collector, `console` for a person."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"


class HttpSettings(Settings, frozen=True, kw_only=True):
    """The port on which /healthz, /readyz and /metrics are served. `secret_folder`: the folder of a Secret; if it is
    set, these paths are served over TLS, and /metrics needs the Secret's token.
    """

    port: int = 8080
    secret_folder: str = ""


class LeaderElectionSettings(Settings, frozen=True, kw_only=True):
    """The Lease by which the replicas elect their leader. An empty `namespace` means the process's own."""

    enabled: bool = True
    lease_name: str = ""
    namespace: str = ""
    duration_seconds: int = 12


class ProcessSettings(Settings, frozen=True, kw_only=True):
    """The settings that every process has. Each process adds its own."""

    namespace: str = "default"
    log: LogSettings = LogSettings()
    http: HttpSettings = HttpSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()


class SlurmSettings(Settings, frozen=True, kw_only=True):
    """How the process reaches slurmrestd.

    Exactly one of these two is set: `jwt_key_file`, the key from which tokens are made, or `token_file`, a token that
    somebody else renews, which is read for each request. `reader`: the Slurm user for requests that change nothing, if
    it is not `user`. slurmctld limits the calls of each user except SlurmUser (rl_enable).
    """

    url: str
    version: str = "auto"
    user: str = "slurm"
    reader: str = ""
    jwt_key_file: str = ""
    token_file: str = ""

    def __post_init__(self) -> None:
        if bool(self.jwt_key_file) == bool(self.token_file):
            raise ValueError("slurm: give exactly one of jwtKeyFile and tokenFile")
        if self.reader and self.token_file:
            raise ValueError(
                "slurm.reader: tokenFile has the token of one user only; give jwtKeyFile, or leave out reader"
            )


class TopologySettings(Settings, frozen=True, kw_only=True):
    """Which source says where nodes stand in the network: values `topology` of the chart. Without a `source`, a
    hand-written file says so, if there is one.

    With source `labels`: `levels` and `block_labels` are label keys, widest first. `name`: the name of Kueue's
    Topology, or of the ConfigMap to read. `config_map`: the ConfigMap into which the syncer writes the file for
    slurmctld. `file`: the text that a person wrote, and `file_name` the name of that file. `pace`: how often files are
    written; no chart sets it.
    """

    source: str = ""
    levels: tuple[str, ...] = ()
    block_labels: tuple[str, ...] = ()
    name: str = ""
    plugins: tuple[Literal["tree", "block"], ...] = ("tree",)
    block_sizes: tuple[int, ...] = ()
    config_map: str = ""
    file_name: str = ""
    file: str = ""
    pace: Pace = Pace()


def load(path: Path, type_: type[S]) -> S:
    """Read a settings file, and return it as `type_`.

    Raises:
        BadSettings: the file is missing, not YAML, or a key is unknown, missing or of the wrong type.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadSettings(f"cannot read settings file {path}: {error.strerror}") from error
    return decode(data, type_, where=f"settings file {path}")


def decode(data: bytes, type_: type[S], *, where: str) -> S:
    """Return settings from YAML or JSON text. `where` names the text in the error.

    Raises:
        BadSettings: the text is not YAML, or a key is unknown, missing or of the wrong type.
    """
    try:
        return msgspec.yaml.decode(data, type=type_)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadSettings(f"{where}: {error}") from error
