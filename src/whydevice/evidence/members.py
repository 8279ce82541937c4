"""Follows an attribute to the assignment that gave it its value, in the class or outside of it."""

from __future__ import annotations

import ast
import contextlib
from typing import TYPE_CHECKING, Any

from . import attributes, values, vocabulary
from .activations import (
    construction,
    globals_of,
    method_scope,
    node_of,
    returned_scope,
    way_to_construction,
)
from .calls import enter
from .containers import follow_items
from .evaluate import try_evaluate
from .scopes import MISSING, Scope, dotted, position
from .steps import Step
from .trees import STATE
from .until import until

if TYPE_CHECKING:
    from .origins import Tracer


def follow_attribute(
    tracer: Tracer, node: ast.Attribute, scope: Scope, steps: list[Step], path: tuple[int, ...]
) -> None:
    name = dotted(node)
    binding = tracer.binding(name, node, scope) if name is not None else None
    if binding is not None and binding.kind == "assign" and binding.value is not None:
        steps.append(Step("assign", binding.value, scope, name or "", binding.stmt, path=binding.path))
        tracer.follow(binding.value, scope, steps, (*binding.path, *path))
        return
    owner = try_evaluate(node.value, scope)
    if owner is MISSING or values.is_tensor(owner):
        if node.attr in vocabulary.TENSOR_ATTRIBUTES:
            tracer.follow(node.value, scope, steps)
        else:
            tracer.sought = MISSING  # from here on it may be the object that has the attribute
            _static_attribute(tracer, node, scope, steps, path)
        return
    _attribute_of(tracer, owner, node.attr, node, scope, steps, path)


def _attribute_of(
    tracer: Tracer,
    owner: Any,
    name: str,
    node: ast.AST,
    scope: Scope,
    steps: list[Step],
    path: tuple[int, ...] = (),
) -> None:
    """Go on where an attribute of a live object was assigned."""
    held: Any = MISSING
    with contextlib.suppress(LookupError):
        held = values.attribute(owner, name)
    outside = _assigned_outside(tracer, owner, name, node, scope)
    if outside is not None:
        value, _target, stmt, where = outside
        steps.append(
            Step(
                "attribute",
                value,
                where,
                name,
                stmt,
                held,
                owner,
                extra={"outside": True, "held": attributes.kind_in(owner, name)},
            )
        )
        tracer.follow(value, where, steps, path)
        return
    loaded = _assigned_by_load(tracer, owner, name, held)
    if loaded is not None:
        call, where = loaded
        steps.append(
            Step("unknown", call, where, "load_state_dict", where.source.statement(call), held, owner)
        )
        return
    places = attributes.assignments(owner, name, tracer.sources)
    place, inner = _likeliest(tracer, places, owner, node, scope)
    if place is None or inner is None:
        if values.is_module(held) or values.is_tensor(held):
            if _listed(tracer, owner, name, node, scope, steps):
                return
        data = values.lookup(values.instance_dict(owner), "data")
        if values.lookup(data, name, MISSING) is not MISSING and isinstance(node, ast.Attribute):
            follow_items(tracer, node.value, scope, steps, name, path)
            return
        _field(tracer, owner, name, node, scope, steps, path)
        return
    kind = "property" if place.kind == "property" else "attribute"
    held_as = place.kind if place.kind in ("buffer", "parameter") else attributes.kind_in(owner, name)
    steps.append(
        Step(
            kind,
            place.node,
            inner,
            name,
            place.stmt,
            held,
            owner,
            place.path,
            {
                "held": held_as,
                "registered": place.kind,
                "method": place.method.name if place.method else None,
                "places": places,
            },
        )
    )
    tracer.follow(place.node, inner, steps, (*place.path, *path))


def _listed(tracer: Tracer, owner: Any, name: str, node: ast.AST, scope: Scope, steps: list[Step]) -> bool:
    """A child of nn.Sequential or ModuleList has a number for a name: go on with the container itself."""
    if not name.isdigit() or not isinstance(node, ast.Attribute | ast.Subscript):
        return False
    follow_items(tracer, node.value, scope, steps, int(name), ())
    return True


def _assigned_outside(tracer: Tracer, owner: Any, name: str, node: ast.AST, scope: Scope) -> Any:
    """`model.head = head` in a script: the last such assignment in the files of the stack whose owner fits."""
    kind = attributes.kind_in(owner, name)
    if kind is None:
        return None
    for live in reversed(tracer.live):
        for value, target, stmt in reversed(attributes.outside_assignments(name, live.source)):
            where_node = live.source.scope(stmt)
            if where_node is None:
                continue
            holder = tracer.scope_of(where_node, live)
            if holder.frame is None and not isinstance(where_node, ast.Module):
                holder = returned_scope(tracer, where_node, live) or holder
            if not isinstance(node, ast.AST) or position(stmt) >= until(holder):
                continue
            base = try_evaluate(target.value, holder)
            if base is owner:
                return value, target, stmt, holder
            if base is MISSING and tracer.is_bad(value, holder) is not False and holder.frame is None:
                return value, target, stmt, holder
    return None


def _assigned_by_load(tracer: Tracer, owner: Any, name: str, held: Any) -> tuple[ast.Call, Scope] | None:
    """`model.load_state_dict(saved, assign=True)`: the call whose dict still has the very tensor."""
    key = values.storage_key(held) if values.is_tensor(held) else None
    if key is None or attributes.kind_in(owner, name) not in STATE.values():
        return None
    for live in reversed(tracer.live):
        for node in live.source.nodes_with("assign=True"):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            given = next((k.value for k in node.keywords if k.arg == "assign"), None)
            if node.func.attr != "load_state_dict" or not isinstance(given, ast.Constant) or not given.value:
                continue
            where = tracer.scope_of(live.source.scope(node) or live.node, live)
            saved = try_evaluate(node.args[0], where) if node.args else MISSING
            if not values.is_container(saved):
                continue
            if any(values.is_tensor(t) and values.storage_key(t) == key for _, t in values.items(saved)):
                return node, where
    return None


def _likeliest(
    tracer: Tracer, places: list[attributes.Assignment], owner: Any, node: ast.AST, scope: Scope
) -> tuple[attributes.Assignment | None, Scope | None]:
    """Of several assignments: the one whose value would be on the wrong device, a later method's first."""
    judged: list[tuple[int, attributes.Assignment, Scope]] = []
    for place in places:
        inner = method_scope(tracer, place, owner, node, scope)
        bad = tracer.is_bad(place.node, inner)
        if place.kind == "property":
            return place, inner
        if bad is False and len(places) > 1:
            continue
        rank = 0 if bad else 1
        constructor = place.method is None or place.method.name in ("__init__", "__post_init__")
        judged.append(
            (rank * 4 + (2 if place.kind == "buffer" else 0) + (1 if constructor else 0), place, inner)
        )
    if not judged:
        return (places[0], method_scope(tracer, places[0], owner, node, scope)) if places else (None, None)
    _, place, inner = min(judged, key=lambda j: j[0])
    return place, inner


def _static_attribute(
    tracer: Tracer, node: ast.Attribute, scope: Scope, steps: list[Step], path: tuple[int, ...]
) -> None:
    """`sched.betas` where the object is gone: through the construction that its name leads to."""
    built = construction(tracer, node, scope)
    if built is None or not isinstance(built.node, ast.Call):
        steps.append(Step("unknown", node, scope))
        return
    cls = try_evaluate(built.node.func, built.scope)
    places = attributes.assignments(cls, node.attr, tracer.sources) if values.is_class(cls) else []
    if not places:
        if values.is_class(cls):
            _constructed_field(tracer, built.node, cls, node.attr, built.scope, steps, path)
        else:
            steps.append(Step("unknown", node, scope))
        return
    entered = enter(built.node, built.scope, tracer.sources)
    place = places[0]
    if entered is None or entered.node is not place.method:
        entered = Scope(
            place.source,
            node_of(place),
            globals_of(place.cls, scope),
            caller=scope,
            depth=scope.depth + 1,
        )
    steps.append(
        Step(
            "attribute",
            place.node,
            entered,
            node.attr,
            place.stmt,
            extra={
                "registered": place.kind,
                "method": place.method.name if place.method else None,
                "places": places,
            },
        )
    )
    tracer.follow(place.node, entered, steps, (*place.path, *path))


def _field(
    tracer: Tracer,
    owner: Any,
    name: str,
    node: ast.AST,
    scope: Scope,
    steps: list[Step],
    path: tuple[int, ...],
) -> None:
    """A field of a dataclass, namedtuple or other object whose constructor took it."""
    way = way_to_construction(tracer, node, scope) if isinstance(node, ast.Attribute) else []
    if way and isinstance(way[-1].node, ast.Call):
        steps += way
        _constructed_field(tracer, way[-1].node, type(owner), name, way[-1].scope, steps, path)
        return
    steps.append(Step("unknown", node, scope, name))


def _constructed_field(
    tracer: Tracer,
    call: ast.Call,
    cls: type,
    name: str,
    scope: Scope,
    steps: list[Step],
    path: tuple[int, ...],
) -> None:
    for keyword in call.keywords:
        if keyword.arg == name:
            steps.append(Step("item", keyword.value, scope, name, extra={"construct": call}))
            tracer.follow(keyword.value, scope, steps, path)
            return
    fields = values.field_names(cls)
    if name in fields and fields.index(name) < len(call.args):
        value = call.args[fields.index(name)]
        steps.append(Step("item", value, scope, name, extra={"construct": call}))
        tracer.follow(value, scope, steps, path)
        return
    tracer.choose([*call.args, *(k.value for k in call.keywords)], call, scope, steps)
