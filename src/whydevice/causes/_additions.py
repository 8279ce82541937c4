"""What puts a part into a module after its construction: a statement, or a method of the user's that one calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..evidence import values
from ..evidence.calls import enter
from ..evidence.collect import Evidence
from ..evidence.libraries import is_library
from ..evidence.scopes import MISSING, Scope, own_nodes
from ._order import value_now
from ._user_calls import every_scope

_ADDING = frozenset(
    "append extend insert update setdefault add_module register_module register_parameter register_buffer".split()
)
_METHODS_DEEP = 2


class Part(NamedTuple):
    """A parameter or buffer, by the modules that hold it, from its own outwards, each with the name that it gives it."""

    kind: str  # parameter | buffer
    holders: tuple[tuple[Any, str], ...]

    def put_in(self, node: ast.AST, scope: Scope) -> bool:
        """Whether a node of a function binds the part, or something that contains it, in one of its holders."""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return any(self._is_target(target, scope) for target in targets)
        if not (isinstance(node, ast.Call) and node.args):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING:
            held = value_now(node.func.value, scope)
            return held is not MISSING and any(held is holder for holder, _ in self.holders)
        if isinstance(node.func, ast.Name) and node.func.id == "setattr":
            held = value_now(node.args[0], scope)
            return held is not MISSING and any(held is holder for holder, _ in self.holders)
        return False

    def in_dict(self) -> bool:
        """Whether the module that has it is an item of a ModuleDict, no attribute."""
        around = self.holders[1][0] if len(self.holders) > 1 else None
        return issubclass(type(around), values.torch().nn.ModuleDict)

    def _is_target(self, target: ast.expr, scope: Scope) -> bool:
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return False
        held = value_now(target.value, scope)
        if held is MISSING:
            return False
        if isinstance(target, ast.Attribute):
            return any(held is holder and target.attr == name for holder, name in self.holders)
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        return any(held is holder and (key is None or str(key) == name) for holder, name in self.holders)


def part_of(tensor: Any, model: Any) -> Part | None:
    """The one registered tensor of a module tree that this is, or that it is a view of; None if none or several."""
    key = values.storage_key(tensor) if values.is_tensor(tensor) else None
    if key is None:
        return None
    found = [
        (path, owner, name, kind)
        for path, owner, name, each, kind in values.registered(model)
        if each is tensor or values.storage_key(each) == key
    ]
    if len(found) != 1:
        return None
    path, owner, name, kind = found[0]
    around = dict(values.submodules(model))
    holders: list[tuple[Any, str]] = [(owner, name)]
    while path:
        outer, _, inner = path.rpartition(".")
        holders.append((around.get(outer), inner))
        path = outer
    return Part(kind, tuple(holders))


def additions(
    evidence: Evidence, scope: Scope, part: Part, below: Iterator[ast.Expr | ast.Assign]
) -> tuple[list[ast.Expr | ast.Assign], bool]:
    """The statements of these that put the part in, and whether nothing else of the user's can have done so."""
    found: list[ast.Expr | ast.Assign] = []
    methods: set[ast.AST] = set()
    live = scope.live.statement if scope.live is not None else None
    for statement in below:
        if live is not None and (live is statement or statement in scope.source.ancestors(live)):
            continue  # it is the one that fails
        entered = _entered(evidence, statement.value, scope)
        if part.put_in(statement if isinstance(statement, ast.Assign) else statement.value, scope):
            found.append(statement)
        elif entered is not None and (through := _puts_in(evidence, entered, part)):
            found.append(statement)
            methods.update(through)
    return found, len(found) == 1 and not _elsewhere(evidence, part, found, methods)


def _entered(evidence: Evidence, call: ast.AST | None, scope: Scope) -> Scope | None:
    """The user's function that a call runs; of a module's `forward` nothing, which runs once a step."""
    if not isinstance(call, ast.Call) or values.is_module(value_now(call.func, scope)):
        return None
    entered = enter(call, scope, evidence.sources)
    return entered if entered is not None and not is_library(entered.source.path) else None


def _puts_in(evidence: Evidence, entered: Scope, part: Part, depth: int = 0) -> list[ast.AST]:
    """The functions through which a call puts the part in, the outermost first; none where it does not."""
    scope = _with_receiver(entered)
    for node in own_nodes(scope.node):
        if part.put_in(node, scope):
            return [scope.node]
        inner = _entered(evidence, node, scope) if depth < _METHODS_DEEP else None
        if inner is not None and inner.node is not scope.node:
            through = _puts_in(evidence, inner, part, depth + 1)
            if through:
                return [scope.node, *through]
    return []


def _with_receiver(entered: Scope) -> Scope:
    """A scope in which `self`, and the parameters whose arguments are known, have their values."""
    for name, argument in entered.bound.items():
        if name not in entered.values and not argument.spread:
            held = value_now(argument.node, argument.scope)
            if values.is_module(held):
                entered.values[name] = held
    first = entered.parameters()[:1]
    if first and values.is_module(entered.receiver):
        entered.values.setdefault(first[0].arg, entered.receiver)
    return entered


def _elsewhere(
    evidence: Evidence, part: Part, found: list[ast.Expr | ast.Assign], methods: set[ast.AST]
) -> bool:
    """Whether another place, outside of the constructors, may have put it in as well."""
    known = {id(node) for statement in found for node in ast.walk(statement)}
    names = {getattr(method, "name", "") for method in methods}
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if id(node) in known or scope.function == "__init__" or scope.node in methods:
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if called in names:
                    return True
            if part.put_in(node, scope):
                return True
    return False
