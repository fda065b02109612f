"""A request to slurmrestd as a value, without token and API version, which the transport adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote, urlencode

import msgspec

Api = Literal["slurm", "slurmdb"]
"""The daemon behind slurmrestd that answers: slurmctld (`/slurm/`) or slurmdbd (`/slurmdb/`). Both have the same
versions.
"""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to slurmrestd.

    Args:
        what: what is tried, on which object, in words for errors.
        endpoint: the path below the API version, as a template such as `node/{name}`.
        name: the value for the template.
        user: the Slurm user of the request, if not the process's own.
        is_idempotent: whether the request may be sent again if no answer comes.
        attempts: how often it is sent in all; None leaves that to the transport. Callers that repeat the request
            themselves set 1.
        newest: the newest API version that gives the needed answer, if not all do.
    """

    what: str
    method: Literal["GET", "POST", "DELETE"]
    endpoint: str
    api: Api = "slurm"
    name: str | int = ""
    user: str = ""
    params: Mapping[str, str | int | list[str]] = {}
    body: object = None
    is_idempotent: bool = True
    attempts: int | None = None
    newest: str = ""

    @property
    def is_write(self) -> bool:
        """True if the request changes something in Slurm."""
        return self.method != "GET"

    @property
    def label(self) -> str:
        """The endpoint as metrics and errors name it, without names of nodes and jobs."""
        return self.endpoint if self.api == "slurm" else f"{self.api}/{self.endpoint}"

    @property
    def content(self) -> bytes | None:
        """The body as JSON; None without a body."""
        return None if self.body is None else msgspec.json.encode(self.body)

    @property
    def query(self) -> str:
        """The query of the URL, such as `?job_id=1&job_id=2`; empty without parameters."""
        return f"?{urlencode(self.params, doseq=True)}" if self.params else ""

    def path(self, version: str) -> str:
        """Return the path for an API version, or for `newest` if that is older. The name is quoted, so that it stays
        one segment.
        """
        version = min(version, self.newest or version)
        return f"/{self.api}/{version}/{self.endpoint.format(name=quote(str(self.name), safe=''))}"
