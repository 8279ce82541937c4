"""Expressions that name the wanted device and are in scope, and right, at a given line."""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import Any, NamedTuple

from ..patterns import pattern
from . import values
from .attributes import builds
from .building import setters, while_built
from .evaluate import Unknown, evaluate
from .hooked import registered
from .infer import Inference, canonical
from .passive import shown_key
from .scopes import MISSING, Binding, Scope, bindings_of, own_nodes, position

# What an expression that names a device is built on, best first; the order differs by where the edit goes.
NEAR, NAMED, ARGUMENT, OWN_DEVICE, OWN_STATE, LOCAL, GLOBAL_DEVICE, GLOBAL, LITERAL = range(9)


MOST_CALLERS = 5

_QUOTED = pattern(r"[\"'](cuda(?::\d+)?)[\"']")


class Anchor(NamedTuple):
    """`text` names the device; `rank` is one of the constants above; `base` the tensor it is read from."""

    text: str
    rank: int
    base: str = ""


def anchors(
    scope: Scope, at: ast.AST, wanted: str, inference: Inference, near: set[str] | None = None
) -> list[Anchor]:
    """The device expressions usable at a node, best first."""
    found: list[Anchor] = []
    near = near or set()
    for name, kind in _names(scope, at):
        found += _of_name(name, kind, scope, at, wanted, inference, near)
    found += _of_globals(scope, at, wanted, inference)
    literal = _literal(scope, wanted)
    if literal is not None:
        found.append(literal)
    module_level = isinstance(scope.node, ast.Module)
    # Where the script writes the device's name, that is shorter than a look at something global.
    literal_rank = GLOBAL - 0.5 if literal is not None and literal.text[1:-1] in quoted(scope) else LITERAL
    ranks = dict(_MODULE_ORDER if module_level else {LITERAL: literal_rank})

    def order(anchor: Anchor) -> tuple[float, int]:
        return ranks.get(anchor.rank, anchor.rank), len(anchor.text)

    seen: set[str] = set()
    unique = []
    for anchor in sorted(found, key=order):
        if anchor.text not in seen:
            seen.add(anchor.text)
            unique.append(anchor)
    return unique


# At module level a script's `device` comes before the device of some tensor.
_MODULE_ORDER = {
    NAMED: 0,
    OWN_DEVICE: 1,
    GLOBAL_DEVICE: 2,
    LITERAL: 3,
    NEAR: 4,
    ARGUMENT: 5,
    LOCAL: 6,
    OWN_STATE: 7,
    GLOBAL: 8,
}


def _names(scope: Scope, at: ast.AST) -> list[tuple[str, str]]:
    found = [(p.arg, "argument") for p in scope.parameters()]
    for name, bindings in bindings_of(scope.node).items():
        if "." not in name and any(_bound_before(b, at, scope) for b in bindings):
            found.append((name, "local"))
    return found


def _bound_before(binding: Binding, at: ast.AST, scope: Scope) -> bool:
    """Whether a binding had happened when a line ran: above it, and not of the very value that the line is part of."""
    if binding.position >= position(at) or binding.kind == "definition":
        return False
    return isinstance(binding.stmt, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith) or not (
        binding.stmt is at or binding.stmt in scope.source.ancestors(at)
    )


def _name_at(name: str, at: ast.AST) -> ast.Name:
    node = ast.Name(name, ast.Load())
    line, column = position(at)
    node.lineno = node.end_lineno = line
    node.col_offset = node.end_col_offset = column
    return node


def _value_at(name: str, scope: Scope, at: ast.AST) -> Any:
    """What a name held when the line ran, or MISSING."""
    if scope.live is not None and scope.live.node is not None and scope.frame is not None:
        found = bindings_of(scope.node).get(name, [])
        line = position(at)
        failure = position(scope.live.node)
        if any(line <= b.position <= failure and b.kind != "augmented" for b in found) and not all(
            b.position > failure or b.position < line for b in found
        ):
            later = [b for b in found if line <= b.position <= failure]
            if later:
                return MISSING
        return scope.locals.get(name, MISSING)
    try:
        return evaluate(_attach(_name_at(name, at), scope, at), scope)
    except Unknown:
        return MISSING


def _attach(node: ast.Name, scope: Scope, at: ast.AST) -> ast.Name:
    """Give a made-up node the surroundings of a real one, so that its bindings are found as at that place."""
    parent = scope.source.parent(at)
    if parent is not None:
        scope.source.adopt(node, parent)
    return node


def _of_name(
    name: str, kind: str, scope: Scope, at: ast.AST, wanted: str, inference: Inference, near: set[str]
) -> list[Anchor]:
    value = _value_at(name, scope, at)
    local_rank = NEAR if name in near else ARGUMENT if kind == "argument" else LOCAL
    if value is MISSING:
        node = _attach(_name_at(name, at), scope, at)
        if "dev" in name and inference.device_named(node, scope) == wanted:
            return [Anchor(name, NAMED)]
        if inference.device(node, scope) == wanted:
            if inference.is_module(node, scope):
                weight = _weight_read(name, scope)
                if weight:
                    return [Anchor(f"{weight}.device", max(local_rank, LOCAL), weight)]
                return [Anchor(f"next({name}.parameters()).device", max(local_rank, LOCAL))]
            return [Anchor(f"{name}.device", local_rank, name)]
        return []
    if values.is_module(value) and (
        _moved_since(name, scope) if kind == "argument" else _moved_later(name, scope, at)
    ):
        return []
    return [
        anchor
        for anchor in _of_value(name, value, wanted, local_rank, scope, at, inference)
        if not _set_later(anchor, name, value, scope, at, inference)
    ]


def _set_later(
    anchor: Anchor, name: str, owner: Any, scope: Scope, at: ast.AST, inference: Inference
) -> bool:
    """Whether an anchor reads an attribute that an object may not have had yet, or not this one, when a line ran:
    a method that does not build the object set it, after the line or who knows when."""
    found = re.search(rf"(?<![\w.]){re.escape(name)}\.(\w+)", anchor.text)
    if found is None or values.is_tensor(owner) or found.group(1) in ("parameters", "buffers"):
        return False
    later = [(a.method, a.source) for a in setters(owner, found.group(1), inference.sources) if a.method]
    if scope.frame is None or not later:
        return bool(later)
    names = {method.name for method, _ in later if method is not scope.node}
    if any(registered(method, source) for method, source in later):
        return True
    end = position(scope.live.node) if scope.live is not None and scope.live.node is not None else None
    return end is not None and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and position(at) <= position(node) <= end
        for node in own_nodes(scope.node)
    )


def _weight_read(name: str, scope: Scope) -> str:
    """`net.weight`, where the function reads that itself."""
    read = (
        n for n in own_nodes(scope.node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    )
    return f"{name}.weight" if any(n.value.id == name and n.attr == "weight" for n in read) else ""  # type: ignore[attr-defined]


def _of_value(
    text: str, value: Any, wanted: str, rank: int, scope: Scope, at: ast.AST, inference: Inference
) -> list[Anchor]:
    if _is_device(text, value) and canonical(value) == wanted:
        return [Anchor(text, NAMED)]
    if values.is_tensor(value):
        return [Anchor(f"{text}.device", rank, text)] if values.device_of(value) == wanted else []
    if values.is_module(value):
        return _of_module(text, value, wanted, rank, scope, inference)
    if values.is_container(value):
        if text in filled_in(scope.node):
            return []  # at this place it may be empty still
        found = []
        for key, item in list(values.items(value))[:3]:
            shown = shown_key(key)
            if shown == "[...]":
                continue
            inner = f"{text}{shown}" if type(key) is int else f'{text}["{key}"]'
            if values.is_tensor(item) and values.device_of(item) == wanted:
                found.append(Anchor(f"{inner}.device", max(rank, ARGUMENT), inner))
        for key in ("device", "dev"):
            try:
                held = values.item(value, key)
            except LookupError:
                continue
            if canonical(held) == wanted:
                found.append(Anchor(f'{text}["{key}"]', OWN_DEVICE))
        return found[:2]
    own = values.instance_dict(value)
    is_receiver = bool(scope.parameters()) and scope.parameters()[0].arg == text
    found = []
    for attr in ("device", "dev", "_device"):
        if canonical(values.lookup(own, attr)) == wanted and not (
            is_receiver and not _set_before(text, attr, scope, at)
        ):
            found.append(Anchor(f"{text}.{attr}", OWN_DEVICE))
    if is_receiver and not _constructing(scope):
        for attr, inner in values.named(own)[:40]:
            if values.is_module(inner) and values.module_device(inner) == wanted:
                found.append(Anchor(f"next({text}.{attr}.parameters()).device", OWN_STATE))
            elif values.is_tensor(inner) and values.device_of(inner) == wanted:
                found.append(Anchor(f"{text}.{attr}.device", OWN_STATE, f"{text}.{attr}"))
    return found


def _of_module(
    text: str, module: Any, wanted: str, rank: int, scope: Scope, inference: Inference
) -> list[Anchor]:
    is_receiver = bool(scope.parameters()) and scope.parameters()[0].arg == text
    if is_receiver and (_constructing(scope) or while_built(scope, inference.sources)):
        return []  # while it is constructed, its parameters are where they were made
    found = []
    own = values.instance_dict(module)
    # What its own code calls them; of another's object, names like DataParallel's `src_device_obj` are its inside.
    for attr in ("device", "dev", "_device", *(_other_devices(own) if is_receiver else ())):
        if canonical(values.lookup(own, attr)) == wanted:
            found.append(Anchor(f"{text}.{attr}", OWN_DEVICE))
            break
    rank = OWN_STATE if is_receiver else rank
    made_here = bindings_of(scope.node)  # what this very function assigns is not where it was
    here = [
        (p, kind)
        for p, t, kind in values.module_tensors(module)
        if values.device_of(t) == wanted and f"{text}.{p}" not in made_here
    ]
    for wanted_kind in ("parameter", "buffer"):
        path = next((p for p, kind in here if kind == wanted_kind and _short(p)), None)
        if path is not None:
            found.append(Anchor(f"{text}.{path}.device", rank, f"{text}.{path}"))
            break
    devices = values.module_devices(module)
    if devices and set(devices) == {wanted} and not found:
        state = "parameters" if any(kind == "parameter" for _, kind in here) else "buffers"
        found.append(Anchor(f"next({text}.{state}()).device", rank if is_receiver else max(rank, LOCAL)))
    return found


def filled_in(node: ast.AST) -> set[str]:
    """The names of containers that a function's body itself puts items into."""
    return {
        inner.func.value.id
        for inner in own_nodes(node)  # type: ignore[arg-type]
        if isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and isinstance(inner.func.value, ast.Name)
        and inner.func.attr in ("append", "appendleft", "extend", "insert", "add")
    }


def _other_devices(own: Any) -> list[str]:
    """The names of an object's further devices: `self.dev1`, `self.device_ids` not."""
    named = islice(values.named(own), 100)
    return [attr for attr, held in named if _is_device(attr, held) and attr.isidentifier()]


def _short(path: str) -> bool:
    """Whether a dotted path can be written as attributes, and reads well."""
    return path.count(".") <= 1 and all(part.isidentifier() for part in path.split("."))


def _constructing(scope: Scope) -> bool:
    return builds(scope.function)


def _set_before(receiver: str, attr: str, scope: Scope, at: ast.AST) -> bool:
    """In a constructor, `self.device` is there only below the line that sets it."""
    if not _constructing(scope):
        return True
    return any(b.position < position(at) for b in bindings_of(scope.node).get(f"{receiver}.{attr}", []))


def _moved_later(name: str, scope: Scope, at: ast.AST) -> bool:
    for node in own_nodes(scope.node):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("to", "cuda")
        ):
            if (
                isinstance(node.func.value, ast.Name)
                and node.func.value.id == name
                and position(node) > position(at)
            ):
                return True
    return False


def _moved_since(name: str, scope: Scope) -> bool:
    """Whether the module that a function was given was moved below the call, when the function had returned."""
    argument = scope.bound.get(name)
    for _ in range(MOST_CALLERS):
        if scope.frame is not None or argument is None or not isinstance(argument.node, ast.Name):
            return False
        name, scope, at = argument.node.id, argument.scope, argument.node
        if _moved_later(name, scope, at):
            return True
        argument = scope.bound.get(name)
    return False


def _is_device(text: str, value: Any) -> bool:
    return values.is_device(value) or (
        type(value) is str and canonical(value) is not None and "dev" in text.lower()
    )


def _of_globals(scope: Scope, at: ast.AST, wanted: str, inference: Inference) -> list[Anchor]:
    if isinstance(scope.node, ast.Module):
        return []
    found = []
    own = set(bindings_of(scope.node)) | {p.arg for p in scope.parameters()}
    for name, value in list(islice(scope.globals.items(), 400)):
        if name.startswith("__") or name in own:
            continue
        if _is_device(name, value) and canonical(value) == wanted:
            found.append(Anchor(name, GLOBAL_DEVICE))
        elif scope.frame is None or _constructing(scope):
            continue  # what a script has now may not have been there when the object was made
        elif not values.is_module(value) and not values.is_tensor(value):
            for anchor in _of_value(name, value, wanted, GLOBAL, scope, at, inference)[:1]:
                if anchor.rank == OWN_DEVICE:
                    found.append(Anchor(anchor.text, GLOBAL_DEVICE))
        elif values.is_module(value) and values.module_device(value) == wanted:
            found.append(Anchor(f"next({name}.parameters()).device", GLOBAL))
        elif values.is_tensor(value) and values.device_of(value) == wanted:
            found.append(Anchor(f"{name}.device", GLOBAL, name))
    return found


def quoted(scope: Scope) -> set[str]:
    """The devices that a file writes as strings."""
    return set(_QUOTED.findall(scope.source.text))


def _literal(scope: Scope, wanted: str) -> Anchor | None:
    """`"cuda"` where the script writes strings or `.cuda()`."""
    text = scope.source.text
    for written in (wanted, "cuda" if wanted == "cuda:0" else wanted):
        if f'"{written}"' in text or f"'{written}'" in text:
            return Anchor(f'"{written}"', LITERAL)
    if ".cuda()" in text and wanted == "cuda:0":
        return Anchor('"cuda"', LITERAL)
    return Anchor(f'"{wanted}"', LITERAL) if wanted != "cpu" else Anchor('"cpu"', LITERAL)
