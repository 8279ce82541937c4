"""Module state that was moved after the error: Lightning's teardown takes the module to the CPU on the way out.

The frames' own variables are as they were. Where they contradict a module, they are believed, and where the module
was when it failed is not known.
"""

from __future__ import annotations

import ast
from typing import Any

from . import values
from .evaluate import try_evaluate
from .operands import Leaf, flat
from .passive import class_module
from .scopes import Scope, bindings_of
from .vocabulary import MOVES


def is_state(one: Leaf) -> bool:
    """Whether an operand is a module, or a parameter, which goes where its module goes."""
    return one.is_module or values.is_parameter(one.value)


def moved_since(found: list[Leaf], wanted: str | None, wrong: str | None) -> bool:
    """Whether the operands of a call cannot have failed as they are now, unless modules have moved since."""
    if wanted in (None, "cpu") or wrong is None:
        return False
    state = [one for one in flat(found) if is_state(one) and one.device == wrong]
    if not state:
        return False
    others = [one for one in flat(found) if one.is_tensor and not is_state(one)]
    if any(one.device == wrong for one in others):
        if not any(wanted in one.devices() for one in flat(found)):
            return True  # nothing is left of the other device that the message names
    return any(_went_through(one, wanted, wrong) for one in flat(found))


def _went_through(one: Leaf, wanted: str | None, wrong: str) -> bool:
    """A call of a module on one device that has returned, although its argument is on the other one."""
    if not isinstance(one.node, ast.Call) or not one.parts:
        return False
    called = [part for part in one.parts if part.node is one.node.func and part.is_module]
    if any(_brings_weights(part.value) for part in called):
        return False
    given = [part for part in one.parts if part.is_tensor and not is_state(part)]
    return any(part.device == wrong for part in called) and any(part.device == wanted for part in given)


def ran_elsewhere(module: Any, scope: Scope | None, wanted: str | None, wrong: str | None) -> bool:
    """Whether a part of a module gave a frame a tensor on the wanted device, although its state is on the wrong one now."""
    if scope is None:
        return False
    parts = {id(sub) for _, sub in values.submodules(module)}
    for name, found in bindings_of(scope.node).items():
        held, made = scope.locals.get(name), found[0].value
        if made is None or len(found) != 1 or not values.is_tensor(held) or values.device_of(held) != wanted:
            continue
        calls = [node for node in ast.walk(made) if isinstance(node, ast.Call)]
        if any(isinstance(c.func, ast.Attribute) and c.func.attr in MOVES for c in calls):
            continue  # it was brought there
        for call in calls:
            called = try_evaluate(call.func, scope)
            if id(called) in parts and _keeps_device(called) and not _brings_weights(called):
                if set(values.module_devices(called)) == {wrong}:
                    return True
    return False


def _keeps_device(module: Any) -> bool:
    """Whether a module is torch's own: one of the user's may move what it gives back."""
    return class_module(type(module)).startswith("torch.nn.")


def _brings_weights(module: Any) -> bool:
    """Whether accelerate brings a module's weights for the time of its call."""
    return "_hf_hook" in values.instance_dict(module)
