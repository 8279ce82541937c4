"""What happened: an object remembers a device of its own, and a later `.to()` did not change it.

The device is stored as a plain attribute when the object is constructed. `.to()` moves parameters and buffers; the
attribute still says the old device, and the object's methods make tensors there, or move everything back.

How to recognise it: the object has an attribute that names one device, your code moved the object to another, and the
tensor that failed comes out of one of its methods.

Before:

    encoder = SentenceEncoder()
    encoder.to("cpu")

After:

    encoder = SentenceEncoder(device="cpu")

Safe: the object is constructed for the device to which it was moved.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import canonical
from ..evidence.operands import flat
from ..evidence.passive import exactly, function_module
from ..evidence.scopes import MISSING, Scope, bindings_of, own_nodes, position
from ..types import Edit
from ._finding import Finding, Mend
from ._order import moved, value_now
from ._user_calls import UserCall, device_parameter, every_scope, user_calls

NAME = "object-keeps-device"
TITLE = "an object keeps a device of its own, which .to() does not change"


def find(evidence: Evidence) -> Finding | None:
    sides = {evidence.wanted, evidence.wrong_device}
    if None in sides or len(sides) < 2:
        return None
    concerned = _concerned(evidence)
    for scope, call in _moves(evidence):
        held = value_now(moved(call), scope)
        if held is MISSING or id(held) not in concerned:
            continue
        target = evidence.inference.moved_to(call, scope)
        for name, device in _own_devices(held):
            if target is not None and {target, device} == sides and _read(evidence, held, name):
                return _finding(evidence, scope, call, held, name, device, target)
    return None


def _moves(evidence: Evidence) -> Iterator[tuple[Scope, ast.Call]]:
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("to", "cuda", "cpu")
            ):
                yield scope, node


def _own_devices(held: Any) -> list[tuple[str, str]]:
    """The attributes of an object that name a device."""
    found = []
    for name, value in values.named(values.instance_dict(held))[:200]:
        named = values.is_device(value) or (type(value) is str and "dev" in name.lower())
        device = canonical(value) if named else None
        if device is not None:
            found.append((name, device))
    return found


def _read(evidence: Evidence, held: Any, name: str) -> bool:
    """Whether a method that ran, or one that it may have called, reads the attribute: what nothing read did nothing."""
    left, seen = _ran(evidence, held), {"__init__"}
    left |= {"__call__", "forward"} if left else set()  # a method may call its own object
    while left:
        method = left.pop()
        if method in seen:
            continue
        seen.add(method)
        member: Any = values.class_attribute(type(held), method)
        function: Any = member.fget if type(member) is property else member
        if exactly(function, classmethod, staticmethod):
            function = function.__func__
        if type(function) is types.FunctionType:  # below a decorator, such as `torch.no_grad()`
            function = values.lookup(function.__dict__, "__wrapped__", function)
        if type(function) is types.FunctionType and function_module(function).partition(".")[0] != "torch":
            names = set(function.__code__.co_names)
            if name in names:
                return True
            left |= names
    return False


def _ran(evidence: Evidence, held: Any) -> set[str]:
    """The methods of an object that are running, and those that the way of an operand leads through."""
    found = {s.function for s in evidence.scopes if s.receiver is held and s.function is not None}
    for one in list(flat(evidence.leaves)):
        for step in evidence.tracer.trace(one.node, one.scope, one.device):
            if step.scope.receiver is held and step.scope.function is not None:
                found.add(step.scope.function)
            for node in ast.walk(step.node):
                if isinstance(node, ast.Call):
                    base = getattr(node.func, "value", None)
                    if base is not None and value_now(base, step.scope) is held:
                        found.add(node.func.attr)  # type: ignore[attr-defined]
                    if value_now(node.func, step.scope) is held:
                        found |= {"__call__", "forward"}
    return found


def _concerned(evidence: Evidence) -> set[int]:
    """The objects whose methods ran on the way to the failing operands, by id."""
    found = {id(s.receiver) for s in evidence.scopes if s.receiver is not MISSING}
    for one in list(flat(evidence.leaves)):
        steps = evidence.tracer.trace(one.node, one.scope, one.device)
        for step in steps:
            if step.scope.receiver is not MISSING:
                found.add(id(step.scope.receiver))
            if isinstance(step.node, ast.Call):
                for node in (step.node.func, getattr(step.node.func, "value", None)):
                    held = value_now(node, step.scope) if isinstance(node, ast.expr) else MISSING
                    if held is not MISSING:
                        found.add(id(held))
    return found


def _finding(
    evidence: Evidence, scope: Scope, call: ast.Call, held: Any, name: str, device: str, target: str
) -> Finding:
    text = scope.source.one_line(moved(call))
    seen = next((one.expression for one in evidence.leaves if one.value is held), None)
    finding = Finding(
        either=True,
        culprit=seen if seen is not None or evidence.wrong is not None else text,
        headline=f"`{text}` keeps a device of its own: `{name}` is still {device} after the move to {target}",
        root_node=call,
        root_scope=scope,
        root_note=f"moves what it holds, and leaves `{name}` at {device}",
    )
    built = next(
        (c for c in user_calls(evidence) if c.called is type(held) and c.result() is held),
        None,
    )
    parameter = device_parameter(built.absent | built.given) if built is not None else None
    if built is not None and parameter is not None:
        finding.mends += _constructed(built, parameter, scope, call, target)
    else:
        finding.mends += _told(scope, call, name, target)
    return finding


def _told(scope: Scope, call: ast.Call, name: str, target: str) -> list[Mend]:
    """Where no parameter sets the device: set the attribute beside the move."""
    statement = scope.source.statement(call)
    if statement is None or not _only_moves(statement, call):
        return []
    text = f'{scope.source.one_line(moved(call))}.{name} = "{target}"'
    made = edits.insert_after(scope.source, statement, text)
    reason = f"sets `{name}` from outside, which the class may not foresee"
    return [Mend("tell the object its new device", made, statement, scope, "unsafe", reason)]


def _constructed(built: UserCall, parameter: str, scope: Scope, call: ast.Call, target: str) -> list[Mend]:
    """Construct it for the device that it was moved to, and take away the move that is then needless."""
    device = _device_text(scope, call, built, target)
    source = built.scope.source
    given = built.given.get(parameter)
    made: tuple[Edit, ...] = (
        edits.replace_node(source, given, device)
        if given is not None
        else edits.add_keyword(source, built.node, parameter, device)
    )
    statement = scope.source.statement(call)
    if statement is not None and _only_moves(statement, call):
        made += edits.delete_statement(scope.source, statement)
    return [Mend("construct it for the device where it is used", made, built.node, built.scope)]


def _only_moves(statement: ast.stmt, call: ast.Call) -> bool:
    if isinstance(statement, ast.Expr):
        return statement.value is call
    return (
        isinstance(statement, ast.Assign)
        and statement.value is call
        and ast.unparse(statement.targets[0]) == ast.unparse(moved(call))
    )


def _device_text(scope: Scope, call: ast.Call, built: UserCall, target: str) -> str:
    """The device as the move writes it, where its names are bound at the construction too; else as text."""
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
    assert isinstance(call.func, ast.Attribute)
    if given is None or call.func.attr != "to" or scope.node is not built.scope.node:
        return f'"{target}"'
    table = bindings_of(scope.node)
    for node in ast.walk(given):
        bound = table.get(node.id, []) if isinstance(node, ast.Name) else []
        if any(b.position >= position(built.node) for b in bound):
            return f'"{target}"'
    return scope.source.one_line(given)
