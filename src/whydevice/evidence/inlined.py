"""What the variables of a comprehension held, read off the frame that it called.

Since Python 3.12 a list, set or dict comprehension runs in the frame of the function around it, and its variables
are put back to what they were as the error leaves it (PEP 709): none is left in `f_locals`. The frame of the function
that was called still holds the values that it was given.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from . import values
from .evaluate import try_evaluate
from .passive import code_name
from .scopes import MISSING, Scope, bindings_of
from .sources import COMPREHENSIONS, ScopeNode, Source


def restore(caller: Scope, call: ast.Call, callee: Scope) -> None:
    """Give `caller` the variables of the comprehension that `call` stands in, where `callee` shows what they held."""
    clauses = _clauses(caller.source, call)
    if not clauses or caller.live is None or caller.live.comprehension:
        return
    names = {n.id for c in clauses for n in ast.walk(c.target) if isinstance(n, ast.Name)}
    found: dict[str, Any] = {}
    for node, value in _given(call, caller, callee):
        if value is not MISSING:
            _learn(node, value, names, caller, found)
    # What is in the frame under a name that is not known now is the function's own variable, not the comprehension's.
    own = {name: value for name, value in caller.locals.items() if name not in names}
    caller.live.extra["locals"] = {**own, **found}
    caller.live.comprehension = True


def _clauses(source: Source, node: ast.AST) -> list[ast.comprehension]:
    """The `for` clauses around a node whose variables are lost; empty where a generator's own frame holds them."""
    found: list[ast.comprehension] = []
    for up in source.ancestors(node):
        if isinstance(up, ast.GeneratorExp):
            return []
        if isinstance(up, COMPREHENSIONS):
            found += up.generators
        elif isinstance(up, ScopeNode):
            break
    return found


def _given(call: ast.Call, caller: Scope, callee: Scope) -> Iterator[tuple[ast.expr, Any]]:
    """Expressions of a call with the values that they had, as the called function's parameters still hold them."""
    node = callee.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or callee.frame is None:
        return
    kept = {name: value for name, value in callee.locals.items() if name not in bindings_of(node)}
    names = [p.arg for p in [*node.args.posonlyargs, *node.args.args]]
    receiver = kept.get(names[0], MISSING) if names else MISSING
    if (passed := _of_receiver(call.func, callee.frame.f_code, receiver)) is not None:
        yield passed, receiver
        names = names[1:]
    elif not _is_function(try_evaluate(call.func, caller), callee.frame.f_code):
        return  # a partial, a decorator: what stands where in the call is not known
    positional = [kept.get(name, MISSING) for name in names]
    positional += kept.get(node.args.vararg.arg, ()) if node.args.vararg else ()
    for argument, value in zip(call.args, positional, strict=False):
        if isinstance(argument, ast.Starred):
            break
        yield argument, value
    others = kept.get(node.args.kwarg.arg, {}) if node.args.kwarg else {}
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.value, kept.get(keyword.arg, others.get(keyword.arg, MISSING))


def _of_receiver(func: ast.expr, code: types.CodeType, receiver: Any) -> ast.expr | None:
    """The part of a call's text that is the `self` of the method which was entered; None when it is no such call."""
    if receiver is MISSING:
        return None
    if not isinstance(func, ast.Attribute) or func.attr != code_name(code):
        return func if code_name(code) == "_wrapped_call_impl" and values.is_module(receiver) else None
    defined = values.class_attribute(type(receiver), code_name(code))
    return func.value if _is_function(defined, code) else None


def _is_function(value: Any, code: types.CodeType) -> bool:
    return type(value) is types.FunctionType and value.__code__ is code


def _learn(node: ast.expr, value: Any, names: set[str], scope: Scope, found: dict[str, Any]) -> None:
    """Note the variable that has to be `value`, or has to be the key of `value`, for this expression to have it."""
    if isinstance(node, ast.Name) and node.id in names:
        found[node.id] = value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id in names:
        container = try_evaluate(node.value, scope)
        keys = [] if container is MISSING else [k for k, held in values.items(container) if held is value]
        if len(keys) == 1:
            found[node.slice.id] = keys[0]
