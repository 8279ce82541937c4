"""What happened: a module was used before the line that moves it.

A check of the output's shape, a warm-up, a count of the operations: something ran the module between its construction
and its `.to(device)`.

How to recognise it: the module is on the CPU, its input is not, and the `.to(device)` of this very module stands below
the line that failed.

Before:

    print(model(sample).shape)
    model = model.to(device)

After:

    model = model.to(device)
    print(model(sample).shape)

Safe: the module is moved either way.
"""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..edits import EditError
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope, own_nodes, position
from ._finding import Finding, Mend
from ._module_state import whole_module
from ._moves import suite_of
from ._order import move_statements, moved, value_now
from ._taken_back import taken_back

NAME = "module-moved-too-late"
TITLE = "a module was used before it was moved"


def find(evidence: Evidence) -> Finding | None:
    found = whole_module(evidence)
    if found is None or evidence.wanted in (None, "cpu"):
        return None
    expression, module, _ = found
    if not values.is_module(module) or taken_back(evidence, module):
        return None
    for scope in evidence.scopes:
        if scope.live is None or scope.live.library or scope.live.statement is None:
            continue
        for call, move in move_statements(evidence, scope):
            if position(move) <= position(scope.live.statement) or not _moves(moved(call), scope, module):
                continue
            return _finding(evidence, scope, call, move, expression)
    return None


def _moves(node: ast.AST, scope: Scope, module: Any) -> bool:
    held = value_now(node, scope)
    return values.is_module(held) and any(sub is module for _, sub in values.submodules(held))


def _finding(evidence: Evidence, scope: Scope, call: ast.Call, move: ast.stmt, expression: str) -> Finding:
    text = scope.source.one_line(moved(call))
    finding = Finding(
        culprit=evidence.wrong.expression if evidence.wrong is not None else expression,
        headline=f"`{expression}` is on {evidence.wrong_device}: line {move.lineno} moves it to {evidence.wanted}, but it is used before that",
        root_node=scope.live.statement if scope.live is not None else move,
        root_scope=scope,
        root_note=f"uses `{text}` before it is moved",
    )
    block = suite_of(scope, move)
    built = _built(scope, text, move, block)
    below = block[block.index(built) + 1] if built is not None else None
    for place, root in ((below, built), (_failing(scope, block), None)):
        if place is None or place is move:
            continue
        try:
            made = edits.move_statement(scope.source, move, before=place)
        except EditError:
            continue
        if made:
            finding.root_node = root or place
            if root is not None:
                finding.root_note = f"`{text}` is made here, and moved too late"
            finding.mends.append(Mend("move it before its first use", made, place, scope))
            return finding
    return finding


def _built(scope: Scope, text: str, move: ast.stmt, block: list[ast.stmt]) -> ast.stmt | None:
    """The statement in the same block that binds the module, above its move."""
    found = [
        node
        for node in own_nodes(scope.node)
        if isinstance(node, ast.Assign)
        and node in block
        and position(node) < position(move)
        and ast.unparse(node.targets[0]) == text
    ]
    return found[-1] if found else None


def _failing(scope: Scope, block: list[ast.stmt]) -> ast.stmt | None:
    """The statement of the block in which the failure happened."""
    statement: ast.AST | None = scope.live.statement if scope.live is not None else None
    while statement is not None and statement not in block:
        statement = scope.source.parent(statement)
    return statement if isinstance(statement, ast.stmt) else None
