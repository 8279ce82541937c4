"""Copies of a module's state that were taken before the module was moved: found by what the frames' names hold."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.operands import held_tensors
from ..evidence.scopes import Scope, bindings_of, own_nodes, position
from ..evidence.steps import Step
from ._finding import Finding
from ._order import before_capture, move_statements, moved, same_block, state_sources, value_now
from ._user_calls import every_scope


class Capture(NamedTuple):
    """`name = value` took state of `module` (an expression); `move` moved that module afterwards."""

    statement: ast.Assign
    move: ast.stmt
    scope: Scope
    name: str
    module: str
    held: Any


def capture(evidence: Evidence) -> Capture | None:
    """The assignment whose value holds the wrong tensor and which read a module that was moved below it."""
    wrong = evidence.wrong
    if wrong is None or evidence.wanted is None:
        return None
    tensor = wrong.tensor
    if not (values.is_tensor(tensor) or values.is_module(tensor)):
        return None
    for scope in every_scope(evidence):
        for call, move in move_statements(evidence, scope):
            module = moved(call)
            held = value_now(module, scope)
            if (
                not values.is_module(held)
                or _moved_above(evidence, scope, ast.unparse(module), move)
                or values.module_device(held) != evidence.wanted
            ):
                continue
            found = _before(evidence, scope, move, module, held)
            if found is not None and not _from_module(evidence, found):
                continue
            if found is not None:
                return found
    return None


def _moved_above(evidence: Evidence, scope: Scope, module: str, move: ast.stmt) -> bool:
    """Whether an earlier statement moves it as well: what was taken between the two was on the wanted device."""
    return any(
        ast.unparse(moved(call)) == module and position(other) < position(move)
        for call, other in move_statements(evidence, scope)
    )


def _before(
    evidence: Evidence, scope: Scope, move: ast.stmt, moves: ast.expr, moved_module: Any
) -> Capture | None:
    module = ast.unparse(moves)
    for node in sorted(
        (n for n in own_nodes(scope.node) if isinstance(n, ast.Assign)), key=position, reverse=True
    ):
        if len(node.targets) != 1 or not same_block(scope, node, move) or not _reads(node.value, module):
            continue
        value = value_now(node.targets[0], scope)
        if value is moved_module or not _gave(evidence, value):
            continue
        if issubclass(type(value), values.torch().optim.Optimizer):
            continue  # it keeps the parameters themselves; its state came with the first step
        return Capture(node, move, scope, ast.unparse(node.targets[0]), module, value)
    return None


def _gave(evidence: Evidence, value: Any) -> bool:
    """Whether the wrong tensor is in a value, or was made of what the value took in when it was constructed."""
    assert evidence.wrong is not None
    if _holds(value, evidence.wrong.tensor):
        return True
    kept = [s for s in evidence.steps if s.kind == "attribute" and s.owner is value]
    return any(s.extra.get("method") == "__init__" and _takes_state(s) for s in kept)


def _takes_state(step: Step) -> bool:
    return isinstance(step.node, ast.expr) and bool(state_sources(step.node))


def _reads(value: ast.expr, module: str) -> bool:
    """Whether an expression is given the module or its parameters."""
    if module in state_sources(value):
        return True
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    return any(ast.unparse(a) == module for c in calls for a in [*c.args, *(k.value for k in c.keywords)])


def _holds(value: Any, tensor: Any) -> bool:
    """Whether a value is or holds a tensor, or its memory: what `state_dict()` gives are other tensors on the same one."""
    if value is tensor:
        return True
    if not values.is_tensor(tensor):
        return False
    key = values.storage_key(tensor)
    return any(
        held.tensor is tensor or (key is not None and values.storage_key(held.tensor) == key)
        for held in held_tensors(value)
    )


def _from_module(evidence: Evidence, found: Capture) -> bool:
    """Whether the tensor may be of the module: what held it was not bound anew since, and it was not made by a call
    that takes nothing of a module's, wherever that is (`torch.zeros(classes)` in what is given the model)."""
    after = [
        b for b in bindings_of(found.scope.node).get(found.name, []) if b.position > position(found.statement)
    ]
    if any(b.value is not None and b.stmt is not found.statement for b in after):
        return False
    root = evidence.root
    if root is None or state_sources(root.node) or not isinstance(root.node, ast.Call):
        return True
    if root.kind == "factory":
        given = keyword(root.node, "device")
        return given is not None and not isinstance(given, ast.Constant)
    return root.kind != "constructor"


def captured_finding(evidence: Evidence, found: Capture) -> Finding:
    wrong = evidence.wrong
    assert wrong is not None
    made = "it" if found.name == wrong.expression else f"`{found.name}`"
    finding = Finding(
        culprit=wrong.expression,
        headline=f"`{wrong.expression}` is on {wrong.device}: {made} was made from `{found.module}` before that was moved to {evidence.wanted}",
        root_node=found.statement,
        root_scope=found.scope,
        root_note=f"taken from `{found.module}` while it was on {wrong.device}",
    )
    mend = before_capture(found.scope, found.statement, found.move)
    if mend is not None:
        finding.mends.append(mend)
    return finding
