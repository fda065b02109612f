"""The repository is all that its programs and tests need: none reaches above its root, or names a folder beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "charts", "crds", "demo", "devcluster", "docs", "slurm-images", "sunkpy", "tests", "tools")
FILES = ("Makefile", "pyproject.toml", "README.md", "CONTRIBUTING.md")
BESIDE = ("/".join(("shared", "manifests")), "/".join(("..", "shared")))
"""Names of folders that some had beside their checkout."""


def texts() -> Iterator[tuple[PurePosixPath, str]]:
    """Each file that people wrote, by its path in the repository."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    for path in [*found, *(ROOT / name for name in FILES)]:
        if path.is_file() and "__pycache__" not in path.parts:
            yield PurePosixPath(path.relative_to(ROOT)), path.read_text(errors="replace")


def is_python(path: PurePosixPath, text: str) -> bool:
    """Modules, and programs that say so in their first line."""
    return path.suffix == ".py" or (text.startswith("#!") and "python" in text.partition("\n")[0])


def levels_up(node: ast.AST, known: Mapping[str, int]) -> int | None:
    """How many folders above its own file a path is; None if it is no path that begins with `__file__`."""
    match node:
        case ast.Name(id=name):
            return 0 if name == "__file__" else known.get(name)
        case ast.Attribute(value=below, attr="parent") | ast.Call(func=ast.Attribute(attr="dirname"), args=[below]):
            more = 1
        case ast.Subscript(value=ast.Attribute(value=below, attr="parents"), slice=ast.Constant(value=int(index))):
            more = index + 1
        case ast.BinOp(left=below, op=ast.Div(), right=ast.Constant(value=str(text))):
            parts = PurePosixPath(text).parts
            more = parts.count("..") or -len(parts)
        case ast.Call(func=ast.Attribute(value=below, attr="resolve" | "absolute" | "with_name" | "with_suffix")):
            more = 0
        case ast.Call(args=[below]):  # Path(__file__), os.path.abspath(__file__)
            more = 0
        case _:
            return None
    levels = levels_up(below, known)
    return None if levels is None else levels + more


def above_root(path: PurePosixPath, text: str) -> list[str]:
    """Expressions of a program that lie above the root of the repository."""
    tree = ast.parse(text)
    known: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                levels = levels_up(value, known)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                levels = levels_up(value, known)
            case _:
                continue
        if levels is not None:
            known[name] = levels
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and (levels_up(node, known) or 0) > len(path.parts)
    ]


def test_no_program_reaches_above_the_root():
    programs = [(path, text) for path, text in texts() if "__file__" in text and is_python(path, text)]
    found = [each for path, text in programs for each in above_root(path, text)]
    assert not found, "\n".join(found)


def test_no_file_names_a_folder_beside_the_repository():
    found = [f"{path}: {name}" for path, text in texts() for name in BESIDE if name in text]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "is_above"),
    [
        ("Path(__file__).parents[1]", False),
        ("Path(__file__).parents[2]", True),
        ("Path(__file__).resolve().parents[2] / 'shared'", True),
        ("Path(__file__).parent.parent", False),
        ("Path(__file__).parent.parent.parent", True),
        ("Path(__file__).parents[1] / '../manifests'", True),
        ("Path(__file__).parent / 'a' / '..' / '..'", False),
        ("Path(__file__).parent / 'a' / '../../..'", True),
        ("Path(__file__).with_name('a').parents[1]", False),
        ("os.path.dirname(os.path.dirname(os.path.abspath(__file__)))", False),
        ("os.path.dirname(os.path.dirname(os.path.dirname(__file__)))", True),
        ("ROOT = Path(__file__).parents[1]\nROOT.parent", True),
        ("ROOT: Final = Path(__file__).parents[1]\nROOT / 'tests'", False),
        ("Path('a').parents[7]", False),
    ],
)
def test_a_path_above_the_root_is_found(text: str, is_above: bool):
    assert bool(above_root(PurePosixPath("tests/module.py"), text)) is is_above
