"""What happened: a list, dict, partial or tensor took values of a module's parameters before the module was moved.

How to recognise it: what holds the CPU tensor was built from `model.parameters()` (or a weight) above the line that
moves the model.

Before:

    velocity = [torch.zeros_like(p) for p in model.parameters()]
    model.to(device)

After:

    model.to(device)
    velocity = [torch.zeros_like(p) for p in model.parameters()]

Safe: the same values, made where the model is.
"""

from __future__ import annotations

import ast

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import function_of
from ..evidence.passive import code_file, code_name
from ..evidence.scopes import Scope, position
from ..evidence.sources import FunctionNode
from ._captured import capture, captured_finding
from ._finding import Finding
from ._moves import suite_of
from ._order import before_capture, move_statements, moved, state_sources, user_scopes, value_now

NAME = "captured-before-move"
TITLE = "values of the module were taken before it was moved"


def find(evidence: Evidence) -> Finding | None:
    found = capture(evidence)
    if found is None:
        return _in_function(evidence)
    if values.is_module(found.held):
        return None
    return captured_finding(evidence, found)


def _in_function(evidence: Evidence) -> Finding | None:
    """State taken by a function (for a closure, a hook) that was called above the module's move."""
    taken = next((s for s in reversed(evidence.steps) if state_sources(s.node)), None)
    if taken is None or taken.scope.frame is not None or not isinstance(taken.scope.node, FunctionNode):
        return None
    for scope in user_scopes(evidence, []):
        for call, move in move_statements(evidence, scope):
            held = value_now(moved(call), scope)
            if not values.is_module(held) or values.module_device(held) != evidence.wanted:
                continue
            for statement in suite_of(scope, move):
                if position(statement) < position(move) and _calls(
                    statement, scope, taken.scope, moved(call)
                ):
                    return _finding(evidence, scope, statement, move, ast.unparse(moved(call)))
    return None


def _calls(statement: ast.stmt, scope: Scope, function: Scope, module: ast.expr) -> bool:
    """Whether a statement calls this function on the module or on a part of it."""
    names = {n.id for n in ast.walk(module) if isinstance(n, ast.Name)}
    if not names & {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}:
        return False
    for node in ast.walk(statement):
        found = function_of(value_now(node.func, scope)) if isinstance(node, ast.Call) else None
        code = found[0].__code__ if found is not None else None
        if (
            code is not None
            and code_name(code) == function.function
            and code_file(code) == function.source.path
        ):
            return True
    return False


def _finding(
    evidence: Evidence, scope: Scope, statement: ast.stmt, move: ast.stmt, module: str
) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None:
        return None
    finding = Finding(
        certainty="likely",
        culprit=wrong.expression,
        headline=f"`{wrong.expression}` is on {wrong.device}: it was taken from `{module}` before that was moved to {evidence.wanted}",
        root_node=statement,
        root_scope=scope,
        root_note=f"takes state of `{module}` while it is on {wrong.device}",
    )
    mend = before_capture(scope, statement, move)
    if mend is not None:
        finding.mends.append(mend)
    return finding
