"""Which argument became which parameter, along the stack and into functions that have returned."""

from __future__ import annotations

import ast
import types
from typing import Any

from . import inlined, partials, values
from .arguments import held_to_identity
from .evaluate import call_name, function_of, try_evaluate
from .frames import LiveFrame, locate
from .passive import code_file, code_name
from .scopes import MISSING, Argument, Scope, bindings_of, reaching
from .sources import FunctionNode, Sources

MOST_DEPTH = 12
MOST_SPREAD = 16


def live_scopes(frames: list[LiveFrame], sources: Sources) -> list[Scope]:
    """The scopes of a stack, outermost first, each linked to its caller with its parameters bound."""
    from .generators import bind_generator, is_generator

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


def spread_arguments(call: ast.Call, scope: Scope) -> tuple[list[Argument], dict[str, Argument]]:
    """The arguments of a call, with `*args` and `**kwargs` followed into the caller that gave them."""
    positional: list[Argument] = []
    keywords: dict[str, Argument] = {}
    for node in call.args:
        if not isinstance(node, ast.Starred):
            positional.append(Argument(node, scope))
            continue
        forwarded = _forwarded(node.value, scope, vararg=True)
        if forwarded is not None:
            positional += forwarded[0]
            continue
        if isinstance(node.value, ast.Tuple | ast.List):
            positional += [Argument(each, scope) for each in node.value.elts]
            continue
        held = try_evaluate(node.value, scope)
        if held is not MISSING:
            positional += [Argument(node.value, scope, spread="*", key=key) for key, _ in values.items(held)]
        elif node is call.args[-1]:  # the tuple is gone, so its length is too: it fills what has no default
            positional += [
                Argument(node.value, scope, spread="*", key=key, guessed=True) for key in range(MOST_SPREAD)
            ]
    for keyword in call.keywords:
        if keyword.arg is not None:
            keywords[keyword.arg] = Argument(keyword.value, scope)
            continue
        forwarded = _forwarded(keyword.value, scope, vararg=False)
        if forwarded is not None:
            keywords.update(forwarded[1])
            continue
        if isinstance(keyword.value, ast.Call) and call_name(keyword.value) == "dict":
            keywords.update({k.arg: Argument(k.value, scope) for k in keyword.value.keywords if k.arg})
            continue
        held = try_evaluate(keyword.value, scope)
        if held is not MISSING:
            for key, _ in values.items(held):
                if type(key) is str:
                    keywords[key] = Argument(keyword.value, scope, spread="**", key=key)
    return positional, keywords


def _forwarded(
    node: ast.expr, scope: Scope, *, vararg: bool
) -> tuple[list[Argument], dict[str, Argument]] | None:
    """What the function's own `*args` or `**kwargs` were given, if the node is that name."""
    if not isinstance(node, ast.Name) or not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    a = scope.node.args
    own = a.vararg if vararg else a.kwarg
    if own is None or own.arg != node.id or scope.call is None or scope.caller is None:
        return None
    positional, keywords = spread_arguments(scope.call, scope.caller)
    if vararg:
        fixed = len(a.posonlyargs) + len(a.args)
        if scope.receiver is not MISSING:
            fixed -= 1
        return positional[fixed:], {}
    named = {p.arg for p in [*a.args, *a.kwonlyargs]}
    return [], {k: v for k, v in keywords.items() if k not in named}


def all_arguments(
    call: ast.Call, scope: Scope, sources: Sources, depth: int = 0
) -> tuple[list[Argument], dict[str, Argument]]:
    """The arguments that the function behind a call got: those of the partials around it, then the call's own."""
    positional, keywords = spread_arguments(call, scope)
    held = try_evaluate(call.func, scope)
    if not partials.is_partial(held) or depth >= MOST_DEPTH:
        return positional, keywords
    made = partials.construction(call.func, scope, sources)
    if made is None or not made[0].args or isinstance(made[0].args[0], ast.Starred):
        first, named = partials.unknown_arguments(held, call.func, scope)
    else:
        inner = ast.Call(made[0].args[0], made[0].args[1:], made[0].keywords)
        first, named = all_arguments(inner, made[1], sources, depth + 1)
    return [*first, *positional], {**named, **keywords}


def bind(scope: Scope, call: ast.Call, caller: Scope, sources: Sources) -> None:
    """Bind a function's parameters to the arguments of the call that entered it."""
    if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    positional, keywords = all_arguments(call, caller, sources)
    params = [*scope.node.args.posonlyargs, *scope.node.args.args]
    names = [p.arg for p in params]
    receiver, through_partial = _receiver(scope, call, caller, names)
    if receiver is not None:
        if receiver.node is not None:
            scope.bound[names[0]] = receiver
        names = names[1:]
        if scope.receiver is MISSING and scope.frame is not None:
            scope.receiver = scope.locals.get(params[0].arg, MISSING)
    if through_partial:
        return
    optional = _with_default(scope.node)
    for name, argument in zip(names, positional, strict=False):
        if not (argument.guessed and name in optional):
            scope.bound[name] = argument
    known = {*names, *(p.arg for p in scope.node.args.kwonlyargs)}
    for name, argument in keywords.items():
        if name in known:
            scope.bound[name] = argument
    held_to_identity(scope, [*positional, *keywords.values()])
    _bind_defaults(scope)


def _bind_defaults(scope: Scope) -> None:
    assert isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    a = scope.node.args
    ordered = [*a.posonlyargs, *a.args]
    for param, default in zip(reversed(ordered), reversed(a.defaults), strict=False):
        scope.bound.setdefault(param.arg, Argument(default, scope, default=True))
    for param, keyword_default in zip(a.kwonlyargs, a.kw_defaults, strict=False):
        if keyword_default is not None:
            scope.bound.setdefault(param.arg, Argument(keyword_default, scope, default=True))


def _receiver(scope: Scope, call: ast.Call, caller: Scope, names: list[str]) -> tuple[Argument | None, bool]:
    """The expression that `self` was, when the function is a method; and whether arguments cannot be matched."""
    if not names:
        return None, False
    is_method = scope.source.enclosing_class(scope.node) is not None and not _is_static(scope.node)
    forwarding = isinstance(call.func, ast.Name) and call.func.id in (
        "forward_call",
        "func",
        "fn",
        "slow_forward",
    )
    if not is_method:
        return None, False
    if forwarding and caller.caller is not None and caller.call is not None:
        # torch's Module.__call__ and its like pass on what they got: the receiver is theirs.
        owner: Scope = caller
        while owner.call is not None and owner.caller is not None:
            func = owner.call.func
            passed_on = isinstance(func, ast.Name) and func.id in ("forward_call", "func", "fn")
            wrapped = isinstance(func, ast.Attribute) and func.attr in ("_call_impl", "_wrapped_call_impl")
            if not passed_on and not wrapped:
                break
            outer: Scope = owner.caller
            owner = outer
        first = owner.call
        if first is not None and owner.caller is not None:
            node: ast.expr = first.func
            held = try_evaluate(node, owner.caller)
            if isinstance(node, ast.Attribute) and not values.is_module(held):
                node = node.value
            return Argument(node, owner.caller), False
    func = call.func
    held = try_evaluate(func, caller)
    if values.is_class(held):
        return Argument(call, caller), False  # a construction: `self` is what the call makes
    if isinstance(func, ast.Attribute):
        if (
            isinstance(func.value, ast.Call)
            and isinstance(func.value.func, ast.Name)
            and func.value.func.id == "super"
        ):
            receiver_name = caller.parameters()[0].arg if caller.parameters() else "self"
            return caller.bound.get(receiver_name) or Argument(
                ast.Name(
                    receiver_name,
                    ast.Load(),
                    lineno=call.lineno,
                    col_offset=call.col_offset,
                    end_lineno=call.lineno,
                    end_col_offset=call.col_offset,
                ),
                caller,
            ), False
        if function_of(held) is None or not values.is_class(try_evaluate(func.value, caller)):
            if values.is_module(held) or (held is not MISSING and function_of(held) is None):
                return Argument(func, caller), False
            return Argument(func.value, caller), False
        return None, False  # Class.method(obj, ...): the object is the first argument
    return Argument(func, caller), False


def _is_static(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in decorators)


def enter(call: ast.Call, scope: Scope, sources: Sources) -> Scope | None:
    """The scope of the Python function that a call runs or ran, its parameters bound; None if it is not Python."""
    if scope.depth >= MOST_DEPTH:
        return None
    held = try_evaluate(call.func, scope)
    if held is MISSING and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        made = try_evaluate(call.func.value.func, scope)  # `Windows(data).batches()`
        method = values.class_attribute(made, call.func.attr) if values.is_class(made) else None
        if type(method) is types.FunctionType:
            return _enter_function(method, MISSING, call, scope, sources, method=True)
    if held is MISSING:
        return _enter_by_name(call, scope, sources)
    if values.is_class(held):
        init = values.class_attribute(held, "__init__")
        if type(init) is not types.FunctionType:
            return None
        return _enter_function(init, MISSING, call, scope, sources, method=True)
    if values.is_module(held):
        forward = values.class_attribute(type(held), "forward")
        if type(forward) is not types.FunctionType:
            return None
        return _enter_function(forward, held, call, scope, sources, method=True)
    found = function_of(held)
    if found is None:
        caller_method = values.class_attribute(type(held), "__call__")
        if type(caller_method) is types.FunctionType and not values.is_a(held, types.ModuleType):
            return _enter_function(caller_method, held, call, scope, sources, method=True)
        return None
    function, receiver = found
    return _enter_function(function, receiver, call, scope, sources, method=receiver is not MISSING)


def enter_method(
    function: types.FunctionType, receiver: Any, scope: Scope, sources: Sources, call: ast.Call | None = None
) -> Scope | None:
    """The scope of a method run without a visible call (`__iter__`, a property, `__init__` of a known object)."""
    return _enter_function(function, receiver, call, scope, sources, method=True)


def _enter_function(
    function: types.FunctionType,
    receiver: Any,
    call: ast.Call | None,
    scope: Scope,
    sources: Sources,
    *,
    method: bool,
) -> Scope | None:
    code = function.__code__
    source = sources.get(code_file(code), function.__globals__)
    if source is None:
        return None
    node = source.function_at(code.co_firstlineno, code_name(code))
    if node is None or isinstance(node, ast.Module | ast.ClassDef):
        return None
    entered = Scope(
        source, node, function.__globals__, caller=scope, call=call, receiver=receiver, depth=scope.depth + 1
    )
    closure = function.__closure__ or ()
    for name, cell in zip(code.co_freevars, closure, strict=False):
        try:
            entered.values[name] = cell.cell_contents
        except ValueError:
            continue
    if call is not None:
        bind_entered(entered, call, scope, sources, method)
    else:
        _bind_defaults(entered)
    return entered


def bind_entered(entered: Scope, call: ast.Call, scope: Scope, sources: Sources, method: bool) -> None:
    positional, keywords = all_arguments(call, scope, sources)
    names = [p.arg for p in entered.parameters() if p not in _kwonly(entered.node)]
    if method and names:
        func = call.func
        held = try_evaluate(func, scope)
        if values.is_class(held):
            entered.bound[names[0]] = Argument(call, scope)
        elif isinstance(func, ast.Attribute) and not (
            values.is_module(held) or (held is not MISSING and function_of(held) is None)
        ):
            entered.bound[names[0]] = Argument(func.value, scope)
        else:
            entered.bound[names[0]] = Argument(func, scope)
        names = names[1:]
    optional = _with_default(entered.node)
    for name, argument in zip(names, positional, strict=False):
        if not (argument.guessed and name in optional):
            entered.bound[name] = argument
    every = {p.arg for p in entered.parameters()}
    for name, argument in keywords.items():
        if name in every:
            entered.bound[name] = argument
    _bind_defaults(entered)


def _with_default(node: ast.AST) -> set[str]:
    """The positional parameters that have a default."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or not node.args.defaults:
        return set()
    return {p.arg for p in [*node.args.posonlyargs, *node.args.args][-len(node.args.defaults) :]}


def _kwonly(node: ast.AST) -> list[ast.arg]:
    return (
        node.args.kwonlyargs if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else []
    )


def _enter_by_name(call: ast.Call, scope: Scope, sources: Sources) -> Scope | None:
    """A function defined in the same body and called by its name, when no live object of it is left."""
    if not isinstance(call.func, ast.Name):
        return None
    found = [b for b in bindings_of(scope.node).get(call.func.id, []) if b.kind == "definition"]
    binding = reaching(scope.source, found, call)
    if binding is None or not isinstance(binding.stmt, FunctionNode):
        return None
    entered = Scope(scope.source, binding.stmt, scope.globals, caller=scope, call=call, depth=scope.depth + 1)
    bind_entered(entered, call, scope, sources, method=False)
    return entered


def returned(node: ast.AST) -> list[ast.expr]:
    """The expressions that a function returns or yields."""
    from .scopes import own_nodes

    if isinstance(node, ast.Lambda):
        return [node.body]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    return [n.value for n in own_nodes(node) if isinstance(n, ast.Return | ast.Yield) and n.value is not None]
