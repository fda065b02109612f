"""What the apiserver can answer instead of what was asked.

KubeError
├── NotFound        404: the object is not there
├── NotServed       404 for the path: there is no such kind, or this apiserver has just started
├── Forbidden       401, 403: the service account lacks a right, or its token is not accepted
├── Conflict        409: the object changed, or exists already
├── Gone            410: the resourceVersion of a watch or list is too old
├── Invalid         400, 422: the apiserver refuses the object itself
├── TooMany         429: eviction refused by a disruption budget, or the server asks to slow down
├── Unavailable     no answer, or 5xx: worth another try
├── Unreadable      2xx, with an object that does not look as its kind should
└── LeaseOver       not sent, for this process does not lead any more
"""

from __future__ import annotations

import msgspec


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""


class KubeError(Exception):
    """A request that did not succeed. As text it says what was tried and what came of it. `message`: only the words of
    the answer.
    """

    def __init__(self, request: str, *, status: int, message: str, reason: str = "") -> None:
        super().__init__(f"{request}: {message or reason or 'no reason given'} (HTTP {status})")
        self.message = message


class NotFound(KubeError):
    """404: there is no such object, or no such namespace."""


class NotServed(KubeError):
    """404 for the path itself. It is not a `NotFound`, because it says nothing about the object: a CRD that an
    apiserver has not read yet looks the same.
    """


class Forbidden(KubeError):
    """401 or 403: a person has to give a right."""


class Conflict(KubeError):
    """409: another write was faster; read again and decide again."""


class Gone(KubeError):
    """410: list again."""


class Invalid(KubeError):
    """400 or 422: the same request will be refused again."""


class TooMany(KubeError):
    """429: ask again later."""


class Unavailable(KubeError):
    """The apiserver did not answer, or answered 5xx: nobody knows whether the request was carried out."""


class UnreadableAnswer(KubeError):
    """The answer came, and what it holds cannot be read."""


class LeaseOver(KubeError):
    """A write after the lease has expired was not sent. The process is about to end."""


_BY_STATUS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooMany,
}


def from_response(request: str, status: int, body: bytes) -> KubeError:
    """The error for a non-2xx answer; `body` is a Status object or plain text.

    If an object is not there, the Status says so; where nothing is served the text is "404 page not found"
    (k8s.io/apiserver, pkg/util/notfoundhandler).
    """
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        said = _Status(message=body[:500].decode(errors="replace").strip())
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else KubeError)
    if status == 404 and said.reason != "NotFound":
        kind = NotServed
    return kind(request, status=status, message=said.message, reason=said.reason)
