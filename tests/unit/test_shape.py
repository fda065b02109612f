"""The shape of the code: small classes and functions, few parameters, nothing written twice; tests beside their code.

A place that breaks a limit is named as file:line. Each rule is checked for itself below, on text that breaks it.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import io
import tokenize
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHAPED = ("sunkpy", "demo", "devcluster")
WRITTEN = (*SHAPED, "tests", "slurm-images")

CLASS_LINES = 200
FUNCTION_LINES = 40
PARAMETERS = 4
WITHIN_PARAMETERS = 0.9
EQUAL_LINES = 8
FOLDER_FILES = 12
FLOORS = 9

PLAIN = ("scheduler", "core/gang", "core/placement")
"""The folders of sunkpy whose folders are limited, but for the families of workloads, one file each."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
CONSTRUCTORS = ("__init__", "__new__")

NO_MODULE = {
    "core/accounts/test_settles.py",  # the invariants over all of core.accounts
    "core/gang/families/test_courses.py",  # the invariants over all families
    "core/gang/test_uneven.py",  # the invariants over slots, places, room and what is decided of them
    "core/mirror/test_pod_watch.py",  # what the mirror makes of a watch that is away
    "core/mirror/test_settles.py",  # the invariant over all of core.mirror
    "core/nodeset/test_settles.py",  # the invariant over all of core.nodeset
}
"""Tests of core that are about more than one module."""


class Line(NamedTuple):
    """A line of code that counts, and where it stands."""

    path: str
    number: int
    text: str


def sources(folders: Iterable[str]) -> list[Path]:
    """The Python files below some folders of the repository, the program without an ending included."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [*found, *([ROOT / "slurm-images" / "build"] if "slurm-images" in folders else [])]


@functools.cache
def trees() -> Sequence[tuple[str, ast.Module]]:
    """Name and syntax tree of each file whose shape is limited."""
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in sources(SHAPED)]


def length(node: ast.ClassDef | Function) -> int:
    """Lines from the first decorator to the last line."""
    assert node.end_lineno is not None
    return node.end_lineno - min([node.lineno, *(each.lineno for each in node.decorator_list)]) + 1


def too_long(path: str, tree: ast.Module) -> list[str]:
    """Classes and functions above their limit."""
    found = []
    for node in ast.walk(tree):
        limit = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
        if isinstance(node, ast.ClassDef | Function) and length(node) > limit:
            found.append(f"{path}:{node.lineno}: {node.name} has {length(node)} lines, {limit} are the most")
    return found


def parameters(tree: ast.Module) -> Iterator[tuple[Function, int]]:
    """Each function but constructors, and how many parameters it takes beside self or cls."""
    methods = {id(item) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body}
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name not in CONSTRUCTORS:
            takes = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            is_bound = id(node) in methods and "staticmethod" not in map(ast.unparse, node.decorator_list)
            yield node, len(takes) - is_bound + (node.args.vararg is not None) + (node.args.kwarg is not None)


def code_lines(path: str, text: str) -> list[Line]:
    """The lines that count: no imports, docstrings, comments and blank lines; white space folded."""
    lines, tree = text.splitlines(), ast.parse(text)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline) if "#" in text else ()
    comments = {t.start[0]: t.start[1] for t in tokens if t.type == tokenize.COMMENT}
    kept = (
        Line(path, number, " ".join(line[: comments.get(number)].split()))
        for number, line in enumerate(lines, 1)
        if number not in left_out
    )
    return [line for line in kept if line.text]


def equal_blocks(files: Mapping[str, str]) -> list[str]:
    """Runs of EQUAL_LINES lines that stand twice, each told once: by its first window."""
    places: defaultdict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    numbers: dict[str, list[int]] = {}
    for path, text in files.items():
        lines = code_lines(path, text)
        numbers[path] = [line.number for line in lines]
        for at in range(len(lines) - EQUAL_LINES + 1):
            places[tuple(line.text for line in lines[at : at + EQUAL_LINES])].append((path, at))
    twice = [where for where in places.values() if len(where) > 1]
    pairs = {(one, other) for where in twice for n, one in enumerate(where) for other in where[n + 1 :]}
    return sorted(
        f"{path}:{numbers[path][at]} stands again at {again}:{numbers[again][at_again]}"
        for (path, at), (again, at_again) in pairs
        if ((path, at - 1), (again, at_again - 1)) not in pairs
    )


def modules(folder: str) -> dict[str, str]:
    """The text of each module below a folder of sunkpy, by its name."""
    found = {}
    for path in (ROOT / "sunkpy" / folder).rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = path.read_text()
    return found


def imports(text: str, known: Container[str]) -> set[str]:
    """Which of the known modules a text imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            named = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in known else node.module for name in named}
    return {name for name in found if name in known}


def floors(texts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The longest chain of imports from each module down, itself first."""
    below = {name: imports(text, texts) - {name} for name, text in texts.items()}
    chains: dict[str, tuple[str, ...]] = {}
    for name in graphlib.TopologicalSorter(below).static_order():
        chains[name] = (name, *max((chains[each] for each in below[name]), key=len, default=()))
    return chains


def test_a_folder_has_a_dozen_files_at_most():
    folders = {path.parent for folder in PLAIN for path in (ROOT / "sunkpy" / folder).rglob("*.py")}
    counts = {str(path.relative_to(ROOT)): len([*path.glob("*.py")]) for path in folders if path.name != "families"}
    assert {folder: count for folder, count in counts.items() if count > FOLDER_FILES} == {}


def test_imports_of_the_scheduler_are_nine_floors_deep_at_most():
    longest = max(floors(modules("scheduler")).values(), key=len)
    assert len(longest) <= FLOORS, "\n".join(longest)


def test_classes_and_functions_are_small():
    found = [told for path, tree in trees() for told in too_long(path, tree)]
    assert not found, "\n".join(found)


def test_nine_in_ten_functions_take_few_parameters():
    taken = [(path, node, count) for path, tree in trees() for node, count in parameters(tree)]
    many = [f"{path}:{node.lineno}: {node.name} takes {n}" for path, node, n in taken if n > PARAMETERS]
    assert len(many) <= (1 - WITHIN_PARAMETERS) * len(taken), "\n".join(many)


def test_no_block_of_code_stands_twice():
    found = equal_blocks({str(path.relative_to(ROOT)): path.read_text() for path in sources(WRITTEN)})
    assert not found, "\n".join(found)


def test_each_folder_of_unit_tests_stands_for_a_package_or_a_folder_of_the_repository():
    tested = {path.name for path in (ROOT / "tests" / "unit").iterdir() if any(path.glob("**/test_*.py"))}
    packages = {path.parent.name for path in (ROOT / "sunkpy").glob("*/__init__.py")}
    beside = {path.name.replace("-", "_") for folder in (ROOT, ROOT / "tests") for path in folder.iterdir()}
    assert tested - packages - beside == set()


def _stands_for_code(name: str) -> bool:
    """A module, or a package by its name."""
    module = ROOT / "sunkpy" / name
    return module.is_file() or module.with_suffix("").is_dir()


def test_each_test_of_core_is_named_after_a_module():
    unit = ROOT / "tests" / "unit"
    tests = {str(path.relative_to(unit)) for path in (unit / "core").rglob("test_*.py")}
    modules = {name.replace("test_", "") for name in tests - NO_MODULE}
    assert [name for name in sorted(modules) if not _stands_for_code(name)] == []
    assert NO_MODULE - tests == set(), "exceptions that nothing needs"


# ------------------------------------------------------------------------------------ the rules themselves


def test_a_long_function_is_named_with_its_place():
    body = "\n".join(["    x = 1"] * FUNCTION_LINES)
    assert too_long("a.py", ast.parse(f"y = 1\ndef f():\n{body}")) == ["a.py:2: f has 41 lines, 40 are the most"]
    assert too_long("a.py", ast.parse(f"def f():\n{body}".rpartition("\n")[0])) == []


def test_a_long_class_is_named_with_its_place():
    body = "\n".join(["    x = 1"] * CLASS_LINES)
    assert too_long("a.py", ast.parse(f"@d\nclass C:\n{body}")) == ["a.py:2: C has 202 lines, 200 are the most"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(a, b, /, c, *d, e, **f): ...", [6]),
        (
            "class C:\n    def f(self, a): ...\n    @staticmethod\n    def g(a): ...\n    def __init__(self, a): ...",
            [1, 1],
        ),
        ("class C:\n    @classmethod\n    async def f(cls, a, *, b): ...", [2]),
    ],
)
def test_parameters_are_counted_without_self(code, expected):
    assert [count for _, count in parameters(ast.parse(code))] == expected


def test_a_block_that_stands_twice_is_told_once_with_both_places():
    block = "\n".join(f"x{number} = {number}" for number in range(EQUAL_LINES + 3))
    told = equal_blocks({"a.py": f'"""Doc."""\nimport os\n{block}\n', "b.py": f"y = 0\n{block}  # more\n"})
    assert told == ["a.py:3 stands again at b.py:2"]


def test_imports_docstrings_comments_and_fewer_lines_are_no_block():
    block = "\n".join(f"x{number} = {number}" for number in range(EQUAL_LINES - 1))
    rest = "\n".join(f"from a import b{number}" for number in range(9)) + '\n"""One\ntwo\nthree\n"""\n# four\n'
    assert equal_blocks({"a.py": rest + block, "b.py": rest + block + "\ny = 1"}) == []


def test_the_longest_chain_of_imports_is_named_from_above():
    texts = {"a": "from b import x", "b": "from c import d\nimport os", "c": "", "c.d": "from typing import Any"}
    assert floors(texts)["a"] == ("a", "b", "c.d")
