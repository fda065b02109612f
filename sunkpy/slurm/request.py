"""What is asked of slurmrestd, as a value: everything but the token and the API version, which the transport adds."""

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

    `what` says in words what is tried, and on what. `endpoint` is a template below the version such as `node/{name}`,
    which `name` fills in. `user`: the Slurm user who asks, where it is not the process's own. Only an idempotent
    request is sent again without an answer, `attempts` times in all where that is not left to the transport: for
    callers that are a loop themselves. `newest`: the newest API version whose answer says what is asked for, if that is
    not any.
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
        """The endpoint as metrics and errors name it: without the names of nodes and jobs, so that there are few."""
        return self.endpoint if self.api == "slurm" else f"{self.api}/{self.endpoint}"

    @property
    def content(self) -> bytes | None:
        """The body as JSON; None when there is none."""
        return None if self.body is None else msgspec.json.encode(self.body)

    @property
    def query(self) -> str:
        """The query that follows the path: `?job_id=1&job_id=2`; or nothing."""
        return f"?{urlencode(self.params, doseq=True)}" if self.params else ""

    def path(self, version: str) -> str:
        """The path below slurmrestd's address. A name stays within its segment, whatever is in it."""
        version = min(version, self.newest or version)
        return f"/{self.api}/{version}/{self.endpoint.format(name=quote(str(self.name), safe=''))}"
