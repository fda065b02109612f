"""What the code says, read from its syntax: constants, conditions, reasons of Events."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from sunkpy.core import names

ROOT = Path(__file__).resolve().parents[3]
TREES = [ast.parse(path.read_text()) for path in sorted((ROOT / "sunkpy").rglob("*.py"))]
REASON = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")
STATUSES = {"True", "False", "Unknown"}  # of conditions
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _assigned() -> dict[str, ast.expr]:
    """Value of each name in capitals that some module assigns."""
    found: dict[str, ast.expr] = {}
    for node in (statement for tree in TREES for statement in tree.body):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {t.id: node.value for t in targets if isinstance(t, ast.Name) and t.id.lstrip("_").isupper()}
    return found


ASSIGNED = _assigned()


def text_of(node: ast.expr) -> str | None:
    """The text that an expression always is: a literal, a constant, `PREFIX + …`."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in ASSIGNED:
            return text_of(ASSIGNED[name])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = text_of(left), text_of(right)
            return one + other if one is not None and other is not None else None
        case _:
            return None


def names_on_objects() -> set[str]:
    """Labels, annotations, finalizers and taints: every constant of that kind, wherever it stands."""
    kinds = ("LABEL_", "ANNOTATION_", "FINALIZER_", "TAINT_")
    texts = (text_of(value) for name, value in ASSIGNED.items() if name.startswith(kinds))
    prefixes = (names.PREFIX, "argocd.", "cluster-autoscaler.", "karpenter.")
    return {text for text in texts if text is not None and text.startswith(prefixes)}


def calls(name: str) -> Iterator[ast.Call]:
    """Calls of a function or class."""
    for node in (node for tree in TREES for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and _called(node) == name:
            yield node


def condition_types() -> set[str]:
    """Types of all conditions that are written."""
    literal = (text_of(k.value) for call in calls("Condition") for k in call.keywords if k.arg == "type")
    names_of_types = ("POD_SCHEDULED", "DISRUPTION_TARGET", "JOB_ENDED")
    on_pods = {text for name in names_of_types if (text := text_of(ASSIGNED[name]))}
    return {*filter(None, literal), *on_pods, *names.SLURM_CONDITIONS, names.READINESS_GATE}


def event_reasons() -> set[str]:
    """Texts that reach a parameter or field `reason`, conditions aside: what an Event may give as its reason."""
    found: set[str] = set()
    for tree in TREES:
        for function in ast.walk(tree):
            if isinstance(function, _Function):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and "condition" not in _called(node).lower():
                        found |= _reasons(node, function)
    return found


def condition_reasons() -> set[str]:
    """Reasons of conditions."""
    found: set[str] = set()
    for node in (node for tree in TREES for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and "condition" in _called(node).lower():
            found |= {text for value in _bound(node) if (text := text_of(value)) is not None}
    return found


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _signatures() -> dict[str, set[int]]:
    """Place of `reason` among the positional parameters of functions, and fields of classes, of a name."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for node in (node for tree in TREES for node in ast.walk(tree)):
        takes: list[str] = []
        if isinstance(node, _Function):
            takes = [arg.arg for arg in node.args.args if arg.arg not in ("self", "cls")]
        if isinstance(node, ast.ClassDef):
            fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
            takes = [target.id for target in fields if isinstance(target, ast.Name)]
        if "reason" in takes:
            found[node.name].add(takes.index("reason"))
    return found


SIGNATURES = _signatures()


def _bound(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that become a `reason`."""
    places = SIGNATURES.get(_called(call), set())
    by_place = [value for place, value in enumerate(call.args) if place in places]
    return [*by_place, *(keyword.value for keyword in call.keywords if keyword.arg == "reason")]


def _reasons(call: ast.Call, function: _Function) -> set[str]:
    """The literal; of a local variable, every text in its function that can be one; none about no object."""
    found: set[str] = set()
    if any(isinstance(argument, ast.Constant) and argument.value is None for argument in call.args):
        return found
    for value in _bound(call):
        literal = text_of(value)
        if literal is not None:
            found |= {literal} if REASON.fullmatch(literal) else set()
        elif isinstance(value, ast.Name) and value.id not in _parameters(function):
            found |= _texts_of(function)
    return found


def _parameters(function: _Function) -> set[str]:
    return {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}


def _texts_of(function: _Function) -> set[str]:
    """Texts in the form of a reason, its tables included; those that are arguments are judged by their own call."""
    made = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    elsewhere = {id(value) for call in made for value in (*call.args, *(k.value for k in call.keywords))}
    tables = [ASSIGNED[n.id] for n in ast.walk(function) if isinstance(n, ast.Name) and n.id in ASSIGNED]
    nodes = (node for root in (function, *tables) for node in ast.walk(root))
    texts = (n.value for n in nodes if isinstance(n, ast.Constant) and id(n) not in elsewhere)
    return {text for text in texts if isinstance(text, str) and REASON.fullmatch(text) and text not in STATUSES}
