"""The comment by which a placeholder job is known to belong to a gang: `k8s:<namespace>/<name>:<uid> <free text>`.

It is the only link that counts: written with the submit, readable in every prolog and epilog, and looked up before a
gang is submitted again. The annotation on the pod is for people and for finding the job quickly.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from sunkpy.core import names

_FORM: Final = re.compile(
    re.escape(names.JOB_COMMENT_PREFIX)
    + r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9.-]+):(?P<uid>[A-Za-z0-9-]+)(?: |$)"
)


class GangId(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a gang: namespace, name and uid of the object that makes its pods belong together.

    For a plain pod that is the pod itself.
    """

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def comment(self, text: str = "") -> str:
        """The job's comment; `text` is what the user wants to see there."""
        own = f"{names.JOB_COMMENT_PREFIX}{self.namespace}/{self.name}:{self.uid}"
        return f"{own} {text}" if text else own


def parse_comment(comment: str) -> GangId | None:
    """Whose job it is, or None when the comment is not one of ours."""
    match = _FORM.match(comment)
    return GangId(**match.groupdict()) if match else None
