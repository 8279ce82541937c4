"""The calls in the user's own code, what they call, and the parameters that they leave to their defaults."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import function_of, try_evaluate
from ..evidence.libraries import is_library
from ..evidence.passive import class_module, code_file, function_module
from ..evidence.scopes import MISSING, Scope, bindings_of, own_nodes
from ..evidence.sources import FunctionNode
from ..patterns import pattern
from ._facts import owners
from ._order import user_scopes, value_now

MOST_FUNCTIONS = 200
_DEVICE = pattern(r"^(map_location|(?:\w*_)?(?:device|dev))$")
REQUIRED: Any = inspect.Parameter.empty


@dataclass(repr=False, eq=False)
class UserCall:
    """A call of the user's. `absent` are the parameters that it leaves to their defaults, `given` the others."""

    node: ast.Call
    scope: Scope
    function: types.FunctionType
    called: Any
    absent: dict[str, Any] = field(default_factory=dict)
    given: dict[str, ast.expr] = field(default_factory=dict)

    @property
    def library(self) -> bool:
        path = code_file(self.function.__code__)
        if path.startswith("<"):  # a dataclass's `__init__` is compiled from text
            home = sys.modules.get(class_module(self.called)) if values.is_class(self.called) else None
            file = values.lookup(values.instance_dict(home), "__file__") if home is not None else None
            path = file if type(file) is str else path
        return is_library(path)

    @property
    def package(self) -> str:
        """The top package of what is called."""
        called = self.called
        return _top(class_module(called) if values.is_class(called) else function_module(self.function))

    def result(self) -> Any:
        """What the name or attribute that the call's value was bound to holds now, or MISSING."""
        target = self.target()
        return value_now(target, self.scope) if target is not None else MISSING

    def statement(self) -> ast.stmt | None:
        return self.scope.source.statement(self.node)

    def target(self) -> ast.expr | None:
        """The place that the call's value, or what a method chain makes of it, is bound to."""
        bound = self.statement()
        if not isinstance(bound, ast.Assign | ast.AnnAssign):
            return None
        value = bound.value
        while isinstance(value, ast.Call) and value is not self.node:
            if not (
                isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "eval", "train", "cuda")
            ):
                return None
            value = value.func.value
        if value is not self.node:
            return None
        return bound.targets[0] if isinstance(bound, ast.Assign) else bound.target


def package_of(value: Any) -> str:
    """The top package that a value's class comes from."""
    return _top(class_module(type(value)))


def _top(module: str) -> str:
    return module.partition(".")[0]


def every_scope(evidence: Evidence) -> list[Scope]:
    """The user's scopes in the stack and on the value's way, then the other functions of the same files."""
    instances = [value for value, _, _ in owners(evidence)]
    found = [_known(scope, instances) for scope in user_scopes(evidence, evidence.steps)]
    seen = {id(s.node) for s in found}
    for scope in list(found):
        for node in ast.walk(scope.source.module):
            if len(found) > MOST_FUNCTIONS:
                return found
            if id(node) in seen or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            seen.add(id(node))
            found.append(_scope_of(node, scope, instances))
    return found


def _known(scope: Scope, instances: list[Any]) -> Scope:
    """A scope of the way to the value; of a function that has returned, with what of it is still alive."""
    if scope.frame is not None or not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return scope
    known = _scope_of(scope.node, scope, instances)
    known.caller, known.call, known.bound = scope.caller, scope.call, scope.bound
    known.values = {**known.values, **scope.values}
    known.receiver = scope.receiver if scope.receiver is not MISSING else known.receiver
    return known


def _scope_of(node: ast.FunctionDef | ast.AsyncFunctionDef, beside: Scope, instances: list[Any]) -> Scope:
    """A function as a scope in which its `self`, and what it constructed, are known where the frames still have them."""
    scope = Scope(beside.source, node, beside.globals)
    if beside.source.enclosing_class(node) is not None and node.args.args:
        receiver = _receiver(node, beside, instances)
        if receiver is not MISSING:
            scope.receiver = receiver
            scope.values[node.args.args[0].arg] = receiver
    for name, bindings in bindings_of(node).items():
        value = bindings[0].value
        if len(bindings) != 1 or not isinstance(value, ast.Call) or bindings[0].path or "." in name:
            continue
        made = try_evaluate(value.func, scope)
        same = [held for held in instances if type(held) is made]
        if len(same) == 1:
            scope.values[name] = same[0]  # the only one of its class
    return scope


def _receiver(node: ast.FunctionDef | ast.AsyncFunctionDef, beside: Scope, instances: list[Any]) -> Any:
    starts = [node.lineno, *(d.lineno for d in node.decorator_list)]
    for value in instances:
        method = values.class_attribute(type(value), node.name)
        if type(method) is types.FunctionType:
            code = method.__code__
            if code_file(code) == beside.source.path and code.co_firstlineno in starts:
                return value
    return MISSING


def user_calls(evidence: Evidence) -> Iterator[UserCall]:
    """Every call of a Python function or class in the user's code whose arguments can be matched."""
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if isinstance(node, FunctionNode):
                continue
            if isinstance(node, ast.Call):
                found = user_call(node, scope)
                if found is not None:
                    yield found


def user_call(node: ast.Call, scope: Scope) -> UserCall | None:
    """A call with its arguments matched to parameters; None for what is not Python or spreads its arguments."""
    if any(isinstance(a, ast.Starred) for a in node.args):
        return None
    called = try_evaluate(node.func, scope)
    if called is MISSING:
        called = value_now(node.func, scope)
    resolved = _function(called)
    if resolved is None:
        return None
    function, bound = resolved
    found = UserCall(node, scope, function, called)
    _match(found, bound)
    return found


def _function(called: Any) -> tuple[types.FunctionType, bool] | None:
    """(the function that a call runs, whether its first parameter is bound already)."""
    if values.is_class(called):
        init = values.class_attribute(called, "__init__")
        return (init, True) if type(init) is types.FunctionType else None
    if values.is_module(called):
        forward = values.class_attribute(type(called), "forward")
        return (forward, True) if type(forward) is types.FunctionType else None
    found = function_of(called)
    if found is not None:
        return found[0], found[1] is not MISSING
    if called is MISSING or class_module(type(called)) == "builtins":
        return None
    call = values.class_attribute(type(called), "__call__")
    return (call, True) if type(call) is types.FunctionType else None


def _match(found: UserCall, bound: bool) -> None:
    code = found.function.__code__
    positional = list(code.co_varnames[: code.co_argcount])
    keyword_only = list(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
    defaults = found.function.__defaults__ or ()
    with_defaults = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=False))
    with_defaults |= found.function.__kwdefaults__ or {}
    names = positional[1:] if bound else positional
    found.given.update(zip(names, found.node.args, strict=False))
    found.given.update({k.arg: k.value for k in found.node.keywords if k.arg is not None})
    if any(k.arg is None for k in found.node.keywords):
        return  # what `**kwargs` gives cannot be told apart from what it leaves out
    found.absent = {
        name: with_defaults.get(name, REQUIRED)
        for name in [*names, *keyword_only]
        if name not in found.given and name in with_defaults
    }


def device_parameter(names: dict[str, Any]) -> str | None:
    """The parameter among these that names the device of what a call makes."""
    named = [name for name in names if _DEVICE.match(name)]
    return min(named, key=lambda n: (n != "device", len(n))) if named else None
