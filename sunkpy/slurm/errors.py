"""Errors of requests to slurmrestd. Slurm's error number decides on the class; without a number, the HTTP status does.
The text of an error does not count.

    SlurmError
    ├── Unreachable    no answer, or slurmctld, slurmdbd or the API version is not there: ask again
    ├── Unauthorized   the token was refused: a person has to act
    ├── NotFound       the job or node does not exist
    ├── Busy           the node still has jobs, or the job is just changing state: ask again later
    ├── AlreadyDone    the job has ended already
    ├── Rejected       Slurm understood and refused (bad partition, feature, transition…): change the request
    │   └── LimitReached  a limit of an association or QoS: the same request may be accepted later
    ├── Malformed      this client cannot read the answer
    │   └── UnreadableJob  the nodes of a job, or its share of them, cannot be read
    └── LeaseOver      the request was not sent, because this process no longer leads

The HTTP status alone does not give the result: slurmrestd answers 200 to a DELETE of an unknown job, and 500 to a bad
state. The numbers are from `slurm/slurm_errno.h`, the same in 24.11 and 26.05 unless noted.
"""

from __future__ import annotations

from sunkpy.core.model.states import SlurmJob
from sunkpy.slurm.request import Request


class SlurmError(Exception):
    """A request to slurmrestd that failed.

    Args:
        what: what was tried, on which object.
        endpoint: the path below the API version.
        error_number: Slurm's error number; 0 if it gave none.
        text: Slurm's words.
        hint: what to do next.
    """

    def __init__(
        self,
        what: str,
        *,
        endpoint: str = "",
        http_status: int = 0,
        error_number: int = 0,
        text: str = "",
        hint: str = "",
    ) -> None:
        self.what = what
        self.endpoint = endpoint
        self.http_status = http_status
        self.error_number = error_number
        self.text = text
        self.hint = hint
        super().__init__(what)

    def __str__(self) -> str:
        return self.message

    @property
    def message(self) -> str:
        """The error in one line, for logs, Events and conditions."""
        number = f" (Slurm error {self.error_number})" if self.error_number else ""
        status = f" [{self.endpoint}: HTTP {self.http_status}]" if self.http_status else ""
        text = f": {self.text}" if self.text else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.what}{text}{number}{status}{hint}"

    @property
    def code(self) -> str:
        """The error's label in metrics: Slurm's number, else the HTTP status, else the class."""
        return str(self.error_number or self.http_status or type(self).__name__.lower())


class Unreachable(SlurmError):
    """slurmrestd, slurmctld or slurmdbd did not answer, or slurmrestd lacks the API version. The request may or may not
    have been carried out.
    """


class Unauthorized(SlurmError):
    """The token was refused, also after it was renewed; or there is no token or key that this process could use."""


class NotFound(SlurmError):
    """The job or node does not exist in Slurm."""


class Busy(SlurmError):
    """Slurm cannot carry out the request now: the node has jobs, or the job is just changing state."""


class AlreadyDone(SlurmError):
    """The job has ended already."""


class Rejected(SlurmError):
    """Slurm understood the request and refuses it. The same request will be refused again, unless its class is
    `LimitReached` or the state of Slurm changes.
    """


class LimitReached(Rejected):
    """A limit of the user's association or QoS does not allow the job: because of other jobs, or because of its own
    size.
    """


class Malformed(SlurmError):
    """This client cannot read slurmrestd's answer."""


class UnreadableJob(Malformed):
    """This client cannot read the nodes of a job in slurmrestd's answer. `job`: the job without its nodes."""

    def __init__(self, what: str, *, endpoint: str, text: str, job: SlurmJob) -> None:
        super().__init__(what, endpoint=endpoint, text=text)
        self.job = job


class LeaseOver(SlurmError):
    """A write was not sent, because this process's lease as leader has expired. The process is about to end."""


_UNREACHABLE = frozenset({
    1001, 1002, 1003, 1004,  # cannot connect, send, receive, shut down
    1800, 1801, 1802, 1803,  # the same for a connection to slurmctld
    2027,                    # ESLURM_IN_STANDBY_MODE
    5004,                    # SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT
    7000, 7008,              # ESLURM_DB_CONNECTION, ESLURM_DB_CONNECTION_INVALID: slurmdbd, or its database
})  # fmt: skip
_UNAUTHORIZED = frozenset({1007, 6002, 6004, 6005})
_NOT_FOUND = frozenset({2017, 2018})  # ESLURM_INVALID_JOB_ID, ESLURM_INVALID_NODE_NAME
_BUSY = frozenset({2016, 2020})  # ESLURM_NODES_BUSY, ESLURM_TRANSITION_STATE_NO_UPDATE
_ALREADY_DONE = frozenset({2021, 2084})  # ESLURM_ALREADY_DONE, ESLURM_JOB_FINISHED

_LIMIT = 2050  # ESLURM_ACCOUNTING_POLICY
_GATEWAY = frozenset({502, 503, 504})

_HINTS = {
    2000: "name a partition that `sinfo` lists",
    2002: "the Slurm user of this process lacks the right; make it an operator or SlurmUser",
    2010: "the Slurm user of this process lacks the right; make it an operator or SlurmUser",
    2014: "no node of the partition can ever satisfy this; ask for less or another partition",
    2015: "the partition's limits do not allow this; ask for less or another partition",
    2029: "name a feature that `sinfo -o %f` lists",
    2038: "name jobs that `squeue --states=all` lists; Slurm forgets jobs some minutes after their end (MinJobAge)",
    2045: "name an account the user is associated with in `sacctmgr`",
    2050: "a limit of the user's account or of the QoS; see `sacctmgr show assoc` and `sacctmgr show qos`",
    2066: "name a QOS that `sacctmgr show qos` lists",
    2166: "make the user known where slurmctld runs",
    6010: "make the user known where slurmctld runs",
}


def classify(request: Request, *, http_status: int, error_number: int = 0, text: str = "") -> SlurmError:
    """Return the error for an answer that reports a failure. Slurm's error number decides on the class; without a
    number (`error_number` 0) the HTTP status does.
    """
    return _kind(http_status, error_number)(
        request.what,
        endpoint=request.label,
        http_status=http_status,
        error_number=error_number,
        text=text,
        hint=_HINTS.get(error_number, ""),
    )


def _kind(http_status: int, error_number: int) -> type[SlurmError]:
    if error_number in _UNREACHABLE or (error_number == 0 and http_status in _GATEWAY):
        return Unreachable
    if error_number in _UNAUTHORIZED or (error_number == 0 and http_status in (401, 511)):
        return Unauthorized
    if error_number in _NOT_FOUND:
        return NotFound
    if error_number in _BUSY:
        return Busy
    if error_number in _ALREADY_DONE:
        return AlreadyDone
    return LimitReached if error_number == _LIMIT else Rejected
