"""A running total that other code reads on the CPU (`self.hits.numpy()`, `np.diag(hits)`): it has to stay there, and what
is added to it comes to it."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

from .. import edits
from ..evidence import values, vocabulary
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.scopes import Scope, own_nodes, position
from ..evidence.steps import Step
from ..types import Edit
from ._finding import Mend
from ._kept import names_of
from ._order import method_scopes

_VIEWS = frozenset("T mT H data real imag".split())
_ELSEWHERE = vocabulary.PLAIN_RESULTS | vocabulary.MOVES


def brought_mend(evidence: Evidence, kept: Step) -> Mend | None:
    """Bring what is added to the total to the CPU, where the code that made the total also reads it there."""
    user = evidence.user
    names = [name for name in names_of(kept) if "." in name or kept.kind != "attribute"]
    reads = list(host_reads(evidence, kept, names))
    if (
        not reads
        or user is None
        or evidence.wrong_device != "cpu"
        or not Step("use", user.node, user).editable
    ):
        return None
    made: list[Edit] = []
    added = [one for one in evidence.leaves if one.device == evidence.wanted and not one.is_scalar]
    for one in added:
        if one.scope is not user or one.is_module or one.held[1:] or not isinstance(one.node, ast.expr):
            return None
        made += edits.append_method(user.source, one.node, ".cpu()")
    if not made:
        return None
    for value in _added_below(evidence, kept, user):
        made += edits.append_method(user.source, value, ".cpu()")
    title = f"bring what is added to the CPU, where line {reads[0].lineno} reads the total"
    return Mend(title, tuple(dict.fromkeys(made)), added[0].node, user, stays=True)


def _added_below(evidence: Evidence, kept: Step, user: Scope) -> Iterator[ast.expr]:
    """What the statements below add in the same way to other totals that are read in the same way."""
    failing = user.live.statement if user.live is not None else None
    for node in own_nodes(user.node):
        if not isinstance(node, ast.AugAssign) or failing is None or position(node) <= position(failing):
            continue
        total = try_evaluate(node.target, user)
        if not values.is_tensor(total) or values.device_of(total) != evidence.wrong_device:
            continue
        if evidence.inference.device(node.value, user) == evidence.wanted:
            name = ast.unparse(node.target)
            if any(host_reads(evidence, kept, [name])):
                yield node.value


def host_reads(evidence: Evidence, kept: Step, names: list[str]) -> Iterator[ast.Call]:
    """The calls that hand a total to NumPy as it is, in the function that made it or in a method of its object."""
    scopes = list(method_scopes(evidence, kept.owner)) if kept.kind == "attribute" else [kept.scope]
    if any(_moved(own_nodes(scope.node), names) for scope in scopes):
        return
    for scope in scopes:
        nodes = own_nodes(scope.node)
        known = [*names, *_taken(nodes, names)]
        yield from (node for node in nodes if isinstance(node, ast.Call) and _hands_over(node, known, scope))


def _taken(nodes: list[ast.AST], names: list[str]) -> list[str]:
    """The local names that stand for the total: `conf = self.conf.float()`."""
    return [
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and not isinstance(node.value, ast.BinOp)
        and _is_of(node.value, names)
    ]


def _moved(nodes: list[ast.AST], names: list[str]) -> bool:
    """Whether the function itself brings the total somewhere else (`hits = hits.cpu()`), or makes it anew."""
    return any(
        isinstance(node, ast.Assign)
        and any(ast.unparse(target) in names for target in node.targets)
        and any(
            isinstance(inner, ast.Attribute) and inner.attr in vocabulary.MOVES
            for inner in ast.walk(node.value)
        )
        for node in nodes
    )


def _hands_over(node: ast.Call, names: list[str], scope: Scope) -> bool:
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "numpy" and not node.args and not any(k.arg == "force" for k in node.keywords):
        return _is_of(node.func.value, names)
    return _is_numpys(node.func, scope) and any(_is_of(argument, names) for argument in node.args)


def _is_numpys(function: ast.expr, scope: Scope) -> bool:
    """Whether a function is one of NumPy's modules': `np.diag`, `np.linalg.norm`."""
    while isinstance(function, ast.Attribute):
        function = function.value
    held = try_evaluate(function, scope) if isinstance(function, ast.Name) else None
    return type(held) is types.ModuleType and values.lookup(vars(held), "__name__") == "numpy"


def _is_of(node: ast.expr, names: list[str]) -> bool:
    """Whether an expression is a tensor on the device of the total: the total, an item, a method's or a sum's result."""
    if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names:
        return True
    if isinstance(node, ast.Attribute):
        return node.attr in _VIEWS and _is_of(node.value, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr not in _ELSEWHERE and _is_of(node.func.value, names)
    if isinstance(node, ast.Subscript):
        return _is_of(node.value, names)
    if isinstance(node, ast.BinOp):
        return _is_of(node.left, names) or _is_of(node.right, names)
    return False
