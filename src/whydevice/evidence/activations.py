"""The scopes of methods and functions that have returned, found through the calls that ran them."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

from . import attributes, values
from .calls import bind_entered, enter
from .evaluate import try_evaluate
from .passive import class_module, class_name, instance_dict, is_class, same_scalar
from .scopes import MISSING, Argument, Scope, dotted, own_nodes
from .sources import FunctionNode, ScopeNode
from .steps import Step

if TYPE_CHECKING:
    from .origins import Tracer


def method_scope(
    tracer: Tracer, place: attributes.Assignment, owner: Any, node: ast.AST, scope: Scope
) -> Scope:
    """The method that holds an assignment, as it ran on `owner`: live, entered by a call that is seen, or bare."""
    method = place.method
    for live in tracer.live:
        if method is not None and live.node is method and live.receiver is owner:
            return live
    holder = Scope(
        place.source,
        node_of(place),
        globals_of(place.cls, scope),
        caller=scope,
        receiver=owner,
        depth=scope.depth + 1,
    )
    first = holder.parameters()[0].arg if holder.parameters() else ""
    if place.kind == "property" and first and isinstance(node, ast.Attribute):
        holder.bound[first] = Argument(node.value, scope)  # where its object came from, the reader tells
    if method is not None and method.name in ("__init__", "__post_init__"):
        call = construction(tracer, node, scope)
        if call is None or not (isinstance(call.node, ast.Call) and _constructs(call, place.cls)):
            call = built_of(tracer, owner) or call  # what keeps it was constructed by another call
        if call is not None and isinstance(call.node, ast.Call):
            entered = enter(call.node, call.scope, tracer.sources)
            if entered is not None and entered.node is method:
                entered.receiver = owner
                return entered
            if entered is not None and _constructs(call, place.cls):
                inner = _super_scope(tracer, entered, place, method)
                if inner is not None:
                    inner.receiver = owner
                    return inner
    elif method is not None:
        called = _method_call(tracer, method.name, owner)
        if called is not None:
            entered = enter(*called, tracer.sources)
            if entered is not None and entered.node is method:
                entered.receiver = owner
                return entered
    return holder


def _constructs(call: Step, cls: type) -> bool:
    """Whether a construction makes an object of this class, or of one that inherits from it."""
    assert isinstance(call.node, ast.Call)
    made = try_evaluate(call.node.func, call.scope)
    return is_class(made) and issubclass(made, cls)


def _super_scope(
    tracer: Tracer, entered: Scope, place: attributes.Assignment, method: FunctionNode
) -> Scope | None:
    """A base class's `__init__`, entered through the `super().__init__(...)` of the one that was called."""
    for inner in own_nodes(entered.node):
        if (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr == "__init__"
        ):
            name = getattr(method, "name", "__init__")
            deeper = Scope(
                place.source,
                method,
                globals_of(place.cls, entered),
                caller=entered,
                call=inner,
                depth=entered.depth + 1,
            )
            if name == "__init__":
                bind_entered(deeper, inner, entered, tracer.sources, method=True)
                return deeper
    return None


def _method_call(tracer: Tracer, name: str, owner: Any) -> tuple[ast.Call, Scope] | None:
    """A call `owner.name(...)` in a live frame that ran before the failure."""
    for scope in reversed(tracer.live):
        for inner in own_nodes(scope.node):
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and inner.func.attr == name
            ):
                if try_evaluate(inner.func.value, scope) is owner:
                    return inner, scope
    return None


def returned_scope(tracer: Tracer, node: Any, inner: Scope) -> Scope | None:
    """The scope of a function that has returned, through a call of it in a live frame.

    `inner` is a scope inside of it: of several calls, the one whose arguments its free variables still hold.
    """
    found: Scope | None = None
    for scope in reversed(tracer.live):
        for call in own_nodes(scope.node):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute)):
                continue
            called = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
            if called != getattr(node, "name", None):
                continue
            entered = enter(call, scope, tracer.sources)
            if entered is None or entered.node is not node:
                continue
            agrees = _agreement(entered, inner)
            if agrees:
                return entered
            if agrees is None and found is None:
                found = entered
    return found


def _agreement(entered: Scope, inner: Scope) -> bool | None:
    """Whether a call gave a function the objects that a scope inside of it sees; None where none can be compared."""
    seen = inner.locals if inner.frame is not None else inner.values
    compared = False
    for name, argument in entered.bound.items():
        given = try_evaluate(argument.node, argument.scope)
        if name not in seen or given is MISSING or argument.spread or inner.is_parameter(name):
            continue
        if given is not seen[name] and not same_scalar(given, seen[name]):
            return False
        compared = True
    return True if compared else None


def construction(tracer: Tracer, node: ast.AST, scope: Scope) -> Step | None:
    """The call that constructed the object whose attribute an expression reads."""
    way = way_to_construction(tracer, node, scope)
    return way[-1] if way else None


def way_to_construction(tracer: Tracer, node: ast.AST, scope: Scope) -> list[Step]:
    """The steps from an object to the call that constructed it, that one last; none where it is not found."""
    base = node.value if isinstance(node, ast.Attribute) else node
    saved, tracer.bad, tracer.sought = (tracer.bad, tracer.sought), None, MISSING
    steps: list[Step] = []
    try:
        tracer.follow(base, scope, steps)
    finally:
        tracer.bad, tracer.sought = saved
    built = next((i for i, s in enumerate(steps) if s.kind == "construct"), None)
    return steps[: built + 1] if built is not None else []


def built_of(tracer: Tracer, owner: Any) -> Step | None:
    """The call in a live frame that constructed an object which came back through a library: it keeps what that gave."""
    cls = type(owner)
    held = [value for _, value in values.named(values.instance_dict(owner))]
    kept = {id(value) for each in held for value in _with_items(each) if _is_own(value)}
    for scope in reversed(tracer.live):
        for call in own_nodes(scope.node) if kept else ():
            named = isinstance(call, ast.Call) and (dotted(call.func) or "").endswith(class_name(cls))
            if not (named and isinstance(call, ast.Call) and try_evaluate(call.func, scope) is cls):
                continue
            given = [try_evaluate(a, scope) for a in (*call.args, *(k.value for k in call.keywords))]
            if any(id(value) in kept for each in given for value in _with_items(each)):
                return Step("construct", call, scope, class_name(cls), value=cls)
    return None


def _with_items(value: Any) -> list[Any]:
    return [value, *(item for _, item in values.items(value))]


def _is_own(value: Any) -> bool:
    """Whether a value is an object of its own, which two calls are not given by chance."""
    return values.is_tensor(value) or values.is_module(value) or values.size(value) > 0


def node_of(place: attributes.Assignment) -> ScopeNode:
    return place.method or place.source.module


def globals_of(cls: type, scope: Scope) -> dict[str, Any]:
    module = sys.modules.get(class_module(cls))
    return instance_dict(module) if module is not None else scope.globals
