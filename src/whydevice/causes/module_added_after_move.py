"""What happened: a library's function put new modules (adapters, LoRA layers) into a model that had been moved already.

How to recognise it: parameters of the library's own module class are on the CPU, the rest of the model is on the GPU,
and a call of that library's function on the model stands below the model's `.to(device)`.

Before:

    model.to(device)
    add_lora(model)

After:

    add_lora(model)
    model.to(device)

Safe: the move then reaches the new modules too, and an optimizer made later sees the same parameters.
"""

from __future__ import annotations

import ast
import types

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.passive import class_module, function_module
from ..evidence.scopes import Scope, position
from ._finding import Finding, Mend
from ._moves import suite_of
from ._order import move_statements, moved, user_scopes, value_now

NAME = "module-added-after-move"
TITLE = "a library put modules into a model that was moved before"
ORDER = 44


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or wrong.held is None or not values.is_module(wrong.leaf.value):
        return None
    owner = wrong.held.owner
    if not values.is_module(owner):
        return None
    package = class_module(type(owner)).partition(".")[0]
    if package == "torch":
        return None
    for scope in user_scopes(evidence, []):
        for call, move in move_statements(evidence, scope):
            if value_now(moved(call), scope) is not wrong.leaf.value:
                continue
            added = _additions(scope, move, ast.unparse(moved(call)), package)
            if len(added) == 1:
                return _finding(evidence, scope, move, added[0], ast.unparse(moved(call)))
    return None


def _additions(scope: Scope, move: ast.stmt, model: str, package: str) -> list[ast.Expr]:
    """The statements below the move that give the model to a function of this package."""
    found = []
    for statement in suite_of(scope, move):
        if (
            position(statement) <= position(move)
            or not isinstance(statement, ast.Expr)
            or not isinstance(statement.value, ast.Call)
        ):
            continue
        call = statement.value
        function = try_evaluate(call.func, scope)
        if type(function) is not types.FunctionType or function_module(function).partition(".")[0] != package:
            continue
        if any(ast.unparse(a) == model for a in call.args):
            found.append(statement)
    return found


def _finding(evidence: Evidence, scope: Scope, move: ast.stmt, added: ast.Expr, model: str) -> Finding:
    called = scope.source.one_line(added.value)
    made = edits.move_statement(scope.source, added, before=move)
    return Finding(
        headline=f"`{called}` put modules on {evidence.wrong_device} into `{model}`, after that was moved to {evidence.wanted}",
        root_node=added,
        root_scope=scope,
        root_note="puts new modules in, after the move",
        mends=[Mend("put them in before the move", made, added, scope)],
    )
