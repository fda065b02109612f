"""Markdown as tests read it: anchors and links."""

from __future__ import annotations

import re
from pathlib import Path

FENCED = re.compile(r"^ *```.*?^ *```$", flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", text), flags=re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found[anchor] = found.get(anchor, 0) + 1
    return set(found) | {f"{anchor}-{n}" for anchor, count in found.items() for n in range(1, count)}


def links(text: str) -> list[tuple[str, str]]:
    """(path, anchor) of each link that stays in the repository; an empty path is the page itself."""
    found = re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", text))
    return [(path, anchor) for path, _, anchor in (each.partition("#") for each in found) if "://" not in path]


def dead_links(page: Path) -> list[str]:
    """Links of a page to a file or a heading that is not there."""
    dead = []
    for path, anchor in links(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            dead.append(f"{path}#{anchor}" if anchor else path)
    return dead


def linked_from(page: Path) -> set[Path]:
    """The files that a page links to, itself aside."""
    return {(page.parent / path).resolve() for path, _ in links(page.read_text()) if path} - {page}
