"""The device that an expression's value has or would have, read from the source and from what is live.

Answers a device as PyTorch prints it, `NOT_A_TENSOR`, or None when it cannot be told.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from typing import Any

from . import values, vocabulary
from .calls import enter, returned
from .evaluate import call_name, try_evaluate
from .passive import exactly, function_module
from .scopes import MISSING, Binding, Scope, all_reaching, bindings_of, comprehension_binding, reaching
from .sources import Sources

NOT_A_TENSOR = "not a tensor"
MOST_DEPTH = 16
_DEVICE = re.compile(r"(?:cpu|cuda|meta|mps|xpu|xla|npu|hpu)(?::\d{1,3})?")


def canonical(device: object) -> str | None:
    """`cuda` -> `cuda:0`: a device as tensors report it. None for what is no device."""
    if values.is_device(device) or exactly(device, str, values.DeviceText):
        text = str(device)
    elif type(device) is int:
        text = f"cuda:{device}"
    else:
        return None
    if text == "cuda":
        return f"cuda:{current_index()}"
    return text if _DEVICE.fullmatch(text) else None


def current_index() -> int:
    simulate = sys.modules.get("whydevice.simulate")
    if simulate is not None and hasattr(simulate, "current_device") and simulate.active():
        return int(simulate.current_device())
    torch = values.torch()
    get = getattr(getattr(torch, "_C", None), "_cuda_getDevice", None)
    if get is not None and torch.cuda.is_initialized():
        return int(get())
    return 0


class Inference:
    """Infers devices within one explanation; holds the default device that was set."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._busy: set[tuple[int, int]] = set()
        self.state_moved = False  # modules have been moved since the error: see teardown.py

    def default_device(self) -> str:
        torch = values.torch()
        holder = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
        mode = getattr(holder, "device_context", None)
        found = canonical(getattr(mode, "device", None)) if mode is not None else None
        return found or "cpu"

    def device(self, node: ast.AST, scope: Scope, depth: int = 0) -> str | None:
        """The device of the value of an expression."""
        mark = (id(node), id(scope))
        if depth > MOST_DEPTH or mark in self._busy:
            return None
        self._busy.add(mark)
        try:
            held = try_evaluate(node, scope)
            if held is not MISSING:
                return self.of_value(held)
            return self._infer(node, scope, depth + 1)
        finally:
            self._busy.discard(mark)

    def of_value(self, held: Any) -> str | None:
        if values.is_tensor(held):
            return values.device_of(held)
        if values.is_container(held):
            found = {values.device_of(v) for _, v in values.items(held) if values.is_tensor(v)}
            return found.pop() if len(found) == 1 else None if found else NOT_A_TENSOR
        return NOT_A_TENSOR

    def _infer(self, node: ast.AST, scope: Scope, depth: int) -> str | None:
        if isinstance(node, ast.Call):
            return self._call(node, scope, depth)
        if isinstance(node, ast.BinOp):
            return self.together([node.left, node.right], scope, depth)
        if isinstance(node, ast.Compare):
            return self.together([node.left, *node.comparators], scope, depth)
        if isinstance(node, ast.UnaryOp):
            return self.device(node.operand, scope, depth)
        if isinstance(node, ast.IfExp):
            a, b = self.device(node.body, scope, depth), self.device(node.orelse, scope, depth)
            return a if a == b else None
        if isinstance(node, ast.Subscript):
            return self.device(node.value, scope, depth)
        if isinstance(node, ast.Attribute):
            if node.attr in vocabulary.TENSOR_ATTRIBUTES:
                return self.device(node.value, scope, depth)
            return self._attribute(node, scope, depth)
        if isinstance(node, ast.Name):
            return self._name(node, scope, depth)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return self.together(node.elts, scope, depth)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self.device(node.elt, scope, depth)
        if isinstance(node, ast.Starred | ast.Await | ast.NamedExpr):
            return self.device(node.value, scope, depth)
        return None

    def together(self, nodes: list[ast.expr], scope: Scope, depth: int = 0) -> str | None:
        """The device of an operation on several operands: the one they agree on, tensors only."""
        found = [self.device(n, scope, depth) for n in nodes]
        tensors = {d for d in found if d is not None and d != NOT_A_TENSOR}
        if len(tensors) == 1:
            return None if None in found and tensors == {"cpu"} else tensors.pop()
        if not tensors and found and None not in found:
            return NOT_A_TENSOR
        return None

    def _name(self, node: ast.Name, scope: Scope, depth: int) -> str | None:
        if scope.frame is None and node.id in scope.bound:
            argument = scope.bound[node.id]
            return None if argument.spread else self.device(argument.node, argument.scope, depth)
        inner = comprehension_binding(scope.source, node, node.id)
        if inner is not None and inner.value is not None:
            return self._iterated(inner.value, scope, depth)
        found = bindings_of(scope.node).get(node.id, [])
        candidates = all_reaching(scope.source, found, node)
        if not candidates:
            if node.id in scope.bound:
                argument = scope.bound[node.id]
                return None if argument.spread else self.device(argument.node, argument.scope, depth)
            return None
        devices = {self._binding(b, node, found, scope, depth) for b in candidates}
        return devices.pop() if len(devices) == 1 else None

    def _binding(
        self, binding: Binding, node: ast.Name, found: list[Binding], scope: Scope, depth: int
    ) -> str | None:
        """The device of what one binding of a name gives it."""
        if binding.value is None or binding.kind == "with":
            return None
        if binding.kind == "augmented":
            earlier = [b for b in found if b.position < binding.position and b.kind != "augmented"]
            last = reaching(scope.source, earlier, node)
            return self.device(last.value, scope, depth) if last and last.value is not None else None
        if binding.kind in ("loop", "comprehension"):
            return self._iterated(binding.value, scope, depth)
        value: ast.AST = binding.value
        for index in binding.path:
            if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts):
                value = value.elts[index]
        return self.device(value, scope, depth)

    def _iterated(self, node: ast.AST, scope: Scope, depth: int) -> str | None:
        found = self.device(node, scope, depth)
        return found if found != NOT_A_TENSOR else None

    def _attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> str | None:
        held = try_evaluate(node.value, scope)
        if held is MISSING:
            return None
        inner = self._property(held, node.attr, scope)
        return self._returns(inner, depth) if inner is not None else None

    def _property(self, owner: Any, name: str, scope: Scope) -> Scope | None:
        """The function of a property, as it would run on an object."""
        defined = values.class_attribute(type(owner), name)
        if type(defined) is property and type(defined.fget) is types.FunctionType:
            from .calls import enter_method

            return enter_method(defined.fget, owner, scope, self.sources)
        return None

    def _property_named(self, node: ast.Attribute, scope: Scope) -> str | None:
        """The device that a property gives back (`accelerator.device`), where it has one `return` that names it."""
        held = try_evaluate(node.value, scope)
        mark = (id(node), id(scope))
        inner = self._property(held, node.attr, scope) if held is not MISSING else None
        given = returned(inner.node) if inner is not None else []
        if inner is None or len(given) != 1 or mark in self._busy:
            return None
        self._busy.add(mark)
        try:
            return self.device_named(given[0], inner)
        finally:
            self._busy.discard(mark)

    def is_module(self, node: ast.AST, scope: Scope, depth: int = 0) -> bool:
        """Whether an expression's value is an nn.Module: live, or constructed where its name leads to."""
        held = try_evaluate(node, scope)
        if held is not MISSING or depth > MOST_DEPTH:
            return values.is_module(held)
        if isinstance(node, ast.Call):
            made = try_evaluate(node.func, scope)
            if values.is_class(made):
                torch = values.torch()
                return torch is not None and issubclass(made, torch.nn.Module)
            if isinstance(node.func, ast.Attribute) and node.func.attr in vocabulary.MODULE_METHODS:
                return self.is_module(node.func.value, scope, depth + 1)
        if isinstance(node, ast.Name):
            binding = reaching(scope.source, bindings_of(scope.node).get(node.id, []), node)
            if binding is not None:
                value = binding.value if binding.kind == "assign" and not binding.path else None
                return value is not None and self.is_module(value, scope, depth + 1)
            argument = scope.bound.get(node.id)
            if argument is not None and not argument.spread:
                return self.is_module(argument.node, argument.scope, depth + 1)
        return False

    def _returns(self, inner: Scope, depth: int) -> str | None:
        found = {self.device(value, inner, depth) for value in returned(inner.node)}
        found.discard(NOT_A_TENSOR)
        return found.pop() if len(found) == 1 else None

    def _call(self, node: ast.Call, scope: Scope, depth: int) -> str | None:
        kind, name = self.call_kind(node, scope)
        given = keyword(node, "device")
        if kind == "factory":
            if name in ("as_tensor", "asarray") and given is None and node.args:
                inner = self.device(node.args[0], scope, depth)
                return inner if inner not in (None, NOT_A_TENSOR) else self.default_device()
            return self.device_named(given, scope) if given is not None else self.default_device()
        if kind == "constructor":
            return "cpu"
        if kind == "like":
            if given is not None:
                return self.device_named(given, scope)
            return self.device(node.args[0], scope, depth) if node.args else None
        if kind == "move":
            return self.moved_to(node, scope, depth)
        if kind == "plain":
            return NOT_A_TENSOR
        if kind == "method" and isinstance(node.func, ast.Attribute):
            receiver = self.device(node.func.value, scope, depth)
            return receiver if receiver not in (None, NOT_A_TENSOR) else self._entered(node, scope, depth)
        if kind == "torch":
            return self.together([*node.args, *(k.value for k in node.keywords)], scope, depth)
        if kind == "module":
            device = None if self.state_moved else values.module_device(try_evaluate(node.func, scope))
            return device or self.together([*node.args, *(k.value for k in node.keywords)], scope, depth)
        return self._entered(node, scope, depth)

    def _entered(self, node: ast.Call, scope: Scope, depth: int) -> str | None:
        inner = enter(node, scope, self.sources)
        if inner is None or values.is_class(try_evaluate(node.func, scope)):
            return None
        return self._returns(inner, depth)

    def call_kind(self, node: ast.Call, scope: Scope) -> tuple[str, str]:
        """(what a call does to devices, the name by which PyTorch knows it)."""
        torch = values.torch()
        held = try_evaluate(node.func, scope)
        if values.is_module(held):
            return "module", values.type_name(held)
        for name, builtin in vocabulary.PLAIN_BUILTINS.items():
            if held is builtin:
                return "plain", name
        name = call_name(node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        last = name.rpartition(".")[2]
        if held is not MISSING and torch is not None and not isinstance(node.func, ast.Attribute | ast.Name):
            return "other", last
        if held is not MISSING and torch is not None:
            # Not by getattr: torch imports some of its packages when they are asked for.
            torch_own = values.lookup(vars(torch), last)
            if held is torch_own and last in vocabulary.FACTORIES:
                return "factory", last
            if held is torch_own and last in vocabulary.CPU_CONSTRUCTORS:
                return "constructor", last
            if held is torch_own and last in vocabulary.LIKES:
                return "like", last
            if _is_torch_function(held, torch, last):
                return "torch", last
            return "other", last
        if isinstance(node.func, ast.Attribute):
            root = name.partition(".")[0]
            if root in ("torch", "th") and last in vocabulary.FACTORIES:
                return "factory", last
            if last in vocabulary.MOVES:
                return "move", last
            if last in vocabulary.PLAIN_RESULTS:
                return "plain", last
            return "method", last
        return "other", last

    def moved_to(self, node: ast.Call, scope: Scope, depth: int = 0) -> str | None:
        """Where `.to(...)`, `.cuda(...)` or `.cpu()` puts its receiver."""
        assert isinstance(node.func, ast.Attribute)
        if node.func.attr == "cpu":
            return "cpu"
        target = keyword(node, "device") or (node.args[0] if node.args else None)
        if node.func.attr == "cuda":
            if target is None:
                return f"cuda:{current_index()}"
            return self.device_named(target, scope)
        if target is not None:
            named = self.device_named(target, scope)
            if named is not None:
                return named
            other = self.device(target, scope, depth)
            if other not in (None, NOT_A_TENSOR):
                return other
        return self.device(node.func.value, scope, depth)

    def device_named(self, node: ast.AST | None, scope: Scope) -> str | None:
        """The device that an expression names (`device`, `"cuda"`, `x.device`, `torch.device(...)`)."""
        if node is None:
            return None
        held = try_evaluate(node, scope)
        if held is not MISSING:
            return canonical(held)
        if isinstance(node, ast.Attribute) and node.attr == "device":
            found = self.device(node.value, scope)
            return found if found != NOT_A_TENSOR else self._property_named(node, scope)
        if isinstance(node, ast.Call) and call_name(node) in ("torch.device", "device") and node.args:
            return self.device_named(node.args[0], scope)
        if isinstance(node, ast.IfExp):
            return self.device_named(node.body, scope)
        if isinstance(node, ast.Name):
            found_bindings = bindings_of(scope.node).get(node.id)
            binding = reaching(scope.source, found_bindings, node) if found_bindings else None
            if binding is not None and binding.value is not None and not binding.path:
                return self.device_named(binding.value, scope)
            if node.id in scope.bound and not scope.bound[node.id].spread:
                return self.device_named(scope.bound[node.id].node, scope.bound[node.id].scope)
        return None


def _is_torch_function(held: Any, torch: Any, name: str) -> bool:
    """Whether a callable is one of torch's own operations (`torch.cat`, `F.softmax`, `torch.linalg.norm`)."""
    held = held.__func__ if type(held) is types.MethodType else held
    own_kind = exactly(held, types.FunctionType, types.BuiltinFunctionType)
    module = function_module(held) if own_kind else ""
    if module == "torch" or module.startswith(
        (
            "torch.nn.functional",
            "torch._",
            "torch.functional",
            "torch.special",
            "torch.linalg",
            "torch.fft",
        )
    ):
        return True
    return type(held) is types.BuiltinFunctionType and (
        held is values.lookup(vars(torch), name) or held is values.lookup(vars(torch.nn.functional), name)
    )


def keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in node.keywords if k.arg == name), None)
