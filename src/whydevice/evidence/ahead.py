"""What would fail next: the operations after the failing one, judged with the culprit where it is wanted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from . import values
from .calls import enter
from .collect import Evidence
from .infer import NOT_A_TENSOR
from .libraries import is_library
from .operands import Leaf, flat, leaves
from .scopes import MISSING, Scope, own_nodes

MOST_OPERATIONS = 120
MOST_FOUND = 6
MOST_ENTERED = 2  # calls of the user's functions and modules, one inside the other

# Methods that take operands of several devices: they move or copy, or do not work on tensors.
_TAKE_ANY = frozenset("to cuda cpu copy_ append extend update insert load_state_dict set_ type_as".split())


class Next(NamedTuple):
    """An operand on the wrong device, and the operation that would fail of it."""

    leaf: Leaf
    operation: ast.AST
    scope: Scope


class Lookout:
    """Looks ahead once, from the innermost frame of the user's outwards."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.left = MOST_OPERATIONS
        self.mended = {
            values.storage_key(wrong.tensor) for wrong in evidence.wrongs if values.is_tensor(wrong.tensor)
        }
        self.modules = {id(w.leaf.value) for w in evidence.wrongs if w.leaf.is_module}
        for scope in evidence.scopes:
            owner = scope.receiver  # a module that is wrong as a whole is mended as a whole
            if values.is_module(owner) and values.module_device(owner) == evidence.wrong_device:
                self.modules |= {id(sub) for _, sub in values.submodules(owner)}
        self.seen: set[int] = set()

    def found(self) -> list[Next]:
        found: list[Next] = []
        for scope in reversed(self.evidence.scopes):
            live = scope.live
            if live is None or live.library or live.node is None or live.comprehension:
                continue
            for node in _after(scope, live.node):
                found += self._judge(node, scope, 0)
                if len(found) >= MOST_FOUND:
                    return found
        return found

    def _judge(self, node: ast.AST, scope: Scope, depth: int) -> list[Next]:
        if (
            not isinstance(node, ast.Call | ast.BinOp | ast.Subscript)
            or id(node) in self.seen
            or self.left <= 0
        ):
            return []
        self.left -= 1
        self.seen.add(id(node))
        if isinstance(node, ast.Call):
            kind, name = self.evidence.inference.call_kind(node, scope)
            if name in _TAKE_ANY or kind not in ("torch", "method", "module", "other"):
                return []
            if kind in ("module", "other"):
                entered = self._entered(node, scope, depth)
                if entered is not None:
                    inside = own_nodes(entered.node)
                    found = [each for inner in inside for each in self._judge(inner, entered, depth + 1)]
                    return [_at_call(each, node, scope) for each in found] if self._runs(entered) else found
            if kind == "other":
                return []
        operands = leaves(node, scope, self.evidence.inference)
        wanted = [one for one in operands if self._device(one) == self.evidence.wanted and not one.is_scalar]
        wrong = [each for one in operands for each in self._wrong_in(one)]
        if isinstance(node, ast.Subscript):
            wrong = [one for one in wrong if one.role == "self"]
        return [Next(one, node, scope) for one in wrong] if wanted else []

    def _entered(self, node: ast.Call, scope: Scope, depth: int) -> Scope | None:
        if depth >= MOST_ENTERED:
            return None
        entered = enter(node, scope, self.evidence.sources)
        if entered is None or is_library(entered.source.path):
            return None
        again = (
            depth == 0 and entered.node is not scope.node
        )  # with other arguments, not one inside the other
        return None if self._runs(entered) and not again else entered

    def _runs(self, entered: Scope) -> bool:
        return any(live.node is entered.node for live in self.evidence.scopes if live.live is not None)

    def _device(self, one: Leaf) -> str | None:
        if one.is_tensor and values.storage_key(one.value) in self.mended:
            return self.evidence.wanted
        if id(one.value) in self.modules:
            return self.evidence.wanted
        if one.value is MISSING and one.device is None and isinstance(one.node, ast.BinOp | ast.UnaryOp):
            devices = {self._device(part) for part in one.parts if not part.is_scalar} - {NOT_A_TENSOR}
            return devices.pop() if len(devices) == 1 else None  # what it gives once the culprit is mended
        return one.device

    def _wrong_in(self, one: Leaf) -> list[Leaf]:
        """The operand where it is live and wrong; where its value is gone, the live parts that make it wrong."""
        if one.value is not MISSING:
            return [one] if self._is_wrong(one) else []
        if one.device != self.evidence.wrong_device:
            return []
        parts = [part for part in flat(one.parts) if part.value is not MISSING and self._is_wrong(part)]
        return parts or ([one] if self._made_anew(one) else [])

    def _is_wrong(self, one: Leaf) -> bool:
        if one.device != self.evidence.wrong_device or self._device(one) == self.evidence.wanted:
            return False
        return one.is_module or (one.is_tensor and not one.is_scalar)

    def _made_anew(self, one: Leaf) -> bool:
        """Whether the source alone shows that a value will be on the wrong device: made by a call of its own."""
        if _of_scalars(one.node):
            return False
        steps = self.evidence.trace(one.node, one.scope)
        root = self.evidence.root
        if any(s.kind in ("module-call", "parameter") for s in steps):
            return False
        return steps[-1].kind in ("factory", "constructor") and (
            root is None or steps[-1].node is not root.node
        )


def _at_call(each: Next, call: ast.Call, scope: Scope) -> Next:
    """The argument that an operand came from: under its own name it is the one that failed in the call before."""
    given = each.scope.bound.get(each.leaf.node.id) if isinstance(each.leaf.node, ast.Name) else None
    if given is None or given.spread or given.default or given.scope is not scope:
        return each
    return Next(replace(each.leaf, node=given.node, scope=scope), call, scope)


def _of_scalars(node: ast.AST) -> bool:
    """Whether an expression may be of 0 dimensions as far as the source tells: `torch.tensor(0.5)`, `x.mean()`."""
    return any(
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr
        in ("tensor", "as_tensor", "scalar_tensor", "sum", "mean", "item", "max", "min", "norm")
        for inner in ast.walk(node)
    )


def _after(scope: Scope, failing: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a frame that run after the failing one: those around it, and those below it."""
    end = (getattr(failing, "end_lineno", 0) or 0, getattr(failing, "end_col_offset", 0) or 0)
    around = {id(up) for up in scope.source.ancestors(failing)}
    for node in own_nodes(scope.node):
        if not isinstance(node, ast.expr):
            continue
        if id(node) in around or (node.lineno, node.col_offset) >= end:
            yield node
