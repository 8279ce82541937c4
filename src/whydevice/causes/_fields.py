"""An object's own method, or a helper that was given it, that moves copies of its fields and keeps none of them."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.calls import enter, enter_method, returned
from ..evidence.collect import Evidence
from ..evidence.evaluate import call_name
from ..evidence.libraries import is_library
from ..evidence.scopes import MISSING, Scope, bindings_of, own_nodes, reaching
from ..evidence.until import until
from ..evidence.ways import Link
from ..types import Edit
from ._batches import frozen
from ._order import value_now
from ._partly import held_now

MOST_FOLLOWED = 3


@dataclass(repr=False, eq=False)
class LostField:
    """`statement` moves what `owner` (a name) keeps under `key` (an expression), and nothing keeps the result."""

    statement: ast.Expr
    call: ast.Call
    scope: Scope
    owner: str
    key: ast.expr
    kind: type
    value: Any = MISSING  # the tensor

    @property
    def mover(self) -> str:
        """What the function is called: `Batch.to`, `ship`."""
        cls = self.scope.source.enclosing_class(self.scope.node)
        return f"{cls.name}.{self.scope.function}" if cls is not None else str(self.scope.function)

    def edits(self, lost: list[LostField]) -> tuple[Edit, ...]:
        """The edits that keep the copies: of this field, and of those that the same lines lose beside it."""
        if frozen(self.kind):
            return ()
        source = self.scope.source
        if not isinstance(self.call.func, ast.Attribute) or not isinstance(
            self.call.func.value, ast.Attribute
        ):
            text = f"setattr({self.owner}, {ast.unparse(self.key)}, {source.segment(self.call)})"
            return edits.replace_node(source, self.call, text)
        beside = [each for each in lost if isinstance(each.key, ast.Constant)]
        return tuple(edit for each in beside for edit in edits.assign_result(source, each.statement))


def lost_fields(evidence: Evidence) -> list[LostField]:
    """The moves to the wanted device, in a function that was called with the object, that lose the wrong tensor."""
    for way in held_now(evidence):
        holder, field = way[-2], way[-2].key
        if type(field) is not str or values.is_container(holder.value) or values.is_module(holder.value):
            continue
        for scope, owner in _given(evidence, holder):
            lost = list(_lost(evidence, scope, owner, type(holder.value)))
            mine = [each for each in lost if _may_be(each, field)]
            if mine:
                mine[0].value = way[-1].value
                return [mine[0], *(each for each in lost if each is not mine[0])]
    return []


def _given(evidence: Evidence, holder: Link) -> Iterator[tuple[Scope, str]]:
    """(scope, name of the parameter) of the functions that live frames called with the object before they failed."""
    for scope in reversed(evidence.tracer.live):
        for call in own_nodes(scope.node):
            if not isinstance(call, ast.Call) or (call.lineno, call.col_offset) >= until(scope):
                continue
            entered = _entered(evidence, call, scope, holder.value)
            if entered is None or is_library(entered.source.path):
                continue
            if entered.receiver is holder.value and entered.parameters():
                yield entered, entered.parameters()[0].arg
                continue
            for name, argument in entered.bound.items():
                if not argument.spread and value_now(argument.node, argument.scope) is holder.value:
                    yield entered, name


def _entered(evidence: Evidence, call: ast.Call, scope: Scope, owner: Any) -> Scope | None:
    func = call.func
    own = isinstance(func, ast.Attribute) and value_now(func.value, scope) is owner
    if isinstance(func, ast.Attribute) and (own or _gives(call, scope, owner)):
        method = values.class_attribute(type(owner), func.attr)
        entered = (
            enter_method(method, owner, scope, evidence.sources, call)
            if type(method) is types.FunctionType
            else None
        )
        return entered if own or (entered is not None and _gives_itself(entered)) else None
    if any(isinstance(a, ast.Name | ast.Attribute) and value_now(a, scope) is owner for a in call.args):
        return enter(call, scope, evidence.sources)
    return None


def _gives(call: ast.Call, scope: Scope, owner: Any) -> bool:
    """Whether a method of something that has no name gave the object (`batch = collate(rows).to(device)`)."""
    statement = scope.source.parent(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Call)
        and value_now(statement.targets[0], scope) is owner
    )


def _gives_itself(method: Scope) -> bool:
    names = {p.arg for p in method.parameters()[:1]}
    given = returned(method.node)
    return bool(given) and all(isinstance(value, ast.Name) and value.id in names for value in given)


def _lost(evidence: Evidence, scope: Scope, owner: str, kind: type) -> Iterator[LostField]:
    for node in own_nodes(scope.node):
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(node, ast.Expr) or not isinstance(call, ast.Call):
            continue
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
            continue
        key = _key(evidence, call.func.value, scope, owner)
        if key is not None and evidence.inference.moved_to(call, scope) == evidence.wanted:
            yield LostField(node, call, scope, owner, key, kind)


def _may_be(lost: LostField, field: str) -> bool:
    """Whether the key may be this field's name: written, or what a loop gives that does not list others."""
    if isinstance(lost.key, ast.Constant):
        return lost.key.value == field
    found = bindings_of(lost.scope.node).get(lost.key.id, []) if isinstance(lost.key, ast.Name) else []
    for binding in found:
        if isinstance(binding.value, ast.Tuple | ast.List | ast.Set) and binding.kind == "loop":
            return field in [e.value for e in binding.value.elts if isinstance(e, ast.Constant)]
    return True


# -- which field an expression is --------------------------------------------------------------------------------


def _key(evidence: Evidence, node: ast.expr, scope: Scope, owner: str, depth: int = 0) -> ast.expr | None:
    """The name of the object's field that an expression's value is, as an expression of the same scope."""
    if depth > MOST_FOLLOWED:
        return None
    if isinstance(node, ast.Attribute) and _is(node.value, owner):
        return ast.Constant(node.attr)
    if isinstance(node, ast.Call) and call_name(node) == "getattr" and len(node.args) >= 2:
        return node.args[1] if _is(node.args[0], owner) else None
    if not isinstance(node, ast.Name):
        return None
    binding = reaching(scope.source, bindings_of(scope.node).get(node.id, []), node)
    if binding is None or binding.value is None:
        return None
    if binding.kind == "assign" and not binding.path:
        return _key(evidence, binding.value, scope, owner, depth + 1)
    if binding.kind != "loop" or not isinstance(binding.stmt, ast.For) or len(binding.path) != 1:
        return None
    at = _paired(evidence, binding.value, scope, owner, binding.path[0])
    target = binding.stmt.target
    return target.elts[at] if at is not None and isinstance(target, ast.Tuple) else None


def _paired(evidence: Evidence, over: ast.expr, scope: Scope, owner: str, index: int) -> int | None:
    """Where what a loop iterates over has the field's name, if what it has at an index is the field."""
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute):
        return None
    if over.func.attr == "items" and ast.unparse(over.func.value) in (f"vars({owner})", f"{owner}.__dict__"):
        return 0 if index == 1 else None
    if not _is(over.func.value, owner):
        return None
    inner = enter(over, scope, evidence.sources)
    own = inner.parameters()[0].arg if inner is not None and inner.parameters() else ""
    for given in returned(inner.node) if inner is not None else []:
        if inner is None or not isinstance(given, ast.Tuple) or index >= len(given.elts):
            return None
        key = _key(evidence, given.elts[index], inner, own)
        texts = [ast.unparse(e) for e in given.elts]
        if key is None or ast.unparse(key) not in texts:
            return None
        return texts.index(ast.unparse(key))
    return None


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
