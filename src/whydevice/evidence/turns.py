"""Whether a loop had turns before the one that failed, and whether each of them went through some piece of code."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from .evaluate import call_name, try_evaluate
from .libraries import is_library
from .passive import exactly
from .scopes import LOOPS, MISSING, Binding, Scope, bindings_of, own_nodes, position
from .sources import COMPREHENSIONS, ScopeNode, is_regular_file
from .vocabulary import MOVES

Loop = ast.For | ast.AsyncFor | ast.While
_DECIDING = (*LOOPS, *COMPREHENSIONS, ast.If, ast.IfExp, ast.Match, ast.Try, ast.BoolOp, ast.Lambda)


def earlier_turns(live: list[Scope], *sites: tuple[ast.AST, Scope]) -> tuple[Loop, Scope] | None:
    """The innermost loop of a running function that had turns before, each of which went through all the sites.

    `live` are the scopes on the stack, outermost first. A site may stand in a function that has returned.
    """
    ways = [list(_outwards(node, scope, live)) for node, scope in sites]
    for loop, scope in _loops(ways[0], live):
        if not all(any(_passes(loop, scope, at, where) for at, where in way) for way in ways):
            return None
        if any(not _certain_up_to(way, loop, scope) for way in ways):
            return None
        if _had_turns(loop, scope) and not _moves_sometimes(loop, scope):
            return loop, scope
    return None


def _outwards(node: ast.AST, scope: Scope, live: list[Scope]) -> Iterator[tuple[ast.AST, Scope]]:
    """A place, the call that led to it, the call that led to that, up to the outermost frame."""
    here: Scope | None = scope
    while here is not None:
        yield node, here
        if here.frame is None:
            if here.call is None or here.caller is None:
                return
            node, here = here.call, here.caller
            continue
        at = next((i for i, one in enumerate(live) if one is here), 0)
        here = live[at - 1] if at else None
        if here is not None:
            if here.live is None or here.live.node is None or not _only_calls_on(here):
                return
            node = here.live.node


def _only_calls_on(scope: Scope) -> bool:
    """Whether a frame that is no user's is known to call what it was given each time: nn.Module's own machinery."""
    return not is_library(scope.source.path) or scope.source.path.endswith(
        ("nn/modules/module.py", "nn\\modules\\module.py")
    )


def _loops(way: list[tuple[ast.AST, Scope]], live: list[Scope]) -> Iterator[tuple[Loop, Scope]]:
    for node, scope in way:
        if scope.frame is None or is_library(scope.source.path):
            continue
        for up in scope.source.ancestors(node):
            if isinstance(up, ScopeNode):
                break
            if isinstance(up, LOOPS):
                yield up, scope


def _passes(loop: Loop, scope: Scope, node: ast.AST, where: Scope) -> bool:
    return where is scope and loop in scope.source.ancestors(node)


def _certain_up_to(way: list[tuple[ast.AST, Scope]], loop: Loop, scope: Scope) -> bool:
    """Whether every turn of the loop comes to the place: nothing on the way decides whether it does."""
    for node, where in way:
        if is_library(where.source.path):
            continue
        if where is scope and loop in where.source.ancestors(node):
            return unconditional(node, where, loop)
        if not unconditional(node, where, where.node):
            return False
    return False


def unconditional(node: ast.AST, scope: Scope, top: ast.AST) -> bool:
    """Whether each run of a function's or a loop's body, or of an arm of a fork, comes to the node."""
    start = position(node)
    for inner in ast.walk(top):
        if isinstance(inner, ast.Return | ast.Continue | ast.Break | ast.Yield) and position(inner) < start:
            return False
    child = node
    for up in scope.source.ancestors(node):
        if up is top:
            return not isinstance(up, LOOPS) or child in up.body
        if isinstance(up, _DECIDING) and child is not getattr(up, "iter", None):
            return False
        child = up
    return False


def _had_turns(loop: Loop, scope: Scope) -> bool:
    return _counted_up(loop, scope) or _bound_below(loop, scope)


def _counted_up(loop: Loop, scope: Scope) -> bool:
    """Whether the counter of `for i, x in enumerate(xs)` or `for i in range(n)` is past its first value."""
    if isinstance(loop, ast.While):
        return False
    call: ast.expr = loop.iter
    while isinstance(call, ast.Call) and call_name(call) in ("tqdm", "tqdm.tqdm", "track") and call.args:
        call = call.args[0]
    if not isinstance(call, ast.Call):
        return False
    held = try_evaluate(call.func, scope)
    start: ast.expr | None = None
    target: ast.expr = loop.target
    if held is builtins.enumerate and isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[0]
        start = (
            call.args[1]
            if len(call.args) > 1
            else next((k.value for k in call.keywords if k.arg == "start"), None)
        )
    elif held is builtins.range and len(call.args) < 3:
        start = call.args[0] if len(call.args) == 2 else None
    else:
        return False
    if not isinstance(target, ast.Name) or len(bindings_of(scope.node).get(target.id, [])) != 1:
        return False
    first = try_evaluate(start, scope) if start is not None else 0
    now = scope.locals.get(target.id, MISSING)
    return exactly(now, int) and exactly(first, int) and now > first


def _bound_below(loop: Loop, scope: Scope) -> bool:
    """Whether a name has a value that only the end of an earlier turn can have given it."""
    live = scope.live
    failing = scope.source.statement(live.node) if live is not None and live.node is not None else None
    if failing is None or any(
        isinstance(n, ast.Global | ast.Nonlocal | ast.Delete) for n in own_nodes(scope.node)
    ):
        return False
    if isinstance(scope.node, ast.Module) and not is_regular_file(scope.source.path):
        return False  # a cell's names may come from another cell
    stored = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for name in stored & scope.locals.keys():
        found = bindings_of(scope.node).get(name, [])
        if found and not scope.is_parameter(name) and all(_below(b, failing, loop, scope) for b in found):
            return True
    return False


def _below(binding: Binding, failing: ast.stmt, loop: Loop, scope: Scope) -> bool:
    end = failing.end_lineno or failing.lineno, failing.end_col_offset or 0
    inside = binding.kind == "assign" and loop in scope.source.ancestors(binding.stmt)
    return inside and position(binding.stmt) >= end


def _moves_sometimes(loop: Loop, scope: Scope) -> bool:
    """Whether something in the loop may have moved things between turns: then an earlier turn proves nothing."""
    return any(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr in (*MOVES, "to_empty")
        for node in ast.walk(loop)
    )
