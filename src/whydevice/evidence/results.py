"""Follows the result of a call: to what it makes, moves or passes through, or into the function that it ran."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from . import values, vocabulary
from .calls import enter
from .containers import follow_items
from .evaluate import call_name, try_evaluate
from .infer import NOT_A_TENSOR
from .passive import class_module, exactly
from .scopes import Scope
from .steps import Step, return_step
from .taken import fitting, reached

if TYPE_CHECKING:
    from .origins import Tracer


def follow_call(
    tracer: Tracer, node: ast.Call, scope: Scope, steps: list[Step], path: tuple[int, ...]
) -> None:
    kind, name = tracer.inference.call_kind(node, scope)
    operands = [*node.args, *(k.value for k in node.keywords)]
    if kind in ("factory", "constructor"):
        inner = _wrapped_operand(tracer, node, name, scope)
        if inner is not None:
            tracer.follow(inner, scope, steps)
        else:
            steps.append(Step(kind, node, scope, name))
    elif kind == "like":
        if any(k.arg == "device" for k in node.keywords) or not node.args:
            steps.append(Step("factory", node, scope, name))
        else:
            steps.append(Step("like", node, scope, name))
            tracer.follow(node.args[0], scope, steps)
    elif kind == "move":
        _move(tracer, node, name, scope, steps)
    elif kind == "method" and isinstance(node.func, ast.Attribute):
        _method(tracer, node, scope, steps, operands, path)
    elif kind == "torch":
        tracer.choose(operands, node, scope, steps)
    elif kind == "module":
        _module_call(tracer, node, scope, steps, operands)
    else:
        _function(tracer, node, scope, steps, operands, path)


def _wrapped_operand(tracer: Tracer, node: ast.Call, name: str, scope: Scope) -> ast.expr | None:
    """`torch.as_tensor(x)` of a tensor keeps the device of x: follow x."""
    if name in ("as_tensor", "asarray") and node.args:
        if tracer.inference.device(node.args[0], scope) not in (None, NOT_A_TENSOR):
            return node.args[0]
    return None


def _move(tracer: Tracer, node: ast.Call, name: str, scope: Scope, steps: list[Step]) -> None:
    assert isinstance(node.func, ast.Attribute)
    target = tracer.inference.moved_to(node, scope)
    receiver = tracer.inference.device(node.func.value, scope)
    if name == "to" and target is not None and target == receiver and not _names_device(tracer, node, scope):
        tracer.follow(node.func.value, scope, steps)  # `.to(torch.float32)` moves nothing
        return
    steps.append(Step("move", node, scope, name, extra={"to": target}))
    if (
        target is None
        or (tracer.bad is not None and target != tracer.bad)
        or values.is_module(try_evaluate(node.func.value, scope))
        or tracer.bad is None
    ):
        tracer.follow(node.func.value, scope, steps)


def _names_device(tracer: Tracer, node: ast.Call, scope: Scope) -> bool:
    return any(
        tracer.inference.device_named(a, scope) is not None
        for a in [*node.args, *(k.value for k in node.keywords)]
    )


def _method(
    tracer: Tracer,
    node: ast.Call,
    scope: Scope,
    steps: list[Step],
    operands: list[ast.expr],
    path: tuple[int, ...],
) -> None:
    assert isinstance(node.func, ast.Attribute)
    receiver = node.func.value
    if node.func.attr in ("items", "values", "pop", "get", "popleft", "copy") and tracer.inference.device(
        receiver, scope
    ) in (None, NOT_A_TENSOR):
        key = try_evaluate(node.args[0], scope) if node.args else None
        follow_items(tracer, receiver, scope, steps, key if exactly(key, int, str) else None, path)
        return
    if tracer.is_bad(receiver, scope) is False and operands:
        judged = [n for n in operands if tracer.is_bad(n, scope)]
        if judged:
            tracer.follow(judged[0], scope, steps)
            return
    device = tracer.inference.device(receiver, scope)
    if device in (None, NOT_A_TENSOR) and enter(node, scope, tracer.sources) is not None:
        _function(tracer, node, scope, steps, operands, path)
        return
    tracer.follow(receiver, scope, steps)


def _module_call(
    tracer: Tracer, node: ast.Call, scope: Scope, steps: list[Step], operands: list[ast.expr]
) -> None:
    module = try_evaluate(node.func, scope)
    devices = values.module_devices(module)
    if devices and tracer.bad in devices and len(devices) == 1:
        steps.append(Step("module-call", node, scope, value=module))
        tracer.follow(node.func, scope, steps)
        return
    judged = [n for n in operands if tracer.is_bad(n, scope)]
    if judged and not devices:
        tracer.follow(judged[0], scope, steps)
        return
    _function(tracer, node, scope, steps, operands, ())


def _function(
    tracer: Tracer,
    node: ast.Call,
    scope: Scope,
    steps: list[Step],
    operands: list[ast.expr],
    path: tuple[int, ...],
) -> None:
    held = try_evaluate(node.func, scope)
    name = call_name(node) or ""
    last = name.rpartition(".")[2]
    if last in vocabulary.PASS_THROUGH and node.args and _of_builtins(held):
        follow_items(tracer, node.args[0], scope, steps, None, path)
        return
    if values.is_class(held):
        steps.append(Step("construct", node, scope, last, value=held))
        if tracer.bad is not None and not _is_module_class(held):
            _constructed_from(tracer, node, scope, steps, operands)
        return
    if name in ("copy.deepcopy", "copy.copy", "deepcopy") and node.args:
        steps.append(Step("construct", node, scope, last, value=held, extra={"copy": True}))
        return
    made = next((k.value for k in node.keywords if k.arg == "default_factory"), None)
    if last == "field" and made is not None:
        tracer.follow(made, scope, steps, path)
        return
    if last == "next" and node.args:
        steps.append(Step("loop", node.args[0], scope, "", node))
        tracer.iterate(node.args[0], scope, steps, path)
        return
    if last in vocabulary.PASS_THROUGH and node.args:
        follow_items(tracer, node.args[0], scope, steps, None, path)
        return
    entered = enter(node, scope, tracer.sources)
    if entered is None:
        steps.append(Step("library", node, scope, last, value=held))
        return
    steps.append(Step("call", node, scope, last, value=held, extra={"entered": entered}))
    _returned(tracer, entered, node, steps, path)


def _of_builtins(held: Any) -> bool:
    """Whether it is `list`, `reversed` or another class of Python's that keeps the very items it is given."""
    return values.is_class(held) and class_module(held) in ("builtins", "itertools")


def _constructed_from(
    tracer: Tracer, node: ast.Call, scope: Scope, steps: list[Step], operands: list[ast.expr]
) -> None:
    """An object that keeps what it was given (a partial, a distribution, a dataset): the wrong argument."""
    wrong = [operand for operand in operands if tracer.is_bad(operand, scope)]
    tracer.branches += [(operand, scope) for operand in wrong[1:]]
    if wrong:
        steps.append(
            Step("item", wrong[0], scope, "", scope.source.statement(node), extra={"construct": node})
        )
        tracer.follow(wrong[0], scope, steps)


def _returned(
    tracer: Tracer, entered: Scope, call: ast.Call, steps: list[Step], path: tuple[int, ...]
) -> None:
    candidates = fitting(reached(entered), entered, steps, tracer.inference)
    picked: list[ast.expr] = []
    for value in candidates:
        leaf: ast.expr = value
        if path and isinstance(value, ast.Tuple) and path[0] < len(value.elts):
            leaf = value.elts[path[0]]
        picked.append(leaf)
    judged = [(tracer.is_bad(leaf, entered), value) for leaf, value in zip(picked, candidates, strict=True)]
    chosen = next((v for bad, v in judged if bad), None) or next(
        (v for bad, v in judged if bad is None), None
    )
    if chosen is None and judged and tracer.bad is None:
        chosen = judged[-1][1]
    if chosen is None:
        return
    steps.append(return_step(chosen, entered))
    steps[-1].extra["into"] = path if isinstance(chosen, ast.Tuple) else ()
    tracer.follow(chosen, entered, steps, path)


def _is_module_class(cls: type) -> bool:
    torch = values.torch()
    return torch is not None and issubclass(cls, torch.nn.Module)
