"""What researchers type on a cluster: each file in `typed` is a case, a shell script below a header.

    # source: the site or manual that tells researchers to type it
    # does: what the researcher does, beginning with a verb
    # at: laptop                    the case is typed on a laptop; without it, in the login pod by ssh
    # needs: software               the case uses what software.py installs; only `make long` runs it
    # limit: 120                    seconds that the case may take on an idle machine; without it, 60
    # says: a pattern of a line of the output; the lines `says` together are the whole output

A case that does not run on Slurm 26.05 has `newer:` with the reason. One that the tests cannot run has `cannot:` with
the reason, and no script. On the laptop, `cluster` is the name of the login pod for ssh, scp and rsync.
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
"""Seconds. A case with a longer limit is not part of `make test`."""


class Case(NamedTuple):
    """A case: what a researcher types, and what it prints. The fields are explained at the top of this module."""

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
        """True if only `make long` runs the case."""
        return self.needs_software or self.limit_s > SHORT_S


def read() -> Sequence[Case]:
    """Return all cases, by name.

    Raises:
        ValueError: a header lacks a key that it needs, or has an unknown one.
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
        raise ValueError(f"{name}: the header needs `source` and `does`")
    if bool(one.get("cannot")) == bool(script):
        raise ValueError(f"{name}: it needs a script, or a reason why it cannot run here")
    return Case(
        name=name, source=one["source"], does=one["does"], script=script, says="\n".join(header["says"]),
        needs_software="needs" in one, limit_s=float(one.get("limit", "60")),
        is_typed_on_a_laptop=one.get("at") == "laptop",
        cannot_on_newer=one.get("newer", ""), cannot=one.get("cannot", ""),
    )  # fmt: skip
