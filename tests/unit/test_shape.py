"""The shape of the code: nothing is written twice, a name means one thing, and tests are named after what they test.

The rule on equal lines is checked for itself below, on text that breaks it.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ("sunkpy", "demo", "devcluster", "tests", "slurm-images")
EQUAL_LINES = 8

NO_MODULE = {
    "core/accounts/test_settles.py",  # the invariants over all of core.accounts
    "core/gang/families/test_courses.py",  # the invariants over all families
    "core/gang/test_uneven.py",  # the invariants over slots, places, room and what is decided of them
    "core/mirror/test_pod_watch.py",  # what the mirror makes of a watch that is away
    "core/mirror/test_settles.py",  # the invariant over all of core.mirror
    "core/nodeset/test_settles.py",  # the invariant over all of core.nodeset
}
"""Tests of core that are about more than one module."""

ONE_IN_EACH_PROCESS = {"Collector", "Executor", "Term"}
OF_BOTH_SIDES = {"Connection", "LeaseOver", "NotFound", "Request"}
"""Types of one name whose meaning is the same in each place."""


class Line(NamedTuple):
    """A line of code that counts, and where it stands."""

    path: str
    number: int
    text: str


def sources() -> list[Path]:
    """The Python files of the repository, and the program without an ending."""
    found = [path for folder in WRITTEN for path in sorted((ROOT / folder).rglob("*.py"))]
    return [*found, ROOT / "slurm-images" / "build"]


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
    """Runs of EQUAL_LINES lines that stand twice. Each is reported once, by its first window."""
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


def test_no_block_of_code_stands_twice():
    found = equal_blocks({str(path.relative_to(ROOT)): path.read_text() for path in sources()})
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


def test_a_public_type_has_a_name_of_its_own():
    """A reader who meets a name knows what it means, wherever it is imported from."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "sunkpy").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice, known = {name for name, paths in places.items() if len(paths) > 1}, ONE_IN_EACH_PROCESS | OF_BOTH_SIDES
    assert {name: places[name] for name in twice - known} == {}
    assert known - twice == set(), "exceptions that nothing needs"


# ------------------------------------------------------------------------------------ the rule itself


def test_a_block_that_stands_twice_is_told_once_with_both_places():
    block = "\n".join(f"x{number} = {number}" for number in range(EQUAL_LINES + 3))
    told = equal_blocks({"a.py": f'"""Doc."""\nimport os\n{block}\n', "b.py": f"y = 0\n{block}  # more\n"})
    assert told == ["a.py:3 stands again at b.py:2"]


def test_imports_docstrings_comments_and_fewer_lines_are_no_block():
    block = "\n".join(f"x{number} = {number}" for number in range(EQUAL_LINES - 1))
    rest = "\n".join(f"from a import b{number}" for number in range(9)) + '\n"""One\ntwo\nthree\n"""\n# four\n'
    assert equal_blocks({"a.py": rest + block, "b.py": rest + block + "\ny = 1"}) == []
