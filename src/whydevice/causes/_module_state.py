"""A module that is on the wrong device as a whole: what its construction and later moves say."""

from __future__ import annotations

import ast
from typing import Any

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.operands import Leaf
from ..evidence.scopes import Scope, own_nodes
from ..evidence.steps import Step
from ..evidence.teardown import ran_elsewhere
from ._facts import owners
from ._finding import Finding
from ._modules import makes_module, moved_construction, wrong_module
from ._moves import moves_in
from ._order import moved, user_scopes, value_now
from ._taken_back import taken_back
from ._user_calls import every_scope


def whole_module(evidence: Evidence) -> tuple[str, object, list[Step]] | None:
    """(expression, module, way to its construction) when the culprit is a whole module in the user's hands."""
    found = wrong_module(evidence)
    if found is None:
        return None
    leaf, module, held = found
    if leaf.value is module:
        return leaf.expression, module, evidence.steps
    if not leaf.is_module or held is None:
        return None
    path = held.path.rpartition(".")[0]
    return f"{leaf.expression}.{path}", module, evidence.steps


def construction_finding(evidence: Evidence, expression: str, headline: str, note: str) -> Finding | None:
    """The finding whose root is the construction of the outermost module that is wrong as a whole."""
    steps = outer_steps(evidence) or evidence.steps
    if any(_is_moved(s.node, s.scope, evidence) for s in steps):
        return None  # it was moved there: what took its state elsewhere came later
    found = wrong_module(evidence)
    if found is not None and taken_back(evidence, found[1]):
        return None
    built = next((s for s in reversed(steps) if makes_module(s)), None)
    finding = Finding(culprit=expression, headline=headline, root=built, root_note=note)
    module = wrong_module(evidence)
    returned = any(s.kind == "return" for s in steps)
    if built is None or returned or (module and moved_somewhere(evidence, steps, module[1])):
        # Not seen where it was made, made by a function, or moved too late: another line may be what to edit.
        finding.certainty = "likely"
    mend = moved_construction(evidence, steps)
    if mend is not None:
        finding.mends.append(mend)
        if built is None or not built.editable or mend.node is not built.node:
            finding.root_node, finding.root_scope, finding.root = mend.node, mend.scope, None
            if built is not None and built.editable:
                finding.trail.append((built.node, built.scope, f"made here, on {evidence.wrong_device}"))
                finding.root_note = f"not moved to {evidence.wanted} here"
    return finding


def _is_moved(node: ast.AST, scope: Scope, evidence: Evidence) -> bool:
    """Whether an expression is a `.to()` or `.cuda()` call to the wanted device."""
    return (
        isinstance(node, ast.Call)
        and next(moves_in([node]), None) is node
        and evidence.inference.moved_to(node, scope) == evidence.wanted
    )


def outer_steps(evidence: Evidence) -> list[Step] | None:
    """The way of the outermost wholly wrong module in the stack, from the call that ran it."""
    for scope in evidence.scopes:
        owner = scope.receiver
        if not (values.is_module(owner) and values.module_device(owner) == evidence.wrong_device):
            continue
        first = scope.parameters()[0].arg if scope.parameters() else ""
        argument = scope.bound.get(first)
        if argument is not None:
            return evidence.trace(argument.node, argument.scope)
    return None


def moved_somewhere(evidence: Evidence, steps: list[Step], module: object) -> bool:
    """Whether the user's functions move a module, or one that it is a part of, before the failure or after."""
    for scope in user_scopes(evidence, steps):
        for call in moves_in(own_nodes(scope.node)):
            held = value_now(moved(call), scope)
            if values.is_module(held) and any(sub is module for _, sub in values.submodules(held)):
                return True
    return False


def way_of_unmoved_receiver(evidence: Evidence) -> tuple[list[Step], str] | None:
    """(way to the construction, expression) of the module whose method failed of its own state, where all of that is
    on the wrong device and nothing moves it."""
    user, wrong = evidence.user, evidence.wrong
    if user is None or wrong is None or not values.is_module(user.receiver):
        return None
    if values.module_device(user.receiver) != evidence.wrong_device or not _is_state(
        wrong.leaf, user.receiver
    ):
        return None
    first = user.parameters()[0].arg if user.parameters() else ""
    argument = user.bound.get(first)
    if argument is None:
        return None
    steps = evidence.trace(argument.node, argument.scope)
    if moved_somewhere(evidence, steps, user.receiver):
        return None
    return steps, argument.scope.source.one_line(argument.node)


def unmoved_receiver(evidence: Evidence) -> Finding | None:
    """The failing frame is a method of a module whose own state is all on the wrong device (`self.weight`)."""
    wrong, way = evidence.wrong, way_of_unmoved_receiver(evidence)
    if wrong is None or way is None:
        return None
    steps, expression = way
    built = next((s for s in reversed(steps) if s.kind == "construct"), None)
    mend = moved_construction(evidence, steps)
    finding = Finding(
        culprit=wrong.leaf.expression,
        headline=f"`{wrong.leaf.expression}` is on {wrong.device}: `{expression}` was never moved to {evidence.wanted}",
        root=built,
        root_note=f"made here, on {wrong.device}, and never moved",
    )
    if mend is not None:
        finding.mends.append(mend)
        if built is None:
            finding.root_node, finding.root_scope = mend.node, mend.scope
    return finding


def is_network(module: Any) -> bool:
    """Whether a module is built of others that have parameters, not a metric or a criterion with some state of its own."""
    return values.is_module(module) and any(
        kind == "parameter" and "." in path for path, _, kind in values.module_tensors(module)
    )


def _is_state(leaf: Leaf, module: Any) -> bool:
    state = {id(tensor) for _, tensor, _ in values.module_tensors(module)}
    return any(id(h.tensor) in state for h in leaf.held)


def follows_a_move(evidence: Evidence, module: Any) -> bool:
    """Whether a module's state is moved with something: it, or a module that contains it, has other state on the wanted
    device, or the source moves one of them. What it registers is moved then, and else stays where it was made."""
    holders = [module]
    for owner, _, _ in owners(evidence):
        if values.is_module(owner) and any(sub is module for _, sub in values.submodules(owner)):
            holders.append(owner)
    if any(evidence.wanted in values.module_devices(holder) for holder in holders):
        return True
    if any(
        ran_elsewhere(holder, evidence.user, evidence.wanted, evidence.wrong_device) for holder in holders
    ):
        return True
    for scope in every_scope(evidence):
        for call in moves_in(own_nodes(scope.node)):
            receiver = moved(call)
            held = value_now(receiver, scope)
            made = constructed_class(receiver, scope)
            if any(holder is held or (made is not None and type(holder) is made) for holder in holders):
                return True
    return False


def constructed_class(node: ast.AST, scope: Scope) -> type | None:
    """The class of `Net` in `Net(3)` and in `Net(3).eval()`."""
    while isinstance(node, ast.Call):
        made = try_evaluate(node.func, scope)
        if values.is_class(made):
            return made  # type: ignore[no-any-return]
        if not isinstance(node.func, ast.Attribute):
            return None
        node = node.func.value
    return None
