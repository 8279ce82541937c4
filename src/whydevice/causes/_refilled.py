"""A method that puts new tensors in the place of a module's buffers, and where those have to be put."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from .. import edits
from ..evidence import attributes, values
from ..evidence.building import held_before
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope, bindings_of, own_nodes
from ..evidence.steps import Step
from ..types import Edit
from ._finding import Mend
from ._moves import appended, best_anchor


class Replaced(NamedTuple):
    """A buffer that the method overwrites: `value` takes its place, and `old` names it there."""

    name: str
    value: ast.expr
    old: str


def refilled(evidence: Evidence, step: Step, old: str) -> list[Replaced]:
    """The buffers that the method of a step overwrites and that are on the wrong device now, the step's own first."""
    found = [Replaced(step.name, step.node, old)] if isinstance(step.node, ast.expr) else []
    receiver = _receiver(step)
    for name, held in _tensors(step, "_buffers"):
        if name == step.name or values.device_of(held) != evidence.wrong_device or not receiver:
            continue
        for place in attributes.assignments(step.owner, name, evidence.sources):
            if place.method is step.scope.node and not place.path and not place.guessed:
                found.append(Replaced(name, place.node, f"{receiver}.{name}"))
    return found


def all_held(evidence: Evidence, step: Step, overwritten: list[Replaced]) -> bool:
    """Whether each of the buffers has a tensor in it whenever the method runs, whose device can be asked for."""
    method = step.extra.get("method")
    return all(held_before(step.owner, one.name, method, evidence.sources) for one in overwritten)


def moved_there(evidence: Evidence, step: Step, overwritten: list[Replaced]) -> Mend | None:
    """Move each new tensor to where the buffer is; where there is none yet, to where another tensor of the module is."""
    if all_held(evidence, step, overwritten):
        return _appended(step, overwritten, [one.old for one in overwritten], "the buffer is")
    other = _other(evidence, step)
    if other is None:
        return _below_the_call(evidence, step, overwritten)
    return _appended(step, overwritten, [other] * len(overwritten), f"`{other}` is")


def _appended(step: Step, overwritten: list[Replaced], tensors: list[str], where: str) -> Mend | None:
    made: list[Edit] = []
    mend: Mend | None = None
    for one, tensor in zip(overwritten, tensors, strict=True):
        place = Step("assign", one.value, step.scope)
        more = appended(place, f".to({tensor}.device)", f"move it to where {where}")
        if more is None:
            if mend is None:
                return None
            continue
        mend = mend or more
        made += more.edits
    if mend is not None:
        mend.edits = tuple(dict.fromkeys(made))
    return mend


def _other(evidence: Evidence, step: Step) -> str | None:
    """A tensor of the module that is where the buffer is wanted, and that it had before the method first ran: one that
    the method reads, if any."""
    receiver = _receiver(step)
    bound = bindings_of(step.scope.node)
    read = {ast.unparse(n) for n in own_nodes(step.scope.node) if isinstance(n, ast.Attribute)}
    found = [
        f"{receiver}.{name}"
        for kind in ("_buffers", "_parameters")
        for name, held in _tensors(step, kind)
        if values.device_of(held) == evidence.wanted
        and f"{receiver}.{name}" not in bound
        and held_before(step.owner, name, step.extra.get("method"), evidence.sources)
    ]
    return next((text for text in found if text in read), found[0] if found else None) if receiver else None


def _below_the_call(evidence: Evidence, step: Step, overwritten: list[Replaced]) -> Mend | None:
    """Move what the method has made below its call, in the method on the value's way that has it refilled."""
    for scope in [s.scope for s in evidence.steps if s.editable]:
        if scope.receiver is not step.owner or scope.node is step.scope.node:
            continue
        call = _call_of(step.extra.get("method"), scope)
        anchor = best_anchor(evidence, scope, call) if call is not None else None
        if call is None or anchor is None:
            continue
        receiver = scope.parameters()[0].arg
        names = [f"{receiver}.{one.name}" for one in overwritten]
        lines = "\n".join(f"{name} = {name}.to({anchor.text})" for name in names)
        return Mend("move what the call has made", edits.insert_after(scope.source, call, lines), call, scope)
    return None


def _call_of(method: str | None, scope: Scope) -> ast.Expr | None:
    """The only statement of a method that calls another one of the same object."""
    receiver = scope.parameters()[0].arg if scope.parameters() else ""
    found = [
        node
        for node in own_nodes(scope.node)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == f"{receiver}.{method}"
    ]
    return found[0] if len(found) == 1 else None


def _receiver(step: Step) -> str:
    return step.scope.parameters()[0].arg if step.scope.parameters() else ""


def _tensors(step: Step, kind: str) -> Iterator[tuple[str, object]]:
    own = values.instance_dict(step.owner).get(kind)
    for name, held in list(own.items()) if type(own) is dict else ():
        if values.is_tensor(held) and type(name) is str and name.isidentifier():
            yield name, held
