"""A tensor that a library's module keeps from its construction, and the library's own method that makes it anew."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import edits
from ..evidence import values
from ..evidence.attributes import assignments, class_source, classes
from ..evidence.calls import enter
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.libraries import is_library
from ..evidence.operands import flat, held_tensors
from ..evidence.scopes import Scope, own_nodes
from ..evidence.steps import Step
from ._facts import owners
from ._finding import Finding, Mend
from ._order import move_statements, moved, user_scopes, value_now


class Kept(NamedTuple):
    """The wrong tensor as an attribute of an object: `owner.name`."""

    tensor: Any
    owner: Any
    name: str


def reset_finding(evidence: Evidence) -> Finding | None:
    """The move after which the library's method has to be called, where that is proven to put the tensor right."""
    kept = _kept(evidence)
    if kept is None or evidence.wanted is None:
        return None
    for module, _, _ in owners(evidence):
        if not values.is_module(module) or set(values.module_devices(module)) != {evidence.wanted}:
            continue
        method = _method_that_remakes(evidence, module, kept)
        move = _move_of(evidence, module) if method is not None else None
        if method is not None and move is not None:
            return _finding(evidence, kept, method, *move)
    return None


def _kept(evidence: Evidence) -> Kept | None:
    """The operand of the failing line, in a library, that is an attribute of some object there."""
    if evidence.inner is evidence.leaves:
        return None
    for one in flat(evidence.inner):
        if not (
            one.is_tensor and one.device == evidence.wrong_device and isinstance(one.node, ast.Attribute)
        ):
            continue
        owner = try_evaluate(one.node.value, one.scope)
        if values.is_tensor(values.lookup(values.instance_dict(owner), one.node.attr)):
            return Kept(one.value, owner, one.node.attr)
    return None


def _method_that_remakes(evidence: Evidence, module: Any, kept: Kept) -> str | None:
    """A method of the module's class that needs no argument, that its `__init__` calls, and that binds the attribute
    to a value which would be on the wanted device now."""
    if not any(held.tensor is kept.tensor for held in held_tensors(module)):
        return None
    if len([a for a in assignments(kept.owner, kept.name, evidence.sources) if a.kind == "plain"]) != 1:
        return None  # something else may have bound it since
    members = list(_members(evidence, module))
    called = {
        node.func.attr
        for member, _ in members
        if member.name == "__init__"
        for node in own_nodes(member)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    for member, scope in members:
        if member.name in called and not member.name.startswith("_") and _needs_nothing(member):
            if any(
                _device_given(evidence, node, scope, kept) == evidence.wanted for node in own_nodes(member)
            ):
                return member.name
    return None


def _members(evidence: Evidence, module: Any) -> Iterator[tuple[ast.FunctionDef, Scope]]:
    """The methods of a library's class, each as a scope in which its `self` is known."""
    for cls in classes(module):
        located = class_source(cls, evidence.sources)
        if located is None or not is_library(located[0].path):
            continue
        for member in located[1].body:
            function = values.class_attribute(cls, getattr(member, "name", ""))
            if (
                isinstance(member, ast.FunctionDef)
                and member.args.args
                and type(function) is types.FunctionType
            ):
                own = {member.args.args[0].arg: module}
                yield member, Scope(located[0], member, function.__globals__, receiver=module, values=own)


def _needs_nothing(member: ast.FunctionDef) -> bool:
    given = [*member.args.posonlyargs, *member.args.args][1:]
    return len(given) <= len(member.args.defaults) and None not in member.args.kw_defaults


def _device_given(evidence: Evidence, node: ast.AST, scope: Scope, kept: Kept, depth: int = 0) -> str | None:
    """The device of what a statement would bind the attribute to: itself, or a method of the owner's that it calls."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == kept.name:
                if try_evaluate(target.value, scope) is kept.owner:
                    return evidence.inference.device(node.value, scope)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and depth == 0:
        if try_evaluate(node.func.value, scope) is kept.owner:
            entered = enter(node, scope, evidence.sources)
            for inner in own_nodes(entered.node) if entered is not None else ():
                found = _device_given(evidence, inner, entered, kept, 1)  # type: ignore[arg-type]
                if found is not None:
                    return found
    return None


def _move_of(evidence: Evidence, module: Any) -> tuple[ast.stmt, ast.expr, Scope] | None:
    """The user's last statement that moves the module: (the statement, what it moves, its scope)."""
    found = None
    for scope in user_scopes(evidence, []):
        for call, statement in move_statements(evidence, scope):
            if value_now(moved(call), scope) is module and Step("use", statement, scope).editable:
                found = statement, moved(call), scope
    return found


def _finding(
    evidence: Evidence, kept: Kept, method: str, move: ast.stmt, module: ast.expr, scope: Scope
) -> Finding:
    text = scope.source.one_line(module)
    path = next(held.path for held in held_tensors(value_now(module, scope)) if held.tensor is kept.tensor)
    finding = Finding(
        culprit=f"{text}.{path}",
        headline=f"`{text}.{path}` is on {evidence.wrong_device}: it was made before `{text}` was moved to {evidence.wanted}",
        culprit_device=evidence.wrong_device,
        root_node=move,
        root_scope=scope,
        root_note=f"moves the parameters, and leaves `{kept.name}` on {evidence.wrong_device}",
    )
    reason = f"`{method}()` makes `{kept.name}` anew, which may change its values"
    made = edits.insert_after(scope.source, move, f"{text}.{method}()")
    finding.mends.append(
        Mend("let the library make it again after the move", made, move, scope, "unsafe", reason)
    )
    return finding
