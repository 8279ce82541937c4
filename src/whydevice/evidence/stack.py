"""The live frames as scopes, each linked to its caller, its parameters bound to what that gave it."""

from __future__ import annotations

import ast

from . import inlined, values
from .calls import bind
from .frames import LiveFrame, locate
from .generators import bind_generator, is_generator
from .scopes import Scope
from .sources import Sources


def live_scopes(frames: list[LiveFrame], sources: Sources) -> list[Scope]:
    """The scopes of a stack, outermost first, each linked to its caller with its parameters bound."""
    scopes: list[Scope] = []
    previous: Scope | None = None
    for live in frames:
        locate(live, sources)
        if live.source is None or live.scope_node is None:
            previous = None
            continue
        scope = Scope(live.source, live.scope_node, live.frame.f_globals, live.frame, live)
        if live.comprehension and previous is not None and previous.node is live.scope_node:
            scope.caller = previous.caller
            scope.call, scope.bound, scope.receiver = previous.call, previous.bound, previous.receiver
            scope.values = {}
            live.extra["locals"] = {**previous.locals, **dict(values.named(live.frame.f_locals))}
        else:
            call = calling_node(previous) if previous is not None else None
            if is_generator(scope):
                bind_generator(scope, scopes, sources)
            elif previous is not None and call is not None:
                scope.caller, scope.call = previous, call
                inlined.restore(previous, call, scope)
                bind(scope, call, previous, sources)
        scopes.append(scope)
        previous = scope
    return scopes


def calling_node(scope: Scope) -> ast.Call | None:
    """The call that a live frame was making."""
    node = scope.live.node if scope.live is not None else None
    if isinstance(node, ast.Call):
        return node
    return None
