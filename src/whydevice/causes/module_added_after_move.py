"""What happened: a function, a library's or your own, put new modules (adapters, LoRA layers) into a model that had been
moved already.

How to recognise it: parameters of one module class are on the CPU, the rest of the model is on the GPU, and a call on
the model, of the function that makes such modules, stands below the model's `.to(device)`.

Before:

    model.to(device)
    add_lora(model)

After:

    add_lora(model)
    model.to(device)

Where the move is part of the construction (`model = Net().to(device)`), the model is moved again after the call.

Safe: the move then reaches the new modules too, and an optimizer made later sees the same parameters.
"""

from __future__ import annotations

import ast
import types
from typing import Any

from .. import edits
from ..edits.scope import names_bound
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.libraries import is_library
from ..evidence.passive import class_module, function_module
from ..evidence.scopes import Scope, position
from ._finding import Finding, Mend
from ._moves import suite_of, text_of_move
from ._order import move_statements, moved, user_scopes, value_now

NAME = "module-added-after-move"
TITLE = "modules were put into a model that was moved before"
ORDER = 44


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None:
        return None
    part = wrong.held.owner if wrong.held is not None else wrong.leaf.value
    if not values.is_module(wrong.leaf.value):
        part = _owner(wrong.leaf.value, wrong.leaf.scope.receiver)
    if part is None:
        return None
    for scope in user_scopes(evidence, []):
        for call, move in move_statements(evidence, scope):
            model = _model(call, move)
            held = value_now(model, scope)
            if not values.is_module(held) or evidence.wanted not in values.module_devices(held):
                continue
            kind = _added_class(held, part)
            if kind is None:
                continue
            added = _additions(scope, move, ast.unparse(model), kind)
            if len(added) == 1 and (_makes(added[0], scope, kind) or not _assigned(scope, move, model)):
                return _finding(evidence, scope, call, move, added[0], ast.unparse(model), kind)
    return None


def _owner(tensor: Any, receiver: Any) -> Any:
    """The module whose method failed, where the tensor is a parameter of its own."""
    own = (
        values.lookup(values.instance_dict(receiver), "_parameters", {}) if values.is_module(receiver) else {}
    )
    return receiver if any(held is tensor for _, held in values.named(own)) else None


def _added_class(model: Any, owner: Any) -> type | None:
    """The class of the innermost module in `model`, around a part of it, that is not torch's own."""
    around = dict(values.submodules(model))
    path = next((name for name, part in around.items() if part is owner), "")
    while path:
        kind = type(around[path])
        if class_module(kind).partition(".")[0] != "torch":
            return kind
        path = path.rpartition(".")[0]
    return None


def _model(call: ast.Call, move: ast.stmt) -> ast.expr:
    """What a move moves, by its name: in `model = Net().to(device)` it is `model`."""
    made = isinstance(moved(call), ast.Call) and isinstance(move, ast.Assign) and move.value is call
    return move.targets[0] if made and isinstance(move, ast.Assign) else moved(call)


def _additions(scope: Scope, move: ast.stmt, model: str, kind: type) -> list[ast.Expr | ast.Assign]:
    """The statements below the move that give the model to a function of the library that has the class of the
    modules, or to one of the user's own that makes such modules."""
    package = class_module(kind).partition(".")[0]
    found: list[ast.Expr | ast.Assign] = []
    for statement in suite_of(scope, move):
        if (
            position(statement) <= position(move)
            or not isinstance(statement, ast.Expr | ast.Assign)
            or not isinstance(statement.value, ast.Call)
        ):
            continue
        if isinstance(statement, ast.Assign) and [ast.unparse(t) for t in statement.targets] != [model]:
            continue
        call = statement.value
        function = try_evaluate(call.func, scope)
        if type(function) is not types.FunctionType or function_module(function).partition(".")[0] != package:
            continue
        if not is_library(function.__code__.co_filename) and not _makes(statement, scope, kind):
            continue
        if any(ast.unparse(a) == model for a in call.args):
            found.append(statement)
    return found


def _makes(added: ast.Expr | ast.Assign, scope: Scope, kind: type) -> bool:
    """Whether the function that was called names the class of the modules itself."""
    function = try_evaluate(added.value.func, scope) if isinstance(added.value, ast.Call) else None
    return type(function) is types.FunctionType and values.class_name(kind) in function.__code__.co_names


def _assigned(scope: Scope, move: ast.stmt, model: ast.expr) -> bool:
    """Whether a statement below the move binds an attribute or item of the model: that may be the new module."""
    start = ast.unparse(model)
    return any(
        ast.unparse(target).startswith((f"{start}.", f"{start}["))
        for statement in suite_of(scope, move)
        if isinstance(statement, ast.Assign) and position(statement) > position(move)
        for target in statement.targets
    )


def _finding(
    evidence: Evidence,
    scope: Scope,
    call: ast.Call,
    move: ast.stmt,
    added: ast.Expr | ast.Assign,
    model: str,
    kind: type,
) -> Finding:
    called = scope.source.one_line(added.value)
    mend = _mend(scope, call, move, added, model)
    return Finding(
        certainty="certain" if _makes(added, scope, kind) else "likely",
        headline=f"`{called}` put modules on {evidence.wrong_device} into `{model}`, after that was moved to {evidence.wanted}",
        root_node=added,
        root_scope=scope,
        root_note="puts new modules in, after the move",
        mends=[mend] if mend is not None else [],
    )


def _mend(
    scope: Scope, call: ast.Call, move: ast.stmt, added: ast.Expr | ast.Assign, model: str
) -> Mend | None:
    """Put them in before the move; where the move is part of another statement, move the model again."""
    source = scope.source
    block = suite_of(scope, move)
    between = block[block.index(move) + 1 : block.index(added)]
    used = model.partition(".")[0]
    if ast.unparse(moved(call)) == model and not any(_names(s, used) for s in between):
        try:
            made = edits.move_statement(source, added, before=move)
            return Mend("put them in before the move", made, added, scope)
        except edits.EditError:
            pass
    given = {n.id for a in [*call.args, *call.keywords] for n in ast.walk(a) if isinstance(n, ast.Name)}
    if any(given & names_bound(s) for s in block[block.index(move) : block.index(added) + 1]):
        return None
    made = edits.insert_after(source, added, f"{model}{text_of_move(call, scope)}")
    return Mend("move the model again, with what was put in", made, added, scope)


def _names(statement: ast.stmt, name: str) -> bool:
    """Whether a statement names the model: it may freeze or change what the model holds at that point."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(statement))
