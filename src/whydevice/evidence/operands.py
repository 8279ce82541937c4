"""The operands of the call that failed, under the names that the user's own frame gives them."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import values
from .bounds import at_most, cut, kept, visit
from .evaluate import try_evaluate
from .infer import NOT_A_TENSOR, Inference
from .passive import OF_PYTHON, class_module, exactly, shown_key
from .scopes import MISSING, Scope
from .vocabulary import MOVES

MOST_HELD = 4_000
OBJECT_DEPTH = 3


@dataclass(repr=False, eq=False)
class Held:
    """A tensor found in an operand: the operand itself (empty path) or reached from it."""

    path: str
    tensor: Any
    kind: str  # tensor | parameter | buffer | attribute | item
    device: str
    owner: Any = MISSING  # the module or object whose attribute it is
    name: str = ""


@dataclass(repr=False, eq=False)
class Leaf:
    """One operand expression of the failing call in a user's frame."""

    node: ast.AST
    scope: Scope
    role: str | None = None
    value: Any = MISSING
    device: str | None = None
    inferred: bool = False
    held: list[Held] = field(default_factory=list)
    spread: str = ""
    parts: list[Leaf] = field(default_factory=list)

    @property
    def expression(self) -> str:
        return self.scope.source.one_line(self.node)

    @property
    def is_module(self) -> bool:
        return values.is_module(self.value)

    @property
    def is_tensor(self) -> bool:
        return values.is_tensor(self.value)

    @property
    def is_scalar(self) -> bool:
        return self.is_tensor and values.shape_of(self.value) == ()

    def devices(self) -> set[str]:
        found = {h.device for h in self.held}
        if not found and self.device is not None and self.device != NOT_A_TENSOR:
            found = {self.device}
        return found


def held_tensors(value: Any) -> list[Held]:
    """The tensors that a value is or holds: a module's state, a container's items, an object's attributes."""
    # Frames and causes come back to the same model.
    return kept("held", value, _held) if values.is_module(value) else _held(value)


def _held(value: Any) -> list[Held]:
    found: list[Held] = []
    seen: set[int] = set()
    for held in _walk(value, "", 0, seen, MISSING, ""):
        found.append(held)
        if len(found) >= at_most(MOST_HELD):
            cut(f"the first {MOST_HELD:,} tensors of an operand were looked at")
            break
    return found


def _walk(
    value: Any, path: str, depth: int, seen: set[int], owner: Any, name: str, kind: str = ""
) -> Iterator[Held]:
    if values.is_tensor(value):
        device = values.device_of(value)
        if device is not None:
            yield Held(path, value, kind or ("tensor" if not path else "item"), device, owner, name)
        return
    if id(value) in seen or depth > OBJECT_DEPTH or not visit():
        return
    seen.add(id(value))
    if values.is_module(value):
        yield from _walk_module(value, path, depth, seen)
        return
    if type(value) is functools.partial:
        for part in ("args", "keywords", "func"):
            yield from _walk(values.attribute(value, part), _join(path, part), depth + 1, seen, value, part)
        return
    if values.is_container(value):
        for key, item in values.items(value):
            text = f"{path}{shown_key(key)}"
            yield from _walk(item, text, depth + 1, seen, owner, name, "item" if depth else "")
        if exactly(value, dict, list, tuple):
            return
    if values.is_class(value) or class_module(type(value)) in OF_PYTHON:
        return
    for attr, inner in values.named(values.instance_dict(value)):
        yield from _walk(inner, _join(path, attr), depth + 1, seen, value, attr, "attribute")


def _walk_module(module: Any, path: str, depth: int, seen: set[int]) -> Iterator[Held]:
    registered = _by_module(
        (sub, (name, tensor, kind, device))
        for (_, sub, name, tensor, kind), device in zip(
            values.registered(module), values.registered_devices(module), strict=True
        )
    )
    plain = _by_module((sub, (name, inner)) for _, sub, name, inner in values.plain_state(module))
    for sub_path, sub in values.submodules(module):
        if id(sub) not in registered and id(sub) not in plain:
            continue
        here = _join(path, sub_path) if sub_path else path
        for name, tensor, kind, device in registered.get(id(sub), ()):
            yield Held(_join(here, name), tensor, kind, device, sub, name)
        for name, inner in plain.get(id(sub), ()):
            if name.startswith(("_forward", "_backward")):
                continue
            if values.is_tensor(inner):
                yield Held(_join(here, name), inner, "attribute", values.device_of(inner) or "?", sub, name)
            elif (
                values.is_container(inner)
                or values.is_module(inner)
                or (values.instance_dict(inner) and not values.is_class(inner) and not callable(inner))
            ):
                for held in _walk(inner, _join(here, name), depth + 1, seen, sub, name):
                    yield Held(
                        held.path,
                        held.tensor,
                        held.kind,
                        held.device,
                        held.owner if held.owner is not MISSING else sub,
                        held.name or name,
                    )


def _by_module(pairs: Iterable[tuple[Any, Any]]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for sub, entry in pairs:
        found.setdefault(id(sub), []).append(entry)
    return found


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def leaves(node: ast.AST | None, scope: Scope, inference: Inference) -> list[Leaf]:
    """The immediate operands of an expression or statement."""
    found: list[Leaf] = []
    for child, role, spread in _operand_nodes(node, scope):
        found.append(leaf(child, scope, inference, role, spread))
    return found


def leaf(
    node: ast.AST, scope: Scope, inference: Inference, role: str | None = None, spread: str = ""
) -> Leaf:
    one = Leaf(node, scope, role, spread=spread)
    one.value = try_evaluate(node, scope)
    if inference.state_moved and (one.is_module or values.is_parameter(one.value)):
        return one  # where it was when it failed is not known
    if one.value is not MISSING:
        one.held = held_tensors(one.value)
        if values.size(one.value) > values.MOST_ITEMS and not one.is_tensor:
            cut(
                f"of `{one.expression}`, the first {values.MOST_ITEMS} of {values.size(one.value):,} items "
                "were looked at"
            )
        if one.is_tensor:
            one.device = values.device_of(one.value)
        elif one.is_module:
            one.device = values.module_device(one.value)
        else:
            devices = {h.device for h in one.held}
            one.device = devices.pop() if len(devices) == 1 else None if devices else NOT_A_TENSOR
        return one
    one.device = inference.device(node, scope)
    one.inferred = one.device not in (None, NOT_A_TENSOR)
    if one.device != NOT_A_TENSOR:
        one.parts = [
            leaf(child, scope, inference, None, spread) for child, _, spread in _operand_nodes(node, scope)
        ]
    return one


def _operand_nodes(node: ast.AST | None, scope: Scope) -> list[tuple[ast.AST, str | None, str]]:
    if isinstance(node, ast.Call):
        return _call_operands(node, scope)
    if isinstance(node, ast.BinOp):
        return [(node.left, "self", ""), (node.right, "other", "")]
    if isinstance(node, ast.Assert):
        return _operand_nodes(node.test, scope)
    if isinstance(node, ast.Compare):
        return [
            (_without_device(node.left), "self", ""),
            *((_without_device(c), "other", "") for c in node.comparators),
        ]
    if isinstance(node, ast.UnaryOp):
        return [(node.operand, "self", "")]
    if isinstance(node, ast.Subscript):
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [
            (node.value, "self", ""),
            *((i, "indices", "") for i in index if not isinstance(i, ast.Slice)),
        ]
    if isinstance(node, ast.AugAssign):
        return [(node.target, "self", ""), (node.value, "other", "")]
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        operands = _operand_nodes(target, scope) if isinstance(target, ast.Subscript) else []
        return [*operands, (node.value, "values", "")]
    if isinstance(node, ast.For | ast.AsyncFor):
        return [(node.iter, None, "")]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [(e.value if isinstance(e, ast.Starred) else e, None, "") for e in node.elts]
    if (
        isinstance(node, ast.Expr | ast.Return | ast.Await | ast.Starred | ast.NamedExpr)
        and node.value is not None
    ):
        return _operand_nodes(node.value, scope)
    if isinstance(node, ast.IfExp):
        return [(node.body, None, ""), (node.orelse, None, "")]
    if isinstance(node, ast.BoolOp):
        return [(v, None, "") for v in node.values]
    if isinstance(node, ast.Attribute):
        return [(node.value, None, "")]
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return [(node.elt, None, ""), *((g.iter, None, "") for g in node.generators)]
    if isinstance(node, ast.Dict):
        return [(v, None, "") for v in node.values]
    if isinstance(node, ast.With):
        return [(i.context_expr, None, "") for i in node.items]
    if isinstance(node, ast.JoinedStr):
        return [(v.value, None, "") for v in node.values if isinstance(v, ast.FormattedValue)]
    return []


def _without_device(node: ast.expr) -> ast.expr:
    """`a` of `a.device`: an assertion about devices is about the tensors."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == "device" else node


def _call_operands(node: ast.Call, scope: Scope) -> list[tuple[ast.AST, str | None, str]]:
    found: list[tuple[ast.AST, str | None, str]] = []
    held = try_evaluate(node.func, scope)
    if values.is_module(held):
        found.append((node.func, "module", ""))
    elif isinstance(node.func, ast.Attribute) and _is_kept_callable(held):
        found.append((node.func, "function", ""))
    elif isinstance(node.func, ast.Attribute):
        base = try_evaluate(node.func.value, scope)
        if not _is_namespace(base):
            found.append((node.func.value, "self", ""))
    elif (
        held is not MISSING
        and not values.is_class(held)
        and not exactly(held, types.FunctionType, types.BuiltinFunctionType)
    ) or isinstance(node.func, ast.Call):
        found.append((node.func, "function", ""))
    for index, argument in enumerate(node.args):
        if isinstance(argument, ast.Starred):
            found.append((argument.value, None, "*"))
        else:
            found.append((argument, str(index), ""))
    for keyword in node.keywords:
        found.append((keyword.value, keyword.arg, "" if keyword.arg else "**"))
    return found


def _is_kept_callable(value: Any) -> bool:
    """Whether a called attribute is an object that is called (`self.pipeline(x)`), rather than a method."""
    if type(value) is functools.partial:
        return True
    return value is not MISSING and not values.is_class(value) and class_module(type(value)) not in OF_PYTHON


def _is_namespace(value: Any) -> bool:
    return type(value) is types.ModuleType or values.is_class(value)


def flat(found: list[Leaf]) -> Iterator[Leaf]:
    """The leaves and their parts, each before its parts."""
    for one in found:
        yield one
        yield from flat(one.parts)


def moved_at_once(node: ast.AST, scope: Scope) -> bool:
    """Whether what stands there is moved before anything else is done with it (`x.to(device)`)."""
    method = scope.source.parent(node)
    call = scope.source.parent(method) if isinstance(method, ast.Attribute) else None
    return (
        isinstance(method, ast.Attribute)
        and method.attr in MOVES
        and isinstance(call, ast.Call)
        and call.func is method
    )


def unmoved(one: Leaf, wanted: str | None) -> Iterator[Leaf]:
    """The parts of an expression whose value is gone, but for those of a part that is where it is wanted: they were
    moved there, or that part's own operation would have failed."""
    if one.value is MISSING and one.device == wanted:
        return
    for part in one.parts:
        yield part
        yield from unmoved(part, wanted)


def match(tensor: Any, found: list[Leaf]) -> tuple[Leaf, Held] | None:
    """The operand of the user's that a tensor is or came out of, by identity, else by storage."""
    for one in flat(found):
        for held in one.held:
            if held.tensor is tensor:
                return one, held
    key = values.storage_key(tensor)
    if key is None:
        return None
    device = values.device_of(tensor)
    for one in flat(found):
        for held in one.held:
            if held.device == device and values.storage_key(held.tensor) == key:
                return one, held
    return None
