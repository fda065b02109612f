"""What researchers type, one file a case: a shell script below a header.

    # source: where it is told so, a site or a manual
    # does: what it is, in a few words
    # at: laptop                    where it is typed; else in the login pod, by ssh
    # needs: software               what software.py brings; such a case is long
    # limit: 120                    seconds it may take, else 60
    # says: a pattern of the whole output; further such lines are further lines of it

A case that cannot run on Slurm 26.05 has `newer:`, why. One that cannot run here has `cannot:`, why, and no script. On
the laptop ssh, scp and rsync call the login pod `cluster`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).with_name("typed")
KEYS: Final = {"source", "does", "at", "needs", "limit", "says", "newer", "cannot"}
_HEADER: Final = re.compile(r"# (?P<key>[a-z]+): (?P<value>.*)")


SHORT_S: Final = 60
"""A case that may take longer is not part of `make test`."""


class Case(NamedTuple):
    """A thing that people type."""

    name: str
    source: str
    does: str
    script: str
    says: str
    needs_software: bool
    limit_s: float
    is_typed_on_a_laptop: bool
    cannot_on_newer: str
    cannot: str

    @property
    def is_long(self) -> bool:
        """Whether it is left to `make long`."""
        return self.needs_software or self.limit_s > SHORT_S


def read() -> Sequence[Case]:
    """All of them, by name.

    Raises:
        ValueError: a header lacks something, or has what nobody reads.
    """
    return [_parse(file.stem, file.read_text()) for file in sorted(FOLDER.glob("*.sh"))]


def _parse(name: str, text: str) -> Case:
    lines = text.splitlines(keepends=True)
    header: Mapping[str, list[str]] = defaultdict(list)
    while lines and (match := _HEADER.fullmatch(lines[0].rstrip())):
        header[match["key"]].append(match["value"])
        lines.pop(0)
    one = {key: values[0] for key, values in header.items()}
    script = "".join(lines).strip()
    if unknown := header.keys() - KEYS:
        raise ValueError(f"{name}: the header has {', '.join(sorted(unknown))}; it may have {', '.join(sorted(KEYS))}")
    if "source" not in one or "does" not in one:
        raise ValueError(f"{name}: the header needs a source, and what it does")
    if bool(one.get("cannot")) == bool(script):
        raise ValueError(f"{name}: it needs a script, or a reason why it cannot run here")
    return Case(
        name=name, source=one["source"], does=one["does"], script=script, says="\n".join(header["says"]),
        needs_software="needs" in one, limit_s=float(one.get("limit", "60")),
        is_typed_on_a_laptop=one.get("at") == "laptop",
        cannot_on_newer=one.get("newer", ""), cannot=one.get("cannot", ""),
    )  # fmt: skip
