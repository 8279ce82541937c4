"""Tensors that `torch.func.functional_call` puts in the place of a module's own for one call of it.

When the error is explained, the module has its own back. What it ran with is in the frame that swapped them, by the
names of the module's parameters (`torch/nn/utils/stateless.py`, `_functional_call`, PyTorch 2.0 to 2.13).
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import values
from .operands import Held, Leaf, match
from .passive import code_name
from .scopes import Scope

if TYPE_CHECKING:
    from .collect import Evidence

_FILE = os.path.join("torch", "nn", "utils", "stateless.py")
_FUNCTION = "_functional_call"


class Swap(NamedTuple):
    """What one call of a module ran with: its tensors by the id of those that they stood in for."""

    call: ast.AST
    caller: Scope
    ran: Any
    by_own: dict[int, Any]

    def of(self, one: Leaf) -> list[Any]:
        """The tensors that stood in for those of an operand, a part of the module or a parameter of it."""
        if not (one.is_module or values.is_parameter(one.value)):
            return []
        return [self.by_own[id(h.tensor)] for h in one.held if id(h.tensor) in self.by_own]

    def put_in(self, operands: Iterable[Leaf], given: list[Leaf]) -> list[tuple[Leaf, Held]]:
        """(argument of the swapping call, tensor in it) of each tensor that an operation was given so."""
        found: list[tuple[Leaf, Held]] = []
        for tensor in (tensor for one in operands for tensor in self.of(one)):
            matched = match(tensor, given)
            if matched is not None and not any(known.tensor is matched[1].tensor for _, known in found):
                found.append(matched)
        return found

    def note(self, given: list[Leaf], put_in: Leaf) -> str:
        """What was swapped, as a sentence."""
        module = next((f"`{one.expression}`" for one in given if one.value is self.ran), "a module")
        return f"functional_call ran {module} with what `{put_in.expression}` holds in the place of its own tensors."


def swap(evidence: Evidence) -> Swap | None:
    """The innermost swap that was in force when the operation failed."""
    caller: Scope | None = None
    found: Swap | None = None
    for scope in evidence.scopes:
        live = scope.live
        if live is None or scope.frame is None:
            continue
        if not live.library:
            caller = scope
        elif live.path.endswith(_FILE) and code_name(scope.frame.f_code) == _FUNCTION:
            by_own = _by_own(scope.locals)
            if caller is not None and caller.live is not None and caller.live.node is not None and by_own:
                found = Swap(caller.live.node, caller, scope.locals["module"], by_own)
    return found


def _by_own(known: dict[str, Any]) -> dict[int, Any]:
    module, given = known.get("module"), known.get("parameters_and_buffers")
    if not values.is_module(module) or not values.is_container(given):
        return {}
    put_in = {key: tensor for key, tensor in values.items(given) if type(key) is str}
    return {
        id(own): put_in[path]
        for path, own, _ in values.module_tensors(module)
        if values.is_tensor(put_in.get(path))
    }
