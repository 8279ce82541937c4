"""What the causes about modules share: where one was constructed, and how it would be moved there."""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.libraries import is_library
from ..evidence.operands import Held, Leaf
from ..evidence.scopes import MISSING, Scope
from ..evidence.steps import Step
from ._finding import Mend
from ._held_modules import held_mend, is_holder
from ._moves import move_text, moves_in, suite_of, text_of_move
from ._offload import is_managed
from ._order import method_scopes, move_statements, moved

DISPLAYS = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)


def wrong_module(evidence: Evidence) -> tuple[Leaf, Any, Held | None] | None:
    """(operand, the module that is on the wrong device as a whole, the tensor that failed in it)."""
    wrong = evidence.wrong
    if wrong is None:
        return None
    leaf = wrong.leaf
    if leaf.is_module and leaf.device == wrong.device:
        return leaf, leaf.value, wrong.held
    held = wrong.held
    if held is not None and held.kind in ("parameter", "buffer") and values.is_module(held.owner):
        return leaf, held.owner, held
    return None


def state_kinds(module: Any) -> set[str]:
    return {kind for _, _, kind in values.module_tensors(module)}


def makes_module(step: Step) -> bool:
    """Whether a step is a call that made the module, rather than a tuple or other object that holds it."""
    if step.kind == "construct" and isinstance(step.node, ast.Call):
        made = try_evaluate(step.node.func, step.scope)
        if empty_container(step.node, made):
            return False  # what is in it came later
        return not values.is_class(made) or issubclass(made, values.torch().nn.Module)
    return step.kind == "library"


def empty_container(node: ast.AST, made: Any) -> bool:
    """Whether a call makes one of torch's containers of modules with nothing in it: to move that moves nothing."""
    if not isinstance(node, ast.Call) or node.args or node.keywords or not values.is_class(made):
        return False
    nn = values.torch().nn
    return made in (nn.ModuleList, nn.ModuleDict, nn.Sequential, nn.ParameterList, nn.ParameterDict)


def moved_construction(evidence: Evidence, steps: list[Step]) -> Mend | None:
    """`Net()` as `Net().to(device)`: beside another module that is moved, else where it is constructed, else where
    the function that constructs it is called, which may make other modules too."""
    if evidence.wrong_device == "meta":
        return None  # a meta tensor has no data to move
    found = wrong_module(evidence)
    if found is not None and is_managed(evidence, found[1]):
        return None
    if any(
        isinstance(s.node, ast.Call) and empty_container(s.node, try_evaluate(s.node.func, s.scope))
        for s in steps
    ):
        return None  # the module was put in later, and where is not known
    helper = next((i for i, s in enumerate(steps) if s.kind == "call" and _own_function(s)), None)
    outside = steps if helper is None else steps[: helper + 1]
    for step in reversed(outside):
        if step.kind in ("assign", "attribute") and step.editable and step.stmt is not None:
            text = _sibling_move(evidence, step)
            if text is not None:
                if is_holder(evidence, step):
                    return held_mend(evidence, construction_of(steps), step, text)
                made_there = any(s.kind == "construct" and s.node is step.node for s in outside)
                title = "move it where it is made" if made_there else "move it like the module beside it"
                return _moved(step, text, title)
            mend = _beside_another(evidence, step)
            if mend is not None:
                return mend
    if helper is None:
        built = construction_of(steps)
        if built is not None and isinstance(built.node, ast.expr):
            return appended_move(evidence, built.node, built.scope)
    for step in reversed(outside):
        if step.kind in ("assign", "call", "attribute") and step.editable and isinstance(step.node, ast.expr):
            if isinstance(step.node, DISPLAYS):
                continue  # what holds the module: it has no .to()
            if step.kind == "call" and _unpacked(step, outside):
                continue
            text = move_text(evidence, step.scope, step.node)
            if text is not None and is_holder(evidence, step):
                return held_mend(evidence, construction_of(steps), step, text)
            return _moved(step, text, "move it where it is made") if text is not None else None
    return None


def construction_of(steps: list[Step]) -> Step | None:
    """The call in the user's sources that made the module, the last one on its way back."""
    return next((s for s in reversed(steps) if makes_module(s) and s.editable), None)


def _own_function(step: Step) -> bool:
    entered = step.extra.get("entered")
    return entered is not None and not is_library(entered.source.path)


def _unpacked(call: Step, steps: list[Step]) -> bool:
    """Whether the module is one of several that a call returns (`g, d = build()`)."""
    return any(s.kind in ("assign", "attribute") and s.node is call.node and s.path for s in steps)


def _moved(step: Step, text: str, title: str) -> Mend | None:
    source = step.scope.source
    if step.path and isinstance(step.stmt, ast.Assign):
        name = next((n for n in assigned_names(step.stmt) if n.rpartition(".")[2] == step.name), step.name)
        made = edits.insert_after(source, step.stmt, f"{name} = {name}{text}")
        return Mend(title, made, step.stmt, step.scope)
    if not isinstance(step.node, ast.expr) or source.segment(step.node).endswith(text):
        return (
            None  # moved by these very words already: something else took it elsewhere, or does not move it
        )
    return Mend(title, edits.append_method(source, step.node, text), step.node, step.scope)


def assigned_names(statement: ast.Assign) -> list[str]:
    """The targets of an assignment, unpacked ones each."""
    found: list[str] = []
    stack: list[ast.expr] = list(reversed(statement.targets))
    while stack:
        target = stack.pop()
        if isinstance(target, ast.Tuple | ast.List):
            stack += reversed(target.elts)
        else:
            found.append(ast.unparse(target))
    return found


def _sibling_move(evidence: Evidence, step: Step) -> str | None:
    """`.to(self.device)` of a statement near by that moves another module there."""
    statement = step.scope.source.statement(step.stmt) if step.stmt is not None else None
    block = suite_of(step.scope, statement) if statement is not None else []
    if statement not in block:
        return None
    index = block.index(statement)
    for other in block[max(0, index - 6) : index + 7]:
        if other is statement or not isinstance(other, ast.Assign | ast.Expr):
            continue
        call = other.value
        if next(moves_in([call]), None) is None or not isinstance(call, ast.Call):
            continue
        assert isinstance(call.func, ast.Attribute)
        if evidence.inference.moved_to(call, step.scope) != evidence.wanted:
            continue
        target = other.targets[0] if isinstance(other, ast.Assign) else call.func.value
        if values.is_module(try_evaluate(target, step.scope)) or _constructs_module(
            call.func.value, step.scope
        ):
            return text_of_move(call, step.scope)
    return None


def _beside_another(evidence: Evidence, step: Step) -> Mend | None:
    """Below a method's statement that moves another module of the same object (`self.critic.cuda()`)."""
    if step.kind != "attribute" or not values.is_module(attribute_now(step.owner, step.name)):
        return None
    for scope in method_scopes(evidence, step.owner):
        for call, statement in move_statements(evidence, scope):
            other = moved(call)
            if not (
                isinstance(statement, ast.Expr)
                and statement.value is call
                and isinstance(other, ast.Attribute)
            ):
                continue
            if try_evaluate(other.value, scope) is step.owner and values.is_module(
                try_evaluate(other, scope)
            ):
                name = f"{scope.source.one_line(other.value)}.{step.name}"
                made = edits.insert_after(scope.source, statement, f"{name}{text_of_move(call, scope)}")
                return Mend("move it like the module beside it", made, statement, scope)
    return None


def attribute_now(owner: Any, name: str) -> Any:
    """What an object holds under a name now, or MISSING."""
    try:
        return values.attribute(owner, name)
    except LookupError:
        return MISSING


def _constructs_module(node: ast.expr, scope: Scope) -> bool:
    made = try_evaluate(node.func, scope) if isinstance(node, ast.Call) else None
    return made is not None and values.is_class(made) and issubclass(made, values.torch().nn.Module)


def appended_move(
    evidence: Evidence, node: ast.expr, scope: Scope, title: str = "move it where it is made"
) -> Mend | None:
    if evidence.wrong_device == "meta":
        return None  # a meta tensor has no data to move
    text = move_text(evidence, scope, node)
    if text is None or scope.source.segment(node).endswith(text):
        return None  # without a device, or moved by these very words already
    made = edits.append_method(scope.source, node, text)
    return Mend(title, made, node, scope)
