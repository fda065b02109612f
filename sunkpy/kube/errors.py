"""The errors of requests to the apiserver.

KubeError
├── NotFound          404: the object is not there
├── NotServed         404 for the path: there is no such kind, or this apiserver has just started
├── Forbidden         401, 403: the service account lacks a right, or its token is not accepted
├── Conflict          409: the object changed, or exists already
├── Gone              410: the resourceVersion of a watch or list is too old
├── Invalid           400, 422: the apiserver refuses the object itself
├── TooMany           429: eviction refused by a disruption budget, or the server asks to slow down
├── Unavailable       no answer, or 5xx: worth another try
├── UnreadableAnswer  2xx, with a body that cannot be decoded
└── LeaseOver         not sent, because this process does not lead any more
"""

from __future__ import annotations

import msgspec


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""


class KubeError(Exception):
    """A request to the apiserver did not succeed. As text it says what was tried and what came of it. `message` is only
    what came of it: mostly the apiserver's own message.
    """

    def __init__(self, request: str, *, status: int, message: str, reason: str = "") -> None:
        super().__init__(f"{request}: {message or reason or 'no reason given'} (HTTP {status})")
        self.message = message


class NotFound(KubeError):
    """404: there is no such object, or no such namespace."""


class NotServed(KubeError):
    """404 for the path itself: the apiserver does not serve this kind, or has not read its CRD yet. That says nothing
    about the object, so this is not a `NotFound`.
    """


class Forbidden(KubeError):
    """401 or 403: the apiserver does not accept the token, or its user lacks a right. A person has to act."""


class Conflict(KubeError):
    """409: another write was faster, or the object exists already. The caller has to read and decide again."""


class Gone(KubeError):
    """410: the resourceVersion is too old. The caller has to list again."""


class Invalid(KubeError):
    """400 or 422: the apiserver refuses the object, and would refuse the same request again."""


class TooMany(KubeError):
    """429: a PodDisruptionBudget does not allow an eviction now, or the server asks to slow down. Send the request
    again later.
    """


class Unavailable(KubeError):
    """The apiserver did not answer, or answered 5xx: nobody knows whether the request was carried out. Also raised if
    no usable kubeconfig says where the apiserver is.
    """


class UnreadableAnswer(KubeError):
    """The apiserver answered 2xx, and the answer cannot be decoded."""


class LeaseOver(KubeError):
    """A write was not sent, because this process's lease as leader has expired. The process is about to end."""


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
    """Return the error for a non-2xx answer; `body` is a Status object or plain text.

    If an object does not exist, the reason in the Status is NotFound. If the path is not served, the text is "404 page
    not found" (k8s.io/apiserver, pkg/util/notfoundhandler).
    """
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        said = _Status(message=body[:500].decode(errors="replace").strip())
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else KubeError)
    if status == 404 and said.reason != "NotFound":
        kind = NotServed
    return kind(request, status=status, message=said.message, reason=said.reason)
