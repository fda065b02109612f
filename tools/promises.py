"""The promised names, on which users' files and scripts depend: values, annotations, metrics, commands
(docs/versions.md).

They are the first column of the generated reference pages. `RELEASED` has those of the last release, and
`make release RELEASE="VERSION --prepare"` writes it; a test checks that each name that is gone since was announced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

PAGES = ("annotations", "commands", "conditions", "events", "metrics", "values")
RELEASED = "docs/reference/released.yaml"
_FIRST = re.compile(r"^\| `([^`]+)` \|", flags=re.MULTILINE)
_SECTIONS = re.compile(r"^## (.+)\n", flags=re.MULTILINE)

Names = Mapping[str, Sequence[str]]


def names(root: Path) -> Names:
    """Return the promised names by reference page, as the pages are now."""
    pages = {page: (root / "docs/reference" / f"{page}.md").read_text() for page in PAGES}
    return {page: sorted(set(_FIRST.findall(text))) for page, text in pages.items()}


def released(root: Path) -> Names:
    """Return the promised names of the last release by reference page; empty before the first release."""
    file = root / RELEASED
    read: Names = yaml.safe_load(file.read_text())["names"] if file.exists() else {}
    return read


def record(root: Path, version: str) -> None:
    """Write the present names into `RELEASED`, as those of this release."""
    (root / RELEASED).write_text(yaml.safe_dump({"version": version, "names": dict(names(root))}))


def broken(before: Names, now: Names, changelog: str) -> list[str]:
    """Return a line for each name that is gone without a note in the changelog, or was never deprecated before."""
    _, *parts = _SECTIONS.split(changelog)
    unreleased = "".join(text for title, text in zip(parts[::2], parts[1::2], strict=True) if " - " not in title)
    earlier = "".join(text for title, text in zip(parts[::2], parts[1::2], strict=True) if " - " in title)
    lines = []
    for page, known in before.items():
        for name in sorted({*known} - {*now.get(page, ())}):
            if f"`{name}`" not in _under("Deprecated", earlier):
                lines.append(
                    f"{page}: `{name}` is gone, and no release has it under `### Deprecated`: keep it for one more"
                )
            elif f"`{name}`" not in _under("Removed", unreleased):
                lines.append(f"{page}: `{name}` is gone: say so under `### Removed` of what is unreleased")
    return lines


def _under(title: str, text: str) -> str:
    found = re.findall(rf"^### {title}\n(.*?)(?=^### |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(found)
