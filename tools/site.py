"""Makes a web site of docs/: properdocs calls the functions `on_…` while it builds (properdocs.yml).

The navigation has the links of docs/README.md in their order. Links and anchors in the pages are written for a forge.
In the site, a file outside docs/ is under `repository/`, and a folder is a page that lists its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
Entry: TypeAlias = "str | dict[str, str | list[Entry]]"
"""An entry of the navigation: a page, or a title with its page or its entries."""
LINK = re.compile(r"\[([^]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    """Set the site's navigation and the form of its anchors."""
    config.nav = navigation(INDEX.read_text())
    config.mdx_configs["toc"] = {"slugify": anchor}
    return config


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Add files and folders of the repository that pages link and that are not in docs/."""
    waiting = list(DOCS.rglob("*.md"))
    seen = set(waiting)
    while waiting:
        for target in linked_from(waiting.pop()) - seen:
            seen.add(target)
            if target.is_dir():
                files.append(File.generated(config, place_of(target), content=listing(target)))
            elif DOCS not in target.parents:
                files.append(File.generated(config, place_of(target), abs_src_path=str(target)))
                if target.suffix == ".md":
                    waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Return a page's text with its links changed to their place in the site."""
    if page.file.abs_src_path is None:
        return markdown
    source = Path(page.file.abs_src_path)
    here = os.path.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = target_of(source, link[2])
        if target is None:
            return link[0]
        return f"[{link[1]}]({os.path.relpath(place_of(target), here)}{link[3] or ''})"

    return LINK.sub(moved, markdown)


def navigation(index: str) -> list[Entry]:
    """Return the navigation: the links before the index's first section, then each section; a line `* Name: …` in it is
    a group.
    """
    first, *sections = re.split(r"^## ", index, flags=re.MULTILINE)
    return [{"Documentation": INDEX.name}, {"Questions": _entries(first)}, *(_section(each) for each in sections)]


def _section(text: str) -> Entry:
    title, _, body = text.partition("\n")
    groups = re.findall(r"^\* (\w+): (.*?)(?=^\* |\Z)", body, flags=re.MULTILINE | re.DOTALL)
    named: list[Entry] = [{name: _entries(links)} for name, links in groups]
    return {title: named or _entries(body)}


def _entries(text: str) -> list[Entry]:
    """Return an entry for each link; the index of a folder brings the folder's pages, too."""
    found: list[Entry] = []
    for title, page in _pages(text, DOCS):
        below = _pages(page.read_text(), page.parent) if page.name == INDEX.name else ()
        own: dict[str, Entry] = {}
        for name, each in below:
            if each.parent == page.parent:
                own.setdefault(place_of(each), {name: place_of(each)})
        found.append({title: [place_of(page), *own.values()] if own else place_of(page)})
    return found


def _pages(text: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield title and file of each page that a text links; `folder`: the folder of the text."""
    for name, path, _ in LINK.findall(text):
        target = (folder / path).resolve()
        if target.suffix == ".md":
            yield name[:1].upper() + name[1:], target


def linked_from(page: Path) -> set[Path]:
    """Return the files and folders of the repository that a page links."""
    targets = (target_of(page, path) for _, path, _ in LINK.findall(page.read_text()))
    return {target for target in targets if target is not None}


def target_of(page: Path, path: str) -> Path | None:
    """Return the file or folder of a link; None if it is outside the repository or missing (then the build fails)."""
    target = (page.parent / path).resolve()
    return target if "://" not in path and target.exists() and ROOT in target.parents else None


def place_of(target: Path) -> str:
    """Return the place of a file or folder in the site."""
    inside = DOCS in target.parents
    path = target.relative_to(DOCS).as_posix() if inside else f"repository/{target.relative_to(ROOT).as_posix()}"
    return f"{path}/index.md" if target.is_dir() else path


def listing(folder: Path) -> str:
    """Return a page that lists the files of a folder; they are links if the folder is in docs/."""
    files = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())
    lines = [f"[{each}]({each})" if DOCS in folder.parents else f"`{each}`" for each in files]
    return "\n".join([f"# {folder.relative_to(ROOT)}", "", *(f"* {each}" for each in lines)]) + "\n"


def anchor(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as a forge makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)
