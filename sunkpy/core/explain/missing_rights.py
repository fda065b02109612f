"""Which Kubernetes rights a person lacks, read from the texts with which the apiserver refused requests.

Source of these texts (apiserver: pkg/endpoints/handlers/responsewriters/errors.go): `User "ann" cannot list resource
"nodes" in API group "" at the cluster scope`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

_REFUSED: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)" '
    r'(?:at the cluster scope|in the namespace "(?P<namespace>[^"]+)")'
)
_ROLE: Final = "sunk-reader"


def how_to_read(unread: Iterable[str]) -> str:
    """Return what a person can do who was not allowed to read something: the rights to ask an admin for. If one of them
    is for the whole cluster, the admin's commands follow. If the texts name no right, the answer is to ask as somebody
    who may read it.
    """
    refused = [found for text in unread if (found := _REFUSED.search(text))]
    if not refused:
        return "Ask as somebody who may read this; to see your own rights: kubectl auth can-i --list"
    rights = ", ".join(_rights(refused))
    everywhere = [each for each in refused if not each["namespace"]]
    if not everywhere:
        return f"Ask an admin for the right to {rights}."
    verbs = ",".join(sorted({each["verb"] for each in everywhere}))
    resources = ",".join(dict.fromkeys(map(_resource, everywhere)))
    return (
        f"Ask an admin for the right to {rights}: "
        f"kubectl create clusterrole {_ROLE} --verb={verbs} --resource={resources}; "
        f"kubectl create clusterrolebinding {_ROLE} --clusterrole={_ROLE} --user={everywhere[0]['user']}"
    )


def _rights(refused: Iterable[re.Match[str]]) -> Iterator[str]:
    """Yield in words the rights that the apiserver refused, such as `list nodes and pods` or `get jobs.batch in
    namespace slurm`.
    """
    resources: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for each in refused:
        resources[each["verb"], each["namespace"] or ""][_resource(each)] = None
    for (verb, namespace), names in resources.items():
        yield f"{verb} {' and '.join(names)}{f' in namespace {namespace}' if namespace else ''}"


def _resource(refused: re.Match[str]) -> str:
    return f"{refused['resource']}.{refused['group']}" if refused["group"] else refused["resource"]
