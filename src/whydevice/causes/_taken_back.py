"""A module that was moved to the wanted device, and then to another: no cause that says "never moved" is true of it."""

from __future__ import annotations

import ast
from typing import Any

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope, own_nodes, position
from ..evidence.vocabulary import MOVES
from ._order import moved, value_now
from ._user_calls import every_scope


def taken_back(evidence: Evidence, module: Any) -> bool:
    """Whether the user's code moves a module, or one that it is a part of, to where it is now (`model.cpu()`), and that
    has run: it stands above the failing statement in a frame, or there is a move to the wanted device besides."""
    away, there = False, any(_moves_to(s.node, s.scope, evidence, evidence.wanted) for s in evidence.steps)
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if not _moves_module(node, scope, module):
                continue
            if _moves_to(node, scope, evidence, evidence.wanted):
                there = there or not _below(node, scope)
            elif _moves_to(node, scope, evidence, evidence.wrong_device):
                if scope.frame is not None and not _below(node, scope):
                    return True
                away = away or scope.frame is None
    return away and there


def _moves_to(node: ast.AST, scope: Scope, evidence: Evidence, device: str | None) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in MOVES
        and evidence.inference.moved_to(node, scope) == device
    )


def _moves_module(node: ast.AST, scope: Scope, module: Any) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MOVES):
        return False
    held = value_now(moved(node), scope)
    return values.is_module(held) and any(sub is module for _, sub in values.submodules(held))


def _below(node: ast.AST, scope: Scope) -> bool:
    """Whether a call stands below the statement that failed, with no loop around both that would have run it before."""
    live = scope.live.statement if scope.live is not None else None
    if live is None or position(node) <= position(live):
        return False
    loops = {id(up) for up in scope.source.ancestors(live) if isinstance(up, ast.For | ast.While)}
    return not any(id(up) in loops for up in scope.source.ancestors(node))
