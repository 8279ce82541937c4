"""What the causes about order share: places that took a module's state, and the move that came after them."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.attributes import class_source
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.libraries import is_library
from ..evidence.scopes import MISSING, Scope, bindings_of, own_nodes, position
from ..evidence.steps import Step
from ._finding import Mend
from ._moves import moves_in, suite_of


def move_statements(evidence: Evidence, scope: Scope) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """The calls in a scope's own body that move something to the wanted device, with their statements."""
    for call in moves_in(own_nodes(scope.node)):
        statement = scope.source.statement(call)
        if statement is not None and evidence.inference.moved_to(call, scope) == evidence.wanted:
            yield call, statement


def moved(call: ast.Call) -> ast.expr:
    """What a `.to()` call moves; in `model.to(d).train()` it is `model`."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def holds_any(module: Any, tensors: set[int]) -> bool:
    """Whether a module has one of these tensors (by id) among its parameters and buffers."""
    return values.is_module(module) and any(id(t) in tensors for _, t, _ in values.module_tensors(module))


def state_sources(call: ast.AST) -> set[str]:
    """The texts `m` of `m.parameters()`, `m.state_dict()` and the like inside an expression."""
    names = ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "weight", "bias")
    return {ast.unparse(n.value) for n in ast.walk(call) if isinstance(n, ast.Attribute) and n.attr in names}


def method_scopes(evidence: Evidence, owner: Any) -> Iterator[Scope]:
    """The methods of a user's class, each as a scope in which only `self` is known."""
    found = class_source(type(owner), evidence.sources)
    if found is None or is_library(found[0].path):
        return
    source, node = found
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.args.args:
            name = member.args.args[0].arg
            function = values.class_attribute(type(owner), member.name)
            names = function.__globals__ if type(function) is types.FunctionType else {}
            yield Scope(source, member, names, receiver=owner, values={name: owner})


def user_scopes(evidence: Evidence, steps: list[Step]) -> list[Scope]:
    """Every scope of the user's in the stack and on a value's way, each function once, innermost first."""
    found: list[Scope] = []
    for scope in [*(s.scope for s in steps), *reversed(evidence.scopes)]:
        if not is_library(scope.source.path) and all(o.node is not scope.node for o in found):
            found.append(scope)
    return found


def after_move(scope: Scope, capture: ast.stmt, move: ast.stmt) -> Mend | None:
    """Let the capture stand after the move: put one of the two on the other side, whichever is possible."""
    source = scope.source
    for below in (True, False):
        title = f"put {_lines(capture)} below the move" if below else "move the module before it is copied"
        try:
            if below:
                made = edits.move_statement(source, capture, after=move)
            else:
                made = edits.move_statement(source, move, before=capture)
        except edits.EditError:
            continue
        if made:
            return Mend(title, made, capture, scope)
    return None


def _lines(statement: ast.stmt) -> str:
    """`line 3`, `lines 3 to 5`."""
    last = statement.end_lineno or statement.lineno
    return f"line {last}" if last == statement.lineno else f"lines {statement.lineno} to {last}"


def before_capture(scope: Scope, capture: ast.stmt, move: ast.stmt) -> Mend | None:
    """Put the move above the capture; where names stand in the way, the capture below the move."""
    source = scope.source
    try:
        made = edits.move_statement(source, move, before=capture)
    except edits.EditError:
        return after_move(scope, capture, move)
    return Mend("move the module before its state is taken", made, capture, scope) if made else None


def same_block(scope: Scope, first: ast.stmt, second: ast.stmt) -> bool:
    block = suite_of(scope, first)
    return second in block and position(first) < position(second)


def value_now(node: ast.AST, scope: Scope) -> Any:
    """What a place holds at the time of the error, whatever it held where the node stands; MISSING when unknown."""
    if isinstance(node, ast.Name):
        if scope.frame is None:
            if scope.receiver is not MISSING and [p.arg for p in scope.parameters()[:1]] == [node.id]:
                return scope.receiver
            if node.id not in scope.values and node.id in bindings_of(scope.node):
                return MISSING  # a local of a function that has returned
        return scope.locals.get(node.id, scope.globals.get(node.id, MISSING))
    if isinstance(node, ast.Attribute):
        try:
            base = value_now(node.value, scope)
            return values.attribute(base, node.attr) if base is not MISSING else MISSING
        except LookupError:
            return MISSING
    return try_evaluate(node, scope)
