"""What happened: a function, a library's or your own, put new modules or parameters (adapters, LoRA layers, a new head,
the prompt of another task) into a model that had been moved already.

How to recognise it: parameters of one module are on the CPU, the rest of the model is on the GPU, and what put them in
stands below the model's `.to(device)`: a call of the function that makes such modules, of a method that makes a part
anew (`model.reset_classifier(10)`) or adds one (`model.add_task("summary")`), or an assignment
(`model.prompts[name] = nn.Parameter(...)`).

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
import dis
import re
import types
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..edits.scope import names_bound
from ..evidence import values
from ..evidence.calls import returned
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.libraries import is_library
from ..evidence.passive import class_module, code_file, function_module
from ..evidence.scopes import MISSING, Scope, own_nodes, position
from ..evidence.sources import ScopeNode
from ._additions import Part, additions, part_of
from ._finding import Finding, Mend
from ._moves import moves_in, suite_of, text_of_move
from ._order import moved, value_now
from ._user_calls import every_scope

NAME = "module-added-after-move"
TITLE = "modules were put into a model that was moved before"

_DEVICE = re.compile(r"dev|gpu|rank", re.IGNORECASE)


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None:
        return None
    part = wrong.held.owner if wrong.held is not None else wrong.leaf.value
    if not values.is_module(wrong.leaf.value):
        part = _owner(wrong.leaf.value, wrong.leaf.scope.receiver)
    for scope in every_scope(evidence) if part is not None else ():
        for call, move in _moves(evidence, scope):
            for model in _models(call, move):
                held = _held(evidence, model, scope)
                if not values.is_module(held) or evidence.wanted not in values.module_devices(held):
                    continue
                found = _by_function(scope, move, model, held, part) or _by_method(
                    scope, move, model, held, part
                )
                if found is not None:
                    return _finding(evidence, scope, call, move, *found, ast.unparse(model))
    return _put_in_below(evidence)


def _put_in_below(evidence: Evidence) -> Finding | None:
    """A registered parameter or buffer that the user's own statement, or method, put in below the move."""
    wrong = evidence.wrong
    if wrong is None or not wrong.proven:
        return None
    for scope in every_scope(evidence):
        for call, move in _moves(evidence, scope):
            for model in _models(call, move):
                held = value_now(model, scope)
                part = part_of(wrong.tensor, held) if values.is_module(held) else None
                if part is None or evidence.wanted not in values.module_devices(held):
                    continue
                if wrong.leaf.is_module and not part.in_dict():
                    continue  # an attribute, or appended: module-created-after-move moves it where it is put in
                found, sure = additions(evidence, scope, part, _below(scope, move))
                if found:
                    return _finding(
                        evidence, scope, call, move, max(found, key=position), sure, ast.unparse(model), part
                    )
    return None


def _owner(tensor: Any, receiver: Any) -> Any:
    """The module whose method failed, where the tensor is a parameter of its own."""
    own = (
        values.lookup(values.instance_dict(receiver), "_parameters", {}) if values.is_module(receiver) else {}
    )
    return receiver if any(held is tensor for _, held in values.named(own)) else None


def _moves(evidence: Evidence, scope: Scope) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """The moves to the wanted device. Where the frame that knew the device is gone, those to what is called one: that
    it was the wanted one, the model shows, which has state there."""
    for call in moves_in(own_nodes(scope.node)):
        statement, device = scope.source.statement(call), evidence.inference.moved_to(call, scope)
        named = bool(call.args) and _DEVICE.search(ast.unparse(call.args[0])) is not None
        if statement is not None and (device == evidence.wanted or (device is None and named)):
            yield call, statement


def _by_function(
    scope: Scope, move: ast.stmt, model: ast.expr, held: Any, part: Any
) -> tuple[ast.Expr | ast.Assign, bool] | None:
    """(`add_lora(model)` below the move, whether it is sure to make what is wrong)."""
    kind = _added_class(held, part)
    if kind is None:
        return None
    added = _additions(scope, move, ast.unparse(model), kind)
    if len(added) != 1:
        return None
    sure = _makes(added[0], scope, kind)
    return (added[0], sure) if sure or not _assigned(scope, move, model) else None


def _by_method(
    scope: Scope, move: ast.stmt, model: ast.expr, held: Any, part: Any
) -> tuple[ast.Expr | ast.Assign, bool] | None:
    """(`model.reset_classifier(n)` below the move, True): a method of a library's class that binds the part anew."""
    name = next((path for path, each in values.submodules(held) if each is part), "").partition(".")[0]
    child = values.lookup(values.lookup(values.instance_dict(held), "_modules"), name)
    if child is None or any(device != values.module_device(part) for device in values.module_devices(child)):
        return None
    for statement in _below(scope, move):
        function = statement.value.func if isinstance(statement.value, ast.Call) else None
        if not isinstance(function, ast.Attribute) or ast.unparse(function.value) != ast.unparse(model):
            continue
        method = values.class_attribute(type(held), function.attr)
        if type(method) is types.FunctionType and is_library(code_file(method.__code__)):
            if any(i.opname == "STORE_ATTR" and i.argval == name for i in dis.get_instructions(method)):
                return statement, True
    return None


def _below(scope: Scope, move: ast.stmt) -> Iterator[ast.Expr | ast.Assign]:
    """The statements that run after a move: those below it in its block, and in the blocks among them."""
    for statement in suite_of(scope, move):
        if position(statement) > position(move) and not isinstance(statement, ScopeNode | ast.ClassDef):
            for node in ast.walk(statement):
                if isinstance(node, ast.Expr | ast.Assign):
                    yield node


def _held(evidence: Evidence, model: ast.expr, scope: Scope) -> Any:
    """What a place holds; of a function that has returned, the failing module, if it returned that by this name."""
    held = value_now(model, scope)
    if held is MISSING and evidence.wrong is not None:
        for step in evidence.steps:
            entered = step.extra.get("entered")
            if entered is not None and entered.node is scope.node:
                if [ast.unparse(value) for value in returned(scope.node)] == [ast.unparse(model)]:
                    return evidence.wrong.leaf.value
    return held


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


def _models(call: ast.Call, move: ast.stmt) -> Iterator[ast.expr]:
    """What a move moves, by its names: `model` and `self.model` in `self.model = model.to(device)`."""
    if not isinstance(moved(call), ast.Call):
        yield moved(call)
    if isinstance(move, ast.Assign) and move.value is call:
        yield move.targets[0]


def _additions(scope: Scope, move: ast.stmt, model: str, kind: type) -> list[ast.Expr | ast.Assign]:
    """The statements below the move that give the model to a function of the library that has the class of the
    modules, or to one of the user's own that makes such modules."""
    package = class_module(kind).partition(".")[0]
    found: list[ast.Expr | ast.Assign] = []
    for statement in _below(scope, move):
        if not isinstance(statement.value, ast.Call):
            continue
        if isinstance(statement, ast.Assign) and [ast.unparse(t) for t in statement.targets] != [model]:
            continue
        call = statement.value
        function = try_evaluate(call.func, scope)
        if type(function) is not types.FunctionType or function_module(function).partition(".")[0] != package:
            continue
        if not is_library(code_file(function.__code__)) and not _makes(statement, scope, kind):
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
    sure: bool,
    model: str,
    part: Part | None = None,
) -> Finding:
    called = scope.source.one_line(added.value)
    what = "modules" if part is None else f"{part.kind}s"
    headline = f"`{called}` put {what} on {evidence.wrong_device} into `{model}`, after that was moved to {evidence.wanted}"
    if part is not None and isinstance(added, ast.Assign) and part.put_in(added, scope):
        target = scope.source.one_line(added.targets[0])
        headline = f"`{target}` is on {evidence.wrong_device}: it was put into `{model}` after that was moved to {evidence.wanted}"
    mend = _mend(scope, call, move, added, model)
    return Finding(
        certainty="certain" if sure else "likely",
        headline=headline,
        root_node=added,
        root_scope=scope,
        root_note=f"puts new {what} in, after the move",
        mends=[mend] if mend is not None else [],
    )


def _mend(
    scope: Scope, call: ast.Call, move: ast.stmt, added: ast.Expr | ast.Assign, model: str
) -> Mend | None:
    """Put them in before the move; where the move is part of another statement, move the model again."""
    source, block = scope.source, suite_of(scope, move)
    last: ast.stmt = next(s for s in block if s is added or s in source.ancestors(added))
    between = block[block.index(move) + 1 : block.index(last)]
    if last is not added and _runs_in(scope, last):
        last = added  # what fails stands in the same loop: moved again below the loop would be too late
    used = model.partition(".")[0]
    if ast.unparse(moved(call)) == model and last is added and not any(_names(s, used) for s in between):
        try:
            made = edits.move_statement(source, added, before=move)
            return Mend("put them in before the move", made, added, scope)
        except edits.EditError:
            pass
    given = {n.id for a in [*call.args, *call.keywords] for n in ast.walk(a) if isinstance(n, ast.Name)}
    if any(given & names_bound(s) for s in [*between, move, last]):
        return None
    made = edits.insert_after(source, last, f"{model}{text_of_move(call, scope)}")
    return Mend("move the model again, with what was put in", made, added, scope)


def _runs_in(scope: Scope, statement: ast.stmt) -> bool:
    """Whether the call that failed was made in a statement of this function."""
    live = scope.live.statement if scope.live is not None else None
    return live is not None and (live is statement or statement in scope.source.ancestors(live))


def _names(statement: ast.stmt, name: str) -> bool:
    """Whether a statement names the model: it may freeze or change what the model holds at that point."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(statement))
