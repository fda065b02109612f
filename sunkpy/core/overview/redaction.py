"""Removes secrets from what a support bundle contains: names and states stay; keys, tokens and environments do not.

Objects are decoded into structs, so a field that no struct declares (environment, arguments, data of Secrets) is never
in the bundle. This module removes the rest: annotations of other programs, pod templates as they were written, and any
text that looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject
from sunkpy.core.nodeset.spec import NodeSet

K = TypeVar("K", bound=KubeObject)

REDACTED: Final = "REDACTED"

_WORD: Final = r"(?:pass(?:word|wd|phrase)?|secret(?!s\b)|token|credential|authorization|(?:api|private)[_-]?key|jwt)"
_PEM: Final = re.compile(r"-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL)
_JWT: Final = re.compile(r"(?<![\w-])eyJ[\w-]{5,}\.[\w-]*(?:\.[\w-]*)?")
_ASSIGNED: Final = re.compile(
    rf"""(?i)({_WORD}[\w.-]{{0,40}}\\?["']?\s{{0,4}}[=:]\s{{0,4}})(?:bearer\s+|basic\s+)?(\\?"[^"]*"|\\?'[^']*'|[^\s"',;&}}\]]+)"""
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_OF_URL: Final = re.compile(r"(://[^\s:/@]*:)[^\s@/]+@")
_HEX: Final = re.compile(r"(?<!sha256:)(?<![0-9a-fA-F])[0-9a-fA-F]{32,}")
_RANDOM: Final = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")
_SECRET_KEYS: Final = re.compile(r"(?i)pass|secret|key|token|authinfo|authaltparam|storageuser|credential")
_CONF_LINE: Final = re.compile(r"^(\s*#?\s*)([A-Za-z_]+)(\s*=\s*)(.*)$")


def scrub(text: str) -> str:
    """Return the text with `REDACTED` for each part that looks like a key, a token, a password or random bytes."""
    text = _PEM.sub(REDACTED, text)
    text = _JWT.sub(REDACTED, text)
    text = _OF_URL.sub(rf"\1{REDACTED}@", text)
    text = _BEARER.sub(rf"\1 {REDACTED}", text)
    text = _ASSIGNED.sub(rf"\1{REDACTED}", text)
    text = _HEX.sub(REDACTED, text)
    return _RANDOM.sub(lambda found: REDACTED if _looks_random(found.group()) else found.group(), text)


def _looks_random(text: str) -> bool:
    """True if the word mixes digits, upper-case and lower-case letters, as paths and names of objects rarely do."""
    tests: tuple[Callable[[str], bool], ...] = (str.isdigit, str.isupper, str.islower)
    return all(any(test(each) for each in text) for test in tests)


def scrubbed(value: object) -> object:
    """Return the value with each text in it scrubbed. The value has the types that `msgspec.to_builtins` returns."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(str(key)): scrubbed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [scrubbed(inner) for inner in value]
    return value


def scrub_conf(text: str) -> str:
    """Return a configuration file of Slurm without comments, and without values of keys that may hold a secret."""
    lines = []
    for line in text.splitlines():
        found = _CONF_LINE.match(line)
        if line.lstrip().startswith("#"):
            continue
        hides = found is not None and _SECRET_KEYS.search(found[2]) is not None
        lines.append(f"{found[1]}{found[2]}{found[3]}{REDACTED}" if found is not None and hides else scrub(line))
    return "\n".join(lines)


def public(objects: Iterable[K]) -> list[K]:
    """Return the objects with only sunkpy's annotations; a NodeSet's template has only the fields that sunkpy reads."""
    return [_public(each) for each in objects]


def _public(found: K) -> K:
    annotations = {key: value for key, value in found.annotations.items() if key.startswith(names.PREFIX)}
    metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
    found = msgspec.structs.replace(found, metadata=metadata)
    if isinstance(found, NodeSet):
        spec = msgspec.structs.replace(found.spec, template=_template(found))
        found = msgspec.structs.replace(found, spec=spec)
    return found


def _template(nodeset: NodeSet) -> dict[str, object]:
    try:
        return {"spec": msgspec.to_builtins(nodeset.pod_spec, str_keys=True)}
    except msgspec.ValidationError as error:
        return {"unreadable": str(error)}
